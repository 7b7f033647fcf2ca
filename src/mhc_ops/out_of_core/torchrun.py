"""The ranks of a run that torchrun started; its agent ends all of them when one dies."""

import os
import pickle
from datetime import timedelta
from typing import Any

from ..errors import RunError, UnsupportedError
from .crew import check_parent
from .job import Job, work
from .scratch import Scratch
from .words import in_words

_PATIENCE = timedelta(minutes=5)  # for ranks to come up


class Torchrun:
    """This rank of them, and for rank 0 the others."""

    def __init__(self) -> None:
        self.rank, self.count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if os.environ.get("LOCAL_WORLD_SIZE") != str(self.count):
            raise UnsupportedError(
                "run: under torchrun all ranks must be on one machine, which holds the files; "
                "use --nnodes 1."
            )
        self._store = _store()
        self._parent = os.getppid()

    def start(self, job: Job) -> None:
        self._store.set("mhc_ops/job", pickle.dumps(job))
        for rank in range(1, self.count):
            self._store.get(f"mhc_ops/ready/{rank}")
        self._store.set("mhc_ops/go", b"")

    def follow(self) -> None:
        """Work as a rank that is not the first."""
        job = pickle.loads(self._store.get("mhc_ops/job"))
        assert isinstance(job, Job)
        scratch = Scratch(job.target)
        with in_words(job.target):
            scratch.share()
            self._store.set(f"mhc_ops/ready/{self.rank}", b"")
            self._store.get("mhc_ops/go")
            work(job, self.rank, self.check)
            scratch.close()

    def check(self) -> None:
        check_parent(self._parent)

    def finish(self) -> None:
        """The agent waits for them."""

    def stop(self) -> None:
        """The agent ends them."""


def _store() -> Any:
    from torch.distributed.rendezvous import rendezvous

    try:
        store, _, _ = next(rendezvous("env://", timeout=_PATIENCE))
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"run: the ranks of torchrun do not find each other ({reason}).") from error
    return store
