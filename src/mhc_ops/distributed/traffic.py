"""What one mHC sublayer sends: collectives and bytes of each way to spread it, as formulas.

tests/distributed counts the same messages in 2 and 4 processes; docs/scale.md is made of them.
"""

from math import prod
from typing import NamedTuple

FLOAT32 = 4  # bytes


class Message(NamedTuple):
    """One collective of one sublayer, on each rank of a group.

    when: "forward" or "backward", once a microbatch; "step", once an optimizer step. kind:
    "all_reduce", "all_gather", "reduce_scatter" or "send". nbytes: of the whole tensor, that is of
    what an all_gather gives and a reduce_scatter takes. ranks: in the group.
    """

    when: str
    kind: str
    nbytes: int
    ranks: int

    @property
    def sent(self) -> float:
        """Bytes that leave each rank, in the ring algorithms (the least there are)."""
        rounds = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
        if self.kind == "send":
            return self.nbytes
        return rounds[self.kind] * self.nbytes * (self.ranks - 1) / self.ranks


class Sublayer(NamedTuple):
    """Sizes: tokens of a microbatch on a rank's replica, N, D, rows F of phi, bytes of an element
    of the streams, and whether there is a gamma.
    """

    tokens: int
    streams: int
    dim: int
    rows: int
    element: int = 2
    gamma: bool = False

    @property
    def parameters(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of phi, alpha, bias and gamma."""
        n, d, f = self.streams, self.dim, self.rows
        shapes: tuple[tuple[int, ...], ...] = ((f, n * d), (3 if f > 2 * n else 2,), (f,))
        return (*shapes, (n, d)) if self.gamma else shapes

    @property
    def parameter_bytes(self) -> int:
        return FLOAT32 * sum(prod(shape) for shape in self.parameters)


def data_parallel(sublayer: Sublayer, ranks: int) -> list[Message]:
    """DDP: the gradients of the parameters, in a bucket with others."""
    return [Message("step", "all_reduce", sublayer.parameter_bytes, ranks)]


def fully_sharded(sublayer: Sublayer, ranks: int) -> list[Message]:
    """shard_model: parameters gathered once a forward, gradients scattered once a backward.

    A parameter of which no dimension divides by the ranks is padded along the first.
    """
    padded = sum(_padded(shape, ranks) for shape in sublayer.parameters)
    return [
        Message("forward", "all_gather", FLOAT32 * padded, ranks),
        Message("backward", "reduce_scatter", FLOAT32 * padded, ranks),
    ]


def hidden_sharded(sublayer: Sublayer, ranks: int) -> list[Message]:
    """HiddenParallel: F + 1 numbers a token forward; N*N + N (N without h_res) and N backward."""
    t, n = sublayer.tokens, sublayer.streams
    of_gates = n * n + n if sublayer.rows > 2 * n else n
    return [
        Message("forward", "all_reduce", FLOAT32 * t * (sublayer.rows + 1), ranks),
        Message("backward", "all_reduce", FLOAT32 * t * of_gates, ranks),
        Message("backward", "all_reduce", FLOAT32 * t * n, ranks),
    ]


def token_sharded(sublayer: Sublayer, ranks: int) -> list[Message]:
    """TokenParallel: nothing but the parameters' gradients, which are partial sums."""
    return [
        Message("step", "all_reduce", FLOAT32 * prod(shape), ranks) for shape in sublayer.parameters
    ]


def pipeline_boundary(sublayer: Sublayer) -> list[Message]:
    """Between two stages: the streams forward, their gradient backward; N times a plain model's."""
    nbytes = sublayer.tokens * sublayer.streams * sublayer.dim * sublayer.element
    return [Message("forward", "send", nbytes, 2), Message("backward", "send", nbytes, 2)]


def tensor_parallel_itself(sublayer: Sublayer, ranks: int) -> list[Message]:
    """For comparison, what the tensor-parallel attention or MLP sends with or without mHC: h_in
    gathered and h_out scattered, and their gradients likewise.
    """
    nbytes = sublayer.tokens * sublayer.dim * sublayer.element
    return [
        Message(when, kind, nbytes, ranks)
        for when in ("forward", "backward")
        for kind in ("all_gather", "reduce_scatter")
    ]


def fully_sharded_itself(sublayer: Sublayer, ranks: int, weights: int) -> list[Message]:
    """For comparison, FSDP2 of the sublayer's own weights: bfloat16 gathered for the forward and
    again for the backward, float32 gradients scattered.
    """
    return [
        Message("forward", "all_gather", 2 * weights, ranks),
        Message("backward", "all_gather", 2 * weights, ranks),
        Message("backward", "reduce_scatter", FLOAT32 * weights, ranks),
    ]


def sent(messages: list[Message]) -> float:
    """Bytes that leave each rank."""
    return sum(message.sent for message in messages)


def _padded(shape: tuple[int, ...], ranks: int) -> int:
    if any(size % ranks == 0 for size in shape):
        return prod(shape)
    return -(-shape[0] // ranks) * ranks * prod(shape[1:])
