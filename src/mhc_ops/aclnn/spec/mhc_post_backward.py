"""The table of MhcPostBackward."""

from __future__ import annotations

from .language import (
    HALF,
    SINGLE,
    ApiSpec,
    Check,
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
    SameDtype,
    Shape,
    TensorSpec,
    Tiling,
)

_TENSORS = (
    TensorSpec("grad_y", "gradOutput", "input", HALF, "*lead n D", "gradient of MhcPost's out"),
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
    TensorSpec("h_out", "hOut", "input", HALF, "*lead D", "output of the sublayer"),
    TensorSpec("h_post", "hPost", "input", SINGLE, "*lead n", "gate of the sublayer's output"),
    TensorSpec("grad_x", "gradX", "output", HALF, "*lead n D", "gradient of x", False, "x"),
    TensorSpec(
        "grad_h_res",
        "gradHres",
        "output",
        SINGLE,
        "*lead n n",
        "gradient of hRes, computed without hRes too",
        False,
        "h_res",
    ),
    TensorSpec(
        "grad_h_out", "gradHout", "output", HALF, "*lead D", "gradient of hOut", False, "h_out"
    ),
    TensorSpec(
        "grad_h_post",
        "gradHpost",
        "output",
        SINGLE,
        "*lead n",
        "gradient of hPost",
        False,
        "h_post",
    ),
)
_INPUTS = tuple(t.name for t in _TENSORS if t.kind == "input")
_OUTPUTS = tuple(t.name for t in _TENSORS if t.kind == "output")
_REQUIRED = ("grad_y", "x", "h_out", "h_post")
_STREAM_LIKE = ("grad_y", "x", "h_out", "grad_x", "grad_h_out")

_N_950 = (Rule("n in (4, 6, 8)", "x"),)
_LIMITS_A2 = (Rule("n == 4", "x"), Rule("0 < D <= 100000", "x"), Rule("D % 128 == 0", "x"))


def _shapes(limits: tuple[Check, ...]) -> tuple[Check, ...]:
    return (
        Rank("x", ("3", "4")),
        *limits,
        Rank("grad_y", ("r",)),
        Rank("h_res", ("r",)),
        Rank("h_out", ("r-1",)),
        Rank("h_post", ("r-1",)),
        Rank("grad_x", ("r",)),
        Rank("grad_h_res", ("r",)),
        Rank("grad_h_out", ("r-1",)),
        Rank("grad_h_post", ("r-1",)),
        Shape("grad_y", ("*lead n D",)),
        Shape("h_res", ("*lead n n",)),
        Shape("h_out", ("*lead D",)),
        Shape("h_post", ("*lead n",)),
        Shape("grad_x", ("*lead n D",)),
        Shape("grad_h_res", ("*lead n n",)),
        Shape("grad_h_out", ("*lead D",)),
        Shape("grad_h_post", ("*lead n",)),
    )


def _op_api(required: tuple[str, ...], limits: tuple[Check, ...]) -> tuple[Check, ...]:
    return (
        Handles(code="PARAM_NULLPTR"),
        Null((*required, *_OUTPUTS), code="PARAM_NULLPTR"),
        Empty(_INPUTS),
        Format((*_INPUTS, *_OUTPUTS)),
        Dtype((*_INPUTS, *_OUTPUTS), note="the three 16-bit inputs are not compared here"),
        *_shapes(limits),
    )


_OP_API_950 = _op_api(_REQUIRED, _N_950)
_OP_API_A2 = _op_api(_INPUTS, _LIMITS_A2)


def _tiling_checks(required: tuple[str, ...], limits: tuple[Check, ...]) -> tuple[Check, ...]:
    return (
        Null((*required, *_OUTPUTS)),
        *_shapes(limits),
        Dtype((*_INPUTS, *_OUTPUTS)),
        SameDtype(_STREAM_LIKE),
    )


_TILING_950 = Tiling(
    checks=_tiling_checks(_REQUIRED, _N_950),
    key="0",
    workspace="16*1024*1024",
    workspace_rule="exact",
    note="one definition requires h_res; op_api and the framework do not, and nor does this",
)
_TILING_A2 = Tiling(
    checks=_tiling_checks(_INPUTS, _LIMITS_A2),
    workspace="16*1024*1024",
    workspace_rule="none",
)

_SOME_RANK = " or ".join(f"unknown_rank({name})" for name in _INPUTS)
_SOME_DIM = " or ".join(f"unknown_dim({name})" for name in _INPUTS)
_ALL_UNKNOWN = Form("-2", when=_SOME_RANK)

MHC_POST_BACKWARD = OperatorSpec(
    name="MhcPostBackward",
    doc="Gradients of MhcPost for x, hRes, hOut and hPost.",
    tensors=_TENSORS,
    attrs=(),
    apis=(ApiSpec("aclnnMhcPostBackward", (*_INPUTS, *_OUTPUTS)),),
    symbols={"r": "rank(x)", "n": "dim(x, -2)", "D": "dim(x, -1)"},
    lead=("x", 2),
    op_api={"ascend950": _OP_API_950, "ascend910b": _OP_API_A2, "ascend910_93": _OP_API_A2},
    infershape=InferShape(
        checks=(
            Null(_REQUIRED),
            Rank(
                "x",
                ("0", "3", "4"),
                when=f"not ({_SOME_RANK} or {_SOME_DIM})",
                note="a unit test has scalar x and h_res pass; the source allows 3 and 4 alone",
            ),
        ),
        outputs={
            "grad_x": (_ALL_UNKNOWN, Form("?x", when=_SOME_DIM), Form("*x")),
            "grad_h_res": (
                _ALL_UNKNOWN,
                Form("?h_res", when=f"given(h_res) and ({_SOME_DIM})"),
                Form("?x", when=_SOME_DIM),
                Form("*h_res", when="given(h_res)"),
                Form("*lead n n"),
            ),
            "grad_h_out": (_ALL_UNKNOWN, Form("?h_out", when=_SOME_DIM), Form("*h_out")),
            "grad_h_post": (_ALL_UNKNOWN, Form("?h_post", when=_SOME_DIM), Form("*h_post")),
        },
        note="one unknown rank makes every rank unknown, one unknown dimension all of them",
    ),
    tiling={"ascend950": _TILING_950, "ascend910b": _TILING_A2, "ascend910_93": _TILING_A2},
    limits={
        "ascend950": "n 4, 6 or 8; any D",
        "ascend910b": "hRes required; n 4; D 128..99968, a multiple of 128",
        "ascend910_93": "hRes required; n 4; D 128..99968, a multiple of 128",
    },
)
