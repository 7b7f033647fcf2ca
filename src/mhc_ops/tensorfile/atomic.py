"""Writing a file or a folder so that only the finished one is ever visible."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target`; rename it on success, remove it on failure.

    The block creates a file or a folder there. An existing target is replaced: a file in one step,
    a folder by moving it aside first.
    """
    temporary = _beside(target, "part")
    aside = _beside(target, "old")
    try:
        yield temporary
        if target.is_dir() and not target.is_symlink():
            target.rename(aside)
            try:
                temporary.rename(target)
            except OSError:
                aside.rename(target)
                raise
        else:
            os.replace(temporary, target)
    finally:
        for leftover in (temporary, aside):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.{ending}")
