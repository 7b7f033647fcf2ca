"""The table of MhcPreSinkhornBackward."""

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
    OperatorSpec,
    Rank,
    Rule,
    Shape,
    TensorSpec,
    Tiling,
)

_F = "n*n+2*n"
_TENSORS = (
    TensorSpec("grad_hin", "gradHin", "input", HALF, "*lead D", "gradient of hin"),
    TensorSpec("grad_h_post", "gradHPost", "input", SINGLE, "*lead n", "gradient of hPost"),
    TensorSpec(
        "grad_h_res", "gradHRes", "input", SINGLE, "*lead n n", "gradient of hRes, may be flat"
    ),
    TensorSpec("x", "x", "input", HALF, "*lead n D", "the n residual streams"),
    TensorSpec("phi", "phi", "input", SINGLE, "f n*D", "projection to the mixing logits"),
    TensorSpec("alpha", "alpha", "input", SINGLE, "3", "gains: pre, post, res"),
    TensorSpec("bias", "bias", "input", SINGLE, "f", "offsets of the mixing logits"),
    TensorSpec("h_pre", "hPre", "input", SINGLE, "*lead n", "saved by the forward"),
    TensorSpec(
        "hc_before_norm", "hcBeforeNorm", "input", SINGLE, "*lead f", "saved by the forward"
    ),
    TensorSpec("inv_rms", "invRms", "input", SINGLE, "*lead 1", "saved by the forward"),
    TensorSpec("sum_out", "sumOut", "input", SINGLE, "k *lead n", "saved by the forward"),
    TensorSpec("norm_out", "normOut", "input", SINGLE, "k *lead n n", "saved by the forward"),
    TensorSpec("grad_x", "gradX", "output", HALF, "*lead n D", "gradient of x", False, "grad_hin"),
    TensorSpec("grad_phi", "gradPhi", "output", SINGLE, "f n*D", "gradient of phi"),
    TensorSpec("grad_alpha", "gradAlpha", "output", SINGLE, "3", "gradient of alpha"),
    TensorSpec("grad_bias", "gradBias", "output", SINGLE, "f", "gradient of bias"),
)
_INPUTS = tuple(t.name for t in _TENSORS if t.kind == "input")
_OUTPUTS = tuple(t.name for t in _TENSORS if t.kind == "output")
_BY_TOKEN = tuple(name for name in _INPUTS if name not in ("phi", "alpha", "bias"))

_ATTRS = (AttrSpec("eps", "hcEps", "double", 1e-6, "the forward's hcEps"),)
_LIMITS_OF_D = (Rule("0 < D < 100000", "x"), Rule("D % 128 == 0", "x"))


def _op_api(ranks_of_x: tuple[str, ...], limit_of_n: str) -> tuple[Check, ...]:
    return (
        Handles(code="PARAM_NULLPTR"),
        Null((*_INPUTS, *_OUTPUTS), code="PARAM_NULLPTR"),
        Empty(_BY_TOKEN, code="SUCCESS", note="an older source has no such way out"),
        Rank("x", ranks_of_x, note="[T, n, D] on ascend950 alone"),
        Rank("grad_hin", ("r-1",)),
        Rank("grad_h_post", ("r-1",)),
        Rank("grad_h_res", ("r", "r-1")),
        Rank("phi", ("2",)),
        Rank("alpha", ("1",)),
        Rank("bias", ("1",)),
        Rank("h_pre", ("r-1",)),
        Rank("hc_before_norm", ("r-1",)),
        Rank("inv_rms", ("r-1",)),
        Rank("sum_out", ("r",)),
        Rank("norm_out", ("r+1",)),
        Rank("grad_x", ("r",)),
        Rank("grad_phi", ("2",)),
        Rank("grad_alpha", ("1",)),
        Rank("grad_bias", ("1",)),
        Shape("grad_hin", ("*lead D",), when="r == 4"),
        Shape(
            "grad_hin",
            ("*lead dim(grad_hin,-1)",),
            when="r == 3",
            note="the last dimension is not compared in this layout",
        ),
        Shape("grad_h_post", ("*lead n",)),
        Shape("grad_h_res", ("*lead n n", "*lead n*n")),
        Shape("phi", ("f n*D",), note="any number of rows"),
        Shape("alpha", ("3",)),
        Shape("bias", ("f",)),
        Shape("h_pre", ("*lead n",)),
        Shape("hc_before_norm", ("*lead f",)),
        Shape("inv_rms", ("*lead 1",)),
        Shape("sum_out", ("k *lead n",)),
        Shape("norm_out", ("dim(norm_out,0) *lead n n",)),
        Shape("grad_x", ("*lead n D",)),
        Shape("grad_phi", ("f n*D",)),
        Shape("grad_alpha", ("3",)),
        Shape("grad_bias", ("f",)),
        Dtype((*_INPUTS, *_OUTPUTS), note="x is not compared with gradHin"),
        Format((*_INPUTS, *_OUTPUTS)),
        Rule(limit_of_n, "x"),
        *_LIMITS_OF_D,
    )


