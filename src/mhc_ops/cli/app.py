"""The commands put together, and the one place where an error becomes a line and an exit status."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ..errors import MhcError
from ..version import __version__
from .aclnn_flags import aclnn_flags
from .compare import compare
from .conform import conform
from .convert import convert
from .demo import demo
from .describe import describe
from .golden import golden
from .info import info
from .judge import judge
from .output import BAD_INPUT, GOOD, PipeClosed, complain
from .report import report
from .run import run
from .tune import tune

_COMMANDS = (
    *(demo, run, compare, conform, convert, golden, judge),
    *(describe, report, tune, info, aclnn_flags),
)

# The base of all complaints about arguments; where it lives depends on the version of typer.
_USAGE_ERROR: type[Exception] = next(
    base
    for base in typer.BadParameter.__mro__
    if issubclass(base, Exception) and base.__name__ == "ClickException"
)

app = typer.Typer(
    help="Operators of Manifold-Constrained Hyper-Connections: run, check, compare, describe.",
    epilog="Exit status: 0 good, 1 not equal or not conforming, 2 bad input.",
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in _COMMANDS:
    app.command()(command)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> int:
    if version:
        print(f"mhc-ops {__version__}")
        raise typer.Exit(GOOD)
    if context.invoked_subcommand is None:
        names = ", ".join(command.__name__.replace("_", "-") for command in _COMMANDS)
        complain(f"give a command: {names}; mhc-ops --help tells more.")
        raise typer.Exit(BAD_INPUT)
    return GOOD


def run_app(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = typer.main.get_command(app)(args=given, prog_name="mhc-ops", standalone_mode=False)
        sys.stdout.flush()
        return int(status or GOOD)
    except _USAGE_ERROR as error:
        message = str(getattr(error, "format_message", error.__str__)())
        complain(f"{message.rstrip('.')}; see --help.")
    except MhcError as error:
        complain(str(error))
    except (MemoryError, RuntimeError) as error:
        if not _too_large(error):
            raise
        complain("not enough memory for this size.")
    except (PipeClosed, BrokenPipeError):  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13  # as a shell reports a program that SIGPIPE ended
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted.")
        return 130
    return BAD_INPUT


def _too_large(error: BaseException) -> bool:
    """Whether torch or Python could not allocate; on CPUs torch has no error class for that."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or "memory" in text or "overflow" in text
