"""MhcSinkhorn and MhcSinkhornBackward: first phase, infershape, tiling, layout, hand values."""

import math

import pytest
import torch

from mhc_ops import aclnn, sinkhorn_backward, sinkhorn_forward
from mhc_ops.aclnn import GRAPH_FAILED, GRAPH_SUCCESS, infer_shape
from mhc_ops.ops.sinkhorn.iterates import backward_from_iterates, sinkhorn_iterates

from . import calls
from .calls import BF16, FP32, T, prepare, run, same, spread, status, tensors, tile
from .calls import sinkhorn as forward
from .calls import sinkhorn_backward as backward

NULL, INVALID, RUNTIME, OK = 161001, 161002, 361001, 0
FORWARD, BACKWARD = "aclnnMhcSinkhorn", "aclnnMhcSinkhornBackward"


@pytest.mark.parametrize(
    "values",
    [
        forward(),
        forward(n=6, lead=(5,)),
        forward(n=8, num_iters=1),
        forward(num_iters=100),
        forward(saved=False, num_iters=100),
        forward() | {"norm_out": T(FP32, (1,)), "sum_out": T(BF16, (1, 1))},
        forward(saved=False) | {"sum_out": T(FP32, (1,))},
    ],
)
def test_good_calls(values):
    code, size, executor = prepare(FORWARD, values)
    assert (code, size) == (OK, 0), aclnn.aclGetRecentErrMsg()
    assert executor is not None


@pytest.mark.parametrize("soc", ["ascend910b", "ascend910_93"])
def test_the_pair_is_for_950_alone(soc):
    with aclnn.soc(soc):
        for api, values in ((FORWARD, forward()), (BACKWARD, backward())):
            assert prepare(api, values) == (INVALID, 0, None)
            assert aclnn.aclGetRecentErrMsg() == f"{api}: not registered for {soc}."
        assert tile("MhcSinkhorn", forward()).status == GRAPH_FAILED


@pytest.mark.parametrize("name", ["norm_out", "sum_out"])
@pytest.mark.parametrize("absent", [None, T(FP32, (1,)), T(FP32, ())])
def test_one_saved_tensor_without_the_other_comes_before_everything(name, absent):
    nothing = forward() | {"h_res": None, "y": None, name: absent}
    assert status(FORWARD, nothing, workspaceSize=None, executor=None) == INVALID
    assert "normOut, sumOut must be all given or all null" in aclnn.aclGetRecentErrMsg()


def test_null_comes_before_dtype():
    for name in ("h_res", "y"):
        values = forward() | {"sum_out": T(BF16, (1536,)), name: None}
        assert prepare(FORWARD, values) == (NULL, 0, None)
    assert status(FORWARD, forward(), executor=None) == NULL


BAD = {
    "x BF16": (forward() | {"h_res": T(BF16, (2, 4, 4, 4))}, "x must be FLOAT"),
    "output BF16": (forward() | {"y": T(BF16, (2, 4, 4, 4))}, "output must be FLOAT"),
    "normOut BF16": (forward() | {"norm_out": T(BF16, (1536,))}, "normOut must be FLOAT"),
    "sumOut BF16": (forward() | {"sum_out": T(BF16, (384,))}, "sumOut must be FLOAT"),
    "output shape": (forward() | {"y": T(FP32, (8, 4, 4))}, "output must be"),
    "no iterations": (forward(num_iters=0), "numIters must be in 1..100, got 0"),
    "101 iterations": (forward(num_iters=101), "numIters must be in 1..100, got 101"),
    "rank 2": (forward(lead=()), "x must have 3 or 4 dimensions"),
    "rank 5": (forward(lead=(1, 2, 3)), "x must have 3 or 4 dimensions"),
    "n 5": (forward(n=5), "x must satisfy n in (4, 6, 8)"),
    "not square": (
        forward() | {"h_res": T(FP32, (2, 4, 6, 4)), "y": T(FP32, (2, 4, 6, 4))},
        "x must be [.., n, n]",
    ),
    "normOut of another rank": (
        forward() | {"norm_out": T(FP32, (6, 4, 8, 8))},
        "normOut must be [2*num_iters*T*n*8] = [1536], got [6, 4, 8, 8]",
    ),
    "normOut size": (forward() | {"norm_out": T(FP32, (1535,))}, "normOut must be"),
    "sumOut size": (forward() | {"sum_out": T(FP32, (385,))}, "sumOut must be"),
    "formats": (
        forward() | {"y": T(FP32, (2, 4, 4, 4), aclnn.ACL_FORMAT_NCHW)},
        "output must have the format of x, ND, got NCHW",
    ),
    "private formats": (
        {
            name: T(*value[:2], aclnn.ACL_FORMAT_FRACTAL_NZ) if name in ("h_res", "y") else value
            for name, value in forward().items()
        },
        "x has the private format",
    ),
    "empty": (forward(lead=(0, 4)), "x must not be empty"),
}


