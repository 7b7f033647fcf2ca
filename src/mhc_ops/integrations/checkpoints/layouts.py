"""The parameter layouts of published mHC libraries, as data: names, shapes, and what is fixed.

Symbols: N streams, D channels of one, F = 2N + R rows of phi, R = N*N, N! or 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import NamedTuple

from ...convention import Convention
from ...errors import ArgumentError

LAYER = {"phi": "fn", "alpha": "scale", "bias": "base"}
SCALARS = ("alpha_pre", "alpha_post", "alpha_res")
EVERY_FIELD = frozenset(f.name for f in fields(Convention))


class Form(NamedTuple):
    """The numbers of one library.

    convention: by default. settable: fields that its users choose; all others are fixed.
    tied: pairs of fields that are one number there.
    """

    convention: Convention
    settable: frozenset[str] = frozenset()
    tied: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How one library stores the parameters of a hyper-connection and of the learned head.

    name: what callers say. library: what people say.
    layer: endings of the tensors' names by role: phi, bias, alpha (or the three SCALARS), gamma.
    head: likewise of the learned head (roles phi, bias, alpha); None where the library has none, or
        none whose names are published.
    sites: our names of a layer's two hyper-connections and of the head -> how names begin there;
        empty where a tensor's name is any prefix, a dot and the ending.
    infix: what may stand between the two in a checkpoint that is read.
    phi: "rows" [F, N*D]; "columns" [N*D, F]; "interleaved" [F, D*N], column d*N + i.
    scalar_shape: of each of the SCALARS. bias_row: whether bias is [1, F].
    gamma: "matrix" [N, D], "flat" [N*D], "interleaved" [D*N], or None: the library has none.
    forms: what its numbers are, by the length of alpha: 3, or 2 for no residual part.
    permutations: whether R may be N!.
    reads_only: a layout of another kind, which parameters.py knows how to read and none can write.
    kept: roles whose tensors stay in the checkpoint under their own names.
    """

    name: str
    library: str
    layer: Mapping[str, str]
    head: Mapping[str, str] | None = None
    sites: Mapping[str, str] = field(default_factory=dict)
    infix: str = ""
    phi: str = "rows"
    scalar_shape: tuple[int, ...] | None = None
    bias_row: bool = False
    gamma: str | None = None
    forms: Mapping[int, Form]
    permutations: bool = False
    reads_only: bool = False
    kept: tuple[str, ...] = ()


_ITERATIONS = frozenset({"num_iters"})
_ARGUMENTS = frozenset({"norm_eps", "hc_eps", "sinkhorn_eps", "num_iters"})
_V4 = Form(Convention.deepseek_v4(), _ARGUMENTS, (("hc_eps", "sinkhorn_eps"),))
_HY_V4 = Form(
    Convention.hy_v4(), frozenset({"norm_eps", "hc_eps", "post_scale"}), (("hc_eps", "post_eps"),)
)
_TILEKERNELS = replace(Convention(), post_scale=1.0, num_iters=10)
_HYPER_CONNECTIONS = replace(
    Convention(), hc_eps=0.0, order="rows_last", eps_mode="clamp", sinkhorn_eps=1e-12
)
_MHC_MLX = replace(
    Convention(),
    hc_eps=0.0,
    res_rows="to_from",
    order="rows_last",
    eps_mode="none",
    sinkhorn_eps=0.0,
)
_MEGATRON = {
    "phi": "mapping_proj.weight",
    "bias": "bias",
    **{name: name for name in SCALARS},
}

