"""A run from its files to its output: what rank 0 does."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..errors import ArgumentError
from ..tensorfile import Attr, Blank, Stored, lay_out, locate
from ..version import __version__
from .crew import Crew, Spawned
from .flusher import Flusher, flush
from .job import POLL, SUPERBLOCK, Job, Worker
from .operation import Operation
from .place import as_bytes, opened, write_at
from .plan import Plan
from .progress import Progress, reserve
from .scratch import Scratch
from .words import in_words

_CHUNK = 4096  # tokens; fewer where a rank would get too few chunks
_CHUNKS_A_RANK = 16
_MOST = 1024  # processes, and threads of one: 100,000 ended it with SIGSEGV


@dataclass(frozen=True)
class Settings:
    """How a run is done; nothing here changes a bit of its output.

    chunk: tokens that a rank takes at a time, a multiple of 256; None chooses.
    ranks: processes. threads: of each; None shares the processors among them.
    resume: go on with the unfinished run beside the target, where there is one.
    device: where each superblock is computed.
    """

    chunk: int | None = None
    ranks: int = 1
    threads: int | None = None
    resume: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.chunk is not None and (self.chunk < SUPERBLOCK or self.chunk % SUPERBLOCK):
            raise ArgumentError(
                f"run: a chunk must be a multiple of {SUPERBLOCK} tokens, got {self.chunk}."
            )
        for name, value in (("ranks", self.ranks), ("threads", self.threads)):
            if value is not None and value < 1:
                raise ArgumentError(f"run: {name} must be at least 1, got {value}.")
            if value is not None and value > _MOST:
                raise ArgumentError(f"run: {name} must be at most {_MOST}, got {value}.")

    def chunk_of(self, tokens: int) -> int:
        """The chunk for so many tokens."""
        if self.chunk is not None:
            return self.chunk
        share = tokens // (self.ranks * _CHUNKS_A_RANK)
        return min(_CHUNK, max(SUPERBLOCK, share - share % SUPERBLOCK))

    @property
    def threads_of_rank(self) -> int:
        if self.threads is not None:
            return self.threads
        return torch.get_num_threads() if self.ranks == 1 else max(1, _processors() // self.ranks)


class Outcome(NamedTuple):
    """What a run did; times in seconds."""

    outputs: dict[str, Blank]
    tokens: int
    resumed_at: int
    """Tokens that were finished before."""
    chunk: int
    start_seconds: float
    """Until all ranks were ready."""
    seconds: float
    """From there until all tokens were finished."""
    flush_seconds: float
    """Until all was on the disk, under the target's name."""


def run_files(
    operation: Operation,
    inputs: Mapping[str, Stored],
    target: Path,
    *,
    op: str,
    attrs: Mapping[str, Attr],
    made_by: Mapping[str, Any],
    settings: Settings,
    crew: Crew | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Run an operator on tensors in files and write its outputs to `target`.

    Args:
        operation: the operator with its attributes bound. inputs: where its tensors lie.
        target: a .safetensors file or a folder, to which op and attrs are written too.
        made_by: whatever else decides the bits; an unfinished run is resumed only by its like.
        crew: the other ranks, where they are not to be started here.
        on_progress: called often with the finished tokens and all of them.

    Raises: ArgumentError: the tensors do not fit, or the unfinished run beside the target is
        another one. FileError: a file cannot be read or written, or the disk is full. RunError: a
        rank ended. Then `target` is as before, and what was finished is kept for `resume`.
    """
    with in_words(target):
        began = time.perf_counter()
        plan = Plan(operation, inputs, settings.device)
        crew = Spawned(settings.ranks) if crew is None else crew
        threads = torch.get_num_threads()
        scratch = Scratch(target)
        try:
            scratch.open()
            run = {"format": 1, "version": __version__, "op": op, "attrs": dict(attrs)}
            run |= {"made_by": dict(made_by), "in": plan.identity()}
            places = _begin(scratch, plan, run, settings.resume)
            with closing(Progress(scratch.folder, plan.sums.nbytes)) as progress:
                start = progress.tokens
                scratch.share()
                job = _job(plan, scratch, places, settings, start)
                with closing(Worker(job, 0)) as worker:
                    crew.start(job)
                    ready = time.perf_counter()
                    _stream(job, worker, crew, progress, on_progress)
                done = time.perf_counter()
                crew.finish()
                if places:
                    _finish(plan, places, progress)
            scratch.publish()
        finally:
            torch.set_num_threads(threads)
            crew.stop()
            scratch.leave(plan.sums.nbytes)
        end = time.perf_counter()
    return Outcome(
        plan.outputs, plan.tokens, start, job.chunk, ready - began, done - ready, end - done
    )


def _begin(scratch: Scratch, plan: Plan, run: Mapping[str, Any], resume: bool) -> dict[str, Stored]:
    """Lay out a new run, or take up the one that lies there: where its outputs lie.

    Nowhere, when all of it is in place already and just the folder was left.
    """
    with closing(Progress(scratch.folder, plan.sums.nbytes)) as progress:
        if scratch.has_begun and progress.is_worth_keeping and not resume:
            raise ArgumentError(
                f"{scratch.target}: an unfinished run lies in {scratch.folder}; add --resume to go "
                f"on with it, or delete that folder."
            )
        if scratch.has_begun and resume:
            scratch.check_same(run)
            progress.recover()
            if scratch.output.exists():
                return locate(scratch.output).tensors
            if progress.tokens == plan.tokens:
                return {}
        scratch.clear()
    places = lay_out(scratch.output, plan.outputs, run["op"], run["attrs"])
    for path in {stored.file for stored in places.values()}:
        size = max(s.offset + s.nbytes for s in places.values() if s.file == path)
        with opened(path, os.O_WRONLY | os.O_CREAT) as file:
            reserve(file, size)
    with closing(Progress(scratch.folder, plan.sums.nbytes)) as progress:
        progress.recover()
    scratch.describe(run)
    return places


def _job(
    plan: Plan, scratch: Scratch, places: Mapping[str, Stored], settings: Settings, start: int
) -> Job:
    rows = plan.operation.rows
    return Job(
        plan.operation,
        scratch.target,
        scratch.folder,
        plan.by_token,
        plan.parameters,
        {name: plan.place(name, stored) for name, stored in places.items() if name in rows},
        plan.sums,
        start,
        settings.chunk_of(plan.tokens - start),
        settings.ranks,
        settings.threads_of_rank,
        settings.device,
    )


def _stream(
    job: Job,
    worker: Worker,
    crew: Crew,
    progress: Progress,
    on_progress: Callable[[int, int], None],
) -> None:
    """Do rank 0's chunks and wait for the others'."""
    flusher = Flusher(job.folder, job.sums.nbytes, (p.stored.file for p in job.outputs.values()))

    shown = -1

    def check() -> None:
        nonlocal shown
        crew.check()
        flusher.check()
        if progress.tokens != shown:
            shown = progress.tokens
            on_progress(shown, job.tokens)

    try:
        worker.work(check)
        while progress.tokens < job.tokens:
            check()
            time.sleep(POLL)
        check()
    finally:
        flusher.stop()


def _finish(plan: Plan, places: Mapping[str, Stored], progress: Progress) -> None:
    """Put the sums beside the rows, and wait until the disk has all."""
    for name, view in plan.sums.views(progress.state().sums).items():
        with opened(places[name].file, os.O_WRONLY) as file:
            write_at(file, as_bytes(view), places[name].offset)
    flush({stored.file for stored in places.values()})


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
