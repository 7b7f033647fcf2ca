"""The kit on the six other operators: wrong answers fail, slips and costs are said."""

import pytest

from mhc_ops.conformance import numeric as numeric_layer
from mhc_ops.conformance import parse_case, run_case
from mhc_ops.conformance.numeric import draw_inputs


def run(entry):
    return run_case(parse_case(entry))


def tensor(*shape, dtype="FLOAT"):
    return {"dtype": dtype, "shape": list(shape)}


def half(*shape):
    return tensor(*shape, dtype="BFLOAT16")


def numeric(op, inputs, outputs, attrs=None):
    names = {"name": f"{op}_numbers", "op": op, "layer": "st", "expect": "SUCCESS"}
    return names | {"inputs": inputs, "outputs": outputs, "attrs": attrs or {}}


LEAD, N, D, K = (2, 3), 4, 128, 20
GATES = {"hPost": tensor(*LEAD, N), "hRes": tensor(*LEAD, N, N)}
STREAMS = {"x": half(*LEAD, N, D), **GATES, "hOut": half(*LEAD, D)}
PARAMETERS = {"phi": tensor(24, N * D), "alpha": tensor(3), "bias": tensor(24)}
SAVED = {
    "hPre": tensor(*LEAD, N),
    "hcBeforeNorm": tensor(*LEAD, 24),
    "invRms": tensor(*LEAD, 1),
    "sumOut": tensor(2 * K, *LEAD, N),
    "normOut": tensor(2 * K, *LEAD, N, N),
}
FLAT = {"normOut": tensor(2 * 5 * 6 * N * 8), "sumOut": tensor(2 * 5 * 6 * 8)}
NUMERIC = {
    "MhcPost": numeric("MhcPost", STREAMS, {"out": half(*LEAD, N, D)}),
    "MhcPostBackward": numeric(
        "MhcPostBackward",
        {"gradOutput": half(*LEAD, N, D), **STREAMS},
        {
            "gradX": half(*LEAD, N, D),
            "gradHres": tensor(*LEAD, N, N),
            "gradHout": half(*LEAD, D),
            "gradHpost": tensor(*LEAD, N),
        },
    ),
    "MhcSinkhorn": numeric(
        "MhcSinkhorn",
        {"x": tensor(*LEAD, N, N)},
        {"output": tensor(*LEAD, N, N), **FLAT},
        {"numIters": 5, "eps": 1e-3},
    ),
    "MhcSinkhornBackward": numeric(
        "MhcSinkhornBackward",
        {"gradOutput": tensor(*LEAD, N, N), **FLAT},
        {"out": tensor(*LEAD, N, N)},
    ),
    "MhcPreSinkhorn": numeric(
        "MhcPreSinkhorn",
        {"x": half(*LEAD, N, D), **PARAMETERS},
        {
            "hin": half(*LEAD, D),
            "hPost": tensor(*LEAD, N),
            "hRes": tensor(*LEAD, N * N),
            **SAVED,
        },
    ),
    "MhcPreSinkhornBackward": numeric(
        "MhcPreSinkhornBackward",
        {
            "gradHin": half(*LEAD, D),
            "gradHPost": tensor(*LEAD, N),
            "gradHRes": tensor(*LEAD, N, N),
            "x": half(*LEAD, N, D),
            **PARAMETERS,
            **SAVED,
        },
        {"gradX": half(*LEAD, N, D), **{f"grad{k.title()}": v for k, v in PARAMETERS.items()}},
    )
    | {"value_range": {"phi": "0.04*randn"}},
}
JUDGED = [
    (op, name)
    for op, names in {
        "MhcPost": ["y"],
        "MhcPostBackward": ["grad_x", "grad_h_res", "grad_h_out", "grad_h_post"],
        "MhcSinkhorn": ["y"],
        "MhcSinkhornBackward": ["grad_input"],
        "MhcPreSinkhorn": [
            *("hin", "h_post", "h_res", "h_pre"),
            *("hc_before_norm", "inv_rms", "sum_out", "norm_out"),
        ],
        "MhcPreSinkhornBackward": ["grad_x", "grad_phi", "grad_alpha", "grad_bias"],
    }.items()
    for name in names
]


@pytest.mark.parametrize("op", list(NUMERIC))
def test_numbers_of_every_operator(op):
    outcome = run(NUMERIC[op])
    assert (outcome.result, outcome.reason) == ("passed", "")


@pytest.mark.parametrize(("op", "name"), JUDGED)
def test_a_wrong_number_fails(monkeypatch, op, name):
    truth = numeric_layer.TRUTHS[op]

    def wrong(tensors, attrs):
        outputs = truth(tensors, attrs)
        return outputs | {name: outputs[name] * 1.02}

    monkeypatch.setitem(numeric_layer.TRUTHS, op, wrong)
    outcome = run(NUMERIC[op])
    assert outcome.result == "failed"
    assert outcome.reason.startswith(f"{name}: ")


@pytest.mark.parametrize("op", ["MhcSinkhornBackward", "MhcPreSinkhornBackward"])
def test_saved_inputs_come_from_a_forward(op):
    case = parse_case(NUMERIC[op])
    drawn = draw_inputs(case, {"eps": 1e-6})
    if op == "MhcSinkhornBackward":
        last = drawn["norm"].view(10, N, 6, 8)[-1]
        assert last[..., :N].sum(0) == pytest.approx(1, abs=1e-4)
        assert not last[..., N:].any()
    else:
        assert drawn["norm_out"][-1].sum(-2) == pytest.approx(1, abs=1e-4)
        assert drawn["inv_rms"].flatten() == pytest.approx(
            drawn["x"].float().square().mean((-2, -1)).rsqrt().flatten(), rel=1e-3
        )


