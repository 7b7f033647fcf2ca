"""Finding the other libraries, and judging our float32 beside theirs."""

import importlib
import warnings
from types import ModuleType

import pytest
import torch
from torch import Tensor

from mhc_ops.testing import assert_within_budget

from ..steps import relative

STDS = [1, 3, 6]


def find(name: str) -> ModuleType:
    """A module of the extra `peers`; the test file is skipped without it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"needs the extra: pip install '.[peers]' ({error})", allow_module_level=True)


def judge(
    got: dict[str, Tensor], theirs: dict[str, Tensor], truth: dict[str, Tensor], terms: int
) -> None:
    """Ours errs from the float64 truth no more than the library does, within the usual budget.

    That the library lies near the truth shows that the truth is its mathematics: a wrong order of
    Sinkhorn or a forgotten eps is off by 1e-2 and more at a std of 3.
    """
    assert got.keys() == theirs.keys() == truth.keys()
    got, theirs, truth = (_scalars_joined(results) for results in (got, theirs, truth))
    for name, want in truth.items():
        assert relative(theirs[name], want) < 1e-4, name
        assert_within_budget(name, got[name], theirs[name], want, terms=terms)


def _scalars_joined(results: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gains as one tensor, as most libraries have them: one alone may be nothing but rounding
    where a saturated Sinkhorn cancels its gradient.
    """
    scalars = [t.reshape(1) for t in results.values() if t.numel() == 1]
    others = {name: t for name, t in results.items() if t.numel() > 1}
    return {**others, "scalars": torch.cat(scalars)} if scalars else others
