"""Pools of gloo processes that run a test's function on every rank.

Importing torch costs seconds, so all processes are forked from a server that has done so, and the
tests of a session share one pool for each number of ranks.
"""

import os
import tempfile
import traceback
import warnings
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import wait

PRELOADED = [
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
    "torch.testing",
    "mhc_ops.distributed",
]
# Torch's own: Inductor's imports, Dynamo's tracing of autograd Functions, its look at DTensors.
OF_TORCH = (
    "`torch.jit.script_method` is deprecated",
    ".*should not be instantiated. Methods on autograd functions",
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed",
)
PATIENCE = 400  # seconds for one function on all ranks: compiling, on a loaded machine


def _serve(rank, world, store, pipe):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    # The wildcard address would be looked up; every process of the pool is on this machine.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=PATIENCE),
    )
    import mhc_ops.distributed  # noqa: F401  # registers the sharding rules

    warnings.simplefilter("error")
    for message in OF_TORCH:
        warnings.filterwarnings("ignore", message)
    pipe.send(("ready", None))
    while True:
        job = pipe.recv()
        if job is None:
            break
        function, args = job
        try:
            pipe.send(("result", function(rank, world, *args)))
        except BaseException:
            pipe.send(("error", traceback.format_exc()))
    dist.destroy_process_group()


class Pool:
    """`world` processes; run(function, *args) gives what function(rank, world, *args) returns."""

    def __init__(self, world):
        context = get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self.world = world
        self.folder = tempfile.TemporaryDirectory()
        self.pipes, self.members = [], []
        for rank in range(world):
            ours, theirs = context.Pipe()
            member = context.Process(
                target=_serve, args=(rank, world, f"{self.folder.name}/store", theirs), daemon=True
            )
            member.start()
            theirs.close()
            self.pipes.append(ours)
            self.members.append(member)
        self._gather()

    def run(self, function, *args):
        for pipe in self.pipes:
            pipe.send((function, args))
        return self._gather()

    def _gather(self):
        """One answer of each rank; the first error ends the wait for those that wait for it."""
        results = {}
        while len(results) < self.world:
            waiting = [p for rank, p in enumerate(self.pipes) if rank not in results]
            ready = wait(waiting, PATIENCE)
            if not ready:
                raise AssertionError(f"of {self.world} ranks only {sorted(results)} gave an answer")
            for pipe in ready:
                rank = self.pipes.index(pipe)
                kind, value = pipe.recv()
                if kind == "error":
                    raise AssertionError(f"rank {rank} of {self.world}:\n{value}")
                results[rank] = value
        return [results[rank] for rank in range(self.world)]

    def close(self):
        for pipe, member in zip(self.pipes, self.members, strict=True):
            try:
                pipe.send(None)
                member.join(5)
            except OSError:
                pass
            if member.is_alive():
                member.kill()
                member.join()
        self.folder.cleanup()
