"""Modules that hold the parameters of hyper-connections; the mathematics is that of mhc_ops."""

from ..ops.expand.api import expand_streams as expand_streams
from .connection import HyperConnection as HyperConnection
from .connection import HyperConnectionContext as HyperConnectionContext
from .ends import ExpandStreams as ExpandStreams
from .ends import StreamHead as StreamHead
from .stack import HyperConnectionStack as HyperConnectionStack
