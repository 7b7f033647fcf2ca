"""Files of the folder `shared` beside the checkout."""

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "shared"


def shared(*parts, fails_in_ci=False):
    """That file or folder. Where it is absent the test is skipped or, if so wished, fails in CI."""
    path = FOLDER.joinpath(*parts)
    if not path.exists():
        reason = f"needs ../shared/{'/'.join(parts)} beside the checkout"
        if fails_in_ci and os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path
