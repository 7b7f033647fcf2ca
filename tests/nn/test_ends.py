"""ExpandStreams and StreamHead are the functions of mhc_ops with parameters of their own."""

import pytest
import torch

from mhc_ops import expand_streams, stream_head
from mhc_ops import nn as mhc_nn
from mhc_ops.errors import ArgumentError, ShapeError
from mhc_ops.nn import ExpandStreams, StreamHead

from .unfused import disturb, gradients


def draw(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(*shape, generator=generator).to(dtype).requires_grad_()


def test_expand():
    h = draw(3, 5)
    expand = ExpandStreams(4)
    assert torch.equal(expand(h), expand_streams(h, 4))
    assert repr(expand) == "ExpandStreams(streams=4)"
    assert not list(expand.parameters())
    assert mhc_nn.expand_streams is expand_streams


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_learned_head(dtype):
    head = disturb(StreamHead(5, 4, norm_eps=1e-2, eps=1e-3))
    x = draw(2, 3, 4, 5, dtype=dtype)
    want = stream_head(x, head.fn, head.base, head.scale, norm_eps=1e-2, eps=1e-3)
    got = head(x)
    assert torch.equal(got, want)
    for a, b in zip(gradients(got, head, x), gradients(want, head, x), strict=True):
        assert torch.equal(a, b)


def test_learned_head_equals_plain_torch():
    head = disturb(StreamHead(5, 4, eps=1e-3)).double()
    x = draw(6, 4, 5, dtype=torch.float64)
    w = x.flatten(-2) @ head.fn.T * (x.square().mean((-2, -1)) + 1e-6).rsqrt()[:, None]
    want = torch.einsum("ti,tid->td", torch.sigmoid(head.scale * w + head.base) + 1e-3, x)
    got = head(x)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    for a, b in zip(gradients(got, head, x), gradients(want, head, x), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-11)


def test_mean_head():
    head = StreamHead(5, 4, learned=False)
    x = draw(3, 4, 5)
    assert torch.equal(head(x), stream_head(x))
    assert not list(head.parameters())
    head.reset_parameters()


def test_repr():
    assert repr(StreamHead(5, 4)) == "StreamHead(dim=5, streams=4, learned=True)"
    text = repr(StreamHead(5, 4, norm_eps=1e-5, eps=0.0, impl="torch"))
    assert "norm_eps=1e-05, eps=0.0, impl='torch'" in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dim": 0}, "dim must be an integer >= 1, got 0"),
        ({"streams": True}, "streams must be an integer >= 1, got True"),
        ({"norm_eps": -1.0}, "norm_eps must be finite and not negative"),
        ({"eps": 0.5}, "needs hc_eps < 1/N"),
        ({"impl": "gpu"}, "impl must be one of"),
        ({"learned": False, "eps": 0.5}, "would have no effect on the mean"),
    ],
)
def test_errors(options, text):
    with pytest.raises(ArgumentError, match=f"^StreamHead: .*{text}"):
        StreamHead(**{"dim": 5, "streams": 4, **options})


def test_errors_of_the_others():
    with pytest.raises(ArgumentError, match=r"^ExpandStreams: streams must be an integer"):
        ExpandStreams(0)
    with pytest.raises(ShapeError, match=r"^stream_head: fn must be"):
        StreamHead(5, 4)(torch.zeros(3, 4, 6))
