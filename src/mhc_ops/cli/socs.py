"""Which Ascend chips would accept the tensors of a call: the checks of aclnn and of tiling."""

from typing import Any, NamedTuple

from torch import Tensor

from .. import aclnn
from ..aclnn.spec import OPERATORS, SOCS
from ..testing import PreInputs
from ..types import MhcPreBackward, MhcPreForward


class Acceptance(NamedTuple):
    """What a chip says to an operator; `refusal` is empty where it accepts."""

    soc: str
    op: str
    accepts: bool
    refusal: str


def accepting_socs(
    inputs: PreInputs, forward: MhcPreForward, backward: MhcPreBackward, precision: str
) -> list[Acceptance]:
    """The answer of every known chip; the calls are prepared, not run."""
    attrs = {"op_impl_mode": int(precision == "hf32")}
    pre = (inputs.x, inputs.phi, inputs.alpha, inputs.bias, inputs.gamma)
    pre_inputs = dict(zip(("x", "phi", "alpha", "bias", "gamma"), pre, strict=True))
    saved = {name: getattr(forward, name) for name in ("inv_rms", "h_mix", "h_pre", "h_post")}
    back_inputs = {**inputs._asdict(), **saved}
    del back_inputs["bias"]
    pre_outputs = forward._asdict()
    pre_outputs["hin"] = pre_outputs.pop("h_in")  # the operator definition's spelling
    calls = (
        ("MhcPre", pre_inputs, pre_outputs),
        ("MhcPreBackward", back_inputs, backward._asdict()),
    )
    answers = []
    for soc in SOCS:
        for op, given, results in calls:
            refusal = _refusal(op, given, results, attrs, soc)
            answers.append(Acceptance(soc, op, not refusal, refusal))
    return answers


def _refusal(
    op: str,
    inputs: dict[str, Tensor | None],
    outputs: dict[str, Tensor | None],
    attrs: dict[str, Any],
    soc: str,
) -> str:
    """The first check that fails, or nothing."""
    spec = OPERATORS[op]
    values: dict[str, Any] = {attr.name: attr.default for attr in spec.attrs}
    values.update(attrs)
    for name, tensor in {**inputs, **outputs}.items():
        found = spec.tensor(name)
        assert found is not None
        values[found.name] = None if tensor is None else aclnn.from_torch(tensor)
    api = spec.apis[-1]
    with aclnn.soc(soc):
        first = getattr(aclnn, f"{api.name}GetWorkspaceSize")
        status, *_ = first(*(values[parameter] for parameter in api.parameters))
        if status != aclnn.ACLNN_SUCCESS:
            return f"{status}, {aclnn.aclGetRecentErrMsg()}"
    return aclnn.tiling(op, inputs, outputs, attrs, soc).message
