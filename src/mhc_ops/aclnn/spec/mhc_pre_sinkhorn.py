"""The table of MhcPreSinkhorn."""

from __future__ import annotations

from .language import (
    HALF,
    SINGLE,
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
    Rank,
    Rule,
    Shape,
    TensorSpec,
    Tiling,
)

_FLAT, _F = "*lead n*n", "n*n+2*n"
_SUM, _NORM = "2*num_iters *lead n", "2*num_iters *lead n n"
_TENSORS = (
    TensorSpec("x", "x", "input", HALF, "*lead n D", "the n residual streams"),
    TensorSpec("phi", "phi", "input", SINGLE, f"{_F} n*D", "projection to the mixing logits"),
    TensorSpec("alpha", "alpha", "input", SINGLE, "3", "gains: pre, post, res"),
    TensorSpec("bias", "bias", "input", SINGLE, _F, "offsets of the mixing logits"),
    TensorSpec("hin", "hin", "output", HALF, "*lead D", "input of the sublayer"),
    TensorSpec("h_post", "hPost", "output", SINGLE, "*lead n", "gate of the sublayer's output"),
    TensorSpec("h_res", "hRes", "output", SINGLE, _FLAT, "mixing weights, from before to"),
    TensorSpec("h_pre", "hPre", "output", SINGLE, "*lead n", "saved for backward", True),
    TensorSpec(
        "hc_before_norm",
        "hcBeforeNorm",
        "output",
        SINGLE,
        f"*lead {_F}",
        "saved for backward: x @ phi^T, not normalised",
        True,
    ),
    TensorSpec("inv_rms", "invRms", "output", SINGLE, "*lead 1", "saved for backward", True),
    TensorSpec("sum_out", "sumOut", "output", SINGLE, _SUM, "saved for backward", True),
    TensorSpec("norm_out", "normOut", "output", SINGLE, _NORM, "saved for backward", True),
)
_INPUTS = ("x", "phi", "alpha", "bias")
_RESULTS = ("hin", "h_post", "h_res")
_SAVED = ("h_pre", "hc_before_norm", "inv_rms", "sum_out", "norm_out")
_WANTED = "need_backward"

_ATTRS = (
    AttrSpec("hc_mult", "hcMult", "int64_t", 4, "number of streams"),
    AttrSpec("num_iters", "numIters", "int64_t", 20, "normalisations of the columns"),
    AttrSpec("hc_eps", "hcEps", "double", 1e-6, "added to h_pre, each softmax entry and each sum"),
    AttrSpec("norm_eps", "normEps", "double", 1e-6, "added to the mean square of x"),
    AttrSpec(_WANTED, "needBackward", "bool", True, "whether the saved tensors are wanted"),
)


def _op_api(ranks_of_x: tuple[str, ...]) -> tuple[Check, ...]:
    return (
        Handles(code="PARAM_NULLPTR"),
        Null((*_INPUTS, *_RESULTS), code="PARAM_NULLPTR"),
        Null(_SAVED, code="PARAM_NULLPTR", when=_WANTED),
        Dtype((*_INPUTS, *_RESULTS), note="hin is not compared with x"),
        Dtype(_SAVED, when=_WANTED),
        Rank("x", ranks_of_x, note="[T, n, D] on ascend950 alone"),
        Rank("phi", ("2",)),
        Rank("alpha", ("1",)),
        Rank("bias", ("1",)),
        Rank("hin", ("r-1",)),
        Rank("h_post", ("r-1",)),
        Rank("h_res", ("r-1",)),
        Rank("h_pre", ("r-1",), when=_WANTED),
        Rank("hc_before_norm", ("r-1",), when=_WANTED),
        Rank("inv_rms", ("r-1",), when=_WANTED),
        Rank("sum_out", ("r",), when=_WANTED),
        Rank("norm_out", ("r+1",), when=_WANTED),
        OneOf("hc_mult", (4,)),
        Rule("n == 4", "x"),
        OneOf("num_iters", (20,)),
        Shape("hin", ("*lead D",)),
        Shape("phi", (f"{_F} n*D",)),
        Shape("alpha", ("3",)),
        Shape("bias", (_F,)),
        Shape("h_post", ("*lead n",)),
        Shape("h_res", (_FLAT,)),
        Shape("h_pre", ("*lead n",), when=_WANTED),
        Shape("hc_before_norm", (f"*lead {_F}",), when=_WANTED),
        Shape("inv_rms", ("*lead 1",), when=_WANTED),
        Shape("sum_out", (_SUM,), when=_WANTED),
        Shape("norm_out", (_NORM,), when=_WANTED),
        Format((*_INPUTS, *_RESULTS)),
        Format(_SAVED, when=_WANTED),
        Empty(("x", *_RESULTS), code="SUCCESS"),
    )


