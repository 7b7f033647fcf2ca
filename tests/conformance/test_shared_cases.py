"""The published cases of the eight operators hold."""

from math import prod

import pytest

from mhc_ops.conformance import load_cases, run_cases, run_files


def test_every_shared_case_passes_or_is_stale(shared_file):
    seen = []
    report = run_files([shared_file], lambda done, total: seen.append((done, total)))
    assert report.failures == []
    assert report.summary() == "80 passed, 0 failed, 1 skipped"
    assert report.skips == [
        "MhcPreBackward tiling Ut_Check_Case08_B1_S65535_n8_D8192_FP16_Boundary (default): "
        "stale: older tree; conflicts with the newer A2 rule N == 4"
    ]
    assert report.notes == []
    assert seen[0] == (1, 81)
    assert seen[-1] == (81, 81)


def is_small(case):
    """Numeric cases of up to 2^21 numbers in x are of the quick suite."""
    x = case.inputs.get("x")
    return case.layer != "st" or x is None or prod(x.shape) <= 2**21


def test_every_small_case_of_the_family_passes_or_is_skipped_for_a_published_reason(family_file):
    report = run_cases([case for case in load_cases(family_file) if is_small(case)])
    assert report.failures == []
    assert report.summary() == "65 passed, 0 failed, 5 skipped"
    reasons = sorted(o.reason.split(":")[0] for o in report.outcomes if o.result == "skipped")
    assert reasons == ["about ub_size", *["stale"] * 4]
    assert report.notes == [
        "MhcPost tiling test_mhc_post_950_regbase_4d_fp16 (ascend950): unasserted tiling_data",
        "MhcPost tiling test_mhc_post_4d_fp16_success (ascend910b): unasserted tiling_key",
        "MhcPost tiling test_mhc_post_4d_fp16_success (ascend910b): unasserted tiling_data",
        "MhcPostBackward st test_npu_mhc_post_backward_tnd_bf16 (ascend950): unasserted shape of "
        "gradOutput, read as that of x",
        "MhcPreSinkhorn tiling test_tiling_B2_S128_N4_C256 (default): unasserted tiling_key",
        "MhcPreSinkhorn tiling test_tiling_B2_S128_N4_C256 (default): unasserted workspace",
    ]


@pytest.mark.long
def test_every_large_case_of_the_family_passes(family_file):
    report = run_cases([case for case in load_cases(family_file) if not is_small(case)])
    assert report.summary() == "5 passed, 0 failed, 0 skipped", report.failures