_TABLE = (
    Layout(
        name="ours",
        library="mhc_ops.nn",
        layer={"phi": "phi", "alpha": "alpha", "bias": "bias", "gamma": "gamma"},
        head=LAYER,
        gamma="matrix",
        permutations=True,
        forms={3: Form(Convention(), EVERY_FIELD), 2: Form(Convention(), EVERY_FIELD)},
    ),
    Layout(
        name="deepseek",
        library="raw DeepSeek-V4",
        layer=LAYER,
        head=LAYER,
        sites={"attn_hc": "hc_attn_", "ffn_hc": "hc_ffn_", "hc_head": "hc_head_"},
        forms={3: _V4},
    ),
    Layout(
        name="transformers",
        library="transformers",
        layer=LAYER,
        head={"phi": "hc_fn", "alpha": "hc_scale", "bias": "hc_base"},
        sites={"attn_hc": "attn_hc.", "ffn_hc": "ffn_hc.", "hc_head": "hc_head."},
        forms={3: _V4, 2: _HY_V4},
    ),
    Layout(
        name="hy_v4",
        library="raw HY-V4",
        layer={"phi": "hc_fn", "alpha": "hc_scale", "bias": "hc_base"},
        head={"phi": "hc_head_fn", "alpha": "hc_head_scale", "bias": "hc_head_base"},
        sites={"attn_hc": "hc_attn_layer.", "ffn_hc": "hc_mlp_layer.", "hc_head": "hc_head."},
        infix="hc_pre.",
        forms={2: _HY_V4},
    ),
    Layout(
        name="megatron_main",
        library="Megatron-LM main",
        layer=_MEGATRON,
        scalar_shape=(1,),
        forms={3: Form(Convention.megatron(branch="main"), _ITERATIONS)},
    ),
    Layout(
        name="megatron_dev",
        library="Megatron-LM dev",
        layer=_MEGATRON,
        scalar_shape=(1,),
        forms={3: Form(Convention.megatron(branch="dev"), _ITERATIONS)},
    ),
    Layout(
        name="transformer_engine",
        library="TransformerEngine",
        layer={"phi": "phi", "alpha": "alpha", "bias": "beta", "gamma": "norm_weight"},
        phi="interleaved",
        bias_row=True,
        gamma="interleaved",
        forms={3: Form(Convention.transformer_engine(), _ITERATIONS)},
    ),
    Layout(
        name="liger",
        library="Liger-Kernel",
        layer={"phi": "phi", "bias": "b", **{name: name for name in SCALARS}},
        phi="columns",
        scalar_shape=(),
        forms={3: Form(Convention.liger(), _ARGUMENTS | {"post_scale"})},
    ),
    Layout(
        name="tilekernels",
        library="TileKernels",
        layer={"phi": "mhc_fn", "alpha": "scale", "bias": "base", "gamma": "norm_weight"},
        head={"phi": "mhc_fn", "alpha": "scale", "bias": "base"},
        gamma="flat",
        forms={3: Form(_TILEKERNELS, _ARGUMENTS | {"post_scale"})},
    ),
    Layout(
        name="cann",
        library="CANN ops-transformer",
        layer={"phi": "phi", "alpha": "alpha", "bias": "bias", "gamma": "gamma"},
        gamma="matrix",
        permutations=True,
        forms={
            3: Form(Convention.cann(), _ARGUMENTS),
            2: Form(Convention.cann(residual=False), _ARGUMENTS, (("hc_eps", "post_eps"),)),
        },
    ),
    Layout(
        name="hyper_connections",
        library="hyper-connections",
        layer={
            "phi": "dynamic_alpha_fn",
            "phi_post": "dynamic_beta_fn",
            "bias": "static_alpha",
            "bias_post": "static_beta",
            "alpha_pre": "pre_branch_scale",
            "alpha_post": "h_post_scale",
            "alpha_res": "residual_scale",
            "gamma": "norm.gamma",
        },
        reads_only=True,
        forms={3: Form(_HYPER_CONNECTIONS, _ITERATIONS)},
    ),
    Layout(
        name="mhc_mlx",
        library="mhc-mlx",
        layer={
            "bias": "H_res_raw",
            "bias_pre": "H_pre_raw",
            "bias_post": "H_post_raw",
            "norm": "rms_weight",
        },
        kept=("norm",),
        reads_only=True,
        forms={3: Form(_MHC_MLX, _ITERATIONS)},
    ),
)

LAYOUTS: Mapping[str, Layout] = {layout.name: layout for layout in _TABLE}
"""Every layout by its name."""


def find_layout(name: str | Layout) -> Layout:
    """A layout by its name (- for _ and capitals are fine), or the one given.

    Raises ArgumentError with what was probably meant.
    """
    if isinstance(name, Layout):
        return name
    folded = str(name).lower().replace("-", "_")
    if folded in LAYOUTS:
        return LAYOUTS[folded]
    near = get_close_matches(folded, LAYOUTS, 3, 0.4) or list(LAYOUTS)
    raise ArgumentError(f"no layout is called {name!r}; did you mean {' or '.join(near)}?")