_OP_API_950 = _op_api(("3", "4"), "1 <= n <= 8")
_OP_API_A2 = _op_api(("4",), "n == 4")


def _tiling(limit_of_n: str, note: str) -> Tiling:
    return Tiling(
        checks=(
            Null((*_INPUTS, *_OUTPUTS)),
            Rank("x", ("4",)),
            Rule(limit_of_n, "x"),
            Shape("grad_hin", ("*lead D",)),
            Shape("grad_h_post", ("*lead n",)),
            Shape("grad_h_res", ("*lead n n", "*lead n*n")),
            Shape("phi", (f"{_F} n*D",)),
            Shape("alpha", ("3",)),
            Shape("bias", (_F,)),
            Shape("h_pre", ("*lead n",)),
            Shape("hc_before_norm", (f"*lead {_F}",)),
            Shape("inv_rms", ("*lead 1",)),
            Shape("sum_out", ("k *lead n",)),
            Rule("k % 2 == 0", "sum_out"),
            Shape("norm_out", ("k *lead n n",)),
            Rule("k // 2 == 20", "sum_out"),
            Shape("grad_x", ("*lead n D",)),
            Shape("grad_phi", (f"{_F} n*D",)),
            Shape("grad_alpha", ("3",)),
            Shape("grad_bias", (_F,)),
            *_LIMITS_OF_D,
        ),
        workspace="16*1024*1024 + 4*T*(n*n + 2*n + n*D)",
        workspace_rule="bound",
        bound="4*T*(n*n + 2*n + n*D)",
        note=note,
    )


_SYSTEM = "the system's share of the workspace is not published"
_TILING = _tiling(
    "n == 4", f"op_api and page allow n up to 8 on ascend950, tiling 4 alone; {_SYSTEM}"
)

MHC_PRE_SINKHORN_BACKWARD = OperatorSpec(
    name="MhcPreSinkhornBackward",
    doc="Gradients of MhcPreSinkhorn for x, phi, alpha and bias, from what the forward saved.",
    tensors=_TENSORS,
    attrs=_ATTRS,
    apis=(ApiSpec("aclnnMhcPreSinkhornBackward", (*_INPUTS, "eps", *_OUTPUTS)),),
    symbols={
        "r": "rank(x)",
        "n": "dim(x, -2)",
        "D": "dim(x, -1)",
        "f": "dim(phi, 0)",
        "k": "dim(sum_out, 0)",
    },
    lead=("x", 2),
    op_api={"ascend950": _OP_API_950, "ascend910b": _OP_API_A2, "ascend910_93": _OP_API_A2},
    infershape=InferShape(
        checks=(Null(("x", "phi", "alpha", "bias")), Rank("x", ("3", "4"))),
        outputs={
            "grad_x": (Form("*x"),),
            "grad_phi": (Form("*phi"),),
            "grad_alpha": (Form("*alpha"),),
            "grad_bias": (Form("*bias"),),
        },
        note="ours: nothing is published",
    ),
    tiling={"ascend950": _TILING, "ascend910b": _TILING, "ascend910_93": _TILING},
    limits={
        "ascend950": "n 1..8, in tiling 4; D 128..99968, a multiple of 128; numIters 20 (tiling)",
        "ascend910b": "x of 4 dimensions; n 4; D 128..99968, % 128; numIters 20 (tiling)",
        "ascend910_93": "x of 4 dimensions; n 4; D 128..99968, % 128; numIters 20 (tiling)",
    },
    unnamed_tiling=_tiling("1 <= n <= 8", f"unit tests pass n = 1, 2, 8 and refuse 9; {_SYSTEM}"),
)
