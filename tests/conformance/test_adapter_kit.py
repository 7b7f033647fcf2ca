"""pytest --pyargs mhc_ops.conformance, as an adopter runs it: from elsewhere, with an adapter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mhc_ops.conformance.adapters import Ours, Wanted, load_adapter
from mhc_ops.conformance.packaged import packaged_cases
from mhc_ops.errors import ArgumentError

ROOT = Path(__file__).parents[2]

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


@pytest.fixture
def kit(tmp_path):
    """Run the kit in an empty folder; `only` is pytest's -k."""
    (tmp_path / "mine.py").write_text(ADAPTERS)

    def run(*arguments, only="MhcPost-T=4-n=4-D=1024-bfloat16", adapter="", plugin=False):
        named = ("-p", "mhc_ops.conformance.options") if plugin else ()
        command = [sys.executable, "-m", "pytest", *named, "--pyargs", "mhc_ops.conformance", "-q"]
        path = os.pathsep.join((str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")))
        env = {**os.environ, "PYTHONPATH": path, "MHC_OPS_ADAPTER": adapter}
        command += ["-k", only, "-p", "no:cacheprovider", "-rs", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_this_library_passes_its_packaged_cases(kit):
    status, told = kit(only="MhcPost-T or MhcSinkhorn-T")
    assert status == 0, told
    assert " passed" in told
    assert "skipped" not in told


@pytest.mark.long
def test_this_library_passes_every_packaged_case(kit):
    status, told = kit(only="test")
    assert status == 0, told
    assert f"{2 * len(packaged_cases())} passed" in told


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ("Turned", "MhcPost-T=4-n=4-D=1024-bfloat16: transposed h_res"),
        ("Restless", "y differs between two runs in 1 places"),
        ("Forgetful", "y is missing"),
        ("Careless", "x, an input, was changed"),
        ("Broken", "device lost"),
    ],
)
def test_an_adapter_that_is_wrong_fails(kit, adapter, words):
    status, told = kit(adapter=f"mine:{adapter}")
    assert status == 1, told
    assert words in told


def test_what_an_adapter_cannot_do_is_skipped_with_its_text(kit):
    status, told = kit(adapter="mine:Unable")
    assert status == 0
    assert "2 skipped" in told
    assert "not on this chip" in told


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ("mine:Missing", "expected MODULE:CLASS that can be imported"),
        ("nowhere:Missing", "expected MODULE:CLASS that can be imported"),
        ("mine:Nothing", "has no method run"),
    ],
)
def test_an_adapter_that_cannot_be_loaded_ends_the_run(kit, adapter, words):
    status, told = kit(adapter=adapter)
    assert status == 4, told
    assert words in told


def test_options_in_place_of_variables(kit, family_file):
    options = ("--mhc-adapter", "mine:Unable", "--mhc-cases", family_file)
    status, told = kit(*options, only="values and post", plugin=True)
    assert status == 0, told
    assert "not on this chip" in told
    assert "mhc-ops conform has it" in told
    status, told = kit("--mhc-cases", "nowhere.json", plugin=True)
    assert status != 0
    assert "nowhere.json: cannot be read" in told


def test_names_say_what_a_case_holds():
    cases = packaged_cases()
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    without = next(c for c in cases if c.name.endswith("without=gamma+grad_x_post-bfloat16"))
    assert without.inputs["gamma"] is None
    assert without.inputs["grad_x_post"] is None


def test_adapters_by_name():
    assert isinstance(load_adapter(""), Ours)
    assert isinstance(load_adapter("mhc_ops.conformance.adapters:Ours"), Ours)
    with pytest.raises(ArgumentError, match="has no method run"):
        load_adapter("builtins:int")
    with pytest.raises(ArgumentError, match="MODULE:CLASS"):
        load_adapter("mhc_ops")
    assert Wanted._fields == ("dtype", "shape")
