"""Tiles of MhcPre's Triton kernels, chosen by rule: compiled without spills on every target.

docs/gpu.md has the registers and the shared memory of each.
"""

from typing import NamedTuple

from ..common.triton_host import Tile

_MOST_FEATURES = 80  # rows of phi in one program
_SHARED_BLOCKS = 4  # blocks of 16 rows in each of several programs, where there are more rows
_LEAST_COLUMNS = 32  # of a stream in main's tile: a row's piece of bfloat16 x is two sectors
_CHUNK = 2048  # numbers of a token behind one partial sum
_FLUSH = 512  # numbers behind one accumulator of the matrix unit


class MixPlan(NamedTuple):
    """One program: a tile of x, `blocks` blocks of `features` rows of phi, `chunk` columns of every
    stream, of which `flush` stand behind one accumulator.
    """

    tile: Tile
    features: int
    blocks: int
    chunk: int
    flush: int


class MainPlan(NamedTuple):
    """One program: a tile of x and `blocks` blocks of `features` rows of phi."""

    tile: Tile
    features: int
    blocks: int


# By weight: 0 for bfloat16 x; one more for each further bfloat16 piece that x takes (float16 and
# hf32 two, float32 three), and more where unaligned rows or many rows of phi cost registers.
# Pre and the boundary of two sublayers share _MIX, so that h_mix has the same bits in both; the
# boundary's kernels have every stream's tile at once.
_MIX = {
    "sm_80": (Tile(64, 32, 8, 3), Tile(64, 32, 8, 2), Tile(64, 32, 8, 2)),
    "sm_90": (Tile(64, 32, 4, 3), Tile(64, 32, 8, 3), Tile(64, 32, 8, 3)),
    "sm_100": (Tile(64, 64, 8, 3), Tile(64, 64, 8, 3), Tile(64, 32, 8, 3)),
    "gfx942": (Tile(64, 64, 4, 2), Tile(64, 64, 4, 2), Tile(64, 64, 4, 2)),
}
# One block of rows of phi stays in registers; several do not fit.
_MAIN_ONE_BLOCK = {
    "sm_80": (Tile(64, 64, 8, 2), Tile(32, 64, 8, 2), Tile(16, 32, 4, 2)),
    "sm_90": (Tile(64, 128, 8, 3), Tile(32, 64, 8, 2), Tile(32, 64, 8, 2)),
    "sm_100": (Tile(64, 64, 8, 2), Tile(32, 64, 8, 2), Tile(32, 64, 8, 2)),
    "gfx942": (Tile(64, 64, 4, 2), Tile(32, 64, 4, 2), Tile(32, 64, 4, 2)),
}
_MAIN_BLOCKS = {
    "sm_80": (Tile(32, 32, 8, 3), Tile(16, 32, 8, 2), Tile(16, 32, 8, 2)),
    "sm_90": (Tile(64, 64, 8, 2), Tile(32, 64, 8, 2), Tile(16, 32, 8, 2)),
    "sm_100": (Tile(64, 64, 8, 2), Tile(32, 64, 8, 2), Tile(16, 64, 8, 2)),
    "gfx942": (Tile(64, 64, 4, 2), Tile(32, 64, 4, 2), Tile(32, 32, 4, 2)),
}
_BOUNDARY = {
    "sm_80": (Tile(16, 64, 4, 2), Tile(16, 64, 4, 2), Tile(16, 32, 8, 2)),
    "sm_90": (Tile(64, 32, 8, 2), Tile(64, 32, 8, 2), Tile(16, 32, 8, 2)),
    "sm_100": (Tile(64, 32, 8, 2), Tile(64, 32, 8, 2), Tile(16, 32, 8, 2)),
    "gfx942": (Tile(16, 64, 4, 2), Tile(16, 64, 4, 2), Tile(16, 32, 4, 2)),
}


def mix_tile(target: str, dim: int, features: int, x_pieces: int) -> Tile:
    """Of x @ phi^T in the forward."""
    blocks = _blocks(features)[1]
    weight = _weight(dim, features, x_pieces + (x_pieces > 1 and blocks > 1) + 2 * (blocks > 3))
    return _MIX[target][weight]


def mix(tile: Tile, streams: int, dim: int, features: int) -> MixPlan:
    """The tile, no wider than D, and how columns are cut into partial sums."""
    width, blocks = _blocks(features)
    tile = narrowed(tile, dim)
    flush = _whole(_FLUSH // streams, tile.columns)
    chunks = -(-dim // _whole(_CHUNK // streams, flush))
    return MixPlan(tile, width, blocks, _whole(-(-dim // chunks), flush), flush)


def main_tile(target: str, dim: int, features: int, x_pieces: int) -> Tile:
    """Of grad_x and the sums over tokens in the backward."""
    table = _MAIN_ONE_BLOCK if _blocks(features)[1] == 1 else _MAIN_BLOCKS
    return table[target][_weight(dim, features, x_pieces)]


def main(tile: Tile, processors: int, streams: int, dim: int, features: int) -> MainPlan:
    """The tile, narrower where that makes enough programs to walk over all tokens."""
    width, blocks = _blocks(features)
    groups = -(-features // (width * blocks))
    columns = narrowed(tile, dim).columns

    def programs(columns: int) -> int:
        return streams * -(-dim // columns) * groups

    while columns > _LEAST_COLUMNS and programs(columns) < least_programs(processors):
        columns //= 2
    return MainPlan(tile._replace(columns=columns), width, blocks)


def least_programs(processors: int) -> int:
    """From here on a program keeps its columns and walks over all tokens; with fewer, superblocks
    are shared out too, and their sums go through memory.
    """
    return -(-2 * processors // 5)


def boundary_tile(target: str, dim: int, features: int, x_pieces: int) -> Tile:
    """Of the backward of two sublayers' boundary, which has every stream's tile at once."""
    return _BOUNDARY[target][_weight(dim, features, x_pieces)]


def features_block(features: int) -> int:
    """Rows of phi in one block."""
    return _blocks(features)[0]


def final(features: int) -> tuple[Tile, int]:
    """Superblocks' sums, added in order."""
    return Tile(1, 64, 4, 3), 16 if features <= 16 else 32


def _whole(size: int, step: int) -> int:
    """`size` as a multiple of `step`, one at least."""
    return max(1, -(-size // step)) * step


def narrowed(tile: Tile, dim: int) -> Tile:
    """No wider than a narrow stream; matrix units take 16 columns or more."""
    return tile._replace(columns=min(tile.columns, max(16, 1 << (dim - 1).bit_length())))


def _weight(dim: int, features: int, x_pieces: int) -> int:
    return min(2, x_pieces - 1 + 2 * (dim % 16 != 0 or features > _MOST_FEATURES))


def _blocks(features: int) -> tuple[int, int]:
    """Rows of phi as one block of 16 or 32 or as several of 16, and how many a program takes."""
    if features <= 32:
        return 16 if features <= 16 else 32, 1
    needed = -(-features // 16)
    return 16, needed if features <= _MOST_FEATURES else _SHARED_BLOCKS
