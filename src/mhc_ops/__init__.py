"""Operators of Manifold-Constrained Hyper-Connections (mHC) for PyTorch."""

from .version import __version__ as __version__
