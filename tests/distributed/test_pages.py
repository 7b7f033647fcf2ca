"""docs/distributed.md runs as printed, on two processes; docs/scale.md holds what formulas give."""

import os
import re
import socket
import traceback
import warnings
from multiprocessing import get_context
from pathlib import Path

from . import scale_page
from .processes import OF_TORCH, PATIENCE, PRELOADED

DOCS = Path(__file__).parents[2] / "docs"


def program():
    page = (DOCS / "distributed.md").read_text()
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))


def run_program(rank, port, pipe):
    """What torchrun does: the environment from which init_process_group reads ranks."""
    import torch

    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT=str(port)
    )
    warnings.simplefilter("error")
    for message in OF_TORCH:
        warnings.filterwarnings("ignore", message)
    names = {}
    try:
        exec(compile(program(), "docs/distributed.md", "exec"), names)
        pipe.send(None)
    except BaseException:
        pipe.send(traceback.format_exc())


def test_distributed_page_runs():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    members = []
    for rank in range(2):
        ours, theirs = context.Pipe()
        member = context.Process(target=run_program, args=(rank, port, theirs), daemon=True)
        member.start()
        members.append((member, ours))
    try:
        for rank, (_, pipe) in enumerate(members):
            assert pipe.poll(PATIENCE), f"rank {rank} gave no answer"
            error = pipe.recv()
            assert error is None, f"rank {rank}:\n{error}"
    finally:
        for member, _ in members:
            member.join(10)
            member.kill()


def test_scale_page_holds_the_numbers():
    page = (DOCS / "scale.md").read_text()
    assert scale_page.by_way() in page
    assert scale_page.by_layout() in page
