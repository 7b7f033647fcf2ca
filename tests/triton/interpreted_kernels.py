"""What the rooms' own tests do not reach of the Triton kernels; run by test_interpreted.py."""

import importlib
import json
import math
import os

import pytest
import torch
import triton
import triton.language as tl

from mhc_ops import mhc_post_forward, mhc_pre_forward, sinkhorn_forward, tuning
from mhc_ops.cli import main
from mhc_ops.ops.common import triton_host, triton_table
from mhc_ops.ops.post_pre import triton as post_pre
from mhc_ops.ops.pre import triton as pre
from mhc_ops.ops.pre import triton_tiles as tiles
from mhc_ops.testing import make_post_inputs, make_post_pre_inputs, make_pre_inputs

from ..ops.post_pre import cases as boundary
from ..ops.pre.cases import (
    assert_same_bits,
    backward,
    check_backward,
    check_forward,
    forward,
    saved,
)

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("test_interpreted.py runs this under the interpreter", allow_module_level=True)


@triton.jit
def _round_kernel(source, target, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(target + at, tl.load(source + at).to(tl.bfloat16))


@triton.jit
def _dot_kernel(left, right, target, SIZE: tl.constexpr, PRECISION: tl.constexpr):
    at = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    a, b = tl.load(left + at), tl.load(right + at)
    tl.store(target + at, tl.dot(a, b, input_precision=PRECISION))


def test_the_interpreter_rounds_to_bfloat16_as_torch_does():
    values = torch.randn(64, generator=torch.Generator().manual_seed(0))
    values[:5] = torch.tensor([math.inf, -math.inf, 1e-40, 1.00390625, 3.4e38])
    target = torch.empty(64, dtype=torch.bfloat16)
    _round_kernel[(1,)](values, target, SIZE=64)
    assert torch.equal(target, values.bfloat16())


@pytest.mark.parametrize(
    ("dtype", "precision", "low", "high"),
    [
        (torch.bfloat16, "ieee", 0.0, 1e-6),
        (torch.float16, "ieee", 0.0, 1e-6),
        (torch.float32, "ieee", 0.0, 1e-6),
        (torch.float32, "tf32", 1e-5, 1e-3),
    ],
)
def test_the_interpreter_multiplies_as_matrix_units_do(dtype, precision, low, high):
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(32, 32, generator=generator).to(dtype) for _ in range(2))
    target = torch.empty(32, 32)
    _dot_kernel[(1,)](left, right, target, SIZE=32, PRECISION=precision)
    truth = left.double() @ right.double()
    error = float((target - truth).abs().max() / truth.abs().max())
    assert low <= error <= high


@pytest.mark.parametrize(
    "options",
    [
        {},
        *(
            pytest.param(options, marks=pytest.mark.long)
            for options in (
                {"gamma": False},
                {"hf32": True},
                {"rows": 2},
                {"rows": 2, "hf32": True},
            )
        ),
    ],
    ids=str,
)
def test_walking_and_adding_superblocks_give_the_same_bits(monkeypatch, options):
    """With 35 rows of phi, and two blocks of 16 in a program, several programs share the rows."""
    streams = 3
    if "rows" in options:
        monkeypatch.setattr(tiles, "_MOST_FEATURES", 32)
        monkeypatch.setattr(tiles, "_SHARED_BLOCKS", options["rows"])
        streams = 5
    c = make_pre_inputs(520, streams, 20, gamma=options.get("gamma", True))
    fwd = saved(c)
    precision = "hf32" if options.get("hf32") else "fp32"
    results = []
    for count in (1, 10**6):  # few processors: a program walks; many: a superblock a program
        monkeypatch.setattr(pre, "processors", lambda device, count=count: count)
        results.append(backward("triton", c, fwd, precision=precision))
    assert_same_bits(results[1], results[0])


