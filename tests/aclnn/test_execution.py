"""Second phase: results in the caller's memory, one-use executors, status codes."""

import math

import pytest
import torch

from mhc_ops import aclnn, mhc_pre_backward, mhc_pre_forward

from .calls import FP16, backward, pre, prepare, run, same, spread, tensors

PRE_OUTPUTS = ("hin", "h_post", "h_res", "inv_rms", "h_mix", "h_pre")
BACKWARD_INPUTS = (
    "x",
    "phi",
    "alpha",
    "grad_h_in",
    "grad_h_post",
    "grad_h_res",
    "inv_rms",
    "h_mix",
    "h_pre",
    "h_post",
    "gamma",
    "grad_x_post",
)
BACKWARD_OUTPUTS = ("grad_x", "grad_phi", "grad_alpha", "grad_bias", "grad_gamma")


def forward_of(t, **options):
    return mhc_pre_forward(t["x"], t["phi"], t["alpha"], t["bias"], t["gamma"], **options)


def backward_of(t, **options):
    return mhc_pre_backward(*(t[name] for name in BACKWARD_INPUTS), **options)


@pytest.mark.parametrize("lead", [(2, 4), (9,)])
@pytest.mark.parametrize("x", [aclnn.ACL_BF16, FP16])
def test_mhc_pre_writes_what_the_operator_computes(lead, x):
    t = tensors(pre(d=64, lead=lead, x=x) | {"norm_eps": 1e-3, "hc_eps": 1e-2})
    assert run("aclnnMhcPre", t) == 0
    want = forward_of(t, norm_eps=1e-3, hc_eps=1e-2)
    assert all(same(t[name], w) for name, w in zip(PRE_OUTPUTS, want, strict=True))


def test_without_residual_part_h_post_has_hc_eps_and_h_res_stays():
    t = tensors(pre(alpha=2) | {"hc_eps": 0.25})
    t["h_res"] = torch.full((3, 3), 7.0)
    assert run("aclnnMhcPre", t) == 0
    want = forward_of(t, hc_eps=0.25, post_eps=0.25)
    assert same(t["h_post"], want.h_post)
    assert t["h_post"].min() >= 0.25
    assert same(t["hin"], want.h_in)
    assert (t["h_res"] == 7.0).all()


@pytest.mark.parametrize("soc", ["ascend910b", "ascend910_93"])
def test_the_permutation_form_on_a2_and_a3(soc):
    with aclnn.soc(soc):
        t = tensors(pre(rows=32, h_res=(24,)))
        assert run("aclnnMhcPre", t) == 0
        assert same(t["h_res"], forward_of(t).h_res)
        b = tensors(backward(rows=32, h_res=(24,)))
        assert run("aclnnMhcPreBackward", b) == 0
        want = backward_of(b)
        assert all(same(b[n], w) for n, w in zip(BACKWARD_OUTPUTS, want, strict=True))


@pytest.mark.parametrize("lead", [(2, 4), (9,)])
@pytest.mark.parametrize("optional", [True, False])
def test_mhc_pre_backward_writes_what_the_operator_computes(lead, optional):
    values = backward(n=3, d=40, lead=lead, gamma=optional, grad_gamma=optional)
    t = tensors(values | ({} if optional else {"grad_x_post": None}) | {"hc_eps": 1e-3})
    assert run("aclnnMhcPreBackward", t) == 0
    want = backward_of(t, hc_eps=1e-3)
    for name, w in zip(BACKWARD_OUTPUTS, want, strict=True):
        assert (t[name] is None and w is None) or same(t[name], w)


def test_grad_gamma_without_gamma_becomes_zeros():
    t = tensors(backward(gamma=False))
    assert run("aclnnMhcPreBackward", t) == 0
    assert same(t["grad_gamma"], torch.zeros(4, 128))


