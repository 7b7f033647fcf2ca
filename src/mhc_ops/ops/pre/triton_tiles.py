"""Tiles of MhcPre's Triton kernels, chosen by rule: compiled without spills on every target.

docs/gpu.md has the registers and the shared memory of each.
"""

from typing import NamedTuple

from ..common.triton_host import Tile

_MOST_FEATURES = 80  # rows of phi in one program
_SHARED_BLOCKS = 4  # blocks of 16 rows in each of several programs, where there are more rows
_CHUNK = 2048  # columns of a stream behind one partial sum
_FLUSH = 512  # columns behind one accumulator of the matrix unit


class MixPlan(NamedTuple):
    """One program: a tile of x, `blocks` blocks of `features` rows of phi, `chunk` columns."""

    tile: Tile
    features: int
    blocks: int
    chunk: int
    flush: int


class MainPlan(NamedTuple):
    tile: Tile
    features: int
    blocks: int


# By weight: 0 for bfloat16 x; one more for each further bfloat16 piece that x takes (float16 and
# hf32 two, float32 three), and more where unaligned rows or many rows of phi cost registers.
_MIX = {
    "sm_80": (Tile(64, 64, 8, 3), Tile(64, 64, 8, 2), Tile(64, 32, 8, 2)),
    "sm_90": (Tile(64, 64, 4, 3), Tile(64, 64, 8, 3), Tile(64, 32, 8, 3)),
    "sm_100": (Tile(64, 64, 8, 3), Tile(64, 64, 8, 3), Tile(64, 32, 8, 3)),
    "gfx942": (Tile(64, 64, 4, 2), Tile(64, 64, 4, 2), Tile(64, 64, 4, 2)),
}
# One block of rows of phi stays in registers; several do not fit.
_MAIN_ONE_BLOCK = {
    "sm_80": (Tile(64, 64, 8, 2), Tile(32, 64, 8, 2), Tile(32, 32, 4, 2)),
    "sm_90": (Tile(64, 128, 8, 3), Tile(32, 64, 8, 2), Tile(32, 64, 8, 2)),
    "sm_100": (Tile(64, 64, 8, 2), Tile(32, 64, 8, 2), Tile(32, 64, 8, 2)),
    "gfx942": (Tile(64, 64, 4, 2), Tile(32, 64, 4, 2), Tile(32, 64, 4, 2)),
}
_MAIN_BLOCKS = {
    "sm_80": (Tile(32, 32, 8, 2), Tile(32, 32, 8, 2), Tile(16, 32, 8, 2)),
    "sm_90": (Tile(64, 64, 8, 2), Tile(32, 64, 8, 2), Tile(16, 32, 8, 2)),
    "sm_100": (Tile(64, 64, 8, 2), Tile(32, 64, 8, 2), Tile(16, 64, 8, 2)),
    "gfx942": (Tile(64, 64, 4, 2), Tile(32, 64, 4, 2), Tile(32, 32, 4, 2)),
}


def mix(target: str, dim: int, features: int, x_pieces: int) -> MixPlan:
    """x @ phi^T in the forward."""
    width, blocks = _blocks(features)
    weight = _weight(dim, features, x_pieces + (x_pieces > 1 and blocks > 1))
    tile = _narrowed(_MIX[target][weight], dim)
    flush = min(_FLUSH, -(-dim // tile.columns) * tile.columns)
    chunks = -(-dim // _CHUNK)
    return MixPlan(tile, width, blocks, -(-dim // (chunks * flush)) * flush, flush)


def main(target: str, dim: int, features: int, x_pieces: int) -> MainPlan:
    """grad_x and the sums over tokens in the backward."""
    width, blocks = _blocks(features)
    table = _MAIN_ONE_BLOCK if blocks == 1 else _MAIN_BLOCKS
    tile = table[target][_weight(dim, features, x_pieces)]
    return MainPlan(_narrowed(tile, dim), width, blocks)


def final(features: int) -> tuple[Tile, int]:
    """Superblocks' sums, added in order."""
    return Tile(1, 64, 4, 3), 16 if features <= 16 else 32


def _narrowed(tile: Tile, dim: int) -> Tile:
    """No wider than a narrow stream; matrix units take 16 columns or more."""
    return tile._replace(columns=min(tile.columns, max(16, 1 << (dim - 1).bit_length())))


def _weight(dim: int, features: int, x_pieces: int) -> int:
    return min(2, x_pieces - 1 + 2 * (dim % 16 != 0) + (features > _MOST_FEATURES))


def _blocks(features: int) -> tuple[int, int]:
    """Rows of phi as one block of 16 or 32 or as several of 16, and how many a program takes."""
    if features <= 32:
        return 16 if features <= 16 else 32, 1
    needed = -(-features // 16)
    return 16, needed if features <= _MOST_FEATURES else _SHARED_BLOCKS
