"""Known mistakes, each as the outputs it would have given: the equations with the mistake made.

A mistake takes a Case and returns the outputs that it changes, in float64, by name; or None where
the case cannot show it (no gamma, say). Mistakes of rounding and of writing stand in patterns.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..truth import TRUTHS, gates

Outputs = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """What was to be computed; `truth` is the right result in float64."""

    op: str
    inputs: Mapping[str, Tensor | None]
    attrs: Mapping[str, Any]
    truth: Mapping[str, Tensor]

    def again(self, inputs: Mapping[str, Any] | None = None, **attrs: Any) -> Outputs:
        """The equations on changed inputs and attributes."""
        return TRUTHS[self.op]({**self.inputs, **(inputs or {})}, {**self.attrs, **attrs})

    def tensor(self, name: str) -> Tensor | None:
        """An input in float64."""
        tensor = self.inputs.get(name)
        return None if tensor is None else tensor.double()

    def given(self, name: str) -> Tensor:
        """An input that the operator requires, in float64."""
        tensor = self.tensor(name)
        assert tensor is not None
        return tensor


class Mistake(NamedTuple):
    """A mistake by name, where to look, the operators that can make it, and how it is made."""

    name: str
    advice: str
    ops: tuple[str, ...]
    make: Callable[[Case], Outputs | None]


def _square(tensor: Tensor) -> tuple[Tensor, bool]:
    """A map as [.., n, n], and whether it came as [.., n*n]."""
    if tensor.dim() > 2 and tensor.shape[-1] == tensor.shape[-2]:
        return tensor, False
    n = round(tensor.shape[-1] ** 0.5)
    return tensor.unflatten(-1, (n, n)), True


def _transpose(tensor: Tensor) -> Tensor:
    square, flat = _square(tensor)
    return square.mT.flatten(-2) if flat else square.mT


def _is_map(case: Case, tensor: Tensor) -> bool:
    """Whether it is [.., n, n] or, where the operator has that form, [.., n*n]; not [.., n!]."""
    if tensor.dim() > 2 and tensor.shape[-1] == tensor.shape[-2]:
        return True
    n = case.given("x").shape[-2] if case.op.startswith("MhcPreSinkhorn") else 0
    return tensor.shape[-1] == n * n


def _turned(name: str) -> Callable[[Case], Outputs | None]:
    """The equations on a transposed input."""

    def make(case: Case) -> Outputs | None:
        given = case.tensor(name)
        if given is None or not _is_map(case, given):
            return None
        return case.again({name: _transpose(given)})

    return make


def _turned_result(name: str) -> Callable[[Case], Outputs | None]:
    """The right output, transposed."""

    def make(case: Case) -> Outputs | None:
        right = case.truth.get(name)
        return {name: _transpose(right)} if right is not None and _is_map(case, right) else None

    return make


def _without(name: str) -> Callable[[Case], Outputs | None]:
    """The equations without an optional input."""
    return lambda case: None if case.tensor(name) is None else case.again({name: None})


def _with(**attrs: Any) -> Callable[[Case], Outputs | None]:
    return lambda case: case.again(**attrs)


def _only(names: tuple[str, ...], make: Callable[[Case], Outputs | None]) -> Any:
    """A mistake that reaches some outputs alone."""

    def some(case: Case) -> Outputs | None:
        wrong = make(case)
        return wrong and {name: wrong[name] for name in names if name in wrong}

    return some


def _other_mode(mode: int) -> Callable[[Case], Outputs | None]:
    """The equations in precision `mode`, where the case asks for the other one."""

    def make(case: Case) -> Outputs | None:
        asked = case.attrs.get("op_impl_mode", 0)
        return None if asked == mode else case.again(op_impl_mode=mode)

    return make


def _alpha(first: int, second: int) -> Callable[[Case], Outputs | None]:
    def make(case: Case) -> Outputs | None:
        alpha = case.given("alpha").clone()
        if len(alpha) <= second:
            return None
        alpha[[first, second]] = alpha[[second, first]]
        return case.again({"alpha": alpha})

    return make


def _columns_by_feature(case: Case) -> Outputs:
    n, d = case.given("x").shape[-2:]
    return case.again({"phi": case.given("phi").unflatten(-1, (d, n)).mT.flatten(-2)})


def _rms_of_scaled_x(case: Case) -> Outputs | None:
    gamma, x = case.tensor("gamma"), case.given("x")
    if gamma is None:
        return None
    mean = (x * gamma).square().mean((-2, -1))
    inv_rms = (mean + case.attrs["norm_eps"]) ** -0.5
    return gates(case.inputs, case.attrs, case.truth["h_mix"], inv_rms)


def _rms_as_sum(case: Case) -> Outputs:
    x = case.given("x")
    inv_rms = (x.square().sum((-2, -1)) + case.attrs["norm_eps"]) ** -0.5
    return gates(case.inputs, case.attrs, case.truth["h_mix"], inv_rms)


def _eps_in_h_post(case: Case) -> Outputs:
    """hc_eps where the form has none, or none where the form without residual part has it."""
    sign = 1 if len(case.given("alpha")) == 3 else -1
    return {"h_post": case.truth["h_post"] + sign * case.attrs["hc_eps"]}


def _change(name: str, change: Callable[[Case, Tensor], Tensor]) -> Any:
    """One output, changed; None where the case does not hold it."""

    def make(case: Case) -> Outputs | None:
        right = case.truth.get(name)
        return None if right is None else {name: change(case, right)}

    return make


def _normalised(case: Case, right: Tensor) -> Tensor:
    scaled: Tensor = right * case.truth["inv_rms"].reshape(*right.shape[:-1], 1)
    return scaled


def _with_rms_term(change: Callable[[Case, Tensor], Tensor | None]) -> Any:
    """gradX with another RMS term: what h_mix adds to it, changed."""

    def make(case: Case) -> Outputs | None:
        name = "hc_before_norm" if case.op == "MhcPreSinkhornBackward" else "h_mix"
        if name == "hc_before_norm":
            return None  # there h_mix gives the gates, too
        without = case.again({name: torch.zeros_like(case.given(name))})["grad_x"]
        term = change(case, case.truth["grad_x"] - without)
        return None if term is None else {"grad_x": without + term}

    return make


def _term_times_gamma(case: Case, term: Tensor) -> Tensor | None:
    gamma = case.tensor("gamma")
    return None if gamma is None else term * gamma


def _without_grad_x_post(case: Case) -> Outputs | None:
    post = case.tensor("grad_x_post")
    return None if post is None else {"grad_x": case.truth["grad_x"] - post}


def _slope_without_half(case: Case) -> Outputs:
    """h_post*(1 - h_post): what the right slope h*(1 - h/2) gives at another h."""
    h = case.given("h_post")
    return case.again({"h_post": 1 - (1 - 2 * h * (1 - h)).sqrt()})


def _exchanged_axes(case: Case) -> Outputs:
    return {"y": case.again({"h_res": case.given("h_res").mT})["y"].mT}


def _one_row_step_more(case: Case, right: Tensor) -> Tensor:
    square, flat = _square(right)
    eps = case.attrs["eps" if "eps" in case.attrs else "hc_eps"]
    wrong: Tensor = square / (square.sum(-1, keepdim=True) + eps)
    return wrong.flatten(-2) if flat else wrong


def _iterations(more: int) -> Callable[[Case], Outputs | None]:
    name_of = {"MhcSinkhorn": ("y",), "MhcPreSinkhorn": ("h_res",)}

    def make(case: Case) -> Outputs | None:
        count = int(case.attrs["num_iters"]) + more
        wrong = case.again(num_iters=count) if count > 0 else {}
        return {name: wrong[name] for name in name_of[case.op] if name in wrong} or None

    return make


_PRE, _BACK = ("MhcPre", "MhcPreSinkhorn"), ("MhcPreBackward", "MhcPreSinkhornBackward")
_FORWARD, _BACKWARD = _PRE[:1], _BACK[:1]
_POST, _POST_BACK = ("MhcPost",), ("MhcPostBackward",)
_SINKHORN, _SINKHORN_BACK = ("MhcSinkhorn",), ("MhcSinkhornBackward",)
_FROM_TO = "the first index of h_res is the stream read, the second the stream written"
_TRANSPOSED = "transposed h_res"
_WHOLE = ("MhcSinkhorn", "MhcPreSinkhorn")

MISTAKES = (
    Mistake(_TRANSPOSED, _FROM_TO, (*_PRE,), _turned_result("h_res")),
    Mistake(_TRANSPOSED, _FROM_TO, (*_POST, *_POST_BACK), _turned("h_res")),
    Mistake("transposed grad_h_res", _FROM_TO, _BACK, _turned("grad_h_res")),
    Mistake("transposed grad_h_res", _FROM_TO, _POST_BACK, _turned_result("grad_h_res")),
    Mistake(_TRANSPOSED, _FROM_TO, _SINKHORN, _turned_result("y")),
    Mistake("transposed gradient", _FROM_TO, _SINKHORN_BACK, _turned("grad_y")),
    Mistake("transposed gradient", _FROM_TO, _SINKHORN_BACK, _turned_result("grad_input")),
    Mistake(
        "missing hc_eps",
        "h_pre is a sigmoid plus hc_eps",
        _FORWARD,
        _with(hc_eps=0.0),
    ),
    Mistake(
        "missing hc_eps",
        "h_pre is a sigmoid plus hc_eps",
        _PRE[1:],
        _only(("hin", "h_pre"), _with(hc_eps=0.0)),
    ),
    Mistake(
        "missing hc_eps",
        "the slope of the gate is s*(1 - s) with s = h_pre - hc_eps",
        _BACK,
        _with(hc_eps=0.0),
    ),
    Mistake(
        "missing eps in Sinkhorn",
        "eps is added to every softmax entry once and to every sum",
        _SINKHORN,
        _with(eps=0.0),
    ),
    Mistake(
        "missing eps in Sinkhorn",
        "eps is added to every softmax entry once and to every sum",
        _PRE[1:],
        _only(("h_res",), _with(hc_eps=0.0)),
    ),
    Mistake(
        "hc_eps in h_post",
        "h_post is 2*sigmoid, plus hc_eps only where alpha has two entries",
        _FORWARD,
        _eps_in_h_post,
    ),
    Mistake(
        "missing norm_eps",
        "norm_eps is added to the mean square, inside the root",
        _PRE,
        _with(norm_eps=0.0),
    ),
    Mistake(
        "RMS of gamma*x",
        "inv_rms comes from raw x, gamma is not involved",
        _FORWARD,
        _rms_of_scaled_x,
    ),
    Mistake(
        "RMS from the sum of squares",
        "inv_rms comes from the mean over streams and features",
        _FORWARD,
        _rms_as_sum,
    ),
    Mistake(
        "RMS term with gamma*x",
        "the RMS term of grad_x multiplies raw x",
        _BACKWARD,
        _with_rms_term(_term_times_gamma),
    ),
    Mistake(
        "missing RMS term",
        "grad_x lacks - dInv*inv_rms^3/(n*D)*x",
        _BACKWARD,
        _with_rms_term(lambda case, term: torch.zeros_like(term)),
    ),
    Mistake(
        "RMS term without 1/(n*D)",
        "the RMS term of grad_x is dInv*inv_rms^3/(n*D)*x",
        _BACKWARD,
        _with_rms_term(lambda case, term: term * case.given("x").shape[-2:].numel()),
    ),
    Mistake(
        "gamma ignored",
        "the projection reads gamma*x",
        (*_FORWARD, *_BACKWARD),
        _without("gamma"),
    ),
    Mistake(
        "grad_x_post not added",
        "the gradient of x from post is added to grad_x",
        _BACKWARD,
        _without_grad_x_post,
    ),
    Mistake(
        "slope of h_post without the half",
        "h_post = 2*sigmoid has the slope h_post*(1 - h_post/2)",
        _BACKWARD,
        _slope_without_half,
    ),
    Mistake(
        "grad_alpha times alpha",
        "grad_alpha sums over h_mix*inv_rms, before alpha is applied",
        _BACK,
        _change("grad_alpha", lambda case, right: right * case.given("alpha")),
    ),
    *(
        Mistake(
            f"alpha[{first}] and alpha[{second}] exchanged",
            "alpha holds the factors of pre, post, res in this order",
            (*_PRE, *_BACK),
            _alpha(first, second),
        )
        for first, second in ((0, 1), (0, 2), (1, 2))
    ),
    Mistake(
        "hf32 instead of fp32",
        "op_impl_mode is 0: no operand of a matmul is rounded",
        (*_PRE, *_BACK),
        _other_mode(1),
    ),
    Mistake(
        "fp32 instead of hf32",
        "op_impl_mode is 1: the matmuls' operands are rounded to 10 fraction bits",
        (*_FORWARD, *_BACKWARD),
        _other_mode(0),
    ),
    Mistake(
        "phi with the feature before the stream",
        "column i*D + d of phi belongs to stream i, feature d",
        (*_PRE, *_BACK),
        _columns_by_feature,
    ),
    Mistake(
        "normalised h_mix",
        "h_mix is saved before inv_rms scales it",
        _FORWARD,
        _change("h_mix", _normalised),
    ),
    Mistake(
        "normalised h_mix",
        "hc_before_norm is saved before inv_rms scales it",
        _PRE[1:],
        _change("hc_before_norm", _normalised),
    ),
    Mistake(
        "h_in of normalised x",
        "h_in mixes raw x",
        _PRE,
        _change("hin", _normalised),
    ),
    Mistake(
        "h_post without the factor 2",
        "h_post is 2*sigmoid",
        _PRE,
        _change("h_post", lambda case, right: right / 2),
    ),
    Mistake(
        "sigmoid on h_res",
        "h_res holds logits, neither sigmoid nor Sinkhorn is applied",
        _FORWARD,
        _change("h_res", lambda case, right: right.sigmoid()),
    ),
    Mistake(
        "h_res ignored", "the streams are mixed by h_res", (*_POST, *_POST_BACK), _without("h_res")
    ),
    Mistake(
        "missing h_post*h_out",
        "y adds h_post[to]*h_out to the mixed streams",
        _POST,
        lambda case: case.again({"h_post": torch.zeros_like(case.given("h_post"))}),
    ),
    Mistake(
        "rows and columns of Sinkhorn exchanged",
        "the softmax and each first step go over the last index, each second over the one before",
        _SINKHORN,
        _exchanged_axes,
    ),
    Mistake(
        "Sinkhorn ends with rows",
        "the last step normalises columns, sums over the first index",
        _SINKHORN,
        _change("y", _one_row_step_more),
    ),
    Mistake(
        "Sinkhorn ends with rows",
        "the last step normalises columns, sums over the first index",
        _PRE[1:],
        _change("h_res", _one_row_step_more),
    ),
    Mistake("one Sinkhorn iteration too few", "see num_iters", _WHOLE, _iterations(-1)),
    Mistake("one Sinkhorn iteration too many", "see num_iters", _WHOLE, _iterations(1)),
)
"""All known mistakes that the equations can be made to make."""
