"""One declarative table per operator; the single source of the whole aclnn surface.

It drives the checks of the first call, infershape, tiling, `mhc-ops describe` and the pages, and
is what the C side is generated from. The package stands alone: it imports neither torch nor
mhc_ops, and a generator may load it by its path.
"""

from .expression import evaluate as evaluate
from .expression import symbols as symbols
from .language import OperatorSpec as OperatorSpec
from .mhc_post import MHC_POST
from .mhc_post_backward import MHC_POST_BACKWARD
from .mhc_pre import MHC_PRE
from .mhc_pre_backward import MHC_PRE_BACKWARD
from .mhc_pre_sinkhorn import MHC_PRE_SINKHORN
from .mhc_pre_sinkhorn_backward import MHC_PRE_SINKHORN_BACKWARD
from .mhc_sinkhorn import MHC_SINKHORN
from .mhc_sinkhorn_backward import MHC_SINKHORN_BACKWARD

OPERATORS = {
    spec.name: spec
    for spec in (
        MHC_PRE,
        MHC_PRE_BACKWARD,
        MHC_POST,
        MHC_POST_BACKWARD,
        MHC_SINKHORN,
        MHC_SINKHORN_BACKWARD,
        MHC_PRE_SINKHORN,
        MHC_PRE_SINKHORN_BACKWARD,
    )
}
"""Every operator by its name."""

SOCS = ("ascend950", "ascend910b", "ascend910_93")
"""The chips whose rules are known."""
