"""The same numbers for TensorBoard, where it is installed."""

from typing import Any

from ..errors import UnsupportedError


def writer_class(wanted: bool | None) -> Any:
    """SummaryWriter; None where it is not wanted, or not asked for and absent.

    Raises UnsupportedError where it is asked for (`wanted` True) and the package is absent.
    """
    if wanted is False:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        if wanted is None:
            return None
        raise UnsupportedError(
            "Monitor: tensorboard=True needs the package tensorboard; install it with: "
            "pip install 'mhc-ops[monitor]', or leave the argument out for the JSONL alone."
        ) from None
    return SummaryWriter


def write_scalars(writer: Any, record: dict[str, Any]) -> None:
    """Every number of one step's record, under mhc/<what>/<layer>."""
    step = record["step"]
    for name, value in record["values"].items():
        writer.add_scalar(name, value, step)
    for layer in record["layers"]:
        for what, value in _numbers(layer):
            writer.add_scalar(f"mhc/{what}/{layer['name']}", value, step)
    writer.flush()


def _numbers(layer: dict[str, Any]) -> list[tuple[str, float]]:
    flat = {k: v for k, v in layer.items() if k.startswith(("gain_", "single_", "defect_"))}
    for gate in ("h_pre", "h_post"):
        flat |= {f"{gate}_{k}": v for k, v in layer[gate].items() if k != "streams"}
    flat |= {f"grad_{k}": v for k, v in layer["grad_norm"].items() if v is not None}
    return list(flat.items())
