"""The table of MhcPre."""

from __future__ import annotations

from .language import (
    HALF,
    SINGLE,
    AllOrNone,
    ApiSpec,
    AttrSpec,
    Check,
    Dtype,
    Empty,
    Form,
    Format,
    Handles,
    InferShape,
    Null,
    OneOf,
    OperatorSpec,
    Positive,
    Rank,
    Rule,
    Shape,
    TensorSpec,
    Tiling,
)

_TENSORS = (
    TensorSpec("x", "x", "input", HALF, "*lead n D", "the n residual streams"),
    TensorSpec("phi", "phi", "input", SINGLE, "f n*D", "projection to the mixing logits"),
    TensorSpec("alpha", "alpha", "input", SINGLE, "A", "gains: pre, post, res; no res if A = 2"),
    TensorSpec("bias", "bias", "input", SINGLE, "f", "offsets of the mixing logits"),
    TensorSpec("gamma", "gammaOptional", "input", SINGLE, "n D", "scale of x; null is 1", True),
    TensorSpec("hin", "hIn", "output", HALF, "*lead D", "input of the sublayer", False, "x"),
    TensorSpec("h_post", "hPost", "output", SINGLE, "*lead n", "gate of the sublayer's output"),
    TensorSpec("h_res", "hRes", "output", SINGLE, "*lead n n", "logits; unused if A = 2", True),
    TensorSpec("inv_rms", "invRmsOptional", "output", SINGLE, "*lead", "saved for backward", True),
    TensorSpec("h_mix", "hMixOptional", "output", SINGLE, "*lead f", "saved for backward", True),
    TensorSpec("h_pre", "hPreOptional", "output", SINGLE, "*lead n", "saved for backward", True),
)
_INPUTS = ("x", "phi", "alpha", "bias", "gamma")
_SAVED = ("inv_rms", "h_mix", "h_pre")

_ATTRS = (
    AttrSpec("norm_eps", "normEps", "double", 1e-6, "added to the mean square of x"),
    AttrSpec("hc_eps", "hcEps", "double", 1e-6, "added to h_pre, and to h_post if A = 2"),
    AttrSpec("op_impl_mode", "opImplMode", "int64_t", 0, "0: FP32 matmul, 1: HF32 matmul"),
    AttrSpec("out_flag", "", "int64_t", 0, "1 when the saved tensors are wanted"),
)
_PARAMETERS = (*_INPUTS, "norm_eps", "hc_eps")
_OUTPUTS = ("hin", "h_post", "h_res", *_SAVED)

_MODE_FIRST = OneOf(
    "op_impl_mode",
    (0, 1),
    note="as for MhcPreBackwardV2, where a unit test has the mode reported before null tensors",
)
_N = Rule("n in (4, 6, 8)", "x")
_N_A2 = Rule("n == 4", "x")
_RESIDUAL, _NO_RESIDUAL = "A == 3", "A == 2"
_H_RES_NOTE = "given with A = 2 it is neither checked nor written"


def _op_api(
    size_rules: tuple[Check, ...],
    residual_rows: tuple[str, ...],
    h_res_ranks: tuple[str, ...],
    h_res_shapes: tuple[str, ...],
    modes: tuple[int, ...],
) -> tuple[Check, ...]:
    return (
        _MODE_FIRST,
        Handles(code="PARAM_NULLPTR"),
        Null(("x", "phi", "alpha", "bias", "hin", "h_post"), code="PARAM_NULLPTR"),
        Empty(("x", "phi", "alpha", "bias")),
        Rank("x", ("3", "4")),
        Rank("phi", ("2",)),
        Rank("alpha", ("1",)),
        Rank("bias", ("1",)),
        Rank("gamma", ("2",)),
        Rule("A in (2, 3)", "alpha"),
        Null(("h_res",), code="PARAM_NULLPTR", when=_RESIDUAL),
        Rank("hin", ("r-1",)),
        Rank("h_post", ("r-1",)),
        Rank("h_res", h_res_ranks, when=_RESIDUAL, note=_H_RES_NOTE),
        AllOrNone(_SAVED),
        Rank("inv_rms", ("r-2",)),
        Rank("h_mix", ("r-1",)),
        Rank("h_pre", ("r-1",)),
        *size_rules,
        Shape("phi", tuple(f"{rows} n*D" for rows in residual_rows), when=_RESIDUAL),
        Shape("phi", ("2*n n*D",), when=_NO_RESIDUAL),
        Shape("bias", ("f",)),
        Shape("gamma", ("n D",)),
        Shape("hin", ("*lead D",)),
        Shape("h_post", ("*lead n",)),
        Shape("h_res", h_res_shapes, when=_RESIDUAL),
        Shape("inv_rms", ("*lead",)),
        Shape("h_mix", ("*lead f",)),
        Shape("h_pre", ("*lead n",)),
        Dtype((*_INPUTS, "hin", "h_post")),
        Dtype(("h_res",), when=_RESIDUAL),
        Dtype(_SAVED),
        Format((*_INPUTS, "hin", "h_post")),
        Format(("h_res",), when=_RESIDUAL),
        Format(_SAVED),
        OneOf("op_impl_mode", modes, note="README: mode 0 alone on A2 and A3"),
    )


