"""What every rank does: its chunks of tokens, and their sums when it is their turn.

Chunk k is rank k's, modulo the number of ranks. A rank computes a chunk superblock by superblock,
puts the rows of the outputs in place, and keeps the superblocks' sums until all tokens before the
chunk are finished; then it adds them, in ascending order, and the chunk is finished too. It may be
one chunk ahead of its turn.
"""

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from .operation import Operation
from .place import Place, Sink, Source
from .progress import Progress, State
from .sums import SumLayout

SUPERBLOCK = 256  # tokens whose sums start from zero in every implementation
_AHEAD = 2  # chunks whose sums a rank holds
POLL = 0.0005  # seconds


@dataclass(frozen=True)
class Job:
    """A run as its ranks see it; pickled for those that are not the first."""

    operation: Operation
    target: Path
    folder: Path
    inputs: dict[str, Place]
    parameters: dict[str, Tensor]
    outputs: dict[str, Place]
    sums: SumLayout
    start: int
    chunk: int
    ranks: int
    threads: int
    device: str

    @property
    def tokens(self) -> int:
        return next(iter(self.inputs.values())).tokens


class _Chunk(NamedTuple):
    first: int
    stop: int
    sums: Tensor  # [superblocks, bytes]


def work(job: Job, rank: int, check: Callable[[], None]) -> None:
    """Do a rank's chunks. `check` is called often and raises when the run must stop."""
    torch.set_num_threads(job.threads)
    layout = job.sums
    room = layout.buffer(_AHEAD, -(-job.chunk // SUPERBLOCK))
    parameters = {name: t.to(job.device) for name, t in job.parameters.items()}
    waiting: deque[_Chunk] = deque()
    with ExitStack() as files:
        progress = Progress(job.folder, layout.nbytes)
        files.callback(progress.close)
        sources = {name: Source(place) for name, place in job.inputs.items()}
        sinks = {name: Sink(place) for name, place in job.outputs.items()}
        for source in sources.values():
            files.callback(source.close)
        for sink in sinks.values():
            files.callback(sink.close)
        firsts = range(job.start, job.tokens, job.chunk)[rank :: job.ranks]
        for number, first in enumerate(firsts):
            stop = min(first + job.chunk, job.tokens)
            sums = room[number % _AHEAD]
            for index, begin in enumerate(range(first, stop, SUPERBLOCK)):
                check()
                end = min(begin + SUPERBLOCK, stop)
                _announce(sources, job, end, stop)
                inputs = {name: s.take(begin, end).to(job.device) for name, s in sources.items()}
                results = job.operation.call({**inputs, **parameters})
                for name, sink in sinks.items():
                    sink.put(begin, end, results[name].cpu())
                for name, view in layout.views(sums[index]).items():
                    view.copy_(results[name])
            waiting.append(_Chunk(first, stop, sums[: -(-(stop - first) // SUPERBLOCK)]))
            while waiting and progress.tokens == waiting[0].first:
                _finish(progress, layout, waiting.popleft())
            while len(waiting) == _AHEAD:
                _await_turn(progress, waiting[0], check)
                _finish(progress, layout, waiting.popleft())
        while waiting:
            _await_turn(progress, waiting[0], check)
            _finish(progress, layout, waiting.popleft())


def _announce(sources: dict[str, Source], job: Job, begin: int, stop: int) -> None:
    """Have the rank's next superblock read ahead."""
    if begin == stop:
        begin += (job.ranks - 1) * job.chunk
    if begin < job.tokens:
        for source in sources.values():
            source.announce(begin, min(begin + SUPERBLOCK, job.tokens))


def _await_turn(progress: Progress, chunk: _Chunk, check: Callable[[], None]) -> None:
    while progress.tokens != chunk.first:
        check()
        time.sleep(POLL)


def _finish(progress: Progress, layout: SumLayout, chunk: _Chunk) -> None:
    """Add a chunk's sums to those of all tokens before it."""
    total = progress.state().sums if layout.nbytes else torch.empty(0, dtype=torch.uint8)
    for index, part in enumerate(chunk.sums):
        if chunk.first == 0 and index == 0:  # not added to zero: the kernels keep a -0
            total = part.clone()
        else:
            layout.add(total, part)
    progress.advance(State(chunk.stop, total))
