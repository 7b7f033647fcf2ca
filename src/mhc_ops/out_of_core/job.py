"""What every rank does: its chunks of tokens, and their sums when it is their turn.

Chunk k is rank k's, modulo the number of ranks. A rank computes a chunk superblock by superblock,
puts the rows of the outputs in place, and keeps the superblocks' sums until all tokens before the
chunk are finished; then it adds them, in ascending order, and the chunk is finished too. It may be
one chunk ahead of its turn.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
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
    """A chunk that waits for its turn."""

    first: int
    stop: int
    sums: Tensor  # [superblocks, bytes]


class Worker:
    """A rank that is ready to work: its files are open, and what a first call loads is there."""

    def __init__(self, job: Job, rank: int) -> None:
        torch.set_num_threads(job.threads)
        self._job, self._rank = job, rank
        self._room = job.sums.buffer(_AHEAD, -(-job.chunk // SUPERBLOCK))
        self._waiting: deque[_Chunk] = deque()
        with ExitStack() as files:
            self._progress = files.enter_context(closing(Progress(job.folder, job.sums.nbytes)))
            self._blocks = files.enter_context(closing(_Blocks(job)))
            self._blocks.call(0, 1)
            self.close = files.pop_all().close

    def work(self, check: Callable[[], None]) -> None:
        """Do the rank's chunks. `check` is called often and raises when the run must stop."""
        job = self._job
        firsts = range(job.start, job.tokens, job.chunk)[self._rank :: job.ranks]
        for number, first in enumerate(firsts):
            stop = min(first + job.chunk, job.tokens)
            sums = self._room[number % _AHEAD]
            begins = range(first, stop, SUPERBLOCK)
            for index, begin in enumerate(begins):
                check()
                self._finish_ready()
                end = min(begin + SUPERBLOCK, stop)
                self._blocks.announce(end if end < stop else stop + (job.ranks - 1) * job.chunk)
                self._blocks.compute(begin, end, sums[index])
            self._waiting.append(_Chunk(first, stop, sums[: len(begins)]))
            self._finish_all_but(_AHEAD - 1, check)
        self._finish_all_but(0, check)

    def _finish_all_but(self, most: int, check: Callable[[], None]) -> None:
        """Wait for the rank's turn until no more than so many chunks wait."""
        self._finish_ready()
        while len(self._waiting) > most:
            check()
            time.sleep(POLL)
            self._finish_ready()

    def _finish_ready(self) -> None:
        while self._waiting and self._progress.tokens == self._waiting[0].first:
            self._finish(self._waiting.popleft())

    def _finish(self, chunk: _Chunk) -> None:
        """Add a chunk's sums to those of all tokens before it."""
        total = self._progress.state().sums
        for index, part in enumerate(chunk.sums):
            if chunk.first == 0 and index == 0:  # not added to zero: the kernels keep a -0
                total = part.clone()
            else:
                self._job.sums.add(total, part)
        self._progress.advance(State(chunk.stop, total))


class _Blocks:
    """The files of a run, a superblock at a time."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._parameters = {name: t.to(job.device) for name, t in job.parameters.items()}
        self._sources = {name: Source(place) for name, place in job.inputs.items()}
        self._sinks = {name: Sink(place) for name, place in job.outputs.items()}

    def compute(self, begin: int, end: int, sums: Tensor) -> None:
        """Tokens [begin, end): their rows to the outputs, what is summed over them to `sums`."""
        results = self.call(begin, end)
        for name, sink in self._sinks.items():
            sink.put(begin, end, results[name].cpu())
        for name, view in self._job.sums.views(sums).items():
            view.copy_(results[name])

    def call(self, begin: int, end: int) -> Mapping[str, Tensor]:
        """What the operator returns for tokens [begin, end)."""
        job = self._job
        rows = {name: s.take(begin, end).to(job.device) for name, s in self._sources.items()}
        return job.operation.call({**rows, **self._parameters})

    def announce(self, begin: int) -> None:
        """Have the superblock that begins there read ahead."""
        if begin < self._job.tokens:
            for source in self._sources.values():
                source.announce(begin, min(begin + SUPERBLOCK, self._job.tokens))

    def close(self) -> None:
        for source in self._sources.values():
            source.close()
        for sink in self._sinks.values():
            sink.close()