_OP_API_950 = _op_api(
    (Rule("n > 0", "x"), Rule("D > 0", "x"), _N, Rule("D % 16 == 0", "x")),
    ("n*n+2*n",),
    ("r",),
    ("*lead n n",),
    (0, 1),
)
_OP_API_A2 = _op_api(
    (_N_A2, Rule("D % 128 == 0", "x")),
    ("fact(n)+2*n", "n*n+2*n"),
    ("r", "r-1"),
    ("*lead n n", "*lead fact(n)"),
    (0,),
)

_RANKS = (
    Rank("alpha", ("1",)),
    Rule("A in (2, 3)", "alpha"),
    Rank("x", ("3", "4")),
    Rank("phi", ("2",)),
)
_SPLITS_TOKENS_AND_K = "T <= 10240 and T <= 256*aic and n*D >= 512"

_TILING_950 = Tiling(
    checks=(
        *_RANKS,
        _N,
        Rule("D % 16 == 0", "x"),
        Shape("phi", ("n*n+2*n n*D",), when=_RESIDUAL),
        Shape("phi", ("2*n n*D",), when=_NO_RESIDUAL),
        Shape("bias", ("f",)),
        Null(("x", "phi", "alpha", "bias", "hin", "h_post")),
        Null(("h_res",), when=_RESIDUAL),
        Positive(("x", "phi", "alpha", "bias")),
        Dtype((*_INPUTS, "hin", "h_post")),
        Dtype(("h_res",), when=_RESIDUAL),
        Dtype(_SAVED),
        Rule("16 <= D <= 16384", "x"),
        Shape("hin", ("*lead D",)),
        Shape("h_post", ("*lead n",)),
        Shape("h_res", ("*lead n n",), when=_RESIDUAL),
        Shape("inv_rms", ("*lead",)),
        Shape("h_mix", ("*lead f",)),
        Shape("h_pre", ("*lead n",)),
        OneOf("out_flag", (0, 1)),
        OneOf("op_impl_mode", (0, 1)),
    ),
    key=f"(2 if {_SPLITS_TOKENS_AND_K} else 0) + (4 if A == 2 else 0)",
    workspace=f"20*1024*1024 + 4*T*(f+1)*(2 if {_SPLITS_TOKENS_AND_K} else 1)",
    workspace_rule="bound",
    bound="20*1024*1024 + 4*T*f",
    data={"m_dim": "ceil_div(T, align(ceil_div(T, 16), 16))", "k_dim": "2"},
    data_when=_SPLITS_TOKENS_AND_K,
    note="gamma is not checked (unit tests give it flat); key 1 is published without its rule",
)
_TILING_A2 = Tiling(
    checks=(
        *_RANKS,
        _N_A2,
        Rule("0 < D <= 100000", "x"),
        Rule("D % 128 == 0", "x"),
        Shape("phi", ("fact(n)+2*n n*D", "n*n+2*n n*D"), when=_RESIDUAL),
        Shape("phi", ("2*n n*D",), when=_NO_RESIDUAL),
        Shape("bias", ("f",)),
        Shape("gamma", ("n D",)),
        OneOf("op_impl_mode", (0,), note="README: mode 0 alone on A2 and A3"),
    ),
    workspace="16*1024*1024",
    workspace_rule="none",
)

MHC_PRE = OperatorSpec(
    name="MhcPre",
    doc="Mix n residual streams into one sublayer input and compute the gates and residual logits.",
    tensors=_TENSORS,
    attrs=_ATTRS,
    apis=(
        ApiSpec("aclnnMhcPre", (*_PARAMETERS, *_OUTPUTS)),
        ApiSpec("aclnnMhcPreV2", (*_PARAMETERS, "op_impl_mode", *_OUTPUTS)),
    ),
    symbols={
        "r": "rank(x)",
        "n": "dim(x, -2)",
        "D": "dim(x, -1)",
        "A": "dim(alpha, 0)",
        "f": "dim(phi, 0)",
    },
    lead=("x", 2),
    op_api={"ascend950": _OP_API_950, "ascend910b": _OP_API_A2, "ascend910_93": _OP_API_A2},
    infershape=InferShape(
        checks=(
            Rank("phi", ("2",)),
            Rank("x", ("3", "4")),
            Rank("alpha", ("1",)),
            Rule("A in (2, 3)", "alpha"),
            Null(("x", "phi", "alpha")),
        ),
        outputs={
            "hin": (Form("*lead D"),),
            "h_post": (Form("*lead n"),),
            "h_res": (
                Form("0", when="A == 2"),
                Form("*lead fact(n)", when="f == fact(n)+2*n and f != n*n+2*n"),
                Form("*lead n n"),
            ),
            "inv_rms": (Form("*lead"),),
            "h_mix": (Form("*lead f"),),
            "h_pre": (Form("*lead n"),),
        },
    ),
    tiling={"ascend950": _TILING_950, "ascend910b": _TILING_A2, "ascend910_93": _TILING_A2},
    limits={
        "ascend950": "n 4, 6 or 8; D 16..16384, a multiple of 16; phi rows n*n+2n or 2n",
        "ascend910b": "n 4; D 128..100000, a multiple of 128; phi rows n*n+2n, n!+2n or 2n; FP32",
        "ascend910_93": "n 4; D 128..100000, a multiple of 128; phi rows n*n+2n, n!+2n or 2n; FP32",
    },
)