def test_both_ways_of_adding_superblocks_are_taken(monkeypatch):
    c = make_pre_inputs(257, 3, 20)
    fwd = saved(c)
    seen = []
    launch = pre.launch
    monkeypatch.setattr(
        pre,
        "launch",
        lambda kernel, *a, **k: (seen.append(kernel.__name__), launch(kernel, *a, **k)),
    )
    for count in (1, 10**6):
        monkeypatch.setattr(pre, "processors", lambda device, count=count: count)
        backward("triton", c, fwd)
    assert seen.count("pre_final_bwd_kernel") == 1
    assert seen.count("pre_main_bwd_kernel") == 2


@pytest.mark.parametrize("precision", ["fp32", "hf32"])
def test_rows_of_phi_in_several_blocks(monkeypatch, precision):
    """35 rows are three blocks of 16: two in a program, and a second program for the third."""
    monkeypatch.setattr(tiles, "_MOST_FEATURES", 32)
    monkeypatch.setattr(tiles, "_SHARED_BLOCKS", 2)
    c = make_pre_inputs(9, 5, 20, dtype=torch.float32)
    tile = tiles.main_tile("sm_80", 20, 35, 3)
    assert tiles.main(tile, 8, 5, 20, 35)[1:] == (16, 2)
    if precision == "fp32":
        check_forward("triton", c)
        check_backward("triton", c, saved(c))
        return
    fwd = saved(c)
    many = backward("triton", c, fwd, precision=precision)
    monkeypatch.undo()
    one = backward("triton", c, fwd, precision=precision)
    for a, b in zip(many, one, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_columns_in_several_chunks(monkeypatch):
    monkeypatch.setattr(tiles, "_CHUNK", 128)
    monkeypatch.setattr(tiles, "_FLUSH", 64)
    c = make_pre_inputs(5, 3, 300, dtype=torch.float32)
    assert tiles.mix(tiles.mix_tile("sm_80", 300, 15, 3), 3, 300, 15).chunk == 64
    check_forward("triton", c)
    infinite = c.x.clone()
    infinite[3, 1, 200] = math.inf
    got = forward("triton", c._replace(x=infinite))
    assert got.h_mix[3].isinf().all()
    assert_same_bits((got.h_mix[:3],), (forward("triton", c).h_mix[:3],))


@pytest.mark.parametrize(
    "options", [{}, pytest.param({"precision": "hf32"}, marks=pytest.mark.long)], ids=str
)
@pytest.mark.parametrize("shape", [(67, 4, 48), (5, 1, 32), (5, 6, 32), (5, 3, 41)], ids=str)
@pytest.mark.parametrize("h_res", [True, False])
def test_the_fused_boundary_has_the_bits_of_the_chain(shape, h_res, options):
    """Several chunks of columns; streams that are held, streams that are read again; an odd D."""
    c = make_post_pre_inputs(*shape, h_res=h_res)
    assert_same_bits(
        boundary.forward("triton", c, **options), boundary.chain("triton", c, **options)
    )


def test_an_infinity_passes_the_fused_boundary_as_the_chain():
    c = make_post_pre_inputs(5, 4, 48)
    c.x[3, 1, 20] = math.inf
    fwd = boundary.forward("triton", c)
    assert fwd.h_mix[3].isinf().any()
    assert_same_bits(fwd, boundary.chain("triton", c))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_fused_backward_of_the_boundary_equals_the_chain(monkeypatch, dtype):
    """Every gradient has the same terms; only the sums over columns have another order."""
    c = make_post_pre_inputs(70, 4, 48, dtype=dtype)
    monkeypatch.setattr(triton_host, "_CHUNK", 16)
    fwd = boundary.forward("triton", c)
    fused = boundary.backward("triton", c, fwd)
    monkeypatch.setattr(post_pre, "_FUSED_STREAMS", 0)
    chain = boundary.backward("triton", c, fwd)
    for name, a, b in zip(boundary.GRADIENTS, fused, chain, strict=True):
        # 48 terms in two orders; one more rounding where a sum lies between two numbers.
        unit = 2.0**-8 if a.dtype is torch.bfloat16 else 48 * 2.0**-24
        assert float((a - b).abs().max()) <= unit * float(b.abs().max()), name
    monkeypatch.undo()
    for gradients in (["grad_x"], ["grad_h_res", "grad_out_bias"], ["grad_h_out"], ["grad_phi"]):
        some = boundary.backward("triton", c, fwd, wanted=gradients)
        assert {n for n, g in some._asdict().items() if g is not None} == set(gradients)


def test_a_token_of_the_boundary_depends_on_no_other():
    c = make_post_pre_inputs(67, 4, 48)
    fwd = boundary.forward("triton", c)
    whole = (*fwd, *boundary.backward("triton", c, fwd)[:4])
    one = c.tokens(slice(65, 66))
    alone = boundary.forward("triton", one)
    got = (*alone, *boundary.backward("triton", one, alone)[:4])
    assert_same_bits(got, [t[65:66] for t in whole])


class Timer:
    """A stand-in for the stopwatch: each kernel's last candidate is the fastest, but for one kernel
    whose tile by rule is.
    """

    BY_RULE = "post_fwd_kernel"

    def __init__(self, device=None):
        self.offered = {k: triton_table.candidates(k, "sm_80") for k in triton_table.KERNELS}
        self.tried = []

    def __call__(self, call):
        table = {k.kernel: t for k, t in triton_table._trial[-1].items()}
        self.tried.extend(table.items())
        return 9.0 - sum(t == self.offered[k][-1] for k, t in table.items() if k != self.BY_RULE)

    def fastest(self):
        return {k: None if k == self.BY_RULE else t[-1] for k, t in self.offered.items()}


def test_tuning_takes_the_best_candidate_of_each_kernel():
    timer = Timer()
    shape = tuning.Shape(4, 64, torch.bfloat16)
    found = list(tuning.tune(shape, 5, torch.device("cpu"), timer))
    assert {t.key.kernel: t.tile for t in found} == timer.fastest()
    assert set(timer.tried) == {(k, t) for k, tiles in timer.offered.items() for t in tiles}
    assert all(min(t.times.values()) == t.times[t.tile] for t in found)


def test_a_tile_that_the_device_cannot_hold_is_passed_over():
    def timer(call):
        if triton_table._trial[-1]:
            raise triton.OutOfResources(240 << 10, 99 << 10, "shared memory")
        return 1.0

    shape = tuning.Shape(4, 64, torch.bfloat16)
    found = list(tuning.tune(shape, 5, torch.device("cpu"), timer))
    assert {t.key.kernel: t.tile for t in found} == dict.fromkeys(triton_table.KERNELS)


def test_the_command_writes_a_table_that_is_read_back(monkeypatch, tmp_path, capsys):
    cpu, path = torch.device("cpu"), tmp_path / "tiles.json"
    monkeypatch.setattr(importlib.import_module("mhc_ops.cli.tune"), "_gpu", lambda name: cpu)
    monkeypatch.setattr(tuning, "Stopwatch", Timer)
    command = ["tune", "--dim", "64", "--tokens", "5", "--out", str(path)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "by rule" in shown
    assert str(path) in shown.replace("\n", "")
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tiles"]
    found = {r["kernel"]: tuple(r[name] for name in triton_host.Tile._fields) for r in rows}
    assert found == {k: t or (None,) * 4 for k, t in Timer().fastest().items()}
    best = {k: t for k, t in Timer().fastest().items() if t is not None}
    assert {k.kernel: t for k, t in triton_table.read(path, cpu).items()} == best


@pytest.mark.long
def test_values_hold_with_every_kernel_at_another_tile():
    c = make_post_pre_inputs(35, 4, 64)
    pre_case = make_pre_inputs(35, 4, 64)
    table = {
        triton_table.Key(kernel, 4, 64, rows, "bfloat16"): triton_table.candidates(kernel, "sm_80")[
            -1
        ]
        for kernel in triton_table.KERNELS
        for rows in (0, 24)
    }
    with triton_table.trying(table):
        check_forward("triton", pre_case)
        check_backward("triton", pre_case, saved(pre_case))
        fwd = boundary.forward("triton", c)
        assert_same_bits(fwd, boundary.chain("triton", c))
        boundary.backward("triton", c, fwd)


def transformers_formula(x, phi, alpha, bias, y, num_iters, eps):
    """The published DeepSeek-V4 module: normalise, project, gates, Sinkhorn, expand."""
    n = x.shape[-2]
    flat = x.flatten(1)
    flat = flat * torch.rsqrt(flat.square().mean(-1, keepdim=True) + 1e-6)
    pre_w, post_w, comb_w = (flat @ phi.T).split([n, n, n * n], -1)
    pre_b, post_b, comb_b = bias.split([n, n, n * n])
    gates = torch.sigmoid(pre_w * alpha[0] + pre_b) + eps
    post = 2 * torch.sigmoid(post_w * alpha[1] + post_b)
    comb = torch.softmax((comb_w * alpha[2] + comb_b).view(-1, n, n), -1) + eps
    comb = comb / (comb.sum(-2, keepdim=True) + eps)
    for _ in range(num_iters - 1):
        comb = comb / (comb.sum(-1, keepdim=True) + eps)
        comb = comb / (comb.sum(-2, keepdim=True) + eps)
    out = post.unsqueeze(-1) * y.unsqueeze(-2) + torch.matmul(comb.transpose(-1, -2), x)
    return (gates.unsqueeze(-1) * x).sum(-2), comb, out


def liger_formula(x, phi, alpha, bias, y, num_iters, eps):
    """Liger-Kernel: scale after the projection, h_res as [to, from] with rows normalised first."""
    n = x.shape[-2]
    inv = 1 / torch.sqrt(x.square().mean((-1, -2)) + 1e-6)
    mix = torch.einsum("tk,fk->tf", x.flatten(1), phi) * inv[:, None]
    gates = 1 / (1 + torch.exp(-(alpha[0] * mix[:, :n] + bias[:n]))) + eps
    post = 2 / (1 + torch.exp(-(alpha[1] * mix[:, n : 2 * n] + bias[n : 2 * n])))
    logits = (alpha[2] * mix[:, 2 * n :] + bias[2 * n :]).view(-1, n, n)
    weights = torch.exp(logits - logits.amax(-1, keepdim=True))
    h = weights / weights.sum(-1, keepdim=True) + eps
    for step in range(2 * num_iters - 1):
        h = h / (h.sum(-2 if step % 2 == 0 else -1, keepdim=True) + eps)
    out = torch.einsum("tij,tjd->tid", h, x) + post[:, :, None] * y[:, None, :]
    return torch.einsum("ti,tid->td", gates, x), h, out


@pytest.mark.parametrize("streams", [4, 3])
@pytest.mark.parametrize("formula", [transformers_formula, liger_formula])
def test_agrees_with_other_libraries_formulas_to_2e_6(formula, streams):
    c = make_pre_inputs(21, streams, 48, dtype=torch.float32, gamma=False)
    c = c._replace(alpha=c.alpha * 3)
    y = make_post_inputs(21, streams, 48, dtype=torch.float32).h_out
    fwd = mhc_pre_forward(*c.forward_args, impl="triton")
    h_res = sinkhorn_forward(fwd.h_res, impl="triton").h_res
    # [to, from] logits: what stands in our [from, to] place is theirs, and so is the result.
    mixing = h_res.transpose(1, 2) if formula is liger_formula else h_res
    out = mhc_post_forward(c.x, mixing.contiguous(), y, fwd.h_post, impl="triton")
    truth = formula(*(t.double() for t in (*c.forward_args[:4], y)), num_iters=20, eps=1e-6)
    for name, got, want in zip(
        ("h_in", "h_res", "out"), (fwd.h_in, h_res, out), truth, strict=True
    ):
        assert float((got - want).abs().max() / want.abs().max()) <= 2e-6, name
