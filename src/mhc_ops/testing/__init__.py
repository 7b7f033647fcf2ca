"""Input makers, error budgets and memory layouts shared by tests, benchmarks and conformance."""

from .budgets import assert_within_budget as assert_within_budget
from .budgets import correctly_rounded_share as correctly_rounded_share
from .budgets import max_error as max_error
from .budgets import round_to as round_to
from .budgets import rounding_budget as rounding_budget
from .budgets import unit_roundoff as unit_roundoff
from .inputs import PreInputs as PreInputs
from .inputs import make_pre_inputs as make_pre_inputs
from .inputs import residual_rows as residual_rows
from .layouts import LAYOUTS as LAYOUTS
from .layouts import expanded as expanded
from .layouts import offset as offset
from .layouts import padded as padded
from .layouts import strided as strided
from .layouts import transposed as transposed
from .poison import nan_scratch as nan_scratch
from .poison import poison as poison
from .poison import poisoned_pre_backward as poisoned_pre_backward
from .poison import poisoned_pre_forward as poisoned_pre_forward
from .post_inputs import PostInputs as PostInputs
from .post_inputs import make_post_inputs as make_post_inputs
from .post_pre_inputs import PostPreInputs as PostPreInputs
from .post_pre_inputs import make_post_pre_inputs as make_post_pre_inputs
