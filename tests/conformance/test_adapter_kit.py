"""pytest --pyargs mhc_ops.conformance, as an adopter runs it: from elsewhere, with an adapter."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mhc_ops.conformance.adapters import Ours, Wanted, load_adapter
from mhc_ops.conformance.packaged import packaged_cases
from mhc_ops.errors import ArgumentError

FAMILY = Path(__file__).parent / "mhc_family_cases.json"

ADAPTERS = '''
import torch
from mhc_ops.conformance.adapters import Ours
from mhc_ops.errors import UnsupportedError

class Turned(Ours):
    """Reads h_res the wrong way round."""
    def run(self, op, inputs, attrs, outputs):
        return super().run(op, {**inputs, "h_res": inputs["h_res"].mT.contiguous()}, attrs, outputs)

class Restless(Ours):
    """Other bits in every run."""
    count = 0
    def run(self, op, inputs, attrs, outputs):
        Restless.count += 1
        results = super().run(op, inputs, attrs, outputs)
        results["y"].view(-1)[0] = torch.nextafter(
            results["y"].view(-1)[0], torch.tensor(100.0 * (-1) ** Restless.count).to(results["y"])
        )
        return results

class Reusing(Restless):
    """The same, always into the same memory."""
    y = {}
    def run(self, op, inputs, attrs, outputs):
        y = super().run(op, inputs, attrs, outputs)["y"]
        return {"y": Reusing.y.setdefault(y.shape, torch.empty_like(y)).copy_(y)}

class Wordless:
    def run(self, op, inputs, attrs, outputs):
        return None

class Listing:
    def run(self, op, inputs, attrs, outputs):
        return {"y": [1, 2]}

class Forgetful(Ours):
    """Leaves an output out."""
    def run(self, op, inputs, attrs, outputs):
        return {}

class Careless(Ours):
    """Changes an input."""
    def run(self, op, inputs, attrs, outputs):
        inputs["x"].zero_()
        return super().run(op, inputs, attrs, outputs)

class Unable:
    def run(self, op, inputs, attrs, outputs):
        raise UnsupportedError("not on this chip")

class Broken:
    def run(self, op, inputs, attrs, outputs):
        raise RuntimeError("device lost")

class Nothing:
    pass
'''


ONE = "MhcPost-T4-n4-D1024-bfloat16"
OPTIONS = ("-p", "mhc_ops.conformance.options")
RUNS = {
    "ours": ("", "MhcPost-T or MhcSinkhorn-T", ()),
    **{name: (f"mine:{name}", ONE, ()) for name in re.findall(r"class (\w+)", ADAPTERS)},
    "Missing": ("mine:Missing", ONE, ()),
    "nowhere": ("nowhere:Missing", ONE, ()),
    "options": (
        "",
        "values and post",
        (*OPTIONS, "--mhc-adapter", "mine:Unable", "--mhc-cases", str(FAMILY)),
    ),
    "no cases": ("", ONE, (*OPTIONS, "--mhc-cases", "nowhere.json")),
}
"""Runs of the kit: MHC_OPS_ADAPTER, pytest's -k, further arguments."""

DRIVER = """
import contextlib, io, json, os, sys
import pytest

found = {}
for name, (adapter, only, more) in json.load(sys.stdin).items():
    os.environ["MHC_OPS_ADAPTER"] = adapter
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        arguments = [*more, "--pyargs", "mhc_ops.conformance", "-q", "-k", only, "-rs"]
        status = int(pytest.main([*arguments, "-p", "no:cacheprovider"]))
    found[name] = status, told.getvalue()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    """What each of RUNS told, (exit status, text), from one process in an empty folder."""
    return run_kit(tmp_path_factory.mktemp("elsewhere"), RUNS).__getitem__


def run_kit(folder, runs):
    (folder / "mine.py").write_text(ADAPTERS)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), *sys.path))}
    env.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(runs),
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_this_library_passes_its_packaged_cases(kit):
    status, told = kit("ours")
    assert status == 0, told
    assert " passed" in told
    assert "skipped" not in told


@pytest.mark.long
def test_this_library_passes_every_packaged_case(tmp_path):
    status, told = run_kit(tmp_path, {"all": ("", "test", ())})["all"]
    assert status == 0, told
    assert f"{2 * len(packaged_cases())} passed" in told


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ("Turned", f"{ONE}: transposed h_res"),
        ("Restless", "y differs between two runs in 1 places"),
        ("Reusing", "y differs between two runs in 1 places"),
        ("Wordless", "run must return outputs by name, got NoneType"),
        ("Listing", "y must be a tensor, got list"),
        ("Forgetful", "y is missing"),
        ("Careless", "x, an input, was changed"),
        ("Broken", "device lost"),
    ],
)
def test_an_adapter_that_is_wrong_fails(kit, adapter, words):
    status, told = kit(adapter)
    assert status == 1, told
    assert words in told


def test_what_an_adapter_cannot_do_is_skipped_with_its_text(kit):
    status, told = kit("Unable")
    assert status == 0
    assert "2 skipped" in told
    assert "not on this chip" in told


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ("Missing", "expected MODULE:CLASS that can be imported"),
        ("nowhere", "expected MODULE:CLASS that can be imported"),
        ("Nothing", "has no method run"),
    ],
)
def test_an_adapter_that_cannot_be_loaded_ends_the_run(kit, adapter, words):
    status, told = kit(adapter)
    assert status not in (0, 1), told
    assert words in told
    assert " passed" not in told


def test_options_in_place_of_variables(kit):
    status, told = kit("options")
    assert status == 0, told
    assert "not on this chip" in told
    assert "mhc-ops conform has it" in told
    status, told = kit("no cases")
    assert status not in (0, 1), told
    assert "nowhere.json: cannot be read" in told


def test_names_say_what_a_case_holds():
    cases = packaged_cases()
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    without = next(c for c in cases if c.name.endswith("without-gamma-grad_x_post-bfloat16"))
    assert without.inputs["gamma"] is None
    assert without.inputs["grad_x_post"] is None


def test_adapters_by_name():
    assert isinstance(load_adapter(""), Ours)
    assert isinstance(load_adapter("mhc_ops.conformance.adapters:Ours"), Ours)
    with pytest.raises(ArgumentError, match="has no method run"):
        load_adapter("builtins:int")
    with pytest.raises(ArgumentError, match="MODULE:CLASS"):
        load_adapter("mhc_ops")
    with pytest.raises(ArgumentError, match="cannot be made without arguments: TypeError"):
        load_adapter("builtins:memoryview")
    assert Wanted._fields == ("dtype", "shape")
