"""mhc-ops run on the six operators that it takes from their aclnn tables."""

import pytest
import torch

from mhc_ops import mhc_post_backward, mhc_post_forward, mhc_pre_forward, sinkhorn_forward
from mhc_ops.ops.sinkhorn.iterates import backward_from_iterates, sinkhorn_iterates
from mhc_ops.tensorfile import TensorSet, read, write
from mhc_ops.testing import make_post_inputs, make_pre_inputs

POST_GRADIENTS = ("grad_x", "grad_h_res", "grad_h_out", "grad_h_post")


@pytest.fixture
def run(mhc_ops, folder):
    """Run an operator on tensors and attributes; the results by name."""

    def call(op, tensors, *arguments, attrs=None):
        write("in.npz", TensorSet(tensors, op, attrs or {}))
        done = mhc_ops("run", op, "--in", "in.npz", "--out", "out.npz", *arguments)
        assert done.status == 0, done.err
        return read("out.npz").tensors

    return call


def post_case(**options):
    inputs = make_post_inputs(5, 4, 24, bias=False, **options)
    names = ("x", "h_res", "h_out", "h_post")
    case = dict(zip(names, inputs.forward_args, strict=True))
    return {name: t for name, t in case.items() if t is not None}, inputs


def pre_case():
    inputs = make_pre_inputs(5, 4, 24)
    return {name: getattr(inputs, name) for name in ("x", "phi", "alpha", "bias")}, inputs