@pytest.mark.parametrize(("values", "told"), BAD.values(), ids=list(BAD))
def test_invalid_calls(values, told):
    assert prepare(FORWARD, values) == (INVALID, 0, None)
    assert aclnn.aclGetRecentErrMsg().startswith(f"{FORWARD}: {told}")


def zeros(num_iters, eps, lead=(1,), n=4):
    t = tensors(forward(n=n, lead=lead, num_iters=num_iters)) | {"eps": eps}
    t["h_res"].zero_()
    return t


def test_equal_logits_by_hand():
    """eps 1/4: every entry is 1/4 after the softmax, then 2/9, 8/41, 32/169."""
    t = zeros(2, 0.25)
    assert run(FORWARD, t) == OK
    assert t["y"].tolist() == [[pytest.approx([32 / 169] * 4, rel=1e-6)] * 4]
    norm = t["norm_out"].view(4, 4, 1, 8)[..., :4]
    for step, entry in enumerate((1 / 4, 2 / 9, 8 / 41, 32 / 169)):
        assert norm[step].flatten().tolist() == pytest.approx([entry] * 16, rel=1e-6)
    sums = t["sum_out"].view(4, 8)[:, :4]
    assert sums[0].isnan().all()  # never written
    for step, entry in enumerate((9 / 4, 41 / 36, 169 / 164), 1):
        assert sums[step].tolist() == pytest.approx([entry] * 4, rel=1e-6)


def test_the_softmax_runs_over_to_and_columns_are_normalised_last():
    t = zeros(1, 0.0)
    t["h_res"][0, 0] = torch.tensor([1.0, 2.0, 3.0, 2.0]).log()
    assert run(FORWARD, t) == OK
    first = [1 / 7, 1 / 4, 1 / 3, 1 / 4]
    others = [2 / 7, 1 / 4, 2 / 9, 1 / 4]
    assert t["y"][0].tolist() == [pytest.approx(row, rel=1e-6) for row in (first, *[others] * 3)]
    assert t["sum_out"].view(2, 8)[1, :4].tolist() == pytest.approx([7 / 8, 1, 9 / 8, 1], rel=1e-6)


def test_backward_by_hand():
    """Equal logits, one iteration, eps 0, a gradient of 1 for entry (0, 0)."""
    t = zeros(1, 0.0)
    assert run(FORWARD, t) == OK
    b = tensors(backward(lead=(1,), num_iters=1))
    b |= {"norm": t["norm_out"], "sum": t["sum_out"]}
    b["grad_y"].zero_()[0, 0, 0] = 1.0
    assert run(BACKWARD, b) == OK
    assert (b["grad_input"][0] * 64).tolist() == [[9, -3, -3, -3], *[[-3, 1, 1, 1]] * 3]


@pytest.mark.parametrize("lead", [(2, 3), (7,)])
@pytest.mark.parametrize("n", [4, 6, 8])
def test_both_write_what_the_operators_compute_in_the_documented_layout(lead, n):
    num_iters, eps = 4, 1e-3
    t = tensors(forward(n, lead, num_iters)) | {"eps": eps}
    assert run(FORWARD, t) == OK
    x, tokens, steps = t["h_res"], math.prod(lead), 2 * num_iters
    want = sinkhorn_forward(x, num_iters=num_iters, eps=eps).h_res
    assert same(t["y"], want)
    saved = sinkhorn_iterates(x, num_iters=num_iters, eps=eps)
    norm = t["norm_out"].view(steps, n, tokens, 8)
    sums = t["sum_out"].view(steps, tokens, 8)
    for token in range(tokens):
        matrices = saved.norm.reshape(steps, tokens, n, n)[:, token]
        assert same(norm[:-1, :, token, :n], matrices[:-1])
        assert same(norm[-1, :, token, :n], want.reshape(tokens, n, n)[token])
        assert same(sums[1:, token, :n], saved.sum.reshape(steps, tokens, n)[1:, token])
    assert not norm[..., n:].any()
    assert not sums[1:, :, n:].any()
    assert sums[0].isnan().all()

    b = tensors(backward(n, lead, num_iters))
    b |= {"norm": t["norm_out"], "sum": t["sum_out"]}
    assert run(BACKWARD, b) == OK
    saved.norm[-1].copy_(want)
    assert same(b["grad_input"], backward_from_iterates(b["grad_y"], saved))
    # The same gradient as that recomputed from the logits, in float64: 8 steps of N sums each.
    exact = sinkhorn_backward(x.double(), b["grad_y"].double(), num_iters=num_iters, eps=eps)
    bound = 2.0**-24 * 8 * steps * n * b["grad_y"].abs().max()
    assert (b["grad_input"] - exact).abs().max() < bound


