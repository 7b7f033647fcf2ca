"""The numbers that go to TensorBoard, seen by a stand-in of its writer, and by itself if there."""

import importlib.util
import sys
from types import ModuleType

import pytest

from mhc_ops import UnsupportedError
from mhc_ops.monitor import Monitor, read_run

from .conftest import train


class StandIn:
    """SummaryWriter as far as Monitor uses it."""

    made: "list[StandIn]"

    def __init__(self, log_dir):
        self.log_dir, self.scalars, self.closed = log_dir, {}, False
        StandIn.made.append(self)

    def add_scalar(self, tag, value, step):
        self.scalars[tag, step] = value

    def flush(self):
        pass

    def close(self):
        self.closed = True


def test_scalars(model, tmp_path, monkeypatch):
    StandIn.made = []
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = StandIn
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    with Monitor(model, tmp_path) as monitor:
        train(model, 2, monitor)
    (writer,) = StandIn.made
    assert writer.log_dir == str(tmp_path)
    assert writer.closed
    for step in read_run(tmp_path).steps:
        got = writer.scalars["loss", step.step]
        assert got == pytest.approx(step.values["loss"], rel=1e-7)
        for layer in step.layers:
            for tag, want in (
                ("gain_forward", layer["gain_forward"]),
                ("single_backward", layer["single_backward"]),
                ("defect_row", layer["defect_row"]),
                ("h_post_std", layer["h_post"]["std"]),
                ("grad_phi", layer["grad_norm"]["phi"]),
            ):
                got = writer.scalars[f"mhc/{tag}/{layer['name']}", step.step]
                assert got == pytest.approx(want, rel=1e-7)


def test_absent(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UnsupportedError, match="pip install tensorboard, or leave the argument"):
        Monitor(model, tmp_path, tensorboard=True)
    with Monitor(model, tmp_path) as monitor:
        train(model, 1, monitor)
    assert len(read_run(tmp_path).steps) == 1


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="the package tensorboard is not here"
)
def test_event_file(model, tmp_path):
    with Monitor(model, tmp_path, tensorboard=True) as monitor:
        train(model, 1, monitor)
    assert list(tmp_path.glob("events.out.tfevents*"))