def test_mode_1_is_hf32():
    t = tensors(pre() | {"op_impl_mode": 1})
    assert run("aclnnMhcPreV2", t) == 0
    assert same(t["h_mix"], forward_of(t, precision="hf32").h_mix)
    assert not same(t["h_mix"], forward_of(t).h_mix)
    b = tensors(backward() | {"op_impl_mode": 1})
    assert run("aclnnMhcPreBackwardV2", b) == 0
    assert same(b["grad_phi"], backward_of(b, precision="hf32").grad_phi)
    assert not same(b["grad_phi"], backward_of(b).grad_phi)


def test_strided_inputs_and_outputs():
    dense = tensors(backward(d=32))
    assert run("aclnnMhcPreBackward", dense) == 0
    strided = dict(tensors(backward(d=32)))
    memories = {}
    for name, value in strided.items():
        if isinstance(value, torch.Tensor):
            strided[name], memories[name] = spread(value)
    assert run("aclnnMhcPreBackward", strided) == 0
    for name in BACKWARD_OUTPUTS:
        assert same(strided[name], dense[name]), name
        assert (memories[name][..., [0, 2]] == -7.0).all()


def test_transposed_phi_and_batch_outside_sequence():
    t = tensors(pre(d=64))
    t["phi"] = t["phi"].t().contiguous().t()
    t["hin"] = torch.full((4, 2, 64), torch.nan, dtype=torch.float16).transpose(0, 1)
    assert run("aclnnMhcPre", t) == 0
    assert same(t["hin"], forward_of(t).h_in)


