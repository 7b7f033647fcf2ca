"""mhc_ops.explain: what `auto` takes for a call, and why not the others."""

import pytest
import torch

import mhc_ops
from mhc_ops.errors import ArgumentError
from mhc_ops.testing import make_pre_inputs
from mhc_ops.types import Impl


@pytest.mark.parametrize("name", ["mhc_pre", "mhc_pre_forward", "mhc_pre_backward"])
def test_every_implementation_is_accounted_for(name):
    lines = mhc_ops.explain(name).splitlines()
    assert lines[0].startswith(f"{name}, bfloat16 on cpu: impl='auto' takes '")
    listed = [line.split()[0] for line in lines[1:]]
    assert sorted(listed) == sorted(i.value for i in Impl if i is not Impl.AUTO)
    chosen = [line for line in lines[1:] if " chosen" in line or "chosen " in line]
    assert len(chosen) == 1
    assert chosen[0].split()[0] == lines[0].split("'")[-2]
    for line in lines[1:]:
        assert "chosen" in line or "available" in line or "not here: " in line


def test_the_call_decides():
    c = make_pre_inputs(3, 2, 4, dtype=torch.float64)
    assert "float64 on cpu" in mhc_ops.explain("mhc_pre", *c.forward_args)
    c = make_pre_inputs(3, 2, 4, device="meta")
    assert "bfloat16 on meta" in mhc_ops.explain("mhc_pre", *c.forward_args)


def test_what_is_not_here_is_refused_with_the_same_reason():
    """Where explain says "not here: REASON", calling that implementation says REASON too."""
    c = make_pre_inputs(3, 2, 4)
    absent = [line for line in mhc_ops.explain("mhc_pre").splitlines() if "not here: " in line]
    for line in absent:
        reason = line.partition("not here: ")[2].rpartition(" (")[0]
        with pytest.raises(mhc_ops.UnsupportedError) as caught:
            mhc_ops.mhc_pre_forward(*c.forward_args, impl=line.split()[0])
        assert reason in str(caught.value)


def test_unknown_operators_are_named():
    with pytest.raises(ArgumentError, match=r"explain: name must be one of mhc_pre, .*'mhc_per'"):
        mhc_ops.explain("mhc_per")
