"""Checkpoints of published mHC libraries, to and from the parameters of mhc_ops.nn.

    convert_checkpoint("megatron/", "ours/", source="megatron_main", target="ours")
    read_convention("ours/") -> Convention         convert_state_dict(tensors, source=, target=)

Both convert between any two of LAYOUTS. What a layout cannot hold is refused, and the numbers in
which the libraries differ are written beside the tensors: docs/checkpoints.md.
"""

from .files import Report as Report
from .files import convert_checkpoint as convert_checkpoint
from .files import read_convention as read_convention
from .layouts import LAYOUTS as LAYOUTS
from .layouts import Layout as Layout
from .layouts import find_layout as find_layout
from .state_dict import Converted as Converted
from .state_dict import convert_state_dict as convert_state_dict
