"""What is measured: operators, shapes, and the flops and bytes that each call cannot avoid."""

from typing import NamedTuple


class Shape(NamedTuple):
    """T tokens, N streams, D channels a stream; R = N*N, so phi has F = 2N + N*N rows."""

    T: int
    N: int
    D: int

    @property
    def F(self) -> int:
        return 2 * self.N + self.N * self.N

    @property
    def elements(self) -> int:
        return self.T * self.N * self.D


class Cost(NamedTuple):
    """Work and traffic of one call, for 16-bit x, gamma and grad_x_post present."""

    flops: int
    bytes: int


def forward_cost(s: Shape) -> Cost:
    """The projection, sum of squares and mix; x once, h_in, phi."""
    return Cost(2 * (s.F + 2) * s.elements, 2 * s.elements + 2 * s.T * s.D + 4 * s.F * s.N * s.D)


def backward_cost(s: Shape) -> Cost:
    """Two projections, dot product, mix; x, grad_x_post, grad_x, grad_h_in, phi, grad_phi."""
    return Cost(
        2 * (2 * s.F + 3) * s.elements, 6 * s.elements + 2 * s.T * s.D + 8 * s.F * s.N * s.D
    )


COSTS = {"forward": forward_cost, "backward": backward_cost}
TESTS = (
    "tests/ops/pre/test_pre.py",
    "tests/ops/pre/test_pre_bitwise.py",
    "tests/ops/pre/test_pre_precision.py",
)
SHAPES = (
    Shape(4096, 4, 2560),
    Shape(2048, 4, 7168),
    Shape(1024, 4, 512),
    Shape(64, 4, 4096),
    Shape(1, 4, 4096),
    Shape(1, 4, 512),
    Shape(2048, 6, 2560),
    Shape(2048, 8, 2560),
    Shape(1024, 5, 2561),
    Shape(16384, 4, 512),
)
COMPILED = SHAPES[:4]  # torch.compile takes up to 15 s for each of its programs
