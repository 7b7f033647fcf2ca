"""A run on 6 GiB with 1.5 GiB of memory, and twenty kills of it."""

import hashlib
import random
from pathlib import Path

import pytest
import torch

from mhc_ops.tensorfile import Blank, lay_out, locate

from .commands import await_tokens, children, command, kill, scratch_of, start
from .memory import group

GIB = 1 << 30
CAP = 3 * GIB // 2
N, D, F = 4, 2560, 24
BLOCK = 1024
PATIENCE = 3600  # seconds

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """MhcPreBackward with every optional input, 6 GiB."""
    path = tmp_path_factory.mktemp("large") / "in.safetensors"
    rows = {
        "x": (torch.bfloat16, (N, D)),
        "grad_x_post": (torch.bfloat16, (N, D)),
        "grad_h_in": (torch.bfloat16, (D,)),
        "grad_h_post": (torch.float32, (N,)),
        "grad_h_res": (torch.float32, (N, N)),
        "h_mix": (torch.float32, (F,)),
        "inv_rms": (torch.float32, ()),
        "h_pre": (torch.float32, (N,)),
        "h_post": (torch.float32, (N,)),
    }
    row_bytes = sum(dtype.itemsize * torch.Size(shape).numel() for dtype, shape in rows.values())
    tokens = 6 * GIB // row_bytes // BLOCK * BLOCK + BLOCK + 77  # no multiple of a superblock
    blanks = {name: Blank(dtype, (tokens, *shape)) for name, (dtype, shape) in rows.items()}
    blanks |= {
        "phi": Blank(torch.float32, (F, N * D)),
        "gamma": Blank(torch.float32, (N, D)),
        "alpha": Blank(torch.float32, (3,)),
    }
    places = lay_out(path, blanks, "MhcPreBackward", {"hc_eps": 1e-6})
    draw = torch.Generator().manual_seed(0)
    with path.open("r+b") as file:
        for name, place in places.items():
            width = torch.Size(place.shape[1:]).numel()
            whole = name not in rows
            block = torch.rand if name in ("inv_rms", "h_pre", "h_post") else torch.randn
            drawn = block(place.shape[0] if whole else BLOCK, width, generator=draw)
            file.seek(place.offset)
            for first in range(0, place.shape[0], len(drawn)):
                # Turned and scaled, so that no two blocks are alike.
                turned = drawn.roll(first // BLOCK, 0) * (1 + first % 7 / 8)
                kept = turned[: place.shape[0] - first].to(place.dtype)
                file.write(kept.contiguous().view(torch.uint8).numpy().data)
    assert path.stat().st_size >= 6 * GIB
    return path


def digests(path: Path) -> dict[str, str]:
    """A digest of each tensor."""
    found = {}
    with path.open("rb") as file:
        for name, place in locate(path).tensors.items():
            digest, left = hashlib.sha256(), place.nbytes
            file.seek(place.offset)
            while left:
                piece = file.read(min(left, 1 << 24))
                digest.update(piece)
                left -= len(piece)
            found[name] = digest.hexdigest()
    return found


@pytest.fixture(scope="module")
def whole(source) -> dict[str, str]:
    """What one call in memory gives."""
    target = source.with_name("whole.safetensors")
    process = start(command(source, target))
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    found = digests(target)
    target.unlink()
    return found


@pytest.mark.parametrize("chunk", [512, 4096])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_six_gib_in_little_memory(source, whole, ranks, chunk):
    target = source.with_name("out.safetensors")
    words = command(source, target, "--nproc", ranks, "--chunk", chunk, "--threads", 1, "--json")
    with group(CAP) as capped:
        if capped is None:
            pytest.skip("a memory cap needs root and control groups")
        process = start(words, preexec_fn=capped.enter)
        out, said = process.communicate(timeout=PATIENCE)
        peak = capped.peak
    assert process.returncode == 0, said
    print(f"ranks {ranks}, chunk {chunk}, peak {peak / GIB:.2f} GiB with cached files", out)
    assert peak <= CAP
    assert digests(target) == whole
    target.unlink()


def test_twenty_kills(source, whole):
    target = source.with_name("killed.safetensors")
    words = command(source, target, "--nproc", 2, "--chunk", 512, "--threads", 1, "--resume")
    draw = random.Random(20)
    tokens = locate(source).tensors["x"].shape[0]
    steps = sorted(draw.randrange(tokens) for _ in range(20))
    kills = 0
    for step in steps:
        process = start(words)
        kills += await_tokens(process, target, step)
        for pid in (process.pid, *children(process)) if process.poll() is None else ():
            kill(pid)
        process.communicate()
        assert target.exists() != scratch_of(target).exists()
    assert kills == 20
    process = start(words)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert digests(target) == whole
    target.unlink()
