"""What the operators return, and the names of the implementations."""

from enum import Enum
from typing import NamedTuple

from torch import Tensor


class Impl(str, Enum):
    """An implementation that a caller may name; `auto` chooses by device."""

    AUTO = "auto"
    REFERENCE = "reference"
    TORCH = "torch"
    CPU = "cpu"
    TRITON = "triton"
    NPU = "npu"


class MhcPreForward(NamedTuple):
    """Outputs of the bare MhcPre; the last three are what its backward needs.

    h_in [.., D] as x; all others float32 (float64 for float64 x): h_post [.., N]; h_res [.., N, N]
    or [.., N!], the logits before Sinkhorn, None when alpha has two entries; inv_rms [..]; h_mix
    [.., F], not yet scaled by inv_rms; h_pre [.., N].
    """

    h_in: Tensor
    h_post: Tensor
    h_res: Tensor | None
    inv_rms: Tensor
    h_mix: Tensor
    h_pre: Tensor


class MhcPreBackward(NamedTuple):
    """Gradients of the bare MhcPre; None for what was not wanted, and without gamma for it.

    grad_x [.., N, D] as x; the others float32 (float64 for float64 x): grad_phi [F, N*D],
    grad_alpha [3] or [2], grad_bias [F], grad_gamma [N, D].
    """

    grad_x: Tensor | None
    grad_phi: Tensor | None
    grad_alpha: Tensor | None
    grad_bias: Tensor | None
    grad_gamma: Tensor | None


class Sinkhorn(NamedTuple):
    """Outputs of sinkhorn: h_res [.., N, N] as [from, to]; the largest |row sum - 1| and
    |column sum - 1| of each token, [..], None unless return_defect. All in the dtype of the logits.
    """

    h_res: Tensor
    row_defect: Tensor | None
    column_defect: Tensor | None


class MhcPre(NamedTuple):
    """Outputs of the differentiable mhc_pre.

    h_in [.., D] as x; h_post [.., N]; h_res_logits [.., N, N] or [.., N!], None when alpha has two
    entries; x, the input handed on: give it to mhc_post, and its gradient is added inside the
    backward.
    """

    h_in: Tensor
    h_post: Tensor
    h_res_logits: Tensor | None
    x: Tensor


class MhcPreSinkhornForward(NamedTuple):
    """Outputs of the bare MhcPreSinkhorn; the last three are what its backward needs.

    h_in [.., D] as x; all others float32 (float64 for float64 x): h_post [.., N]; h_res [.., N, N]
    as [from, to], after Sinkhorn; inv_rms [..]; h_mix [.., F], not yet scaled by inv_rms; h_pre
    [.., N].
    """

    h_in: Tensor
    h_post: Tensor
    h_res: Tensor
    inv_rms: Tensor
    h_mix: Tensor
    h_pre: Tensor


class MhcPreSinkhorn(NamedTuple):
    """Outputs of the differentiable mhc_pre_sinkhorn.

    h_in [.., D] as x; h_post [.., N]; h_res [.., N, N] as [from, to], after Sinkhorn; x, the input
    handed on: give it to mhc_post, and its gradient is added inside the backward.
    """

    h_in: Tensor
    h_post: Tensor
    h_res: Tensor
    x: Tensor


class MhcPostBackward(NamedTuple):
    """Gradients of the bare MhcPost; None for what was not wanted, and without bias for it.

    grad_x [.., N, D] and grad_h_out [.., D] as x; the others float32 (float64 for float64 x):
    grad_h_res [.., N, N] as [from, to], also where h_res was None; grad_h_post [.., N];
    grad_bias [D].
    """

    grad_x: Tensor | None
    grad_h_res: Tensor | None
    grad_h_out: Tensor | None
    grad_h_post: Tensor | None
    grad_bias: Tensor | None


class MhcPostPre(NamedTuple):
    """Outputs of the differentiable mhc_post_pre; all but x_next belong to the next sublayer.

    x_next [.., N, D] and h_in [.., D] as x; h_post [.., N]; h_res [.., N, N] as [from, to]: after
    Sinkhorn, or without num_iters the logits, [.., N, N], [.., N!] or None for alpha of two
    entries.
    """

    x_next: Tensor
    h_in: Tensor
    h_post: Tensor
    h_res: Tensor | None


class MhcPostPreForward(NamedTuple):
    """Outputs of the bare boundary operator: those of MhcPostPre, and what its backward needs.

    inv_rms [..]; h_mix [.., F], not yet scaled by inv_rms; h_pre [.., N]; float32 (float64 for
    float64 x).
    """

    x_next: Tensor
    h_in: Tensor
    h_post: Tensor
    h_res: Tensor | None
    inv_rms: Tensor
    h_mix: Tensor
    h_pre: Tensor


class MhcPostPreBackward(NamedTuple):
    """Gradients of the boundary operator's inputs; None for what was not wanted or not there.

    grad_x [.., N, D] and grad_h_out [.., D] as x; the others float32 (float64 for float64 x):
    grad_h_res [.., N, N] as [from, to], also where h_res was None; grad_h_post [.., N];
    grad_out_bias [D]; grad_phi [F, N*D], grad_alpha [3] or [2], grad_bias [F], grad_gamma [N, D].
    """

    grad_x: Tensor | None
    grad_h_res: Tensor | None
    grad_h_out: Tensor | None
    grad_h_post: Tensor | None
    grad_out_bias: Tensor | None
    grad_phi: Tensor | None
    grad_alpha: Tensor | None
    grad_bias: Tensor | None
    grad_gamma: Tensor | None


class StreamHeadForward(NamedTuple):
    """Outputs of the bare learned StreamHead; the last three are what its backward needs.

    h [.., D] as x; the others float32 (float64 for float64 x): inv_rms [..]; h_mix [.., N], not yet
    scaled by inv_rms; h_pre [.., N].
    """

    h: Tensor
    inv_rms: Tensor
    h_mix: Tensor
    h_pre: Tensor


class StreamHeadBackward(NamedTuple):
    """Gradients of the learned StreamHead; None for what was not wanted.

    grad_x [.., N, D] as x; the others float32 (float64 for float64 x): grad_fn [N, N*D],
    grad_base [N], grad_scale [1].
    """

    grad_x: Tensor | None
    grad_fn: Tensor | None
    grad_base: Tensor | None
    grad_scale: Tensor | None
