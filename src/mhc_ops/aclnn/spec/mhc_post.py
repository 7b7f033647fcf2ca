"""The table of MhcPost."""

from __future__ import annotations

from .language import (
    HALF,
    SINGLE,
    ApiSpec,
    Dtype,
    Empty,
    Form,
    Format,
    Handles,
    InferShape,
    Null,
    OperatorSpec,
    Rank,
    Rule,
    Shape,
    TensorSpec,
    Tiling,
)

_TENSORS = (
    TensorSpec("x", "x", "input", HALF, "*lead n D", "the n residual streams"),
    TensorSpec(
        "h_res",
        "hRes",
        "input",
        SINGLE,
        "*lead n n",
        "mixing weights [from, to]; null, on ascend950 alone, is the identity",
        True,
    ),
    TensorSpec("h_out", "hOut", "input", HALF, "*lead D", "output of the sublayer", False, "x"),
    TensorSpec("h_post", "hPost", "input", SINGLE, "*lead n", "gate of the sublayer's output"),
    TensorSpec(
        "y", "out", "output", HALF, "*lead n D", "the streams after the sublayer", False, "x"
    ),
)
_INPUTS = ("x", "h_res", "h_out", "h_post")
_REQUIRED = ("x", "h_out", "h_post", "y")
_DTYPES = Dtype((*_INPUTS, "y"))
_SHAPES = (
    Rank("x", ("3", "4")),
    Shape("h_res", ("*lead n n",)),
    Shape("h_out", ("*lead D",)),
    Shape("h_post", ("*lead n",)),
    Shape("y", ("*lead n D",)),
)

_OP_API_950 = (
    Null(_REQUIRED, code="PARAM_NULLPTR"),
    Handles(code="PARAM_NULLPTR"),
    Format(("x", "y")),
    _DTYPES,
    *_SHAPES,
    Empty(_INPUTS, code="SUCCESS"),
)
_OP_API_A2 = (Null(("h_res",), code="RUNTIME_ERROR"), *_OP_API_950)

_WORKSPACE = "16*1024*1024"
_TILING_950 = Tiling(
    checks=(Null(_REQUIRED), *_SHAPES, _DTYPES),
    key="6",
    workspace=_WORKSPACE,
    workspace_rule="exact",
    note="an older tree answers key 2",
)
_TILING_A2 = Tiling(
    checks=(
        Null((*_INPUTS, "y")),
        *_SHAPES,
        _DTYPES,
        Rule("0 < D < 100000", "x"),
        Rule("D % 128 == 0", "x", note="older unit tests pass D = 30000; they are stale"),
        Rule("n == 4", "x", note="older unit tests pass n = 6 and 7; they are stale"),
    ),
    workspace=_WORKSPACE,
    workspace_rule="exact",
    note="the key is 1 or 0; which of them is not published",
)

MHC_POST = OperatorSpec(
    name="MhcPost",
    doc="Mix the n residual streams and add a sublayer's output to each of them.",
    tensors=_TENSORS,
    attrs=(),
    apis=(ApiSpec("aclnnMhcPost", (*_INPUTS, "y")),),
    symbols={"r": "rank(x)", "n": "dim(x, -2)", "D": "dim(x, -1)"},
    lead=("x", 2),
    op_api={"ascend950": _OP_API_950, "ascend910b": _OP_API_A2, "ascend910_93": _OP_API_A2},
    infershape=InferShape(
        checks=(Null(("x",)), Rank("x", ("3", "4"))),
        outputs={"y": (Form("*x"),)},
    ),
    tiling={"ascend950": _TILING_950, "ascend910b": _TILING_A2, "ascend910_93": _TILING_A2},
    limits={
        "ascend950": "any n and D",
        "ascend910b": "hRes required; n 4; D 128..99968, a multiple of 128",
        "ascend910_93": "hRes required; n 4; D 128..99968, a multiple of 128",
    },
)
