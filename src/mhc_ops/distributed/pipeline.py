"""Pipeline stages of a model with N streams: [.., N, D] crosses from one to the next."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage

from ..errors import ArgumentError, ShapeError


class StreamsStage(nn.Module):
    """One stage: `first`, where it is the first one, its blocks, `last`, where it is the last.

    Forward: the model's input (first stage) or the streams [.., N, D], to the streams or, on the
    last stage, what `last` gives. Raises ShapeError where no streams arrive.
    """

    def __init__(
        self, blocks: Sequence[nn.Module], first: nn.Module | None, last: nn.Module | None
    ) -> None:
        super().__init__()
        self.first, self.blocks, self.last = first, nn.ModuleList(blocks), last

    def forward(self, x: Tensor, **kwargs: Any) -> Tensor:
        if self.first is not None:
            x = self.first(x)
        if x.dim() not in (3, 4):
            raise ShapeError(
                f"StreamsStage: a stage must be given the streams [B, S, N, D] or [T, N, D], got "
                f"{list(x.shape)}; expand before the first boundary, contract after the last."
            )
        for block in self.blocks:
            x = block(x, **kwargs)
        return x if self.last is None else self.last(x)


def pipeline_stage(
    blocks: Sequence[Callable[[], nn.Module]],
    *,
    first: Callable[[], nn.Module],
    last: Callable[[], nn.Module],
    device: torch.device | str,
    group: dist.ProcessGroup | None = None,
    index: int | None = None,
    stages: int | None = None,
) -> PipelineStage:
    """This rank's stage of a pipeline, for any schedule of torch.distributed.pipelining.

    Args:
        blocks: makers of the blocks in order, each mapping [.., N, D] to [.., N, D]. They are dealt
            to the stages in order, as equally as it goes, with the smaller stages at the ends; only
            this stage's are made.
        first: makes what turns the model's input into streams, such as an embedding and
            ExpandStreams. last: makes what turns them into the model's output, such as a StreamHead
            and the LM head.
        device: where the stage runs. group: the pipeline's ranks, all by default.
        index, stages: this stage and their number; the rank in the group and its size by default.

    Returns: a PipelineStage whose `submod` is a StreamsStage. Shapes are found at the first step.
        A boundary carries N times what one of an ordinary transformer does, in the dtype of the
        streams, and so does its gradient.

    Raises: ArgumentError (a ValueError): fewer blocks than stages, or an index outside.
    """
    stages = dist.get_world_size(group) if stages is None else stages
    index = dist.get_rank(group) if index is None else index
    if not 0 <= index < stages or len(blocks) < stages:
        raise ArgumentError(
            f"pipeline_stage: index must be below stages and each stage needs a block, got index "
            f"{index}, {stages} stages and {len(blocks)} blocks."
        )
    start, stop = stage_blocks(len(blocks), stages)[index]
    module = StreamsStage(
        [make() for make in blocks[start:stop]],
        first() if index == 0 else None,
        last() if index == stages - 1 else None,
    )
    where = torch.device(device)
    return PipelineStage(module.to(where), index, stages, where, group=group)


def stage_blocks(blocks: int, stages: int) -> list[tuple[int, int]]:
    """(start, stop) of each stage's blocks; where they do not divide, the middle gets more."""
    least, more = divmod(blocks, stages)
    extra_from = (stages - more) // 2
    ranges, start = [], 0
    for stage in range(stages):
        stop = start + least + (extra_from <= stage < extra_from + more)
        ranges.append((start, stop))
        start = stop
    return ranges