def logits():
    return torch.randn(5, 4, 4, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("h_res", [True, False])
def test_post_and_its_backward(run, h_res):
    case, inputs = post_case(h_res=h_res)
    assert list(got := run("MhcPost", case)) == ["y"]
    assert torch.equal(got["y"], mhc_post_forward(*inputs.forward_args))
    got = run("MhcPostBackward", {**case, "grad_y": inputs.grad_out})
    assert tuple(got) == POST_GRADIENTS
    want = mhc_post_backward(*inputs.backward_args)
    assert all(torch.equal(g, w) for g, w in zip(got.values(), want[:4], strict=True))


def test_float64_and_a_named_implementation(run):
    case, inputs = post_case(dtype=torch.float64)
    got = run("MhcPost", case, "--impl", "reference")["y"]
    assert torch.equal(got, mhc_post_forward(*inputs.forward_args, impl="reference"))


@pytest.mark.parametrize("impl", ["auto", "torch"])
def test_sinkhorn_and_its_backward(run, impl):
    attrs = {"num_iters": 3, "eps": 1e-3}
    x = logits()
    want = sinkhorn_forward(x, **attrs, impl=impl).h_res
    got = run("MhcSinkhorn", {"h_res": x}, "--impl", impl, attrs=attrs)
    assert list(got) == ["y"]
    assert torch.equal(got["y"], want)
    saved = run("MhcSinkhorn", {"h_res": x}, "--impl", impl, attrs=attrs | {"out_flag": 1})
    assert {name: tuple(t.shape) for name, t in saved.items()} == {
        "y": (5, 4, 4),
        "norm_out": (2 * 3 * 5 * 4 * 8,),
        "sum_out": (2 * 3 * 5 * 8,),
    }
    upstream = logits().flip(0)
    tensors = {"grad_y": upstream, "norm": saved["norm_out"], "sum": saved["sum_out"]}
    grad = run("MhcSinkhornBackward", tensors)["grad_input"]
    exact = backward_from_iterates(upstream.double(), sinkhorn_iterates(x.double(), **attrs))
    assert grad.double() == pytest.approx(exact, abs=1e-5)


def test_pre_sinkhorn_and_its_backward(run):
    case, inputs = pre_case()
    attrs = {"hc_eps": 1e-3, "norm_eps": 1e-2, "num_iters": 5}
    got = run("MhcPreSinkhorn", case, attrs=attrs)
    pre = mhc_pre_forward(*inputs.forward_args[:4], hc_eps=1e-3, norm_eps=1e-2)
    weights = sinkhorn_forward(pre.h_res, num_iters=5, eps=1e-3).h_res
    assert torch.equal(got["hin"], pre.h_in)
    assert torch.equal(got["h_res"], weights.flatten(-2))
    assert got["norm_out"].shape == (10, 5, 4, 4)
    few = run("MhcPreSinkhorn", case, "--attr", "need_backward=false", attrs=attrs)
    assert list(few) == ["hin", "h_post", "h_res"]

    upstream = {
        "grad_hin": inputs.grad_h_in,
        "grad_h_post": inputs.grad_h_post,
        "grad_h_res": inputs.grad_h_res,
    }
    taken = {n: got[n] for n in ("h_pre", "hc_before_norm", "inv_rms", "sum_out", "norm_out")}
    both = run("MhcPreSinkhornBackward", case | taken | upstream, attrs={"eps": 1e-3})
    shapes = {f"grad_{name}": t.shape for name, t in case.items()}
    assert {name: t.shape for name, t in both.items()} == shapes
    half = {name: t / 2 for name, t in upstream.items()}
    halves = run("MhcPreSinkhornBackward", case | taken | half, attrs={"eps": 1e-3})
    assert all(torch.equal(halves[name] * 2, both[name]) for name in both)


def test_tensors_of_the_partner_are_left_alone(mhc_ops, folder):
    case, inputs = post_case()
    write("in.npz", TensorSet({**case, "grad_y": inputs.grad_out}))
    done = mhc_ops("run", "mhc_post", "--in", "in.npz", "--out", "out.npz")
    assert done.status == 0
    assert done.err == "mhc-ops: not inputs of MhcPost, left alone: grad_y.\n"


MISTAKES = {
    "missing": ({"h_res": logits()}, "MhcPost", (), "MhcPost: missing x, h_out, h_post"),
    "unknown": ({"h_re": logits()}, "MhcPost", (), "did you mean h_res"),
    "rank": ({"h_res": logits()[0]}, "MhcSinkhorn", (), "h_res must have 3 or 4 dimensions"),
    "attribute": ({"h_res": logits()}, "MhcSinkhorn", ("num_iter=3",), "did you mean num_iters"),
    "integer": ({"h_res": logits()}, "MhcSinkhorn", ("num_iters=3.5",), "must be an integer"),
    "number": ({"h_res": logits()}, "MhcSinkhorn", ("eps=true",), "eps must be a number"),
    "finite": ({"h_res": logits()}, "MhcSinkhorn", ("eps=NaN",), "eps must be finite"),
    "eps": ({"h_res": logits()}, "MhcSinkhorn", ("eps=1",), "eps must be in [0, 1)"),
    "flag": ({"h_res": logits()}, "MhcSinkhorn", ("out_flag=2",), "out_flag must be 0 or 1"),
    "bool": (pre_case()[0], "MhcPreSinkhorn", ("need_backward=2",), "must be true or false"),
    "hc_mult": (pre_case()[0], "MhcPreSinkhorn", ("hc_mult=6",), "hc_mult must be n = 4, got 6"),
    "none": (post_case()[0], "MhcPost", ("eps=1",), "unknown attribute 'eps'; it has none"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mhc_ops, folder, mistake):
    tensors, op, attrs, told = MISTAKES[mistake]
    write("in.npz", TensorSet(tensors))
    flags = [part for attr in attrs for part in ("--attr", attr)]
    assert told in mhc_ops("run", op, "--in", "in.npz", "--out", "out.npz", *flags).complaint


@pytest.mark.parametrize("op", ["MhcPost", "MhcPostBackward", "MhcSinkhorn", "MhcPreSinkhorn"])
def test_a_named_implementation_never_falls_back(mhc_ops, folder, op):
    tensors = {"MhcSinkhorn": {"h_res": logits()}, "MhcPreSinkhorn": pre_case()[0]}
    post, inputs = post_case()
    upstream = {"grad_y": inputs.grad_out} if op == "MhcPostBackward" else {}
    wide = {name: t.double() for name, t in tensors.get(op, post | upstream).items()}
    write("in.npz", TensorSet(wide))
    done = mhc_ops("run", op, "--in", "in.npz", "--out", "out.npz", "--impl", "cpu")
    assert "impl='cpu' cannot run here" in done.complaint


def test_implementations_and_precisions_that_do_not_fit(mhc_ops, folder):
    norm, total = torch.zeros(2 * 5 * 4 * 8), torch.zeros(2 * 5 * 8)
    write("in.npz", TensorSet({"grad_y": logits(), "norm": norm, "sum": total}))
    run = ("run", "MhcSinkhornBackward", "--in", "in.npz", "--out", "out.npz")
    assert "eager torch alone" in mhc_ops(*run, "--impl", "cpu").complaint
    assert "unknown attribute 'precision'" in mhc_ops(*run, "--precision", "fp32").complaint


@pytest.mark.parametrize("op", ["MhcPost", "MhcSinkhornBackward", "aclnnMhcPreSinkhorn"])
def test_describe_knows_them(mhc_ops, op):
    done = mhc_ops("describe", op)
    assert done.status == 0
    assert f"{op.removeprefix('aclnn')}GetWorkspaceSize(" in done.out
    assert "SUCCESS" in done.out


def test_describe_has_the_tiling_of_unit_tests_that_name_no_chip(mhc_ops):
    title = "Tiling of unit tests that name no chip"
    assert title in mhc_ops("describe", "MhcPreSinkhornBackward").out
    assert title not in mhc_ops("describe", "MhcPost").out
    described = mhc_ops("describe", "MhcPreSinkhornBackward", "--json").json
    words = [check["words"] for check in described["unnamed_tiling"]["checks"]]
    assert "x: 1 <= n <= 8" in words
