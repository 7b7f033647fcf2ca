"""HY-V4: the accelerated classes, each under the name of the class that it stands in for."""

from typing import Any

from torch import Tensor
from transformers.models.hy_v4 import modeling_hy_v4 as theirs
from transformers.utils.deprecation import deprecate_kwarg

from .family import Family
from .mixing import collapse_at_the_end, connect_independent, write_back


@deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
def layer_forward(
    self: Any,
    hidden_states: Tensor,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    cache: Any = None,
    use_cache: bool | None = False,
    position_embeddings: tuple[Tensor, Tensor] | None = None,
    prev_topk_indices: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    post, collapsed, streams = self.attn_hc(hidden_states)
    attended, _, topk_indices = self.self_attn(
        hidden_states=self.input_layernorm(collapsed),
        attention_mask=attention_mask,
        position_ids=position_ids,
        cache=cache,
        use_cache=use_cache,
        position_embeddings=position_embeddings,
        prev_topk_indices=prev_topk_indices,
        **kwargs,
    )
    streams = write_back(streams, None, attended, post)
    post, collapsed, streams = self.ffn_hc(streams)
    fed = self.mlp(self.post_attention_layernorm(collapsed))
    return write_back(streams, None, fed, post), topk_indices


class HYV4HyperConnection(theirs.HYV4HyperConnection):
    forward = connect_independent


class HYV4HyperHead(theirs.HYV4HyperHead):
    forward = collapse_at_the_end


class HYV4DecoderLayer(theirs.HYV4DecoderLayer):
    forward = layer_forward


FAMILY = Family(
    name="HY-V4",
    connection=(theirs.HYV4HyperConnection, HYV4HyperConnection),
    layer=(theirs.HYV4DecoderLayer, HYV4DecoderLayer),
    head=(theirs.HYV4HyperHead, HYV4HyperHead),
    norm=theirs.HYV4UnweightedRMSNorm,
    options=("hc_mult", "hc_magnitude", "hc_eps"),
    layer_kinds=(({}, lambda h: (h, None, "indices")),),
)
