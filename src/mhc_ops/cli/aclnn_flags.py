"""mhc-ops aclnn-flags: what a compiler needs to build a C or C++ program on the aclnn library."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import _native
from ..errors import UnsupportedError
from .output import GOOD, JsonFlag, print_json

LIBRARY = "libmhc_aclnn.dylib" if sys.platform == "darwin" else "libmhc_aclnn.so"


def aclnn_flags(
    cflags: Annotated[bool, typer.Option("--cflags", help="The compiler's flags.")] = False,
    libs: Annotated[bool, typer.Option("--libs", help="The linker's flags.")] = False,
    as_json: JsonFlag = False,
) -> int:
    """Print one line of flags, of both kinds unless one is asked for.

    g++ -std=c++17 program.cpp $(mhc-ops aclnn-flags --cflags --libs)
    """
    folder = _folder()
    both = cflags == libs
    flags = {
        "cflags": _compiling(folder) if cflags or both else [],
        "libs": _linking(folder) if libs or both else [],
    }
    if as_json:
        print_json(flags)
    else:
        print(shlex.join([*flags["cflags"], *flags["libs"]]))
    return GOOD


def _compiling(folder: Path) -> list[str]:
    return [f"-I{folder / 'include'}"]


def _linking(folder: Path) -> list[str]:
    """Good before and after the source, and with no LD_LIBRARY_PATH when the program runs."""
    link = ["-lmhc_aclnn"]
    if sys.platform == "linux":
        link = ["-Wl,--push-state,--no-as-needed", *link, "-Wl,--pop-state"]
    return [f"-L{folder}", *link, f"-Wl,-rpath,{folder}"]


def _folder() -> Path:
    for folder in _native.folders():
        if (folder / LIBRARY).exists():
            return folder
    raise UnsupportedError(
        f"the aclnn library ({LIBRARY}) was not built when mhc-ops was installed: no C++ "
        f"compiler, a 32-bit or Windows system, or it failed; `pip install -v` shows why."
    )