def test_saved_inputs_of_other_shapes_are_drawn(entry):
    case = NUMERIC["MhcSinkhornBackward"] | {"expect": "NOT_SUCCESS"}
    case["inputs"] = case["inputs"] | {"normOut": tensor(7)}
    assert run(case).result == "passed"
    assert draw_inputs(parse_case(case), {})["norm"].shape == (7,)


def test_a_slip_of_a_published_case_is_said(entry):
    case = entry("st", "test_npu_mhc_post_backward_tnd_bf16")
    outcome = run(case)
    assert outcome.result == "passed"
    assert outcome.unasserted == ("shape of gradOutput, read as that of x",)
    assert run(case | {"expect": "ERROR"}).result == "passed"
    case["inputs"]["gradOutput"]["shape"] = [4, 1025]
    assert run(case).result == "failed"


def test_a_workspace_of_nothing_is_asserted(entry):
    case = entry("op_api", "aclnn_mhc_pre_sinkhorn_backward_empty_tensor_4d_S0")
    assert run(case).unasserted == ()
    full = entry("op_api", "aclnn_mhc_pre_sinkhorn_backward_basic_3d_bf16")
    outcome = run(full | {"expect_outputs": {"workspace": 0}})
    assert outcome.result == "failed"
    assert outcome.reason.startswith("workspace is ")
    assert run(full | {"expect_outputs": {"workspace": 1}}).unasserted == ("workspace",)


@pytest.mark.parametrize(("n", "expect"), [(1, "SUCCESS"), (8, "SUCCESS"), (9, "FAILED")])
def test_tiling_of_pre_sinkhorn_backward_where_no_chip_is_named(entry, n, expect):
    case = entry("tiling", "test_tiling_B2_S64_N2_C256")
    f = n * n + 2 * n
    sizes = {2: n, 8: f, 512: n * 256}
    for shapes in (case["inputs"], case["outputs"]):
        for name, described in shapes.items():
            lead = 2 if name not in ("phi", "bias", "grad_phi", "grad_bias", "alpha") else 0
            lead += name in ("sum_out", "norm_out")
            head, tail = described["shape"][:lead], described["shape"][lead:]
            described["shape"] = [*head, *(sizes.get(size, size) for size in tail)]
    assert run(case | {"expect": f"GRAPH_{expect}"}).result == "passed"
    named = run(case | {"expect": "GRAPH_FAILED", "soc": "ascend950"})
    assert named.result == "passed"


def test_sums_that_cancel_cost_what_fp32_costs_and_no_more(entry, monkeypatch):
    case = entry("st", "mhc_pre_sinkhorn_st_46_float16_4d_d7168_s63_grad")
    case["expect_outputs"]["checked_outputs"] = ["hcBeforeNorm"]
    assert run(case).result == "passed"
    truth = numeric_layer.TRUTHS["MhcPreSinkhorn"]

    def one_term_short(tensors, attrs):
        outputs = truth(tensors, attrs)
        last = tensors["x"].flatten(-2)[..., -1:].double() * tensors["phi"][:, -1].double()
        return outputs | {"hc_before_norm": outputs["hc_before_norm"] - last}

    monkeypatch.setitem(numeric_layer.TRUTHS, "MhcPreSinkhorn", one_term_short)
    assert "hc_before_norm: " in run(case).reason


def test_a_flag_is_true_or_false(entry):
    case = entry("st", "mhc_pre_sinkhorn_st_02_bfloat16_4d_d7168_s2_grad")
    case["attrs"]["needBackward"] = 2
    with pytest.raises(ValueError, match="attribute 'needBackward' must be true or false, got 2"):
        parse_case(case)


def test_fp16_results_overflow_to_infinity(entry, monkeypatch):
    """Public draws reach 65504 in x, and four streams of that exceed FP16."""
    case = entry("st", "mhc_pre_sinkhorn_st_42_float16_4d_d7168_s5_grad")
    case["expect_outputs"]["checked_outputs"] = ["hin"]
    assert run(case).result == "passed"
    run_forward = numeric_layer.aclnn.aclnnMhcPreSinkhorn

    def saturate(workspace, size, executor, stream):
        status = run_forward(workspace, size, executor, stream)
        executor.tensors["hin"].view().clamp_(max=65504)
        return status

    monkeypatch.setattr(numeric_layer.aclnn, "aclnnMhcPreSinkhorn", saturate)
    assert "hin: " in run(case).reason


@pytest.mark.parametrize(("shift", "result"), [(0.0, "passed"), (2.0**-7, "failed")])
def test_16_bit_results_may_be_off_by_their_own_rounding_alone(monkeypatch, shift, result):
    """BF16 rounds by 2^-8, so no result in it is within the published 1e-4 of float64."""
    truth = numeric_layer.TRUTHS["MhcPost"]
    shifted = lambda t, a: {"y": truth(t, a)["y"] * (1 + shift)}  # noqa: E731
    monkeypatch.setitem(numeric_layer.TRUTHS, "MhcPost", shifted)
    assert run(NUMERIC["MhcPost"]).result == result