def test_without_saved_tensors_the_output_has_the_same_bits():
    with_saved = tensors(forward())
    without = tensors(forward(saved=False))
    small = tensors(forward(saved=False))
    small |= {"norm_out": torch.full((1,), 7.0), "sum_out": torch.full((1,), 7.0)}
    for t in (with_saved, without, small):
        assert run(FORWARD, t) == OK
    assert same(with_saved["y"], without["y"])
    assert same(small["y"], without["y"])
    assert small["norm_out"].item() == small["sum_out"].item() == 7.0


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_infinities_and_nan_give_nan_in_their_token(bad):
    t = tensors(forward(lead=(5,)))
    t["h_res"][2, 1, 3] = bad
    assert run(FORWARD, t) == OK
    assert t["y"][2].isnan().all()
    assert t["y"][[0, 1, 3, 4]].isfinite().all()
    norm = t["norm_out"].view(6, 4, 5, 8)[..., :4]
    assert norm[1:, :, 2].isnan().all()
    assert norm[:, :, [0, 1, 3, 4]].isfinite().all()


def test_eps_that_the_operator_does_not_take_fails_while_running():
    for eps in (1.0, -1e-3, math.nan):
        assert run(FORWARD, tensors(forward()) | {"eps": eps}) == RUNTIME
        assert "eps must be in [0, 1)" in aclnn.aclGetRecentErrMsg()


def test_strided_tensors():
    dense = tensors(forward())
    assert run(FORWARD, dense) == OK
    strided, memories = {}, {}
    for name, value in tensors(forward()).items():
        strided[name] = value
        if isinstance(value, torch.Tensor):
            strided[name], memories[name] = spread(value)
    assert run(FORWARD, strided) == OK
    assert all(same(strided[name], dense[name]) for name in ("y", "norm_out"))
    assert same(strided["sum_out"][64:], dense["sum_out"][64:])
    b = tensors(backward()) | {"norm": dense["norm_out"], "sum": dense["sum_out"]}
    assert run(BACKWARD, b) == OK
    s = {name: spread(value)[0] for name, value in b.items()}
    out, memory = spread(torch.full_like(b["grad_input"], torch.nan))
    assert run(BACKWARD, s | {"grad_input": out}) == OK
    assert same(out, b["grad_input"])
    for gaps in (*memories.values(), memory):
        assert (gaps[..., [0, 2]] == -7.0).all()


def test_results_in_the_memory_of_the_inputs():
    t, u = tensors(forward()), tensors(forward())
    assert run(FORWARD, t) == OK
    assert run(FORWARD, u | {"y": u["h_res"]}) == OK
    assert same(u["h_res"], t["y"])
    assert same(u["norm_out"], t["norm_out"])
    b = tensors(backward()) | {"norm": t["norm_out"], "sum": t["sum_out"]}
    assert run(BACKWARD, b) == OK
    assert run(BACKWARD, b | {"grad_input": b["grad_y"]}) == OK
    assert same(b["grad_y"], b["grad_input"])


@pytest.mark.parametrize("name", ["grad_y", "norm", "sum", "grad_input"])
def test_required_and_typed_tensors_of_the_backward(name):
    assert prepare(BACKWARD, backward() | {name: None}) == (NULL, 0, None)
    values = backward()
    assert status(BACKWARD, values | {name: values[name]._replace(dtype=BF16)}) == INVALID
    private = values[name]._replace(format=aclnn.ACL_FORMAT_FRACTAL_NZ)
    assert status(BACKWARD, values | {name: private}) == INVALID
    assert status(BACKWARD, values) == OK


BAD_BACKWARD = {
    "out shape": backward() | {"grad_input": T(FP32, (8, 4, 4))},
    "rank 2": backward(lead=()),
    "rank 5": backward(lead=(1, 2, 3)),
    "n 5": backward(n=5),
    "not square": backward()
    | {"grad_y": T(FP32, (2, 4, 6, 4)), "grad_input": T(FP32, (2, 4, 6, 4))},
}


@pytest.mark.parametrize("values", BAD_BACKWARD.values(), ids=list(BAD_BACKWARD))
def test_invalid_calls_of_the_backward(values):
    assert prepare(BACKWARD, values) == (INVALID, 0, None)


