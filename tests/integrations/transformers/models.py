"""Small random models of every family that accelerate() knows, with nothing trivial in them."""

from functools import partial

import torch
from transformers.models.deepseek_v4 import DeepseekV4Config, DeepseekV4ForCausalLM
from transformers.models.glm5_next import (
    Glm5NextConfig,
    Glm5NextForConditionalGeneration,
    Glm5NextTextConfig,
    Glm5NextVisionConfig,
)
from transformers.models.hy_v4 import HYV4Config, HYV4ForCausalLM
from transformers.models.hy_v4_vl import HYV4VLConfig, HYV4VLForConditionalGeneration

VOCABULARY = 97
EXPERTS = 4


def deepseek_v4(**changes):
    config = {
        "hidden_size": 256,
        "moe_intermediate_size": 64,
        "num_hidden_layers": 3,
        "layer_types": [
            "sliding_attention",
            "compressed_sparse_attention",
            "heavily_compressed_attention",
        ],
        "num_hash_layers": 1,
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
        "num_attention_heads": 4,
        "head_dim": 32,
        "partial_rotary_factor": 0.5,
        "q_lora_rank": 32,
        "o_groups": 2,
        "o_lora_rank": 16,
        "index_n_heads": 2,
        "index_head_dim": 32,
        "index_topk": 4,
        "sliding_window": 16,
        "max_position_embeddings": 256,
    }
    return DeepseekV4ForCausalLM(DeepseekV4Config(**config | _common() | changes))


def glm5_next(**changes):
    text = {
        "hidden_size": 256,
        "intermediate_size": 128,
        "moe_intermediate_size": 64,
        "num_hidden_layers": 2,
        "layer_types": ["linear_attention", "indexed_attention"],
        "mlp_layer_types": ["dense", "sparse"],
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "kv_lora_rank": 32,
        "q_lora_rank": 32,
        "v_head_dim": 16,
        "qk_nope_head_dim": 16,
        "index_topk": 8,
        "index_kpool": 4,
        "index_n_heads": 2,
        "index_head_dim": 16,
        "linear_head_dim": 16,
        "linear_num_heads": 4,
    }
    vision = Glm5NextVisionConfig(
        depth=1,
        hidden_size=32,
        num_heads=2,
        intermediate_size=32,
        out_hidden_size=256,
        projection_intermediate_size=32,
    )
    config = Glm5NextConfig(
        text_config=Glm5NextTextConfig(**text | _common() | changes), vision_config=vision
    )
    return Glm5NextForConditionalGeneration(config)


def hy_v4(**changes):
    return HYV4ForCausalLM(HYV4Config(**_hy_v4() | changes))


def hy_v4_vl(**changes):
    rope = {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
    }
    vision = {"depth": 1, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32}
    config = HYV4VLConfig(text_config=_hy_v4() | rope | changes, vision_config=vision)
    return HYV4VLForConditionalGeneration(config)


BUILDERS = {b.__name__: b for b in (deepseek_v4, glm5_next, hy_v4, hy_v4_vl)}


def random_model(name, **changes):
    """The float32 model, in training mode, every parameter drawn; mHC logits of std 3."""
    model = BUILDERS[name](**changes)
    generator = torch.Generator().manual_seed(1)
    normal = partial(torch.randn, generator=generator)
    with torch.no_grad():
        for full, parameter in model.named_parameters():
            leaf, drawn = full.rpartition(".")[2].removeprefix("hc_"), normal(parameter.shape)
            if leaf == "base":
                parameter.copy_(drawn)
            elif leaf == "scale":
                parameter.copy_(1 + 0.2 * drawn)
            elif "embed_tokens" in full:
                parameter.copy_(drawn)
            elif parameter.dim() < 2:
                parameter.add_(0.2 * drawn)
            else:
                gain = 3 if leaf == "fn" else 1
                parameter.copy_(gain * drawn / parameter.shape[-1] ** 0.5)
        for full, buffer in model.named_buffers():
            if full.endswith("tid2eid"):  # the experts of each token, all different
                order = normal(len(buffer), EXPERTS).argsort(-1)
                buffer.copy_(order[:, : buffer.shape[1]])
    return model.train()


def _common():
    return {
        "vocab_size": VOCABULARY,
        "n_routed_experts": EXPERTS,
        "num_experts_per_tok": 2,
        "pad_token_id": None,
        "bos_token_id": 0,
        "eos_token_id": None,
    }


def _hy_v4():
    return _common() | {
        "hidden_size": 256,
        "intermediate_size": 128,
        "moe_intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "q_lora_rank": 32,
        "kv_lora_rank": 32,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 16,
        "v_head_dim": 16,
        "index_topk": 8,
        "index_head_dim": 32,
        "index_n_heads": 2,
        "hc_magnitude": 1.5,
    }
