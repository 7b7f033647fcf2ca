"""Which columns of a parameter belong to a rank's channels."""

from torch import Tensor

from ...errors import ArgumentError


def shard_columns(phi: Tensor, streams: int, rank: int, ranks: int) -> Tensor:
    """The columns [F, N*D/P] of phi [F, N*D] that meet channels rank*D/P .. (rank+1)*D/P.

    Args:   phi: [F, N*D], a stream's D columns side by side. streams: N. ranks: P, a divisor of D.
    Raises: ArgumentError (a ValueError): the columns do not split so.
    """
    if phi.dim() != 2 or phi.shape[1] % (streams * ranks):
        raise ArgumentError(
            f"shard_columns: phi must be [F, N*D] with D divisible by {ranks} ranks, got "
            f"{list(phi.shape)} for N = {streams}."
        )
    by_stream: Tensor = phi.unflatten(1, (streams, -1))
    share: Tensor = by_stream.chunk(ranks, -1)[rank].flatten(1)
    return share
