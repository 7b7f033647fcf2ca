"""How blocks are dealt to stages, and what a stage refuses."""

import pytest
import torch
from torch import nn

from mhc_ops.distributed import StreamsStage, pipeline_stage
from mhc_ops.distributed.pipeline import stage_blocks
from mhc_ops.errors import ArgumentError, ShapeError


@pytest.mark.parametrize(("blocks", "stages"), [(4, 4), (7, 4), (61, 8), (5, 1), (9, 2)])
def test_every_block_once_in_order(blocks, stages):
    ranges = stage_blocks(blocks, stages)
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
    assert ranges[-1][1] == blocks
    sizes = [stop - start for start, stop in ranges]
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == min(sizes)  # beside the LM head


def test_no_streams():
    stage = StreamsStage([nn.Identity()], first=None, last=None)
    with pytest.raises(ShapeError, match=r"must be given the streams .*, got \[3, 4\]"):
        stage(torch.ones(3, 4))
    assert stage(torch.ones(3, 4, 5)).shape == (3, 4, 5)


def refusals(rank, world):
    ends = {"first": nn.Identity, "last": nn.Identity, "device": "cpu"}
    with pytest.raises(ArgumentError, match="2 stages and 1 blocks"):
        pipeline_stage([nn.Identity], **ends)
    with pytest.raises(ArgumentError, match="got index 3, 2 stages"):
        pipeline_stage([nn.Identity] * 4, index=3, **ends)


def test_refusals(ranks):
    ranks.run(2, refusals)
