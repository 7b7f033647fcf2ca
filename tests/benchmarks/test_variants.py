"""What the benchmarks time against each other computes the same thing."""

from importlib import import_module

import pytest
from torch import Tensor

from benchmarks.registry import OPERATORS, Shape
from mhc_ops import _native

pytestmark = pytest.mark.skipif(
    _native.obstacle() is not None, reason="the kernels are not built here"
)
CASES = [(name, direction) for name, known in OPERATORS.items() for direction in known.costs]


@pytest.mark.parametrize(("name", "direction"), CASES)
def test_ours_and_eager_agree(name: str, direction: str) -> None:
    found = import_module(f"benchmarks.variants.{name}").variants(
        Shape(8, 4, 64), direction, compiled=False
    )
    ours = _tensors(found["ours"]())
    for other in found:
        if other in ("ours", "ours, one after the other") or "alone" in other:
            continue
        theirs = _tensors(found[other]())
        for value in theirs:
            # Order and number of results differ: each of theirs is among ours of that shape.
            same = [mine for mine in ours if mine.shape == value.shape]
            assert min(_distance(mine, value) for mine in same) < 2e-2, f"{other}: {value.shape}"


def _tensors(results: object) -> list[Tensor]:
    if isinstance(results, Tensor):
        return [results]
    return [t for t in results if isinstance(t, Tensor)]  # type: ignore[attr-defined]


def _distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-6))


def test_a_sublayer_of_ours_keeps_less_than_eagers() -> None:
    kept = import_module("benchmarks.variants.sublayer").kept_bytes(Shape(64, 4, 256))
    torch_saves_x_in_float32 = 64 * 4 * 256 * 4
    assert kept["eager"] > torch_saves_x_in_float32
    # h_in of the identity sublayer in bfloat16, and numbers of a token.
    assert kept["ours"] <= 64 * 256 * 2 + 64 * 4 * 128