_OP_API_950, _OP_API_A2 = _op_api(("3", "4")), _op_api(("4",))

_SPLITS_TOKENS = "T > 5120"
_SYSTEM = "16*1024*1024"
_TILING_950 = Tiling(
    checks=(
        Null((*_INPUTS, *_RESULTS)),
        Rank("x", ("3", "4")),
        Rule("D in (4096, 7168)", "x"),
        Shape("phi", ("dim(phi,0) n*D",)),
        Shape("alpha", ("3",)),
        Shape("bias", ("dim(phi,0)",)),
        Rule("n == 4", "x"),
        OneOf("num_iters", (20,)),
    ),
    key=f"(2000 if need_backward else 1000) + (1 if {_SPLITS_TOKENS} else 0)",
    workspace=f"{_SYSTEM} if {_SPLITS_TOKENS} else {_SYSTEM}"
    " + 4*T*(dim(phi,0)+1)*ceil_div(n*D, align(ceil_div(n*D, aic), 256))",
    workspace_rule="exact",
    note="the last digit of the key is 1 for a split over tokens, 0 over n*D. Where one gives way "
    "to the other is not published: the public rows have 256 tokens in the second, 5376 and 16384 "
    "in the first, and 5120 is our reading",
)
_TILING_A2 = Tiling(
    checks=(
        Null((*_INPUTS, *_RESULTS)),
        Rank("x", ("3", "4"), note="a unit test passes [T, n, D]; the page has four alone"),
        Rule("n == 4", "x"),
        Rule("1 <= D <= 100000", "x"),
        Rule("D % 128 == 0", "x"),
        Shape("phi", (f"{_F} n*D",)),
        Shape("alpha", ("3",)),
        Shape("bias", (_F,)),
        OneOf("hc_mult", (4,)),
        OneOf("num_iters", (20,)),
    ),
    workspace=_SYSTEM,
    workspace_rule="none",
    note="outputs are not checked: a unit test gives h_res as [.., n, n]",
)

_NOTHING = Form("0", when=f"not {_WANTED}")

MHC_PRE_SINKHORN = OperatorSpec(
    name="MhcPreSinkhorn",
    doc="MhcPre without gamma, then MhcSinkhorn on its residual logits.",
    tensors=_TENSORS,
    attrs=_ATTRS,
    apis=(
        ApiSpec("aclnnMhcPreSinkhorn", (*_INPUTS, *(a.name for a in _ATTRS), *_RESULTS, *_SAVED)),
    ),
    symbols={"r": "rank(x)", "n": "dim(x, -2)", "D": "dim(x, -1)"},
    lead=("x", 2),
    op_api={"ascend950": _OP_API_950, "ascend910b": _OP_API_A2, "ascend910_93": _OP_API_A2},
    infershape=InferShape(
        checks=(Null(("x",)), Rank("x", ("3", "4"))),
        outputs={
            "hin": (Form("*lead D"),),
            "h_post": (Form("*lead n"),),
            "h_res": (Form(_FLAT),),
            "h_pre": (_NOTHING, Form("*lead n")),
            "hc_before_norm": (_NOTHING, Form(f"*lead {_F}")),
            "inv_rms": (_NOTHING, Form("*lead 1")),
            "sum_out": (_NOTHING, Form(_SUM)),
            "norm_out": (_NOTHING, Form(_NORM)),
        },
        dtype_from={"hin": "x"},
    ),
    tiling={"ascend950": _TILING_950, "ascend910b": _TILING_A2, "ascend910_93": _TILING_A2},
    limits={
        "ascend950": "n 4; numIters 20; D 4096 or 7168 (tiling)",
        "ascend910b": "x of 4 dimensions; n 4; numIters 20; D 128..99968, % 128 (tiling)",
        "ascend910_93": "x of 4 dimensions; n 4; numIters 20; D 128..99968, % 128 (tiling)",
    },
    unnamed_soc={"tiling": "ascend910b"},
)