def test_every_tensor_in_one_piece_of_memory():
    t = tensors(backward(d=32))
    want = backward_of(t)
    count = sum(v.numel() * 4 for v in t.values() if isinstance(v, torch.Tensor))
    memory, start, arena = torch.zeros(count, dtype=torch.uint8), 0, {}
    for name, value in t.items():
        arena[name] = value
        if isinstance(value, torch.Tensor):
            size = value.numel() * value.element_size()
            part = memory[start : start + size].view(value.dtype).view(value.shape)
            arena[name] = part.copy_(value)
            start += -(-size // 4) * 4
    assert run("aclnnMhcPreBackward", arena) == 0
    for name, w in zip(BACKWARD_OUTPUTS, want, strict=True):
        assert same(arena[name], w), name


def test_grad_x_one_token_behind_x_in_the_same_memory():
    t = tensors(backward(d=8, lead=(700,)))
    want = backward_of(t)
    memory = torch.zeros(701, 4, 8, dtype=torch.bfloat16)
    memory[:-1] = t["x"]
    t |= {"x": memory[:-1], "grad_x": memory[1:]}
    assert run("aclnnMhcPreBackward", t) == 0
    for name, w in zip(BACKWARD_OUTPUTS, want, strict=True):
        assert same(t[name], w), name


@pytest.mark.parametrize("onto", ["x", "grad_x_post"])
def test_grad_x_in_the_memory_of_an_input(onto):
    t = tensors(backward())
    want = backward_of(t)
    t["grad_x"] = t[onto]
    assert run("aclnnMhcPreBackward", t) == 0
    for name, w in zip(BACKWARD_OUTPUTS, want, strict=True):
        assert same(t[name], w), name


def test_an_executor_runs_once():
    t = tensors(backward())
    code, size, executor = prepare("aclnnMhcPreBackward", t)
    workspace = torch.empty(size, dtype=torch.uint8)
    assert code == 0
    assert aclnn.aclnnMhcPreBackward(workspace, size, executor, None) == 0
    first = t["grad_x"].clone()
    t["grad_x"].zero_()
    assert aclnn.aclnnMhcPreBackward(workspace, size, executor, None) == 161002
    assert "already used" in aclnn.aclGetRecentErrMsg()
    assert not t["grad_x"].any()
    assert first.any()


def test_null_and_foreign_executors():
    assert aclnn.aclnnMhcPre(None, 0, None, None) == 161001
    assert "executor must not be a null pointer" in aclnn.aclGetRecentErrMsg()
    _, size, executor = prepare("aclnnMhcPre", tensors(pre()))
    workspace = torch.empty(size, dtype=torch.uint8)
    for other in (aclnn.aclnnMhcPreV2, aclnn.aclnnMhcPreBackward):
        assert other(workspace, size, executor, None) == 161002
        assert "executor belongs to aclnnMhcPre" in aclnn.aclGetRecentErrMsg()
    assert aclnn.aclnnMhcPre(workspace, size, executor, None) == 0
    with pytest.raises(TypeError, match="executor must come from aclnnMhcPreGetWorkspaceSize"):
        aclnn.aclnnMhcPre(workspace, size, 5, None)
    with pytest.raises(TypeError, match="workspace must be a uint8 torch tensor or None, got int"):
        aclnn.aclnnMhcPre(5, size, executor, None)


def test_workspaces():
    _, size, executor = prepare("aclnnMhcPre", tensors(pre()))
    short = torch.empty(size - 1, dtype=torch.uint8)
    for workspace, told in ((None, size), (short, size), (short, size - 1), (None, 0)):
        assert aclnn.aclnnMhcPre(workspace, told, executor, None) == 161002
    assert "workspaceSize must be at least" in aclnn.aclGetRecentErrMsg()
    longer = torch.empty(size + 64, dtype=torch.uint8)
    assert aclnn.aclnnMhcPre(longer, size + 64, executor, None) == 0


def test_failures_while_running():
    t = tensors(pre(rows=32))  # the checks of A2 tie h_res to neither form
    with aclnn.soc("ascend910b"):
        assert run("aclnnMhcPre", t) == 361001
    assert aclnn.aclGetRecentErrMsg().startswith("aclnnMhcPre: failed while running: ")
    t = tensors(pre()) | {"hin": torch.zeros(2, 4, 1, dtype=torch.float16).expand(2, 4, 128)}
    assert run("aclnnMhcPre", t) == 361001
    assert run("aclnnMhcPre", pre()) == 361001
    assert "no memory" in aclnn.aclGetRecentErrMsg()


def test_a_tensor_destroyed_before_or_between_the_phases():
    t = tensors(pre())
    t = {k: aclnn.from_torch(v) if isinstance(v, torch.Tensor) else v for k, v in t.items()}
    _, size, executor = prepare("aclnnMhcPre", t)
    aclnn.aclDestroyTensor(t["gamma"])
    workspace = torch.empty(size, dtype=torch.uint8)
    assert aclnn.aclnnMhcPre(workspace, size, executor, None) == 361001
    assert prepare("aclnnMhcPre", t) == (161002, 0, None)
    assert aclnn.aclGetRecentErrMsg() == "aclnnMhcPre: gammaOptional was destroyed."


def test_streams():
    _, size, executor = prepare("aclnnMhcPre", tensors(pre()))
    workspace = torch.empty(size, dtype=torch.uint8)
    _, stream = aclnn.aclrtCreateStream()
    assert aclnn.aclnnMhcPre(workspace, size, executor, stream) == 0
    assert aclnn.aclrtDestroyStream(stream) == 0
    _, size, executor = prepare("aclnnMhcPre", tensors(pre()))
    assert aclnn.aclnnMhcPre(workspace, size, executor, stream) == 361001


def test_inputs_that_require_grad_and_parameters():
    t = tensors(pre())
    want = forward_of(t)
    t["phi"] = torch.nn.Parameter(t["phi"])
    t["x"].requires_grad_()
    assert run("aclnnMhcPre", t) == 0
    assert same(t["hin"], want.h_in)


def test_subnormal_inputs_are_kept():
    t = tensors(backward(d=512, lead=(1024,)))
    for name in ("x", "grad_h_in"):
        t[name].view(torch.int16).fill_(1)
    t["grad_x_post"].zero_()
    for name in (*BACKWARD_INPUTS[1:3], *BACKWARD_INPUTS[4:11]):
        t[name].fill_(1.0)
    assert run("aclnnMhcPreBackward", t) == 0
    tiny = math.ldexp(1.0, -133)  # bit pattern 1 of BF16
    assert t["grad_phi"][8:].double() == pytest.approx(1024 * tiny, rel=1e-6, abs=0)
    assert t["grad_phi"][4:8].double() == pytest.approx(512 * tiny, rel=1e-6, abs=0)
