"""The Triton kernels in Triton's interpreter, on CPU tensors and in processes of their own.

The rooms' own tests run there with impl="triton" instead of the others (tests/ops/rooms.py), beside
interpreted_kernels.py; here a representative part, in the long suite all but the largest sizes.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs the extra [gpu]")

ROOT = Path(__file__).parents[2]
OPS = "tests/ops"
PRE = f"{OPS}/pre/test_pre"
# Streams 4 and an odd number, each dtype; 257 tokens cross a superblock.
PARTS = {
    "pre": [
        f"{PRE}.py::test_forward_is_as_exact_as_float32[triton-torch.bfloat16-(5, 4, 64)]",
        f"{PRE}.py::test_forward_is_as_exact_as_float32[triton-torch.float16-(33, 3, 130)]",
        f"{PRE}.py::test_backward_is_as_exact_as_float32[triton-torch.bfloat16-(257, 4, 40)]",
        f"{PRE}.py::test_backward_is_as_exact_as_float32[triton-torch.float32-(33, 3, 130)]",
        f"{PRE}.py::test_no_tokens[triton-matrix-TND]",
        f"{PRE}_precision.py::test_backward_equals_float64_of_rounded_operands[triton-torch.float16]",
        f"{PRE}_edges.py::test_a_bad_element_of_x_stays_in_its_token[triton-torch.bfloat16-inf]",
        f"{PRE}_gradients.py::test_wanted_computes_what_it_names_and_nothing_else[triton]",
    ],
    "other rooms": [
        f"{OPS}/post/test_post.py::test_values_are_as_exact_as_float32"
        "[triton-torch.bfloat16-(5, 4, 64)]",
        f"{OPS}/post/test_post.py::test_values_are_as_exact_as_float32"
        "[triton-torch.float32-(33, 3, 130)]",
        f"{OPS}/post/test_post_bitwise.py::test_the_bias_gradient_sums_superblocks_in_order"
        "[triton-torch.bfloat16]",
        f"{OPS}/sinkhorn/test_sinkhorn.py::test_clamping_bites[triton]",
        f"{OPS}/sinkhorn/test_sinkhorn.py::test_the_published_form[triton-torch.float32-3.0-4]",
        f"{OPS}/pre_sinkhorn/test_pre_sinkhorn.py::test_every_form_of_the_arguments"
        "[triton-(False, True)-BSND]",
        f"{OPS}/post_pre/test_post_pre.py::test_every_form_of_the_arguments[triton--3-4]",
        f"{OPS}/lite/test_lite.py::test_values[triton-torch.float32-3]",
    ],
    "kernels": ["tests/triton/interpreted_kernels.py"],
}
SMALL = "triton and not published_sizes"  # the interpreter takes minutes for those
ROOMS = sorted(p.name for p in (ROOT / OPS).iterdir() if list(p.glob("test_*.py")))


def interpret(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("part", PARTS)
def test_a_representative_part(part):
    interpret("-m", "not long", *PARTS[part])


@pytest.mark.long
@pytest.mark.parametrize("room", ROOMS)
def test_every_test_of_the_room(room):
    interpret("-k", SMALL, f"{OPS}/{room}")


@pytest.mark.long
def test_every_test_of_the_kernels():
    interpret("tests/triton/interpreted_kernels.py")


@pytest.mark.long
def test_the_benchmark_runs_dry_and_leaves_nothing():
    results = ROOT / "benchmarks" / "results"
    before = {p: p.stat().st_mtime_ns for p in results.iterdir()}
    done = subprocess.run(
        [sys.executable, "benchmarks/gpu.py", "--dry-run"],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for operator in ("pre", "post", "pre_sinkhorn", "post_pre", "sinkhorn", "permutation_mix"):
        assert f"{operator} forward" in done.stdout
        assert f"{operator} backward" in done.stdout
    assert {p: p.stat().st_mtime_ns for p in results.iterdir()} == before
