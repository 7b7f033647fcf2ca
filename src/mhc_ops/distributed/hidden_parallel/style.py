"""HiddenParallel: a plan for parallelize_module that shards mHC modules along their channels."""

from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from ...errors import ArgumentError, UnsupportedError
from ...nn import HyperConnection, HyperConnectionContext, StreamHead
from ...ops.head.api import stream_head as whole_head
from .head import stream_head
from .read import mhc_pre, mhc_pre_sinkhorn
from .write import mhc_post

# The dimension of a parameter that runs over channels, once phi and fn are [rows, N, D].
_CHANNELS = {"phi": 2, "fn": 2, "gamma": 1, "out_bias": 0}


class HiddenParallel(ParallelStyle):
    """Shard a HyperConnection or a StreamHead along D over the ranks of a mesh dimension.

    Same as::

        parallelize_module(model, mesh["tp"], {"block.hc": HiddenParallel()})

    The module then takes x as a DTensor [.., N, D] sharded along D, or as this rank's plain share
    [.., N, D/P]. Its sublayer gets h_in, and the module gives its result, in the same form; the
    sublayer may return any DTensor of [.., D], or the plain share.

    Parameters must have the same values on every rank before; each keeps its part.

    phi (and fn) become DTensors [F, N, D], gamma [N, D] and out_bias [D], sharded along D; alpha,
    bias, base and scale are replicated, and so are their gradients, with the same bits on every
    rank. load_state_dict takes the usual shapes too.

    Raises: ArgumentError (a ValueError): another module, or D not divisible by the ranks.
            UnsupportedError: impl names an implementation other than "torch", which has no parts.
    """

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        given: Any = module
        if isinstance(module, HyperConnection):
            given.__class__ = HiddenParallelConnection
        elif isinstance(module, StreamHead):
            given.__class__ = HiddenParallelHead
        else:
            raise ArgumentError(
                f"HiddenParallel: takes a HyperConnection or a StreamHead, got "
                f"{type(module).__name__}; ColwiseParallel and RowwiseParallel are for the rest."
            )
        if module.dim % device_mesh.size():
            raise ArgumentError(
                f"HiddenParallel: dim must be divisible by the {device_mesh.size()} ranks of the "
                f"mesh, got {module.dim}."
            )
        if module.impl not in ("auto", "torch"):
            raise UnsupportedError(
                f"HiddenParallel: impl='{module.impl}' computes gates and sums in one go and has "
                f"no parts to put a collective between; use impl='auto' or 'torch'."
            )
        given.hidden_mesh = device_mesh
        for name, parameter in list(module.named_parameters(recurse=False)):
            placement: Placement = Shard(_CHANNELS[name]) if name in _CHANNELS else Replicate()
            whole = _by_stream(name, parameter.detach(), module.streams)
            made = distribute_tensor(whole, device_mesh, [placement], src_data_rank=None)
            module.register_parameter(name, nn.Parameter(made, parameter.requires_grad))
        given.register_load_state_dict_pre_hook(_load_usual_shapes)
        return module


class _HiddenParallelModule(nn.Module):
    hidden_mesh: DeviceMesh

    def reset_parameters(self) -> None:
        """Raises UnsupportedError: initial values are drawn before HiddenParallel is applied."""
        raise UnsupportedError(
            f"{type(self).__name__}.reset_parameters: parameters are sharded; draw initial values "
            f"before parallelize_module, or load_state_dict after it."
        )

    def _share(self, t: Tensor) -> Tensor:
        """This rank's channels of an activation [.., D]; a plain tensor is the share already."""
        if not isinstance(t, DTensor):
            return t
        share: Tensor = t.redistribute(self.hidden_mesh, [Shard(t.dim() - 1)]).to_local()
        return share

    def _shared(self, t: Tensor) -> Tensor:
        """The DTensor of which a plain tensor is this rank's channels."""
        if isinstance(t, DTensor):
            return t
        return DTensor.from_local(t, self.hidden_mesh, [Shard(t.dim() - 1)], run_check=False)

    def _whole(self, share: Tensor, like: Tensor) -> Tensor:
        """A DTensor of all channels where `like` is one, else the share itself."""
        return self._shared(share) if isinstance(like, DTensor) else share


