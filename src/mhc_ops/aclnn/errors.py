"""The message behind the last status code, one for each thread."""

from __future__ import annotations

import threading

_recent = threading.local()


def record_error(message: str) -> None:
    _recent.message = message


def aclGetRecentErrMsg() -> str:
    """Why the last failing call of this thread failed; empty after a call that succeeded.

    Unlike the published one, reading does not clear it.
    """
    return str(getattr(_recent, "message", ""))
