"""The memory that the C++ kernels take: a workspace bounded by phi and a few bytes a token."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from mhc_ops import _native, mhc_pre_backward, mhc_pre_forward
from mhc_ops.testing import make_pre_inputs

from .cases import backward_args

pytestmark = pytest.mark.skipif(_native.obstacle() is not None, reason=str(_native.obstacle()))


def workspaces(c, **options):
    """Bytes of the workspace after the forward, and after the backward, each in a new thread."""

    def kept(run):
        library = _native.library()
        before = library.mhc_ops_workspace_bytes()
        run()
        return before, library.mhc_ops_workspace_bytes()

    fwd = mhc_pre_forward(*c.forward_args, impl="cpu")
    for run in (
        lambda: mhc_pre_forward(*c.forward_args, impl="cpu", **options),
        lambda: mhc_pre_backward(*backward_args(c, fwd), impl="cpu", **options),
    ):
        with ThreadPoolExecutor(1) as pool:
            before, after = pool.submit(kept, run).result()
        assert before == 0
        yield after


def limit(tokens, streams, dim):
    rows = 2 * streams + streams * streams
    return 2 * rows * streams * dim * 4 + 64 * tokens * rows


@pytest.mark.parametrize(
    "shape",
    [(64, 4, 512), (256, 4, 512), (1024, 4, 512), (8192, 4, 512), (64, 4, 2560), (64, 6, 1280),
     (300, 8, 512), (1024, 1, 512), (4096, 2, 64), (700, 5, 352), (33, 4, 4096)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("precision", ["fp32", "hf32"])
def test_workspace(shape, precision, threads):
    threads(2)
    for size in workspaces(make_pre_inputs(*shape), precision=precision):
        assert 0 < size <= limit(*shape)


@pytest.mark.parametrize(
    "shape", [(1, 4, 512), (17, 4, 96), (3, 1, 7), (20, 8, 33), (129, 3, 1), (40, 7, 50)], ids=str
)
def test_workspace_of_small_calls(shape, threads):
    """D counts in tiles of 32, N*D in strips of 1024; blocks of tokens cost a fixed 64 KiB."""
    threads(2)
    tokens, streams, dim = shape
    rows = 2 * streams + streams * streams
    fixed = (1 << 16) + rows * 1040 * 4
    for size in workspaces(make_pre_inputs(*shape)):
        assert 0 < size <= limit(tokens, streams, -(-dim // 32) * 32) + fixed


def test_workspace_does_not_grow_with_the_number_of_threads(threads):
    c = make_pre_inputs(300, 4, 512)
    sizes = []
    for count in (1, 2, 4):
        threads(count)
        sizes.append(max(workspaces(c)))
    assert max(sizes) <= limit(300, 4, 512)


def test_the_workspace_is_kept_between_calls():
    c = make_pre_inputs(64, 4, 96)
    mhc_pre_forward(*c.forward_args, impl="cpu")
    library = _native.library()
    size = library.mhc_ops_workspace_bytes()
    for _ in range(3):
        mhc_pre_forward(*c.forward_args, impl="cpu")
        assert library.mhc_ops_workspace_bytes() == size


def copies(run):
    """Whether torch copied a tensor meanwhile."""
    with torch.autograd.profiler.profile() as profile:
        run()
    names = {event.key for event in profile.key_averages()}
    assert "aten::empty" in names
    return bool(names & {"aten::clone", "aten::copy_"})


@pytest.mark.parametrize("layout", ["TND", "BSND"])
def test_strided_tensors_are_read_in_place(layout):
    """Only where the last dimension is not contiguous are the tokens copied."""
    c = make_pre_inputs(12, 4, 40, layout=layout)
    fwd = mhc_pre_forward(*c.forward_args, impl="cpu")
    for name in ("x", "grad_h_in", "grad_x_post"):
        dense = getattr(c, name)
        apart = dense.new_empty(*dense.shape[:-1], 3, dense.shape[-1])[..., 1, :].copy_(dense)
        across = dense.new_empty(*dense.shape, 2)[..., 1].copy_(dense)
        for placed, copied in ((dense, False), (apart, False), (across, True)):
            case = c._replace(**{name: placed})
            runs = [lambda case=case: mhc_pre_backward(*backward_args(case, fwd), impl="cpu")]
            if name == "x":
                runs.append(lambda case=case: mhc_pre_forward(*case.forward_args, impl="cpu"))
            for run in runs:
                assert copies(run) == copied, (name, copied)
