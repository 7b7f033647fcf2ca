"""The layer written out in plain torch, independent of the operators: the truth of tests/nn."""

from itertools import permutations

import torch


def sinkhorn(logits, num_iters=20, eps=1e-6, eps_mode="add", order="columns_last", temperature=1.0):
    if order == "rows_last":
        options = {"num_iters": num_iters, "eps": eps, "eps_mode": eps_mode}
        return sinkhorn(logits.mT, **options, temperature=temperature).mT

    def over(h, dim):
        s = h.sum(dim, keepdim=True)
        return h / (
            s + eps if eps_mode == "add" else s.clamp(min=eps) if eps_mode == "clamp" else s
        )

    h = torch.softmax(logits / temperature, -1)
    h = h + eps if eps_mode == "add" else h
    for i in range(num_iters):
        h = over(h if i == 0 else over(h, -1), -2)
    return h


def h_res_of(hc, logits):
    n = hc.streams
    if hc.residual == "identity":
        return torch.eye(n, dtype=logits.dtype).expand(*logits.shape[:-1], n, n)
    if hc.residual == "lite":
        table = torch.stack(
            [torch.eye(n, dtype=logits.dtype)[list(s)] for s in permutations(range(n))]
        )
        return torch.einsum("...k,kij->...ij", torch.softmax(logits, -1), table)
    square, c = logits.unflatten(-1, (n, n)), hc.convention
    square = square.mT if c.res_rows == "to_from" else square
    return sinkhorn(square, c.num_iters, c.sinkhorn_eps, c.eps_mode, c.order, c.temperature)


def layer(hc, x, sublayer):
    """hc(x, sublayer) from hc's own parameters, differentiable, in the dtype of x."""
    n, c = hc.streams, hc.convention
    mean_sq = x.square().mean((-2, -1))
    inv_rms = (
        1 / (mean_sq.sqrt() + c.norm_eps) if c.norm_eps_outside else (mean_sq + c.norm_eps) ** -0.5
    )
    scaled = x if hc.gamma is None else x * hc.gamma
    w = (scaled.flatten(-2) @ hc.phi.T) * inv_rms[..., None]
    z = [
        hc.alpha[k] * part + bias
        for k, (part, bias) in enumerate(
            zip(
                w.split([n, n, len(hc.bias) - 2 * n], -1),
                hc.bias.split([n, n, len(hc.bias) - 2 * n]),
                strict=True,
            )
        )
        if k < len(hc.alpha)
    ]
    h_pre = torch.sigmoid(z[0]) + c.hc_eps
    h_post = c.post_scale * torch.sigmoid(z[1]) + c.post_eps
    h_res = h_res_of(hc, z[2] if len(z) == 3 else x.new_zeros(*x.shape[:-2], 0))
    h_out = sublayer(torch.einsum("...i,...id->...d", h_pre, x))
    h_out = h_out if hc.out_bias is None else h_out + hc.out_bias
    return torch.einsum("...ij,...id->...jd", h_res, x) + h_post[..., None] * h_out[..., None, :]


def disturb(module, seed=0):
    """Give every parameter of a module values of order 1, so that every term counts."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in module.named_parameters():
            size = p.shape[-1] ** -0.5 if name.split(".")[-1] in ("phi", "fn", "weight") else 1.0
            p.copy_(
                torch.randn(p.shape, generator=generator) * size
                + (1.0 if p.dim() == 1 and "alpha" in name else 0.0)
            )
    return module


def gradients(output, module, *inputs, seed=7):
    """Gradients of inputs and parameters under a random upstream gradient."""
    return torch.autograd.grad(output, [*inputs, *module.parameters()], upstream_of(output, seed))


def upstream_of(output, seed=7):
    """A random gradient of the output."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(output.shape, generator=generator).to(output.dtype)