def test_an_empty_gradient_is_a_success_with_nothing_to_do():
    t = tensors(backward(lead=(0, 4)))
    code, size, executor = prepare(BACKWARD, t)
    assert (code, size) == (OK, 0)
    assert aclnn.aclnnMhcSinkhornBackward(None, 0, executor, None) == OK
    assert status(BACKWARD, backward(lead=(0,), n=5)) == INVALID


@pytest.mark.parametrize(
    "change",
    [
        {"norm": T(FP32, (1535,))},
        {"norm": T(FP32, (1538,))},
        {"norm": T(FP32, (0,)), "sum": T(FP32, (0,))},
        {"norm": T(FP32, (6, 256))},
        {"norm": T(FP32, (256,)), "sum": T(FP32, (64,))},
        {"norm": T(FP32, (768,)), "sum": T(FP32, (192,))},
        {"sum": T(FP32, (383,))},
    ],
)
def test_sizes_of_the_saved_tensors_are_refused_by_tiling_and_at_run_time(change):
    values = backward() | change
    assert status(BACKWARD, values) == OK
    assert run(BACKWARD, tensors(values)) == RUNTIME
    assert "normOut and sumOut must be" in aclnn.aclGetRecentErrMsg()
    assert tile("MhcSinkhornBackward", values).status == GRAPH_FAILED


@pytest.mark.parametrize(
    ("values", "good"),
    [
        (backward(), True),
        (backward(n=8, num_iters=100), True),
        (backward(num_iters=101), False),
        (backward(n=5), False),
        (backward(lead=(2, 3, 4)), False),
        (backward(lead=(0, 4)), False),
        (backward() | {"grad_input": T(FP32, (2, 4, 6, 6))}, False),
        (
            backward() | {name: T(FP32, (2, 4, 6, 4)) for name in ("grad_y", "grad_input")},
            False,
        ),
    ],
)
def test_tiling_of_the_backward(values, good):
    result = tile("MhcSinkhornBackward", values)
    assert result.status == (GRAPH_SUCCESS if good else GRAPH_FAILED), result.message
    if good:
        assert (result.tiling_key, result.workspace, result.workspace_rule) == (0, 0, "exact")


@pytest.mark.parametrize(
    ("values", "attrs", "key"),
    [
        (forward(), {"out_flag": 1}, 1),
        (forward(n=6, saved=False), {}, 0),
        (forward() | {"norm_out": T(FP32, (6, 4, 8, 8))}, {"out_flag": 1}, 1),
        (forward(n=5), {"out_flag": 1}, None),
        (forward(), {"num_iters": 101}, None),
        (forward(), {"out_flag": 2}, None),
        (forward() | {"y": T(FP32, (8, 4, 4))}, {}, None),
        (forward() | {name: T(FP32, (2, 4, 6, 4)) for name in ("h_res", "y")}, {}, None),
    ],
)
def test_tiling(values, attrs, key):
    result = tile("MhcSinkhorn", values, attrs=attrs)
    assert result.status == (GRAPH_FAILED if key is None else GRAPH_SUCCESS), result.message
    assert (result.tiling_key, result.workspace) == (key, 0)


@pytest.mark.parametrize(
    ("shape", "attrs", "expected"),
    [
        ([2, 4, 4, 4], {}, ([2, 4, 4, 4], [0], [0])),
        ([2, 4, 4, 4], {"out_flag": 1, "num_iters": 3}, ([2, 4, 4, 4], [1536], [384])),
        ([-1, 4, 4], {"out_flag": 1}, ([-1, 4, 4], [-1], [-1])),
        ([-2], {"out_flag": 1}, ([-2], [-1], [-1])),
        ([4, 4], {}, None),
        (None, {}, None),
        ([1, 2, 3, 4, 4], {}, None),
    ],
)
def test_infershape(shape, attrs, expected):
    result = infer_shape("MhcSinkhorn", {"x": shape}, attrs)
    assert result.status == (GRAPH_FAILED if expected is None else GRAPH_SUCCESS)
    names = ("y", "norm_out", "sum_out")
    assert expected is None or [list(result.shapes[name]) for name in names] == list(expected)
    result = infer_shape("MhcSinkhornBackward", {"grad_y": shape})
    assert result.status == (GRAPH_FAILED if expected is None else GRAPH_SUCCESS)
    assert expected is None or list(result.shapes["grad_input"]) == expected[0]


def test_sizes_of_the_call_builders_are_the_documented_ones():
    """2*20 matrices and vectors of 1024 tokens, n = 6: the public unit test's numbers."""
    values = calls.sinkhorn(n=6, lead=(1024,), num_iters=15)
    assert values["norm_out"].shape == (1474560,)
    assert values["sum_out"].shape == (245760,)
