"""What every launch keeps to, without a GPU: grids, tiles, and what a kernel is compiled for."""

import pytest

pytest.importorskip("triton", reason="needs the extra [gpu]")

from . import offline, plans

ROOMS = {
    "pre": plans.run_pre,
    "post": plans.run_post,
    "post_pre": plans.run_post_pre,
    "sinkhorn": plans.run_sinkhorn,
    "lite": plans.run_lite,
}
TOKENS = (1, 300, 8192, 2**26)
# Which of two programs runs, and what they leave to a second kernel, may depend on T.
_COUNTED = ("pre_final_bwd_kernel", "ordered_sum_kernel", "superblock_sum_kernel")


def launched(target, room, tokens, n=4, d=4096):
    sizes = (n,) if room in ("sinkhorn", "lite") else (n, d)
    return offline.launches(target, lambda: ROOMS[room](*sizes, tokens=tokens))


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("target", offline.TARGETS)
def test_grids_stay_within_the_hardwares_limits(target, room):
    """One dimension of at most 2^31 - 1 programs, up to 2^26 tokens of 4 x 4096."""
    for tokens in TOKENS:
        for launch in launched(target, room, tokens):
            assert len(launch.grid) == 1
            assert 0 < launch.grid[0] < 2**31, (launch.kernel.__name__, tokens, launch.grid)


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_that_a_kernel_is_compiled_for_depends_on_the_number_of_tokens(room):
    def specialised(tokens):
        return {
            (launch.kernel.__name__, offline.specialisation(launch))
            for launch in launched("sm_90", room, tokens)
            if launch.kernel.__name__ not in _COUNTED
        }

    # One superblock needs no second kernel; 300 and 2^26 tokens have all of them.
    first = specialised(300)
    assert specialised(8192) == first == specialised(2**26)
    assert specialised(299) == first == specialised(17 * 4099)


@pytest.mark.parametrize("room", ROOMS)
def test_tiles_do_not_depend_on_the_number_of_tokens(room):
    def tiles(tokens):
        return {
            (
                launch.kernel.__name__,
                launch.warps,
                launch.stages,
                *((k, v) for k, v in launch.constants.items() if k not in ("WALK", "W")),
            )
            for launch in launched("sm_90", room, tokens)
            if launch.kernel.__name__ not in _COUNTED
        }

    assert tiles(1) == tiles(300) == tiles(8192) == tiles(2**26)


def test_a_number_of_tokens_is_never_specialised():
    """Triton compiles again for 1, for multiples of 16 and past 2^31 unless it is told not to."""
    seen = set()
    for room in ROOMS:
        for launch in launched("sm_90", room, 8192):
            free = {p.name for p in launch.kernel.params if p.do_not_specialize}
            counts = {"T", "count", "superblocks", "size"} & set(launch.kernel.arg_names)
            assert counts
            assert counts <= free, launch.kernel.__name__
            seen.add(launch.kernel.__name__)
    assert len(seen) >= 14
