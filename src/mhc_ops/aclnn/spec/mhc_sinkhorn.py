"""The table of MhcSinkhorn."""

from __future__ import annotations

from .language import (
    SINGLE,
    AllOrNone,
    ApiSpec,
    AttrSpec,
    Dtype,
    Empty,
    Form,
    Format,
    Handles,
    InferShape,
    InRange,
    Null,
    OneOf,
    OperatorSpec,
    Rank,
    Rule,
    SameFormat,
    Shape,
    TensorSpec,
    Tiling,
)

_NORM, _SUM = "2*num_iters*T*n*8", "2*num_iters*T*8"
_TENSORS = (
    TensorSpec("h_res", "x", "input", SINGLE, "*lead n n", "residual logits [from, to]"),
    TensorSpec("y", "output", "output", SINGLE, "*lead n n", "mixing weights [from, to]"),
    TensorSpec(
        "norm_out",
        "normOut",
        "output",
        SINGLE,
        _NORM,
        "saved for backward: 2*num_iters matrices a token, columns padded to 8",
        True,
    ),
    TensorSpec(
        "sum_out",
        "sumOut",
        "output",
        SINGLE,
        _SUM,
        "saved for backward: 2*num_iters vectors a token, padded to 8",
        True,
    ),
)
_SAVED = ("norm_out", "sum_out")

_ATTRS = (
    AttrSpec("eps", "eps", "float", 1e-6, "added to each softmax entry and to each sum"),
    AttrSpec("num_iters", "numIters", "int64_t", 20, "normalisations of the columns"),
    AttrSpec("out_flag", "", "int64_t", 0, "1 when the saved tensors are wanted"),
)
_SIZES = (
    InRange("num_iters", 1, 100),
    Rank("h_res", ("3", "4")),
    Rule("n in (4, 6, 8)", "h_res"),
    Shape("h_res", ("*lead n n",)),
)

MHC_SINKHORN = OperatorSpec(
    name="MhcSinkhorn",
    doc="Make residual logits doubly stochastic: a softmax, then columns and rows in turn.",
    tensors=_TENSORS,
    attrs=_ATTRS,
    apis=(ApiSpec("aclnnMhcSinkhorn", ("h_res", "eps", "num_iters", "y", *_SAVED)),),
    symbols={
        "r": "rank(h_res)",
        "n": "dim(h_res, -1)",
        "saved": "given(norm_out) and size(norm_out) != 1",
    },
    lead=("h_res", 2),
    op_api={
        "ascend950": (
            AllOrNone(_SAVED, 1),
            Handles(code="PARAM_NULLPTR"),
            Null(("h_res", "y"), code="PARAM_NULLPTR"),
            Dtype(("h_res", "y")),
            Dtype(_SAVED, when="saved"),
            Shape("y", ("*h_res",)),
            *_SIZES,
            Shape(
                "norm_out",
                (_NORM,),
                when="saved",
                note="pages and an older unit test show [2*num_iters, n, 8, T]; the newest source "
                "takes one dimension alone",
            ),
            Shape("sum_out", (_SUM,), when="saved"),
            SameFormat(("h_res", "y")),
            Format(("h_res", "y")),
            Empty(("h_res",)),
        )
    },
    infershape=InferShape(
        checks=(Null(("h_res",)), Rank("h_res", ("3", "4"))),
        outputs={
            "y": (Form("*h_res"),),
            "norm_out": (Form(_NORM, when="out_flag == 1"), Form("0")),
            "sum_out": (Form(_SUM, when="out_flag == 1"), Form("0")),
        },
        note="sizes of the saved tensors are ours; nothing is published about them here",
    ),
    tiling={
        "ascend950": Tiling(
            checks=(
                Null(("h_res", "y")),
                *_SIZES,
                Shape("y", ("*h_res",)),
                OneOf("out_flag", (0, 1)),
            ),
            key="out_flag",
            workspace="0",
            workspace_rule="exact",
        )
    },
    limits={"ascend950": "n 4, 6 or 8; numIters 1..100"},
)
