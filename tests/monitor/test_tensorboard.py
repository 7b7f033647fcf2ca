"""The numbers that go to TensorBoard, seen by a stand-in of its writer, and by itself if there."""

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
    with pytest.raises(UnsupportedError, match=r"'mhc-ops\[monitor\]', or leave the"):
        Monitor(model, tmp_path, tensorboard=True)
    with Monitor(model, tmp_path) as monitor:
        train(model, 1, monitor)
    assert len(read_run(tmp_path).steps) == 1


def test_event_file(model, tmp_path):
    """The package itself reads back what a line of the JSONL holds."""
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="an extra: [monitor]"
    )
    with Monitor(model, tmp_path, every=2) as monitor:
        train(model, 3, monitor)
    events = reader.EventAccumulator(str(tmp_path)).Reload()
    for step in read_run(tmp_path).steps:
        for layer in step.layers:
            for tag, want in (
                ("gain_backward", layer["gain_backward"]),
                ("h_pre_mean", layer["h_pre"]["mean"]),
                ("grad_alpha", layer["grad_norm"]["alpha"]),
            ):
                scalars = {e.step: e.value for e in events.Scalars(f"mhc/{tag}/{layer['name']}")}
                assert list(scalars) == [0, 2]
                assert scalars[step.step] == pytest.approx(want, rel=1e-6)
