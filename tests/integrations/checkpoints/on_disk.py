"""Checkpoints to convert, written to disk in one file or torn into shards."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from .libraries import LIBRARIES, draw
from .test_state_dict import any_bits


def strangers() -> dict[str, torch.Tensor]:
    """Tensors of every dtype the format has, with any bits, and the awkward shapes."""
    plain = (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int8, torch.uint8)
    wide = (torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64)
    eight = (torch.float8_e4m3fn, torch.float8_e5m2)
    tensors = {f"w.{dtype}": any_bits(3, 5, dtype=dtype) for dtype in (*plain, *wide, *eight)}
    tensors["flag"] = torch.tensor([True, False, True])
    tensors["scalar"] = any_bits()
    tensors["nothing"] = torch.empty(0, 4)
    tensors["ключ"] = any_bits(2)
    return tensors


def megatron(layers=2) -> dict[str, torch.Tensor]:
    return {
        f"decoder.layers.{k}.attn_hc.{name}": t
        for k in range(layers)
        for name, t in draw(LIBRARIES["megatron_main"], 1, k, torch.float32).items()
    }


def write_shards(folder: Path, tensors, shards: int, index=True) -> None:
    """Deal the tensors out to shards one by one, so that every hyper-connection is torn apart."""
    folder.mkdir()
    weight_map = {}
    for k in range(shards):
        part = {name: t for i, (name, t) in enumerate(tensors.items()) if i % shards == k}
        file = f"model-{k + 1:05}-of-{shards:05}.safetensors"
        save_file(part, folder / file, {"format": "pt", "shard": str(k)})
        weight_map.update(dict.fromkeys(part, file))
    if index:
        described = {"metadata": {}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(described))


def load_folder(folder: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
