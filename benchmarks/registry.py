"""What is measured: operators, shapes, and the flops and bytes that each call cannot avoid."""

from collections.abc import Callable
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
    """Work and traffic of one call, for 16-bit x; with gamma and, backward, grad_x_post."""

    flops: int
    bytes: int


class Operator(NamedTuple):
    """costs: by direction. compiled: the shapes that torch.compile, up to 15 s each, is asked."""

    costs: dict[str, Callable[[Shape], Cost]]
    shapes: tuple[Shape, ...]
    compiled: tuple[Shape, ...]
    tests: tuple[str, ...]


def pre_forward(s: Shape) -> Cost:
    """The projection, sum of squares and mix; x once, h_in, phi."""
    return Cost(2 * (s.F + 2) * s.elements, 2 * s.elements + 2 * s.T * s.D + 4 * s.F * s.N * s.D)


def pre_backward(s: Shape) -> Cost:
    """Two projections, dot product, mix; x, grad_x_post, grad_x, grad_h_in, phi, grad_phi."""
    return Cost(
        2 * (2 * s.F + 3) * s.elements, 6 * s.elements + 2 * s.T * s.D + 8 * s.F * s.N * s.D
    )


def sinkhorn_forward(s: Shape) -> Cost:
    """20 times columns and rows: a sum and a product for each entry; logits and h_res once."""
    return Cost(20 * 4 * s.T * s.N * s.N, 8 * s.T * s.N * s.N)


def sinkhorn_backward(s: Shape) -> Cost:
    """The iterates again, and two products and a sum for each entry on the way back."""
    return Cost(20 * 10 * s.T * s.N * s.N, 12 * s.T * s.N * s.N)


def post_forward(s: Shape) -> Cost:
    """x, h_out and the result once, h_res and h_post."""
    return Cost(
        2 * (s.N + 1) * s.elements, 4 * s.elements + 2 * s.T * s.D + 4 * s.T * (s.N * s.N + s.N)
    )


def post_backward(s: Shape) -> Cost:
    """x, h_out, grad_out, grad_x and grad_h_out once, h_res and h_post with their gradients."""
    return Cost(
        2 * (2 * s.N + 2) * s.elements,
        6 * s.elements + 4 * s.T * s.D + 8 * s.T * (s.N * s.N + s.N),
    )


def post_pre_forward(s: Shape) -> Cost:
    """post and pre; x and x_next once."""
    pre, post = pre_forward(s), post_forward(s)
    return Cost(pre.flops + post.flops, pre.bytes + post.bytes - 2 * s.elements)


def post_pre_backward(s: Shape) -> Cost:
    """Both backwards; x, x_next, the gradient of x_next and grad_x once."""
    pre, post = pre_backward(s), post_backward(s)
    return Cost(pre.flops + post.flops, pre.bytes + post.bytes - 4 * s.elements)


def sublayer(s: Shape) -> Cost:
    """Pre, sinkhorn and post, each with its backward, one after the other."""
    parts = [
        cost(s)
        for cost in (
            pre_forward, sinkhorn_forward, post_forward,
            pre_backward, sinkhorn_backward, post_backward,
        )
    ]  # fmt: skip
    return Cost(sum(c.flops for c in parts), sum(c.bytes for c in parts))


PRE_SHAPES = (
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
    Shape(65536, 4, 512),
)
LARGE = (Shape(4096, 4, 2560),)

OPERATORS = {
    "pre": Operator(
        {"forward": pre_forward, "backward": pre_backward},
        PRE_SHAPES,
        PRE_SHAPES[:4],
        (
            "tests/ops/pre/test_pre.py",
            "tests/ops/pre/test_pre_bitwise.py",
            "tests/ops/pre/test_pre_precision.py",
            "tests/ops/pre/test_pre_cpu.py",
        ),
    ),
    "sinkhorn": Operator(
        {"forward": sinkhorn_forward, "backward": sinkhorn_backward},
        (Shape(16384, 4, 1),),
        (Shape(16384, 4, 1),),
        ("tests/ops/sinkhorn",),
    ),
    "post": Operator(
        {"forward": post_forward, "backward": post_backward}, LARGE, LARGE, ("tests/ops/post",)
    ),
    "post_pre": Operator(
        {"forward": post_pre_forward, "backward": post_pre_backward},
        LARGE,
        (),
        ("tests/ops/post_pre",),
    ),
    "sublayer": Operator(
        {"both": sublayer}, LARGE, LARGE, ("tests/ops/post/test_post_sublayer.py",)
    ),
}
