"""DeepSeek-V4: the accelerated classes, each under the name of the class that it stands in for."""

from typing import Any

from torch import Tensor
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as theirs

from .family import Family
from .mixing import collapse_at_the_end, connect, write_back


class DeepseekV4HyperConnection(theirs.DeepseekV4HyperConnection):
    forward = connect


class DeepseekV4HyperHead(theirs.DeepseekV4HyperHead):
    forward = collapse_at_the_end


class DeepseekV4DecoderLayer(theirs.DeepseekV4DecoderLayer):
    def forward(
        self, hidden_states: Tensor, input_ids: Tensor | None = None, **kwargs: Any
    ) -> Tensor:
        post, comb, collapsed, streams = self.attn_hc(hidden_states)
        attended, _ = self.self_attn(self.input_layernorm(collapsed), **kwargs)
        streams = write_back(streams, comb, attended, post)
        post, comb, collapsed, streams = self.ffn_hc(streams)
        fed = self.mlp(self.post_attention_layernorm(collapsed), input_ids=input_ids)
        return write_back(streams, comb, fed, post)


FAMILY = Family(
    name="DeepSeek-V4",
    connection=(theirs.DeepseekV4HyperConnection, DeepseekV4HyperConnection),
    layer=(theirs.DeepseekV4DecoderLayer, DeepseekV4DecoderLayer),
    head=(theirs.DeepseekV4HyperHead, DeepseekV4HyperHead),
    norm=theirs.DeepseekV4UnweightedRMSNorm,
    options=("hc_mult", "hc_sinkhorn_iters", "hc_eps"),
    layer_kinds=(({}, lambda h: (h, None)),),
)
