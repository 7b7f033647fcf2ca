"""MhcPre and its backward by torch_npu.npu_mhc_pre and npu_mhc_pre_backward.

Never run on an NPU. Their limits, as published: bf16 or fp16 x with T > 0 tokens, N of 4, 6 or 8, D
a multiple of 16 (backward 64) up to 16384, phi rows of N*N+2N, or 2N in the forward; CANN's
numbers; no HF32 in the backward. What a chip refuses beyond that is its own error.
"""

from torch import Tensor

from ...types import MhcPreBackward, MhcPreForward
from ..common.npu import STREAMS, demand, of_torch_npu, store
from ..common.npu import fresh as fresh
from .checks import PreNumbers, PreSizes

_FORWARD, _BACKWARD = "mhc_pre_forward", "mhc_pre_backward"
_MOST = 16384


def forward(
    sizes: PreSizes,
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    bias: Tensor,
    gamma: Tensor | None,
    numbers: PreNumbers,
    out: MhcPreForward,
) -> None:
    """Compute the six outputs."""
    _demand(_FORWARD, sizes, numbers, 16)
    # Without residual part CANN's h_post has hc_eps, as the newest kernel and the page say.
    wanted = numbers.hc_eps if sizes.R == 0 else 0.0
    demand(_FORWARD, [(numbers.post_eps == wanted, f"post_eps {wanted}", numbers.post_eps)])
    more = {"inner_precise": 1} if numbers.hf32 else {}
    operator = of_torch_npu("npu_mhc_pre")
    results = operator(
        x,
        phi,
        alpha,
        bias,
        gamma=gamma,
        out_flag=1,
        norm_eps=numbers.norm_eps,
        hc_eps=numbers.hc_eps,
        **more,
    )
    store(_FORWARD, results, out)


def backward(
    sizes: PreSizes,
    x: Tensor,
    phi: Tensor,
    alpha: Tensor,
    grad_h_in: Tensor,
    grad_h_post: Tensor,
    grad_h_res: Tensor | None,
    inv_rms: Tensor,
    h_mix: Tensor,
    h_pre: Tensor,
    h_post: Tensor,
    gamma: Tensor | None,
    grad_x_post: Tensor | None,
    numbers: PreNumbers,
    out: MhcPreBackward,
) -> None:
    """Compute the entries of `out` that are not None."""
    _demand(_BACKWARD, sizes, numbers, 64)
    demand(
        _BACKWARD,
        [
            (sizes.R > 0 and grad_h_res is not None, "a residual part", "none"),
            (numbers.post_eps == 0, "post_eps 0", numbers.post_eps),
            (not numbers.hf32, "precision 'fp32'", "'hf32'"),
        ],
    )
    operator = of_torch_npu("npu_mhc_pre_backward")
    results = operator(
        x,
        phi,
        alpha,
        grad_h_in,
        grad_h_post,
        grad_h_res,
        inv_rms,
        h_mix,
        h_pre,
        h_post,
        gamma=gamma,
        hc_eps=numbers.hc_eps,
        grad_x_post=grad_x_post,
    )
    store(_BACKWARD, results, out)


def _demand(op: str, sizes: PreSizes, numbers: PreNumbers, multiple: int) -> None:
    n, d = sizes.N, sizes.D
    demand(
        op,
        [
            (sizes.T > 0, "at least one token", "none"),
            (n in STREAMS, "N of 4, 6 or 8", n),
            (0 < d <= _MOST and d % multiple == 0, f"D % {multiple} == 0 up to {_MOST}", d),
            (sizes.R in (0, n * n), "phi rows of N*N+2N, or 2N", sizes.F),
            (numbers.post_scale == 2, "a factor of 2 in h_post", numbers.post_scale),
            (not numbers.norm_eps_outside, "norm_eps inside the root", "it outside"),
        ],
    )
