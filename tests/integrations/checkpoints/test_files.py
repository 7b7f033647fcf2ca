"""Checkpoints on disk: every other byte untouched, the convention beside them, bounded memory."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from mhc_ops import Convention
from mhc_ops.errors import ArgumentError, FileError
from mhc_ops.integrations.checkpoints import convert_checkpoint, read_convention
from mhc_ops.integrations.checkpoints.safetensors_io import read_header

from .on_disk import load_folder, megatron, strangers, write_shards
from .test_state_dict import any_bits, assert_same, ours


def test_one_file_there_and_back(folder):
    tensors = {**ours(head=True), **strangers()}
    save_file(tensors, "a.safetensors", {"format": "pt", "note": "kept"})
    there = convert_checkpoint("a.safetensors", "b.safetensors", source="ours", target="deepseek")
    assert there[:5] == ("ours", "deepseek", 1, 1, len(strangers()) + 1)
    assert there.files == ["b.safetensors", "b.convention.json"]
    assert there.bytes == sum(t.nbytes for t in tensors.values())
    back = convert_checkpoint("b.safetensors", "c.safetensors", target="ours")
    assert back.convention == Convention.deepseek_v4()
    assert_same(load_file("c.safetensors"), tensors)
    with safe_open("c.safetensors", "pt") as file:
        assert file.metadata()["note"] == "kept"
        assert file.metadata()["format"] == "pt"
    assert not {n.partition(".")[0] for n in os.listdir(folder)} - {"a", "b", "c"}


def test_the_order_is_that_of_the_formats_own_writer(folder):
    """One dtype of each width: safetensors writes the same data. All tensors are aligned."""
    plain = strangers()
    kinds = (torch.int64, torch.float32, torch.bfloat16, torch.uint8)
    tensors = {**ours(), **{f"w.{kind}": plain[f"w.{kind}"] for kind in kinds}}
    save_file(tensors, "a.safetensors")
    convert_checkpoint("a.safetensors", "b.safetensors", source="ours", target="deepseek")
    save_file(load_file("b.safetensors"), "c.safetensors")
    with safe_open("b.safetensors", "pt") as file:
        assert file.metadata()["format"] == "pt"  # or transformers would refuse to read it
    size = sum(t.nbytes for t in tensors.values())
    assert Path("b.safetensors").read_bytes()[-size:] == Path("c.safetensors").read_bytes()[-size:]
    for name, entry in read_header(Path("b.safetensors"))[0].items():
        assert entry.begin % max(1, entry.size // max(1, math.prod(entry.shape))) == 0, name


@pytest.mark.parametrize("index", [True, False])
def test_shards_keep_their_names(folder, index):
    tensors = {**megatron(), **strangers()}
    write_shards(folder / "mega", tensors, 3, index)
    done = convert_checkpoint("mega", "ours", source="megatron-main", target="ours")
    shards = sorted(p.name for p in Path("mega").glob("*.safetensors"))
    extra = ["convention.json", "model.safetensors.index.json"]
    assert sorted(os.listdir("ours")) == sorted([*shards, *extra])
    assert sorted(done.files) == sorted([*shards, *extra])
    described = json.loads(Path("ours/model.safetensors.index.json").read_text())
    assert described["metadata"]["total_size"] == done.bytes
    for file in shards:
        with safe_open(Path("ours", file), "pt") as opened:
            named = {n for n, f in described["weight_map"].items() if f == file}
            assert named == set(opened.keys())
            assert opened.metadata()["shard"] == str(int(file[6:11]) - 1)
    expected = replace(Convention.megatron(), res_rows="from_to")
    assert read_convention("ours") == done.convention == expected
    assert read_convention("ours/model.safetensors.index.json") == expected

    convert_checkpoint("ours/model.safetensors.index.json", "again", target="megatron_main")
    assert_same(load_folder(folder / "again"), tensors)
    convert_checkpoint("ours", "one.safetensors", target="megatron_main")
    assert_same(load_file("one.safetensors"), tensors)


def test_a_file_may_become_a_folder_and_itself(folder):
    tensors = {**ours(), **strangers()}
    save_file(tensors, "a.safetensors")
    Path("empty").mkdir()
    convert_checkpoint("a.safetensors", "empty", source="ours", target="deepseek")
    assert sorted(os.listdir("empty")) == ["convention.json", "model.safetensors"]
    convert_checkpoint("a.safetensors", "a.safetensors", source="ours", target="deepseek")
    assert_same(load_file("a.safetensors"), load_file("empty/model.safetensors"))
    convert_checkpoint("a.safetensors", "a.safetensors", target="ours")
    assert_same(load_file("a.safetensors"), tensors)


def test_a_link_is_written_through(folder):
    save_file(ours(), "a.safetensors")
    Path("store").mkdir()
    Path("b.safetensors").symlink_to("store/blob")
    convert_checkpoint("a.safetensors", "b.safetensors", source="ours", target="deepseek")
    assert Path("b.safetensors").is_symlink()
    assert sorted(os.listdir("store")) == ["blob"]
    convert_checkpoint("b.safetensors", "c.safetensors", target="ours")
    assert_same(load_file("c.safetensors"), load_file("a.safetensors"))


def test_widths_that_differ_within_a_hyper_connection(folder):
    """A 16-bit phi lies behind all float32 tensors, far from its own bias."""
    tensors = {}
    for k in range(3):
        for name, t in ours(gamma=True).items():
            tensors[name.replace(".0.", f".{k}.")] = t
        tensors[f"layers.{k}.attn_hc.phi"] = any_bits(24, 24, dtype=torch.bfloat16)
    save_file(tensors, "a.safetensors")
    convert_checkpoint("a.safetensors", "b.safetensors", source="ours", target="tilekernels")
    convert_checkpoint("b.safetensors", "c.safetensors", target="ours")
    assert_same(load_file("c.safetensors"), tensors)


def test_sidecar_and_metadata(folder):
    save_file(ours(), "a.safetensors")
    convert_checkpoint(
        "a.safetensors", "b.safetensors", source="ours", target="liger", accept_mismatch=True
    )
    described = json.loads(Path("b.convention.json").read_text())
    assert described["layout"] == "liger"
    assert described["changed"] == {"order": "columns_last"}
    assert described["convention"]["order"] == "rows_last"
    tensors = load_file("b.safetensors")
    save_file(tensors, "b.safetensors")  # as a program that knows of no metadata would
    assert read_convention("b.safetensors").order == "rows_last"
    convert_checkpoint("b.safetensors", "c.safetensors", target="ours")
    with pytest.raises(ArgumentError, match="in the layout liger, not cann; name liger or none"):
        convert_checkpoint("b.safetensors", "d.safetensors", source="cann", target="ours")

    described["convention"]["num_iters"] = 5
    Path("c.convention.json").write_text(json.dumps(described))
    with pytest.raises(FileError, match=r"c\.safetensors and c\.convention\.json name different"):
        read_convention("c.safetensors")
    Path("b.convention.json").write_text('{"format": 2}')
    with pytest.raises(FileError, match=r"b\.convention\.json: the convention has format 2"):
        read_convention("b.safetensors")
    Path("b.convention.json").unlink()
    with pytest.raises(FileError, match="carries no convention"):
        read_convention("b.safetensors")
    with pytest.raises(ArgumentError, match="name the source"):
        convert_checkpoint("b.safetensors", "c.safetensors", target="ours")


def test_numbers_are_fields_of_the_source(folder):
    save_file(megatron(), "a.safetensors")
    done = convert_checkpoint(
        *("a.safetensors", "b.safetensors"),
        source="megatron_main",
        target="ours",
        numbers={"num_iters": 10},
    )
    assert done.convention.num_iters == 10
    assert read_convention("b.safetensors") == done.convention
    for numbers, text in (
        ({"num_iter": 1}, "no 'num_iter'; did you mean num_iters"),
        ({"norm_eps_outside": 1}, "norm_eps_outside must be true or false"),
        ({"hc_eps": 0.5}, r"Megatron-LM main has hc_eps 0\.0, which the convention"),
    ):
        with pytest.raises(ArgumentError, match=text):
            convert_checkpoint(
                *("a.safetensors", "c.safetensors"),
                source="megatron_main",
                target="ours",
                numbers=numbers,
            )


def test_progress_ends_at_the_total(folder, monkeypatch):
    monkeypatch.setattr("mhc_ops.integrations.checkpoints.safetensors_io.CHUNK", 64)
    save_file({**ours(), "w": torch.zeros(1000)}, "a.safetensors")
    told = []
    done = convert_checkpoint(
        *("a.safetensors", "b.safetensors"),
        source="ours",
        target="cann",
        progress=lambda *at: told.append(at),
    )
    assert told[0] == (0, done.bytes)
    assert told[-1] == (done.bytes, done.bytes)
    assert [a for a, _ in told] == sorted(a for a, _ in told)
    assert len(told) > 60


def test_nothing_is_seen_before_it_is_complete(folder):
    save_file({**megatron(), "w": torch.zeros(3000)}, "a.safetensors")
    seen = []
    convert_checkpoint(
        *("a.safetensors", "b.safetensors"),
        source="megatron_main",
        target="ours",
        progress=lambda done, total: seen.append(
            Path("b.safetensors").exists() or Path("b.convention.json").exists()
        ),
    )
    assert not any(seen)
    assert Path("b.safetensors").exists()


SIZE = 1 << 28
MEMORY = """
import resource, sys, torch
from mhc_ops.integrations.checkpoints import convert_checkpoint
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
convert_checkpoint("a.safetensors", "b", source="ours", target="cann")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_checkpoint(folder):
    """A sparse file of 256 MiB; the process may take 48 MiB for it."""
    header = {
        "w": {"dtype": "F8_E4M3", "shape": [SIZE], "data_offsets": [0, SIZE]},
        "hc.phi": {"dtype": "F32", "shape": [24, 8], "data_offsets": [SIZE, (SIZE) + 768]},
        "hc.alpha": {
            "dtype": "F32",
            "shape": [3],
            "data_offsets": [(SIZE) + 768, (SIZE) + 780],
        },
        "hc.bias": {
            "dtype": "F32",
            "shape": [24],
            "data_offsets": [(SIZE) + 780, (SIZE) + 876],
        },
    }
    text = json.dumps(header).encode()
    with Path("a.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + (SIZE) + 876)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 48 * 1024, done.stdout
    assert Path("b/model.safetensors").stat().st_size > SIZE
