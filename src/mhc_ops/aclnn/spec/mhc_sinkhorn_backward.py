"""The table of MhcSinkhornBackward."""

from __future__ import annotations

from .language import (
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
    Positive,
    Rank,
    Rule,
    Shape,
    TensorSpec,
    Tiling,
)

_NORM, _SUM = "2*num_iters*T*n*8", "2*num_iters*T*8"
_TENSORS = (
    TensorSpec("grad_y", "gradOutput", "input", SINGLE, "*lead n n", "gradient of output"),
    TensorSpec("norm", "normOut", "input", SINGLE, _NORM, "saved by MhcSinkhorn"),
    TensorSpec("sum", "sumOut", "input", SINGLE, _SUM, "saved by MhcSinkhorn"),
    TensorSpec("grad_input", "out", "output", SINGLE, "*lead n n", "gradient of the logits"),
)
_ALL = tuple(t.name for t in _TENSORS)
_SQUARE = (
    Rank("grad_y", ("3", "4")),
    Shape("grad_y", ("*lead n n",)),
    Rule("n in (4, 6, 8)", "grad_y"),
)

MHC_SINKHORN_BACKWARD = OperatorSpec(
    name="MhcSinkhornBackward",
    doc="Gradient of MhcSinkhorn for its logits, from the matrices and sums that it saved.",
    tensors=_TENSORS,
    attrs=(),
    apis=(ApiSpec("aclnnMhcSinkhornBackward", _ALL),),
    symbols={
        "r": "rank(grad_y)",
        "n": "dim(grad_y, -1)",
        "num_iters": "size(norm) // (2*T*n*8)",
    },
    lead=("grad_y", 2),
    op_api={
        "ascend950": (
            Handles(code="PARAM_NULLPTR"),
            Null(_ALL, code="PARAM_NULLPTR"),
            Dtype(_ALL),
            Shape("grad_input", ("*grad_y",)),
            *_SQUARE,
            Format(_ALL),
            Empty(("grad_y",), code="SUCCESS", note="the page says that empty is unsupported"),
        )
    },
    infershape=InferShape(
        checks=(Null(("grad_y",)), Rank("grad_y", ("3", "4"))),
        outputs={"grad_input": (Form("*grad_y"),)},
    ),
    tiling={
        "ascend950": Tiling(
            checks=(
                Null(_ALL),
                Rank("norm", ("1",)),
                Rank("sum", ("1",)),
                *_SQUARE,
                Positive(("grad_y",)),
                Rule("size(norm) % 2 == 0", "norm"),
                Rule("1 <= num_iters <= 100", "norm"),
                Shape("norm", (_NORM,)),
                Shape("sum", (_SUM,)),
                Shape("grad_input", ("*grad_y",)),
            ),
            key="0",
            workspace="0",
            workspace_rule="exact",
            note="the unit tests have key 0, the source answers 1",
        )
    },
    limits={"ascend950": "n 4, 6 or 8; sizes of normOut and sumOut are tiling's"},
)
