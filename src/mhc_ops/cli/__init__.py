"""The command `mhc-ops`. Needs the extra: pip install '.[cli]'."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; `arguments` (default: the process's) come without the program's name.

    Returns 0 when all is well, 1 when results are not equal or not conforming, 2 for bad input,
    after one line on stderr.
    """
    try:
        import rich  # noqa: F401 - found out here, so that what is missing is one line
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        print(
            f"mhc-ops: the command line needs the package {error.name};"
            " install it with: pip install '.[cli]'",
            file=sys.stderr,
        )
        return 2
    from .app import run_app

    return run_app(arguments)
