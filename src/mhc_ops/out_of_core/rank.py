"""The program of a rank that rank 0 starts: gets its job by standard input."""

import os
import pickle
import sys

from ..errors import MhcError
from .crew import READY, check_parent
from .job import Worker
from .scratch import Scratch
from .words import in_words


def main() -> int:
    """Work as rank 0 says; a complaint goes to standard error, where rank 0 reads it."""
    try:
        rank, parent, job = pickle.load(sys.stdin.buffer)
        scratch = Scratch(job.target)
        with in_words(job.target):
            scratch.share()
            worker = Worker(job, rank)
            sys.stdout.buffer.write(READY)
            sys.stdout.buffer.flush()
            worker.work(lambda: check_parent(parent))
            worker.close()
            scratch.close()
    except EOFError:  # rank 0 ended before the work began
        return 1
    except (MhcError, MemoryError) as error:
        print(f"stopped: {error or 'not enough memory'}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # taking the interpreter down would only keep rank 0 waiting
