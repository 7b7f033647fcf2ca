"""The few numbers in which published mHC libraries differ, with a preset for each library."""

from dataclasses import dataclass
from math import inf

from .errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Convention:
    """How one library writes the mHC gates.

    norm_eps: added to the mean square of x, inside the root of inv_rms.
    norm_eps_outside: inv_rms = 1 / (sqrt(mean x^2) + norm_eps) instead.
    hc_eps: h_pre = sigmoid + hc_eps.
    post_scale, post_eps: h_post = post_scale * sigmoid + post_eps.
    res_rows: what row 2N + i*N + j of phi and bias means. "from_to": the entry from stream i to j.
        "to_from": the entry from j to i. The operators' own h_res is always [from, to]; the
        permutation form (N! rows) has no such order and is left as it is.

    `dataclasses.replace` makes variants of a preset.
    """

    norm_eps: float = 1e-6
    norm_eps_outside: bool = False
    hc_eps: float = 1e-6
    post_scale: float = 2.0
    post_eps: float = 0.0
    res_rows: str = "from_to"

    def __post_init__(self) -> None:
        for name in ("norm_eps", "hc_eps", "post_scale", "post_eps"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not -inf < value < inf:
                raise ArgumentError(f"Convention: {name} must be a finite number, got {value!r}.")
        if self.norm_eps < 0:
            raise ArgumentError(f"Convention: norm_eps must not be negative, got {self.norm_eps}.")
        if self.post_scale == 0:
            raise ArgumentError("Convention: post_scale must not be 0; it scales h_post's sigmoid.")
        if self.res_rows not in ("from_to", "to_from"):
            raise ArgumentError(
                f"Convention: res_rows must be 'from_to' or 'to_from', got {self.res_rows!r}."
            )

    @classmethod
    def deepseek_v4(cls) -> "Convention":
        """DeepSeek-V4 as in transformers: the canonical form, and the operators' defaults."""
        return cls()

    @classmethod
    def cann(cls, *, residual: bool = True) -> "Convention":
        """aclnnMhcPre; without residual part (alpha of 2) it adds hc_eps to h_post too."""
        return cls(post_eps=0.0 if residual else 1e-6)

    @classmethod
    def megatron(cls, *, branch: str = "main") -> "Convention":
        """Megatron-LM: "main" has no gate eps and rows [to, from]; "dev" both as DeepSeek-V4."""
        if branch not in ("main", "dev"):
            raise ArgumentError(
                f"Convention.megatron: branch must be 'main' or 'dev', got {branch!r}."
            )
        if branch == "dev":
            return cls(norm_eps_outside=True)
        return cls(norm_eps_outside=True, hc_eps=0.0, res_rows="to_from")

    @classmethod
    def liger(cls) -> "Convention":
        """Liger-Kernel: no gate eps by default, residual rows [to, from]."""
        return cls(hc_eps=0.0, res_rows="to_from")

    @classmethod
    def transformer_engine(cls) -> "Convention":
        """TransformerEngine's Triton mHC: norm_eps fixed to float32's epsilon, no gate eps."""
        return cls(norm_eps=1.1920928955078125e-07, hc_eps=0.0)

    @classmethod
    def hy_v4(cls, *, magnitude: float = 2.0) -> "Convention":
        """HY-V4: no residual rows (alpha of 2), h_post = magnitude * sigmoid + eps."""
        return cls(post_scale=magnitude, post_eps=1e-6)
