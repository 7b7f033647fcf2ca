"""Monitor: what it writes is what the operators computed, and the model does not notice."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mhc_ops import ArgumentError, mhc_pre_forward
from mhc_ops.monitor import Monitor, read_run
from mhc_ops.nn import HyperConnection

from .conftest import DIM, STREAMS, Model, make_stack, randomized, train


def plain_layers(connections, sublayers, x):
    """The layers' (h_pre, h_post, h_res) by the bare operators, in the order of depth."""
    rows = []
    for connection, sublayer in zip(connections, sublayers, strict=True):
        pre = mhc_pre_forward(x, *connection.operator_parameters(x), **connection.pre_options)
        h_in, ctx = connection.pre(x)
        rows.append((pre.h_pre, pre.h_post, ctx.h_res))
        x = connection.post(sublayer(h_in), ctx)
    return rows


def assert_layer(layer, h_pre, h_post, h_res):
    """One record against its definition in float64; 8 significant digits are written."""

    def close(got, want):
        assert torch.allclose(torch.tensor(got).double(), want, rtol=1e-7, atol=1e-12)

    for name, gate in (("h_pre", h_pre.double()), ("h_post", h_post.double())):
        close(layer[name]["mean"], gate.mean())
        close(layer[name]["std"], gate.std(correction=0))
        close(layer[name]["min"], gate.min())
        close(layer[name]["max"], gate.max())
        close(layer[name]["streams"], gate.flatten(0, -2).mean(0))
    if h_res is None:
        assert layer["h_res"] == torch.eye(STREAMS).tolist()
        assert layer["defect_row"] == layer["defect_column"] == 0
        return
    maps = h_res.double().flatten(0, -3)
    close(layer["h_res"], maps.mean(0))
    close(layer["defect_row"], (maps.sum(2) - 1).abs().max())
    close(layer["defect_column"], (maps.sum(1) - 1).abs().max())


@pytest.mark.parametrize("kind", ["modules", "stack", "stack that rebuilds"])
def test_records_what_the_operators_give(kind, model, tmp_path):
    if kind != "modules":
        model = make_stack(2 if "rebuilds" in kind else 1, gamma=True)
    for module in model.modules():
        if isinstance(module, HyperConnection):
            module.dropout = 0.0
    x = torch.randn(3, 5, STREAMS, DIM)
    with torch.no_grad():
        wanted = plain_layers(model.connections, model.sublayers, x)
    upstream = torch.randn(3, 5, STREAMS, DIM)
    with Monitor(model, tmp_path, tensorboard=False) as monitor:
        (model(x) * upstream).mean().backward()
        monitor.step(loss=torch.tensor(0.25), other=3)
    (step,) = read_run(tmp_path).steps
    assert step.values == {"loss": 0.25, "other": 3.0}
    assert [layer["name"] for layer in step.layers] == [
        f"connections.{i}" for i in range(len(wanted))
    ]
    for layer, row, connection in zip(step.layers, wanted, model.connections, strict=True):
        assert layer["tokens"] == 15
        assert_layer(layer, *row)
        for name in ("phi", "alpha", "bias", "gamma"):
            norm = getattr(connection, name).grad.norm().item()
            assert layer["grad_norm"][name] == pytest.approx(norm, rel=1e-6)
            assert norm > 0
        assert layer["grad_norm"]["out_bias"] is None


@pytest.mark.parametrize("make", [Model, lambda: make_stack(1), lambda: make_stack(4)])
def test_the_model_computes_the_same_bits(make, tmp_path):
    torch.manual_seed(1)
    watched = randomized(make())
    alone = copy.deepcopy(watched)
    with Monitor(watched, tmp_path, every=2, tensorboard=False) as monitor:
        got = train(watched, 5, monitor)
    want = train(alone, 5)
    for g, w in zip((*got[0], *got[1]), (*want[0], *want[1]), strict=True):
        assert torch.equal(g, w)
    assert len(read_run(tmp_path).steps) == 3


def test_only_due_steps_are_watched(model, tmp_path):
    with Monitor(model, tmp_path, every=3, first_step=10, tensorboard=False) as monitor:
        due = []
        for _ in range(7):
            due.append(monitor.due)
            watched = [c.observer is not None for c in model.connections]
            assert watched == [monitor.due] * 3
            train(model, 1, monitor)
    assert due == [True, False, False, True, False, False, True]
    assert [s.step for s in read_run(tmp_path).steps] == [10, 13, 16]
    assert all(c.observer is None for c in model.connections)
    monitor.close()
    with pytest.raises(ArgumentError, match="is closed; make a new one"):
        monitor.step()


