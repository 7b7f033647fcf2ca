"""Known mistakes made on purpose are named, right results and other errors are not."""

import pytest
import torch

from mhc_ops import mhc_pre_forward, sinkhorn_forward
from mhc_ops.aclnn.spec import OPERATORS
from mhc_ops.conformance.judging import judge_golden
from mhc_ops.conformance.judging.hints import NEARER
from mhc_ops.conformance.judging.mistakes import MISTAKES
from tests.conformance.judging.wrong import computed, cut, rms_of, telling

PRE, BACK = "MhcPre", "MhcPreBackward"
SHAPES = [{}, {"T": 200, "D": 64}, {"T": 33, "n": 6, "D": 128}]
DTYPES = ["BFLOAT16", "FLOAT16"]


def hints(golden, results):
    return [hint.name for hint in judge_golden(golden, results).hints]


def sizes_for(op, sizes):
    if OPERATORS[op].tensor("phi") is None and "Sinkhorn" in op:
        return {k: v for k, v in sizes.items() if k != "D"}
    return {**sizes, "n": 4} if "PreSinkhorn" in op else sizes


@pytest.mark.parametrize("impl", ["auto", "reference"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("op", OPERATORS)
def test_a_right_result_passes_without_a_hint(op, sizes, dtype, impl):
    golden = telling(op, dtype, **sizes_for(op, sizes))
    found = judge_golden(golden, computed(golden, impl))
    assert found.passed, [o.verdict.reason or o.outside for o in found.outputs if not o.passed]
    assert found.hint == "no known pattern"


def turned(name):
    """The kernels on a transposed input."""

    def make(golden):
        t = golden.inputs.tensors[name]
        n = round(t.shape[-1] ** 0.5) if t.shape[-1] != t.shape[-2] else 0
        t = t.unflatten(-1, (n, n)).mT.flatten(-2) if n else t.mT
        return computed(golden, inputs={name: t.contiguous()})

    return make


def turned_result(name):
    def make(golden):
        results = computed(golden)
        t, flat = results[name], golden.truth.op == "MhcPreSinkhorn"
        n = round(t.shape[-1] ** 0.5)
        results[name] = t.unflatten(-1, (n, n)).mT.flatten(-2) if flat else t.mT.contiguous()
        return results

    return make


def with_attrs(**attrs):
    return lambda golden: computed(golden, **attrs)


def without(name):
    return lambda golden: computed(golden, inputs={name: None})


def rms_term(change):
    """grad_x in float32 with another RMS term: the kernels' without it, and that term by hand."""

    def make(golden):
        x, inv = golden.inputs.tensors["x"].float(), golden.inputs.tensors["inv_rms"]
        zero = torch.zeros_like(golden.inputs.tensors["h_mix"])
        wide = {n: golden.inputs.tensors[n].float() for n in ("x", "grad_h_in", "grad_x_post")}
        without_term = computed(golden, inputs={**wide, "h_mix": zero}, outputs=torch.float32)
        term = rms_of(golden)[..., None, None] * change(x, golden.inputs.tensors["gamma"])
        assert inv.shape == term.shape[:-2]
        results = computed(golden)
        results["grad_x"] = (without_term["grad_x"] - term).to(results["grad_x"].dtype)
        return results

    return make


def pre_with(inv_rms_of):
    """MhcPre in float32 by hand from another inv_rms, on the kernels' projection."""

    def make(golden):
        t, results = golden.inputs.tensors, computed(golden)
        x, n = t["x"].float(), t["x"].shape[-2]
        inv = inv_rms_of(x, t["gamma"])
        w = results["h_mix"] * inv[..., None]
        factors = t["alpha"].repeat_interleave(torch.tensor([n, n, n * n]))
        z = w * factors + t["bias"]
        h_pre = z[..., :n].sigmoid() + 1e-6
        results["inv_rms"], results["h_pre"] = inv, h_pre
        results["h_post"] = 2 * z[..., n : 2 * n].sigmoid()
        results["h_res"] = z[..., 2 * n :].unflatten(-1, (n, n))
        results["hin"] = (h_pre[..., None] * x).sum(-2).to(t["x"].dtype)
        return results

    return make


def inverse_root(mean):
    return (mean + 1e-6).rsqrt()


def changed(name, change):
    def make(golden):
        results = computed(golden)
        results[name] = change(results[name], results, golden).to(results[name].dtype)
        return results

    return make


def gates_without_eps(golden):
    """MhcPreSinkhorn whose iterates keep their eps."""
    t, results = golden.inputs.tensors, computed(golden)
    pre = mhc_pre_forward(t["x"], t["phi"], t["alpha"], t["bias"], hc_eps=0.0)
    return {**results, "hin": pre.h_in, "h_pre": pre.h_pre}


def iterates_without_eps(golden):
    t, results = golden.inputs.tensors, computed(golden)
    logits = mhc_pre_forward(t["x"], t["phi"], t["alpha"], t["bias"]).h_res
    results["h_res"] = sinkhorn_forward(logits, num_iters=20, eps=0.0).h_res.flatten(-2)
    return results


def one_alpha_for_another(golden):
    alpha = golden.inputs.tensors["alpha"][[0, 2, 1]]
    return computed(golden, inputs={"alpha": alpha})


def features_first(golden):
    n, d = golden.inputs.tensors["x"].shape[-2:]
    phi = golden.inputs.tensors["phi"].unflatten(-1, (d, n)).mT.flatten(-2).contiguous()
    return computed(golden, inputs={"phi": phi})


def slope_without_half(golden):
    t = golden.inputs.tensors
    h = t["h_post"]
    upstream = t["grad_h_post"] * (1 - h) / (1 - h / 2)  # h < 2 on these inputs
    return computed(golden, inputs={"grad_h_post": upstream})


MADE = {
    ("transposed h_res", PRE): turned_result("h_res"),
    ("transposed h_res", "MhcPreSinkhorn"): turned_result("h_res"),
    ("transposed h_res", "MhcPost"): turned("h_res"),
    ("transposed h_res", "MhcPostBackward"): turned("h_res"),
    ("transposed h_res", "MhcSinkhorn"): turned_result("y"),
    ("transposed grad_h_res", BACK): turned("grad_h_res"),
    ("transposed grad_h_res", "MhcPreSinkhornBackward"): turned("grad_h_res"),
    ("transposed grad_h_res", "MhcPostBackward"): turned_result("grad_h_res"),
    ("transposed gradient", "MhcSinkhornBackward"): turned("grad_y"),
    ("missing hc_eps", PRE): with_attrs(hc_eps=0.0),
    ("missing hc_eps", BACK): with_attrs(hc_eps=0.0),
    ("missing hc_eps", "MhcPreSinkhorn"): gates_without_eps,
    ("missing eps in Sinkhorn", "MhcSinkhorn"): with_attrs(eps=0.0),
    ("missing eps in Sinkhorn", "MhcPreSinkhorn"): iterates_without_eps,
    ("missing norm_eps", PRE): with_attrs(norm_eps=0.0),
    ("hc_eps in h_post", PRE): changed("h_post", lambda t, r, g: t + 1e-6),
    ("RMS of gamma*x", PRE): pre_with(
        lambda x, gamma: inverse_root((x * gamma).square().mean((-2, -1)))
    ),
    ("RMS from the sum of squares", PRE): pre_with(
        lambda x, gamma: inverse_root(x.square().sum((-2, -1)))
    ),
    ("RMS term with gamma*x", BACK): rms_term(lambda x, gamma: x * gamma),
    ("missing RMS term", BACK): rms_term(lambda x, gamma: 0 * x),
    ("RMS term without 1/(n*D)", BACK): rms_term(lambda x, gamma: x * x[0].numel()),
    ("gamma ignored", PRE): without("gamma"),
    ("gamma ignored", BACK): without("gamma"),
    ("grad_x_post not added", BACK): without("grad_x_post"),
    ("slope of h_post without the half", BACK): slope_without_half,
    ("grad_alpha times alpha", BACK): changed(
        "grad_alpha", lambda t, r, g: t * g.inputs.tensors["alpha"]
    ),
    ("alpha[1] and alpha[2] exchanged", PRE): one_alpha_for_another,
    ("alpha[1] and alpha[2] exchanged", BACK): one_alpha_for_another,
    ("alpha[1] and alpha[2] exchanged", "MhcPreSinkhorn"): one_alpha_for_another,
    ("hf32 instead of fp32", PRE): with_attrs(op_impl_mode=1),
    ("hf32 instead of fp32", BACK): with_attrs(op_impl_mode=1),
    ("phi with the feature before the stream", PRE): features_first,
    ("phi with the feature before the stream", BACK): features_first,
    ("normalised h_mix", PRE): changed("h_mix", lambda t, r, g: t * r["inv_rms"][..., None]),
    ("normalised h_mix", "MhcPreSinkhorn"): changed(
        "hc_before_norm", lambda t, r, g: t * r["inv_rms"]
    ),
    ("h_in of normalised x", PRE): changed("hin", lambda t, r, g: t * r["inv_rms"][..., None]),
    ("h_post without the factor 2", PRE): changed("h_post", lambda t, r, g: t / 2),
    ("sigmoid on h_res", PRE): changed("h_res", lambda t, r, g: t.sigmoid()),
    ("h_res ignored", "MhcPost"): without("h_res"),
    ("h_res ignored", "MhcPostBackward"): without("h_res"),
    ("missing h_post*h_out", "MhcPost"): lambda golden: computed(
        golden, inputs={"h_post": torch.zeros_like(golden.inputs.tensors["h_post"])}
    ),
    ("rows and columns of Sinkhorn exchanged", "MhcSinkhorn"): lambda golden: {
        "y": turned("h_res")(golden)["y"].mT.contiguous()
    },
    ("Sinkhorn ends with rows", "MhcSinkhorn"): changed(
        "y", lambda t, r, g: t / (t.sum(-1, keepdim=True) + 1e-6)
    ),
    ("one Sinkhorn iteration too few", "MhcSinkhorn"): with_attrs(num_iters=2, names=("y",)),
    ("one Sinkhorn iteration too many", "MhcSinkhorn"): with_attrs(num_iters=4, names=("y",)),
}
NUMBERS = {
    "missing norm_eps": ({"norm_eps": 1e-4}, PRE),
    "one Sinkhorn iteration too few": ({"num_iters": 3}, "MhcSinkhorn"),
    "one Sinkhorn iteration too many": ({"num_iters": 3}, "MhcSinkhorn"),
    "Sinkhorn ends with rows": ({"num_iters": 3}, "MhcSinkhorn"),
}
"""Attributes at which a mistake shows."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize(("name", "op"), MADE, ids=lambda v: v.replace(" ", "_"))
def test_a_mistake_is_named(name, op, sizes, dtype):
    attrs, _ = NUMBERS.get(name, ({}, op))
    golden = telling(op, dtype, attrs, **sizes_for(op, sizes))
    found = judge_golden(golden, MADE[name, op](golden))
    assert found.hint == name
    (hint,) = found.hints
    assert hint.times >= NEARER
    assert set(hint.outputs) <= set(golden.expected.tensors)


def test_every_mistake_is_made_by_a_test():
    made = {name for name, _ in MADE}
    others = {"alpha[0] and alpha[1] exchanged", "alpha[0] and alpha[2] exchanged"}
    assert {m.name for m in MISTAKES} - others - {"fp32 instead of hf32"} == made


def test_alphas_are_told_apart():
    golden = telling(PRE)
    for order, name in (([1, 0, 2], "alpha[0] and alpha[1]"), ([2, 1, 0], "alpha[0] and alpha[2]")):
        wrong = computed(golden, inputs={"alpha": golden.inputs.tensors["alpha"][order]})
        assert hints(golden, wrong) == [f"{name} exchanged"]


def test_fp32_where_hf32_was_asked_for():
    for op in (PRE, BACK):
        golden = telling(op, attrs={"op_impl_mode": 1})
        assert hints(golden, computed(golden)) == []
        assert hints(golden, computed(golden, op_impl_mode=0)) == ["fp32 instead of hf32"]


def test_two_mistakes_in_different_outputs_are_both_named():
    golden = telling("MhcPreSinkhorn")
    wrong = computed(golden, hc_eps=0.0)  # in the gates and in the iterates
    assert set(hints(golden, wrong)) == {"missing hc_eps", "missing eps in Sinkhorn"}


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("op", "output"),
    [(PRE, "hin"), (BACK, "grad_x"), ("MhcPost", "y"), ("MhcPostBackward", "grad_x")],
)
@pytest.mark.parametrize(("dtype", "bits"), [("BFLOAT16", 16), ("FLOAT16", 13)])
def test_truncation_is_named(op, output, dtype, bits, sizes):
    golden = telling(op, dtype, **sizes)
    wide = {n: t.float() for n, t in golden.given.items() if t is not None}
    exact = computed(golden, inputs=wide, outputs=torch.float32)[output]
    results = computed(golden)
    results[output] = cut(exact, bits).to(results[output].dtype)
    kind = "bf16" if dtype == "BFLOAT16" else "fp16"
    found = judge_golden(golden, results)
    assert found.hint == f"truncated {kind} rounding"
    assert found.hints[0].outputs == (output,)


@pytest.mark.parametrize(("dtype", "kind"), [(torch.bfloat16, "bf16"), (torch.float16, "fp16")])
def test_a_detour_through_16_bits_is_named(dtype, kind):
    golden = telling(PRE)
    results = computed(golden)
    results["h_post"] = results["h_post"].to(dtype).float()
    found = judge_golden(golden, results)
    assert found.hint == f"rounded to {kind} on the way"
    assert not found.passed


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("tokens", "first", "content", "words"),
    [
        (200, 192, "before", "the tokens of the tile before"),
        (130, 128, "zero", "are zero"),
        (45, 32, "nan", "never written"),
        (300, 256, "noise", "are other values"),
    ],
)
def test_a_stale_tail_of_tokens_is_named(tokens, first, content, words, dtype):
    golden = telling(BACK, dtype, T=tokens, D=64)
    results = computed(golden)
    tail = results["grad_x"][first:]
    if content == "before":
        tail.copy_(results["grad_x"][first - 64 : first - 64 + tokens - first].clone())
    else:
        filler = {"zero": 0.0, "nan": torch.nan, "noise": 7.0}[content]
        tail.fill_(filler)
    found = judge_golden(golden, results)
    assert found.hint == "stale tail of an unaligned tile"
    assert words in found.hints[0].evidence
    assert f"tokens 0..{first - 1} are right" in found.hints[0].evidence


def test_a_stale_tail_of_features_is_named():
    golden = telling("MhcPost", D=200)
    results = computed(golden)
    results["y"][..., 192:] = 0
    (hint,) = judge_golden(golden, results).hints
    assert hint.name == "stale tail of an unaligned tile"
    assert "features 0..191 are right, 192..199" in hint.evidence


def spoiled(results, how, generator):
    for tensor in results.values():
        values = tensor.double()
        if how == "noise":
            values += torch.randn(values.shape, generator=generator) * values.abs().mean() * 0.1
        elif how == "factor":
            values *= 1.07
        elif how == "one element":
            values.view(-1)[values.numel() // 3] += values.abs().max()
        else:
            values.view(-1)[:] = values.view(-1)[
                torch.randperm(values.numel(), generator=generator)
            ]
        tensor.copy_(values)
    return results


@pytest.mark.parametrize("how", ["noise", "factor", "one element", "shuffled"])
@pytest.mark.parametrize("op", OPERATORS)
def test_an_unrelated_error_names_nothing(op, how):
    golden = telling(op)
    results = spoiled(computed(golden), how, torch.Generator().manual_seed(3))
    found = judge_golden(golden, results)
    assert not found.passed
    assert found.hint == "no known pattern"
