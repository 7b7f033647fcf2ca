"""The kit itself: a wrong answer fails, and what cannot be judged is said."""

import json

import pytest
import torch

from mhc_ops.conformance import numeric as numeric_layer
from mhc_ops.conformance import parse_case, run_case, run_files

V2_UNIT_TEST = "mhc_pre_backward_v2_invalid_mode_precedes_tensor_validation_ascend950"


def run(entry):
    return run_case(parse_case(entry))


def test_a_wrong_status_fails(entry):
    case = entry("op_api", "aclnn_mhc_pre_missing_alpha")
    assert run(case).result == "passed"
    case["expect"] = "PARAM_INVALID"
    outcome = run(case)
    assert outcome.result == "failed"
    assert outcome.line == (
        "MhcPre op_api aclnn_mhc_pre_missing_alpha (ascend950): expected PARAM_INVALID, got "
        "PARAM_NULLPTR: aclnnMhcPre: alpha must not be null."
    )


@pytest.mark.parametrize(
    ("expect", "result"),
    [
        ("SUCCESS", "passed"),
        ("ACLNN_SUCCESS", "passed"),
        ("NOT_PARAM_INVALID", "passed"),
        ("NOT_SUCCESS", "failed"),
        ("ERROR", "failed"),
        ("PARAM_INVALID", "failed"),
        ("ACLNN_ERR_PARAM_NULLPTR", "failed"),
        ("INNER_TILING_ERROR", "failed"),
    ],
)
def test_expectations_of_a_good_call(entry, expect, result):
    case = entry("op_api", "mhc_pre_backward_tnd_bf16_0") | {"expect": expect}
    assert run(case).result == result


def test_the_source_is_compared_too_unless_a_unit_test_names_another_code(entry):
    case = entry("op_api", "mhc_pre_backward_phi_nullptr_0")
    assert case["expect"] == "NOT_SUCCESS"
    assert run(case | {"expect_by_code": "PARAM_INVALID"}).result == "failed"
    case = entry("op_api", V2_UNIT_TEST)
    assert (case["expect"], case["expect_by_code"]) == ("PARAM_INVALID", "PARAM_NULLPTR")
    assert run(case).result == "passed"
    assert run(case | {"expect": "PARAM_NULLPTR"}).result == "failed"


def test_null_handles(entry):
    case = entry("op_api", "aclnn_mhc_pre_missing_executor")
    assert run(case).result == "passed"
    del case["executor"]
    assert run(case).result == "failed"


def test_formats(entry):
    case = entry("op_api", "aclnn_mhc_pre_optional_outputs_none")
    case["inputs"]["gamma"]["format"] = "FRACTAL_NZ"
    assert run(case).result == "failed"
    assert run(case | {"expect": "PARAM_INVALID"}).result == "passed"


def test_a_wrong_inferred_shape_fails(entry):
    case = entry("infershape", "Ut_Check_mHCPreProto_BSND_Normal")
    case["expect_outputs"]["h_mix"] = [1, 1024, 25]
    outcome = run(case)
    assert outcome.result == "failed"
    assert outcome.reason == "h_mix is [1, 1024, 24], expected [1, 1024, 25]"


def test_tiling_answers(entry):
    case = entry("tiling", "Ut_Check_FillIdleAic_L2561_n4_D6144_alpha2")
    assert run(case).result == "passed"
    for key, wrong in (("tiling_key", 2), ("m_dim", 16), ("k_dim", 1)):
        changed = case | {"expect_outputs": case["expect_outputs"] | {key: wrong}}
        assert run(changed).result == "failed"
    few_cores = case | {"platform": {"aic_cores": 8}}
    assert "tiling_key is 4, expected 6" in run(few_cores).reason
    assert run(case | {"expect": "GRAPH_FAILED"}).reason.startswith(
        "expected GRAPH_FAILED, got GRAPH_SUCCESS"
    )


def test_workspaces_as_far_as_they_are_published(entry):
    case = entry("tiling", "Ut_Check_BasicApi_N8_LongM_Workspace")
    case["expect_outputs"] = {"workspace_greater_than": 1 << 40, "workspace": 5}
    outcome = run(case)
    assert outcome.result == "failed"
    assert outcome.unasserted == ("workspace",)
    case = entry("tiling", "Ut_Check_Case09_B2_S2048_n4_D1024_BF16")
    case |= {"expect_outputs": {"workspace": 1}}
    assert run(case).unasserted == ("workspace",)
    outcome = run(case | {"soc": "ascend950"})
    assert outcome.result == "failed"
    assert "workspace is" in outcome.reason