def test_calls_of_a_step_are_averaged_over_their_tokens(model, tmp_path):
    model.eval()
    a, b = torch.randn(2, STREAMS, DIM), torch.randn(5, STREAMS, DIM)
    for name, parts in (("apart", (a, b)), ("whole", (torch.cat((a, b)),))):
        with Monitor(model, tmp_path / name, evaluation=True, tensorboard=False) as monitor:
            for part in parts:
                model(part)
            monitor.step()
    apart, whole = (read_run(tmp_path / name).steps[0].layers for name in ("apart", "whole"))
    for one, other in zip(apart, whole, strict=True):
        assert one["tokens"] == other["tokens"] == 7
        # A few float32 roundings: impl="torch" may sum in another order for other token counts.
        for gate in ("h_pre", "h_post"):
            for key in ("mean", "std", "min", "max"):
                assert one[gate][key] == pytest.approx(other[gate][key], rel=1e-6)
        assert torch.allclose(torch.tensor(one["h_res"]), torch.tensor(other["h_res"]))
        assert one["defect_row"] == pytest.approx(other["defect_row"], abs=1e-6)


def test_checkpointing_changes_no_mean(tmp_path):
    stack, x = make_stack(1), torch.randn(6, STREAMS, DIM, requires_grad=True)
    for name in ("plain", "checkpoint"):
        with Monitor(stack, tmp_path / name, tensorboard=False) as monitor:
            out = stack(x) if name == "plain" else checkpoint(stack, x, use_reentrant=False)
            (out * torch.ones_like(out).cumsum(0)).mean().backward()
            monitor.step()
    plain, again = (read_run(tmp_path / n).steps[0].layers for n in ("plain", "checkpoint"))
    for one, other in zip(plain, again, strict=True):
        assert torch.allclose(torch.tensor(one["h_res"]), torch.tensor(other["h_res"]))
        assert one["h_post"]["mean"] == pytest.approx(other["h_post"]["mean"], rel=1e-7)


def test_eval_mode_is_left_out(model, tmp_path):
    with Monitor(model, tmp_path, tensorboard=False) as monitor:
        model.eval()
        model(torch.randn(9, STREAMS, DIM))
        with pytest.raises(ArgumentError, match="no hyper-connection ran in step 0"):
            monitor.step()
        model.train()
        model(torch.randn(4, STREAMS, DIM))
        monitor.step()
    assert [layer["tokens"] for layer in read_run(tmp_path).steps[0].layers] == [4, 4, 4]


# Dynamo looks at .grad of what a frame after a graph break is given, and hides the warning.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_compiled(model, tmp_path):
    compiled = torch.compile(model, backend="eager")
    with Monitor(model, tmp_path, every=2, tensorboard=False) as monitor:
        train(compiled, 3, monitor)
    steps = read_run(tmp_path).steps
    assert [s.step for s in steps] == [0, 2]
    assert [layer["tokens"] for layer in steps[1].layers] == [15, 15, 15]


def test_copies_of_a_watched_model_are_not_watched(model, tmp_path):
    with Monitor(model, tmp_path, tensorboard=False):
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert all(c.observer is None for c in other.connections)
            other(torch.randn(2, STREAMS, DIM))
        assert all(c.observer is not None for c in model.connections)


def test_nan_is_recorded(model, tmp_path):
    with Monitor(model, tmp_path, tensorboard=False) as monitor:
        x = torch.randn(4, STREAMS, DIM)
        x[1] = float("nan")
        model(x)
        monitor.step(loss=float("inf"))
    (step,) = read_run(tmp_path).steps
    assert step.values["loss"] == float("inf")
    assert step.layers[0]["h_pre"]["mean"] != step.layers[0]["h_pre"]["mean"]
    assert step.layers[0]["gain_forward"] != step.layers[0]["gain_forward"]


def test_errors(model, tmp_path):
    with pytest.raises(ArgumentError, match=r"must contain a .*HyperConnection, got a Linear"):
        Monitor(nn.Linear(2, 2), tmp_path)
    for name in ("every", "first_step"):
        with pytest.raises(ArgumentError, match=f"{name} must be an integer >= [01], got -1"):
            Monitor(model, tmp_path, **{name: -1})
    mixed = nn.ModuleList([HyperConnection(4, 2), HyperConnection(4, 3)])
    with pytest.raises(ArgumentError, match=r"same number of streams to be composed, got \[2, 3\]"):
        Monitor(mixed, tmp_path)
    with Monitor(model, tmp_path, tensorboard=False) as monitor:
        with pytest.raises(ArgumentError, match=r"layer connections\.0 is watched already"):
            Monitor(model, tmp_path)
        model(torch.randn(2, STREAMS, DIM))
        with pytest.raises(ArgumentError, match="loss must be a number or a tensor of one element"):
            monitor.step(loss=torch.ones(2))
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match="Monitor: cannot write"):
        Monitor(model, tmp_path / "file")
