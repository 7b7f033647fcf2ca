"""GLM-5.3: the accelerated classes, each under the name of the class that it stands in for.

Its final head is a plain mean of the streams, which torch already sums in float32; it stays.
"""

from typing import Any

from torch import Tensor
from transformers.models.glm5_next import modeling_glm5_next as theirs
from transformers.utils.deprecation import deprecate_kwarg

from .family import Family
from .mixing import connect, write_back


class Glm5NextTextHyperConnection(theirs.Glm5NextTextHyperConnection):
    forward = connect


class Glm5NextTextDecoderLayer(theirs.Glm5NextTextDecoderLayer):
    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Any = None,
        use_cache: bool | None = False,
        position_embeddings: tuple[Tensor, Tensor] | None = None,
        prev_topk_indices: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        post, comb, collapsed, streams = self.attn_hc(hidden_states)
        given = {"hidden_states": self.input_layernorm(collapsed), "attention_mask": attention_mask}
        topk_indices = None
        if self.block_type == "linear_attention":
            attended = self.self_attn(cache=cache, **given, **kwargs)
        else:
            attended, _, topk_indices = self.self_attn(
                position_ids=position_ids,
                cache=cache,
                use_cache=use_cache,
                position_embeddings=position_embeddings,
                prev_topk_indices=prev_topk_indices,
                **given,
                **kwargs,
            )
        streams = write_back(streams, comb, attended, post)
        post, comb, collapsed, streams = self.ffn_hc(streams)
        fed = self.mlp(self.post_attention_layernorm(collapsed))
        return write_back(streams, comb, fed, post), topk_indices


FAMILY = Family(
    name="GLM-5.3",
    connection=(theirs.Glm5NextTextHyperConnection, Glm5NextTextHyperConnection),
    layer=(theirs.Glm5NextTextDecoderLayer, Glm5NextTextDecoderLayer),
    head=None,
    norm=theirs.Glm5NextTextUnweightedRMSNorm,
    options=("hc_mult", "hc_sinkhorn_iters", "hc_eps"),
    layer_kinds=(
        ({"block_type": "linear_attention"}, lambda h: h),
        ({"block_type": "indexed_attention"}, lambda h: (h, None, "indices")),
    ),
)
