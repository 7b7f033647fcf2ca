"""The few numbers in which published mHC libraries differ, with a preset for each library."""

from dataclasses import dataclass

from .domains import RES_ROWS, check_choice, check_finite, check_norm_eps, check_sinkhorn_options
from .errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Convention:
    """How one library writes the mHC gates and the Sinkhorn of its residual logits.

    norm_eps: added to the mean square of x, inside the root of inv_rms.
    norm_eps_outside: inv_rms = 1 / (sqrt(mean x^2) + norm_eps) instead.
    hc_eps: h_pre = sigmoid + hc_eps; also the gates of stream_head.
    post_scale, post_eps: h_post = post_scale * sigmoid + post_eps.
    res_rows: what row 2N + i*N + j of phi and bias means. "from_to": the entry from stream i to j.
        "to_from": the entry from j to i. The operators' own h_res is always [from, to]; the
        permutation form (N! rows) has no such order and is left as it is.
    num_iters, sinkhorn_eps, eps_mode, order, temperature: the options of `sinkhorn`, which calls
        the second one eps. They speak of h_res as [from, to], whatever res_rows is: "columns_last"
        is a softmax over the streams that a residual goes to, and last makes what arrives at each
        stream sum to 1; "rows_last" is a softmax over the streams that it comes from, and last
        makes what leaves each stream sum to 1.

    `dataclasses.replace` makes variants of a preset.
    """

    norm_eps: float = 1e-6
    norm_eps_outside: bool = False
    hc_eps: float = 1e-6
    post_scale: float = 2.0
    post_eps: float = 0.0
    res_rows: str = "from_to"
    num_iters: int = 20
    sinkhorn_eps: float = 1e-6
    eps_mode: str = "add"
    order: str = "columns_last"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_norm_eps("Convention", self.norm_eps)
        check_finite(
            "Convention", hc_eps=self.hc_eps, post_scale=self.post_scale, post_eps=self.post_eps
        )
        if self.post_scale == 0:
            raise ArgumentError("Convention: post_scale must not be 0; it scales h_post's sigmoid.")
        check_choice("Convention", "res_rows", self.res_rows, RES_ROWS)
        check_sinkhorn_options(
            "Convention",
            self.num_iters,
            self.sinkhorn_eps,
            self.eps_mode,
            self.order,
            self.temperature,
            eps_name="sinkhorn_eps",
        )

    @classmethod
    def deepseek_v4(cls) -> "Convention":
        """DeepSeek-V4 as in transformers: the canonical form, and the operators' defaults."""
        return cls()

    @classmethod
    def cann(cls, *, residual: bool = True) -> "Convention":
        """aclnnMhcPre, aclnnMhcSinkhorn, aclnnMhcPreSinkhorn: the numbers of DeepSeek-V4.

        residual: False for an alpha of two entries, where aclnnMhcPre adds hc_eps to h_post too.
        """
        return cls(post_eps=0.0 if residual else 1e-6)

    @classmethod
    def megatron(cls, *, branch: str = "main") -> "Convention":
        """Megatron-LM; norm_eps stands outside the root in both branches.

        branch: "main" has no gate eps, rows [to, from], a Sinkhorn that starts over the streams a
            residual comes from and divides by max(sum, 1e-6); "dev" has all these as DeepSeek-V4.
        """
        if branch not in ("main", "dev"):
            raise ArgumentError(
                f"Convention.megatron: branch must be 'main' or 'dev', got {branch!r}."
            )
        if branch == "dev":
            return cls(norm_eps_outside=True)
        return cls(
            norm_eps_outside=True,
            hc_eps=0.0,
            res_rows="to_from",
            eps_mode="clamp",
            order="rows_last",
        )

    @classmethod
    def liger(cls) -> "Convention":
        """Liger-Kernel: no gate eps by default, rows [to, from], Sinkhorn in that order as well."""
        return cls(hc_eps=0.0, res_rows="to_from", order="rows_last")

    @classmethod
    def transformer_engine(cls) -> "Convention":
        """TransformerEngine's Triton mHC: norm_eps is float32's epsilon; no other eps at all."""
        return cls(norm_eps=1.1920928955078125e-07, hc_eps=0.0, sinkhorn_eps=0.0, eps_mode="none")

    @classmethod
    def hy_v4(cls, *, magnitude: float = 2.0) -> "Convention":
        """HY-V4: no residual rows (alpha of 2) and so no Sinkhorn; h_post = magnitude * sigmoid
        + eps.
        """
        return cls(post_scale=magnitude, post_eps=1e-6)
