"""The tables of docs/scale.md, from the formulas of mhc_ops.distributed.traffic.

`python -m tests.distributed.scale_page` prints them.
"""

from mhc_ops.distributed import traffic

STREAMS, ROWS, DIM, LAYERS = 4, 24, 4096, 60
SUBLAYERS = 2 * LAYERS
WEIGHTS = 6 * DIM * DIM  # of an attention or an MLP, on average
TOKENS = 8192  # of a replica's microbatch
LAYOUTS = (  # devices, as (FSDP ranks, TP ranks, pipeline stages)
    (64, (64, 1, 1)),
    (64, (8, 8, 1)),
    (512, (64, 8, 1)),
    (4096, (512, 8, 1)),
    (4096, (64, 8, 8)),
)


def sublayer():
    return traffic.Sublayer(TOKENS, STREAMS, DIM, ROWS)


def megabytes(messages):
    return f"{traffic.sent(messages) / 1e6:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def by_way():
    """What one sublayer sends, in MB a device: eight ranks in the group."""
    one, ranks = sublayer(), 8
    ways = (
        ("DDP", traffic.data_parallel(one, ranks)),
        ("FSDP2, `shard_model`", traffic.fully_sharded(one, ranks)),
        ("hidden-sharded, `HiddenParallel`", traffic.hidden_sharded(one, ranks)),
        ("sequence-sharded, `TokenParallel`", traffic.token_sharded(one, ranks)),
        ("pipeline boundary", traffic.pipeline_boundary(one)),
        ("*without mHC:* TP's own activations", traffic.tensor_parallel_itself(one, ranks)),
        ("*without mHC:* FSDP2 of the weights", traffic.fully_sharded_itself(one, ranks, WEIGHTS)),
    )
    rows = []
    for name, messages in ways:
        a_microbatch = [m for m in messages if m.when != "step"]
        a_step = [m for m in messages if m.when == "step"]
        rows.append((name, str(len(messages)), megabytes(a_microbatch), megabytes(a_step)))
    return table(("Way", "collectives", "MB a microbatch", "MB a step"), rows)


def by_layout():
    """A whole model on 64 to 4096 devices: MB a device and microbatch of all its sublayers."""
    rows = []
    for devices, (shards, tensor, stages) in LAYOUTS:
        one, here = sublayer(), SUBLAYERS // stages
        mhc = traffic.fully_sharded(one, shards)
        hidden = traffic.hidden_sharded(one, tensor) if tensor > 1 else []
        own = traffic.fully_sharded_itself(one, shards, WEIGHTS // tensor)
        own += traffic.tensor_parallel_itself(one, tensor) if tensor > 1 else []
        boundary = traffic.pipeline_boundary(one) if stages > 1 else []
        rows.append(
            (
                str(devices),
                f"{shards} x {tensor} x {stages}",
                *(f"{here * traffic.sent(m) / 1e6:.0f}" for m in (own, mhc, hidden)),
                f"{traffic.sent(boundary) / tensor / 1e6:.0f}",
            )
        )
    head = (
        "Devices",
        "FSDP x TP x PP",
        "without mHC",
        "mHC parameters",
        "hidden-sharded mHC",
        "a boundary",
    )
    return table(head, rows)


if __name__ == "__main__":
    print(by_way(), by_layout(), sep="\n\n")
