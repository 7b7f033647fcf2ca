"""The kit: what an adapter computes, judged case by case against float64.

pytest --pyargs mhc_ops.conformance --mhc-adapter my_module:MyAdapter
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from mhc_ops.conformance.adapters import Adapter, Wanted
from mhc_ops.conformance.cases import Case
from mhc_ops.conformance.goldens import Golden
from mhc_ops.conformance.judging import judge_golden
from mhc_ops.conformance.judging.judgement import NO_CONTRACT, OutputJudgement
from mhc_ops.errors import UnsupportedError


def test_values(adapter: Adapter, case: Case, golden: Golden) -> None:
    """Every output within its published criterion and as good as float32 allows."""
    results = _run(adapter, case, golden)
    found = judge_golden(golden, results, explain=False)
    if found.passed:
        return
    found = judge_golden(golden, results)
    problems = [f"{name} is missing" for name in found.missing]
    problems += [_problem(output) for output in found.outputs if not output.passed]
    pytest.fail("\n".join([f"{case.name}: {found.hint}", *problems]), pytrace=False)


def test_same_bits_twice(adapter: Adapter, case: Case, golden: Golden) -> None:
    """The operators are documented as deterministic."""
    first, second = (_run(adapter, case, golden) for _ in range(2))
    for name, tensor in first.items():
        same = (tensor == second[name]) | (tensor.isnan() & second[name].isnan())
        assert same.all(), f"{case.name}: {name} differs between two runs in {(~same).sum()} places"


def _run(adapter: Adapter, case: Case, golden: Golden) -> dict[str, Tensor]:
    inputs = golden.given
    free = NO_CONTRACT.get(case.op, ())
    wanted = {
        name: Wanted(t.dtype, tuple(t.shape))
        for name, t in golden.expected.tensors.items()
        if name not in free
    }
    kept = {name: None if t is None else t.clone() for name, t in inputs.items()}
    try:
        results = adapter.run(case.op, inputs, golden.attrs, wanted)
    except UnsupportedError as error:
        pytest.skip(str(error))
    for name, t in inputs.items():
        before = kept[name]
        if t is not None and before is not None:
            assert torch.equal(t, before), f"{case.name}: {name}, an input, was changed"
    kind = type(results).__name__
    assert isinstance(results, Mapping), f"{case.name}: run must return outputs by name, got {kind}"
    for name, tensor in results.items():
        kind = type(tensor).__name__
        assert isinstance(tensor, Tensor), f"{case.name}: {name} must be a tensor, got {kind}"
    # Copies: an adapter may write its next results where these lie.
    return {name: tensor.detach().cpu().clone() for name, tensor in results.items()}


def _problem(output: OutputJudgement) -> str:
    words = output.verdict.reason or f"{output.outside} elements worse than float32 allows"
    worst = output.worst[0] if output.worst else None
    at = f"; worst [{worst.at}] is {worst.got:.6g}, truth {worst.want:.6g}" if worst else ""
    return f"{output.name}: {words} ({output.verdict.rule}){at}"