def test_a_chip_that_a_unit_test_does_not_name(entry):
    case = entry("tiling", "Ut_Check_Case02_B2_S4096_n4_D2048_FP16")
    for name, tensor in {**case["inputs"], **case["outputs"]}.items():
        if tensor and name != "alpha":
            tensor["shape"] = [64 if size == 2048 else size for size in tensor["shape"]]
            tensor["shape"] = [256 if size == 8192 else size for size in tensor["shape"]]
    assert run(case | {"expect": "GRAPH_FAILED"}).result == "passed"
    assert run(case | {"soc": "ascend950"}).result == "passed"


def test_what_is_skipped_says_why(entry):
    case = entry("tiling", "Ut_Check_Case10_B32_S256_n4_D512_BF16")
    skips = {
        "operator MhcOther does not exist here": {"op": "MhcOther"},
        "stale: old": {"stale": True, "note": "old"},
        "stale": {"stale": True},
        "no rules are known for soc ascend310p": {"soc": "ascend310p"},
        "about ub_size: no rule is published": {"rule": "ub_limit"},
    }
    for reason, change in skips.items():
        outcome = run(case | change)
        assert (outcome.result, outcome.reason) == ("skipped", reason)
    case["inputs"]["phi"]["shape"][0] = 25
    assert run(case).reason == "phi rows other than f in tiling: no rule is published"


def test_unknown_expectations_are_reported_and_unknown_keys_ignored(entry):
    case = entry("tiling", "Ut_Check_Case10_B32_S256_n4_D512_BF16") | {"colour": "red"}
    case["expect_outputs"]["tiling_data"] = [1, 2]
    outcome = run(case)
    assert outcome.result == "passed"
    assert outcome.unasserted == ("tiling_data",)
    case = entry("infershape", "Ut_Check_mHCPreProto_BSND_Normal")
    case["expect_outputs"]["y"] = [1]
    assert run(case).unasserted == ("y",)


NUMERIC = ("st", "test_npu_mhc_pre_backward_with_grad_x_post")


@pytest.mark.parametrize("name", ["grad_x", "grad_phi", "grad_alpha", "grad_bias", "grad_gamma"])
def test_a_wrong_number_fails(entry, monkeypatch, name):
    truth = numeric_layer.TRUTHS["MhcPreBackward"]

    def wrong(tensors, attrs):
        outputs = truth(tensors, attrs)
        outputs[name] = outputs[name] * 1.02
        return outputs

    monkeypatch.setitem(numeric_layer.TRUTHS, "MhcPreBackward", wrong)
    outcome = run(entry(*NUMERIC))
    assert outcome.result == "failed"
    assert outcome.reason.startswith(f"{name}: ")


def test_an_output_that_is_not_written_fails(entry, monkeypatch):
    monkeypatch.setattr(numeric_layer.aclnn, "aclnnMhcPreBackward", lambda *_: 0)
    assert run(entry(*NUMERIC)).result == "failed"


def test_zeros_are_asserted(entry, monkeypatch):
    case = entry("st", "test_npu_mhc_pre_backward_no_gamma_without_grad_x_post")
    case["expect_outputs"]["tolerance"] = {"gradX": 0.0078125}
    run_backward = numeric_layer.aclnn.aclnnMhcPreBackward

    def spoil(workspace, size, executor, stream):
        status = run_backward(workspace, size, executor, stream)
        executor.tensors["grad_gamma"].view()[0, 0] = 1e-9
        return status

    assert run(case).result == "passed"
    monkeypatch.setattr(numeric_layer.aclnn, "aclnnMhcPreBackward", spoil)
    assert run(case).reason == "grad_gamma is not all zeros without gamma"


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(
    ("layer", "name"), [("st", "test_npu_mhc_pre_decode_hy"), NUMERIC], ids=["pre", "backward"]
)
def test_both_modes_meet_their_own_truth(entry, mode, layer, name):
    case = entry(layer, name)
    case["attrs"]["opImplMode"] = mode
    assert run(case).result == "passed"


def test_hf32_does_not_pass_for_fp32(entry, monkeypatch):
    case = entry("st", "test_npu_mhc_pre_decode_hy")
    case["attrs"]["opImplMode"] = 1
    truth = numeric_layer.TRUTHS["MhcPre"]
    monkeypatch.setitem(
        numeric_layer.TRUTHS, "MhcPre", lambda t, a: truth(t, a | {"op_impl_mode": 0})
    )
    assert run(case).result == "failed"


def test_a_truth_that_is_not_finite_is_a_bad_case(entry):
    case = entry("st", "test_npu_mhc_pre_decode_hy")
    case["value_range"] |= {"x": float("inf")}
    outcome = run(case)
    assert outcome.result == "failed"
    assert "bad case: the float64 truth of" in outcome.reason


