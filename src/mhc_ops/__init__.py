"""Operators of Manifold-Constrained Hyper-Connections (mHC) for PyTorch."""

from .convention import Convention as Convention
from .errors import ArgumentError as ArgumentError
from .errors import DeviceError as DeviceError
from .errors import DtypeError as DtypeError
from .errors import MhcError as MhcError
from .errors import ShapeError as ShapeError
from .errors import UnsupportedError as UnsupportedError
from .impls import explain as explain
from .ops.pre.api import mhc_pre as mhc_pre
from .ops.pre.api import mhc_pre_backward as mhc_pre_backward
from .ops.pre.api import mhc_pre_forward as mhc_pre_forward
from .version import __version__ as __version__
