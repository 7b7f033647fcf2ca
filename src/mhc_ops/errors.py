"""Every exception this package raises on purpose.

MhcError
├── ArgumentError (ValueError)          a value that no operator accepts
│   ├── ShapeError                      rank, size or layout
│   ├── DtypeError                      dtype
│   ├── DeviceError                     tensors on different devices
│   └── FileError                       a file that cannot be read or written
├── UnsupportedError (RuntimeError)     a right call that cannot be served here
└── RunError (RuntimeError)             a run over files that stopped before its end
"""


class MhcError(Exception):
    """Base of all errors of mhc_ops."""


class ArgumentError(MhcError, ValueError):
    """An argument has a value that the operator does not accept."""


class ShapeError(ArgumentError):
    """A tensor's rank or sizes do not fit the others."""


class DtypeError(ArgumentError):
    """A tensor's dtype is outside the operator's contract."""


class DeviceError(ArgumentError):
    """Tensors of one call lie on different devices."""


class FileError(ArgumentError):
    """A file is missing, damaged, of an unknown format, or cannot be written."""


class UnsupportedError(MhcError, RuntimeError):
    """The call is right, but the chosen implementation or this machine cannot serve it."""


class RunError(MhcError, RuntimeError):
    """A run over files stopped before its end; what it has finished is kept."""
