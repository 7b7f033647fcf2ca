"""Bytes that the kernels move, counted from their launches, beside the fewest possible.

`python -m tests.triton.traffic` prints the table of docs/gpu.md. A kernel touches every tensor that
it is given once: what programs beside each other read together, phi and grad_h_in, comes from the
L2 cache and counts once.
"""

from typing import NamedTuple

import torch

from . import offline, plans

TARGETS = tuple(offline.TARGETS)
SHAPES = ((8192, 4, 4096), (4096, 4, 7168), (8192, 4, 512), (4096, 8, 4096), (64, 4, 7168))


class Operator(NamedTuple):
    """run(tokens, n, d) launches it; fewest(tokens, n, d) is in bytes, for 16-bit x."""

    run: object
    forward: bool
    passes: str
    fewest: object


def moved(target, operator, shape):
    """Bytes of all tensors of all launches of one direction."""
    total = 0
    for launch in offline.launches(target, lambda: operator.run(*shape)):
        if ("_fwd_" in launch.kernel.__name__) is operator.forward:
            tensors = (a for a in launch.args if isinstance(a, torch.Tensor))
            total += sum(t.numel() * t.element_size() for t in tensors)
    return total


def _parameters(n, d):
    """Bytes of phi and gamma."""
    return 4 * (2 * n + n * n + 1) * n * d


def _pre_forward(t, n, d):
    """x twice; h_in; h_post, h_res, inv_rms, h_mix, h_pre."""
    gates = 2 * n + n * n + 1 + (2 * n + n * n)
    return 4 * t * n * d + 2 * t * d + 4 * t * gates + _parameters(n, d)


def _pre_backward(t, n, d, others=0):
    """x and grad_h_in twice, grad_x, and `others` of x's size; what the forward saved."""
    gates = 3 * n + n * n + 1 + (2 * n + n * n)
    x_like = (6 + 2 * others) * t * n * d
    return x_like + 4 * t * d + 4 * t * gates + 2 * _parameters(n, d)


def _post_forward(t, n, d):
    return 4 * t * n * d + 2 * t * d + 4 * t * (n * n + n) + 4 * d


def _post_backward(t, n, d):
    return 6 * t * n * d + 4 * t * d + 8 * t * (n * n + n) + 8 * d


def _post_pre_forward(t, n, d):
    """Post's, and pre's without the first of its two reads."""
    return _post_forward(t, n, d) + _pre_forward(t, n, d) - 2 * t * n * d


def _post_pre_backward(t, n, d):
    """Pre's with the other gradient of x_next, and post's, without the gradient between."""
    return _pre_backward(t, n, d, 1) + _post_backward(t, n, d) - 4 * t * n * d


def _pre(t, n, d, post=False):
    plans.run_pre(n, d, tokens=t, post=post)


def _with_post(t, n, d):
    _pre(t, n, d, True)


def _post(t, n, d):
    plans.run_post(n, d, tokens=t)


def _post_pre(t, n, d):
    plans.run_post_pre(n, d, tokens=t)


def _sinkhorn(t, n, d):
    plans.run_sinkhorn(n, tokens=t)


OPERATORS = {
    "pre forward": Operator(_pre, True, "x twice", _pre_forward),
    "pre backward": Operator(_pre, False, "x twice, grad_h_in twice, grad_x once", _pre_backward),
    "pre backward, grad_x_post": Operator(
        _with_post, False, "the same and grad_x_post once", lambda *s: _pre_backward(*s, 1)
    ),
    "post forward": Operator(_post, True, "x once, out once", _post_forward),
    "post backward": Operator(_post, False, "grad_out, x, grad_x once", _post_backward),
    "post_pre forward": Operator(
        _post_pre, True, "x once, x_next written once and read once", _post_pre_forward
    ),
    "post_pre backward": Operator(
        _post_pre, False, "x_next twice, x, grad_x_next, grad_x once", _post_pre_backward
    ),
    "sinkhorn forward": Operator(
        _sinkhorn, True, "logits once", lambda t, n, d: 8 * t * n * n + 8 * t
    ),
    "sinkhorn backward": Operator(
        _sinkhorn, False, "logits, both gradients once", lambda t, n, d: 12 * t * n * n
    ),
}


def over(target, name, shape):
    """How much more than the fewest bytes: 0.05 is 5 %."""
    return moved(target, OPERATORS[name], shape) / OPERATORS[name].fewest(*shape) - 1


def table(target="sm_90"):
    head = ["Operator", "Passes counted as needed", *(f"{s}" for s in SHAPES)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, operator in OPERATORS.items():
        extra = (f"{100 * over(target, name, shape):.0f} %" for shape in SHAPES)
        lines.append(f"| {' | '.join((name, operator.passes, *extra))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
