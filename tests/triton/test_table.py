"""Tables of measured tiles: round trip, what is refused, what a launch takes, and the command."""

import json

import pytest
import torch

pytest.importorskip("triton", reason="needs the extra [gpu]")

from mhc_ops.cli import main
from mhc_ops.errors import FileError
from mhc_ops.ops.common import triton_table
from mhc_ops.ops.common.triton_host import Tile
from mhc_ops.ops.common.triton_table import Key

from . import offline, plans

META = torch.device("meta")
ENTRY = Key("post_fwd_kernel", 4, 4096, 0, "bfloat16")
TILE = Tile(2, 512, 4)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "tiles.json"
    triton_table.write(path, META, {ENTRY: TILE}, {ENTRY: 12.5})
    return path


def edited(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    return path


def test_what_is_written_is_read(table):
    assert triton_table.read(table, META) == {ENTRY: TILE}
    (row,) = json.loads(table.read_text())["tiles"]
    assert row["microseconds"] == 12.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(format=2), "is no table of format 1"),
        (lambda r: r.update(device="NVIDIA H100"), "made for device 'NVIDIA H100', and this is"),
        (lambda r: r.update(triton="3.0.0"), "made for triton '3.0.0'"),
        (lambda r: r.pop("mhc_ops"), "made for mhc_ops None"),
        (lambda r: r.update(tiles=None), "has no list of tiles"),
        (lambda r: r["tiles"][0].pop("warps"), "a tile 0 that lacks 'warps'"),
        (lambda r: r["tiles"].append(3), "a tile 1 that lacks"),
        (lambda r: r["tiles"][0].update(kernel="other"), "for an unknown kernel 'other'"),
        (lambda r: r["tiles"][0].update(kernel=[]), "not a kernel's name and integers"),
        (lambda r: r["tiles"][0].update(dim="4096"), "not a kernel's name and integers"),
        (lambda r: r["tiles"][0].update(dtype="bf16"), "for an unknown dtype 'bf16'"),
        (lambda r: r["tiles"][0].update(tokens=3), "that post_fwd_kernel does not take"),
        (lambda r: r["tiles"].append(r["tiles"][0]), "has tile 1 twice"),
    ],
)
def test_another_or_a_broken_table_is_refused(table, change, message):
    with pytest.raises(FileError, match=message) as caught:
        triton_table.read(edited(table, change), META)
    assert "unset the variable, or make a table with mhc-ops tune" in str(caught.value)


def test_what_is_no_table_is_refused(tmp_path):
    path = tmp_path / "tiles.json"
    with pytest.raises(FileError, match="cannot be read"):
        triton_table.read(path, META)
    path.write_text("{")
    with pytest.raises(FileError, match="cannot be read"):
        triton_table.read(path, META)


def post_tiles(dim):
    found = offline.launches("sm_90", lambda: plans.run_post(4, dim))
    (fwd,) = (run.constants for run in found if run.kernel.__name__ == "post_fwd_kernel")
    return fwd["BT"], fwd["BD"]


def test_a_launch_takes_the_tile_of_the_named_table_and_no_other(table, monkeypatch):
    by_rule = post_tiles(4096), post_tiles(7168)
    monkeypatch.setenv(triton_table.VARIABLE, str(table))
    assert post_tiles(4096) == (2, 512) != by_rule[0]
    assert post_tiles(7168) == by_rule[1]
    monkeypatch.setenv(triton_table.VARIABLE, str(table) + ".absent")
    with pytest.raises(FileError, match="cannot be read"):
        post_tiles(4096)


@pytest.mark.parametrize("kernel", triton_table.KERNELS)
def test_a_table_reaches_every_kernel_that_it_may_name(kernel):
    """Each candidate is what the kernel is launched with."""
    tiles, seen = triton_table.candidates(kernel, "sm_90"), set()
    for tile in tiles:
        launches = offline.launches("sm_90", plans.candidate(kernel, tile))
        launch = next(found for found in launches if found.kernel.__name__ == kernel)
        columns = "BK" if "BK" in launch.constants else "BD"
        seen.add((launch.constants["BT"], launch.constants[columns], launch.warps, launch.stages))
    assert len(seen) == len(tiles)


def test_the_command_refuses_a_machine_without_a_gpu(capsys, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    out = tmp_path / "tiles.json"
    assert main(["tune", "--out", str(out)]) == 2
    complaint = capsys.readouterr().err
    assert "the Triton kernels do not run here: cuda is no GPU of this machine" in complaint
    assert len(complaint.splitlines()) == 1
    assert main(["tune", "--device", "nonsense"]) == 2
    assert "--device must name a GPU" in capsys.readouterr().err
    assert main(["tune", "--dtype", "int8"]) == 2
    assert not out.exists()
