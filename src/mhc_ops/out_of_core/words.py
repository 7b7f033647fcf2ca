"""What the system says about files, in one sentence."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FileError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def in_words(target: Path) -> Iterator[None]:
    """Turn an OSError on the way to `target` into a FileError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        where = f"{target}: " if error.filename is None else f"{error.filename}: "
        if error.errno in _FULL:
            raise FileError(
                f"{target}: there is no room for it ({reason}); make room, and go on with --resume."
            ) from error
        raise FileError(f"{where}{reason}.") from error
