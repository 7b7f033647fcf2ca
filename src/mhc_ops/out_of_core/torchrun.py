"""The ranks of a run that torchrun started; its agent ends all of them when one dies."""

import os
import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..errors import RunError, UnsupportedError
from .crew import check_parent
from .job import Job, Worker
from .scratch import Scratch
from .words import in_words

_JOB = "job"  # its name in the scratch folder
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
        (job.folder / _JOB).write_bytes(pickle.dumps(job))
        self._store.set("mhc_ops/begun", b"")
        for rank in range(1, self.count):
            self._store.get(f"mhc_ops/ready/{rank}")
        self._store.set("mhc_ops/go", b"")

    def follow(self, target: Path) -> None:
        """Work on `target` as a rank that is not the first."""
        scratch = Scratch(target)
        self._store.get("mhc_ops/begun")
        with in_words(target):
            scratch.share()
            # By a file of the user's: anybody on the machine may write into the store.
            job = pickle.loads((scratch.folder / _JOB).read_bytes())
            worker = Worker(job, self.rank)
            self._store.set(f"mhc_ops/ready/{self.rank}", b"")
            self._store.get("mhc_ops/go")
            worker.work(self.check)
            worker.close()
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