def test_fp16_draws_are_clamped(entry):
    case = entry("st", "test_npu_mhc_pre_decode_hy")
    for tensor in (case["inputs"]["x"], case["outputs"]["hIn"]):
        tensor["dtype"] = "FLOAT16"
    case["value_range"]["x"] = [1, 100000]
    drawn = numeric_layer.draw_inputs(parse_case(case), {"norm_eps": 1e-6})["x"]
    assert drawn.isfinite().all()
    assert drawn.max() == 65504


@pytest.mark.parametrize(
    ("wanted", "low", "high"),
    [
        ("randn", -6, 6),
        ("0.1*randn", -0.6, 0.6),
        ("uniform [0,1)", 0, 1),
        ([-0.5, -0.25], -0.5, -0.25),
        (0.75, 0.75, 0.75),
        (None, -6, 6),
    ],
)
def test_ranges(entry, wanted, low, high):
    case = entry("st", "test_npu_mhc_pre_decode_hy")
    case["value_range"] = {"phi": wanted} if wanted is not None else {}
    phi = numeric_layer.draw_inputs(parse_case(case), {"norm_eps": 1e-6})["phi"]
    assert low <= phi.min() <= phi.max() <= high
    again = numeric_layer.draw_inputs(parse_case(case), {"norm_eps": 1e-6})["phi"]
    assert torch.equal(phi, again)


def test_one_range_for_all_and_values_for_one(entry):
    case = entry("st", "test_npu_mhc_pre_decode_hy") | {"value_range": "uniform [2, 3)"}
    drawn = numeric_layer.draw_inputs(parse_case(case), {"norm_eps": 1e-6})
    assert all(2 <= t.min() and t.max() <= 3 for t in drawn.values())
    case = entry(*NUMERIC)
    case["value_range"]["alpha"] = [0.5, 0.25, 2.0]
    drawn = numeric_layer.draw_inputs(parse_case(case), {"hc_eps": 1e-6, "op_impl_mode": 0})
    assert drawn["alpha"].tolist() == [0.5, 0.25, 2.0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"value_range": {"x": "normal"}}, "value_range of x is not understood: 'normal'"),
        ({"expect_outputs": {"tolerance": {"hIn": "small"}}}, "tolerance of hIn is not understood"),
        ({"expect_outputs": {"tolerance": {"x": 1e-3}}}, "'x' is no output of MhcPre"),
        ({"expect_outputs": {"checked_outputs": [5]}}, "5 is no output of MhcPre"),
        ({"expect_outputs": {"checked_outputs": 5}}, "checked_outputs a list"),
        ({"expect_outputs": {"tolerance": 1e-3}}, "tolerance must be an object"),
    ],
)
def test_a_numeric_case_that_cannot_be_run_is_a_bad_case(entry, change, reason):
    outcome = run(entry("st", "test_npu_mhc_pre_decode_hy") | change)
    assert outcome.result == "failed"
    assert outcome.reason.startswith("bad case: ")
    assert reason in outcome.reason


def test_tolerances_by_dtype(entry):
    case = entry("st", "test_npu_mhc_pre_decode_hy")
    case["expect_outputs"]["tolerance"]["hIn"] = "fp16 1e-3 / bf16 1e-9"
    assert "hin: " in run(case).reason
    case["expect_outputs"]["tolerance"]["hIn"] = "fp16 1e-9 / bf16 2e-2"
    assert run(case).result == "passed"


@pytest.mark.parametrize("expect", ["ERROR", "PARAM_INVALID", "NOT_SUCCESS"])
def test_numeric_cases_about_errors(entry, expect):
    case = entry(*NUMERIC) | {"expect": expect, "expect_outputs": {}}
    case["inputs"]["hPost"]["shape"] = [1, 128, 5]
    case["inputs"]["hPre"]["dtype"] = "INT32"
    assert run(case).result == "passed"


def test_files_are_all_read_before_a_case_runs(entry, case_file, shared_file):
    path = case_file(entry("op_api", "aclnn_mhc_pre_missing_alpha"), {"name": 5})
    with pytest.raises(ValueError, match=r"case 1: 'name' must be a text, got 5"):
        run_files([shared_file, path])


def test_the_report_as_json(entry, case_file):
    good = entry("op_api", "aclnn_mhc_pre_missing_alpha")
    bad = good | {"expect": "SUCCESS"}
    other = good | {"op": "MhcOther", "inputs": {"foo": None}, "attrs": {"a": "b"}}
    report = run_files([case_file(good, bad, other)])
    content = json.loads(json.dumps(report.to_json()))
    assert (content["passed"], content["failed"], content["skipped"]) == (1, 1, 1)
    assert [c["result"] for c in content["cases"]] == ["passed", "failed", "skipped"]
    assert set(content["cases"][0]) == {
        "case", "op", "layer", "soc", "result", "reason", "unasserted",
    }  # fmt: skip
    assert report.summary() == "1 passed, 1 failed, 1 skipped"
    assert len(report.failures) == 1