class HiddenParallelConnection(_HiddenParallelModule, HyperConnection):
    """A HyperConnection under HiddenParallel, which makes it of one; call it as before."""

    def pre(self, x: Tensor) -> tuple[Tensor, HyperConnectionContext]:
        own = self._share(x)
        phi, alpha, bias, gamma = self._local_parameters(own)
        options: dict[str, Any] = {
            "group": self.hidden_mesh,
            "convention": self.convention,
            "precision": self.precision,
        }
        h_res: Tensor | None
        if self.residual == "sinkhorn":
            options.update(self.sinkhorn_options)
            h_in, h_post, h_res, own = mhc_pre_sinkhorn(own, phi, alpha, bias, gamma, **options)
        else:
            h_in, h_post, logits, own = mhc_pre(own, phi, alpha, bias, gamma, **options)
            h_res = self.mix_permutations(logits)
        ctx = HyperConnectionContext(self._whole(own, x), h_res, h_post)
        return self._whole(h_in, x), self.observed(ctx)

    def post(
        self, h_out: Tensor, ctx: HyperConnectionContext, *, bias: Tensor | None = None
    ) -> Tensor:
        given = None if bias is None else self._shared(bias)
        h_out, bias = self.prepare_output(self._shared(h_out), ctx.x, given)
        written = mhc_post(
            self._share(ctx.x),
            ctx.h_res,
            self._share(h_out),
            ctx.h_post,
            group=self.hidden_mesh,
            bias=None if bias is None else self._share(bias),
            impl=self.impl,
        )
        return self._whole(written, ctx.x)

    def operator_parameters(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Raises UnsupportedError: the operators do not take shares of channels."""
        raise UnsupportedError(
            "HyperConnectionStack: a connection under HiddenParallel has no boundary operator; "
            "call the connections one after the other."
        )

    def _local_parameters(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        gamma = None if self.gamma is None else _local(self._at_use(self.gamma, x))
        phi, alpha, bias = (_local(self._at_use(p, x)) for p in (self.phi, self.alpha, self.bias))
        return phi.flatten(1), alpha, bias, gamma


class HiddenParallelHead(_HiddenParallelModule, StreamHead):
    """A StreamHead under HiddenParallel, which makes it of one; call it as before."""

    def forward(self, x: Tensor) -> Tensor:
        own = self._share(x)
        if not self.learned:
            return self._whole(whole_head(own, impl=self.impl), x)
        fn, base, scale = (_local(self._at_use(p, own)) for p in (self.fn, self.base, self.scale))
        h = stream_head(
            *(own, fn.flatten(1), base, scale),
            group=self.hidden_mesh,
            norm_eps=self.norm_eps,
            eps=self.eps,
        )
        return self._whole(h, x)


def _local(parameter: Any) -> Tensor:
    local: Tensor = parameter.to_local()
    return local


def _by_stream(name: str, whole: Tensor, streams: int) -> Tensor:
    return whole.unflatten(1, (streams, -1)) if name in ("phi", "fn") else whole


def _load_usual_shapes(module: Any, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Let load_state_dict take whole plain tensors, phi and fn as [F, N*D]."""
    for name, parameter in module.named_parameters(recurse=False):
        given = state_dict.get(prefix + name)
        if given is None or isinstance(given, DTensor) or not isinstance(parameter, DTensor):
            continue
        whole = given if given.dim() == parameter.dim() else _by_stream(name, given, module.streams)
        state_dict[prefix + name] = distribute_tensor(
            whole.to(parameter.device), parameter.device_mesh, parameter.placements,
            src_data_rank=None,
        )  # fmt: skip
