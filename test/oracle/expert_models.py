"""Small models whose experts are chosen in other ways than by the highest softmax: sigmoids, biases for the
choice, groups; with dense layers between, shared experts, latent attention. As those of family_models.py.
"""

import numpy as np
from family_models import PLAIN, Layout, head, sizes, tiny
from transformers import (DeepseekV2Config, DeepseekV3Config, Ernie4_5_MoeConfig, Glm4MoeConfig,
                          Glm4MoeLiteConfig)


def glm4moe_config(**more):
    rope = PLAIN | {"partial_rotary_factor": 0.5}
    return Glm4MoeConfig(**(sizes(head_dim=16, num_hidden_layers=3, n_routed_experts=8,
                                  num_experts_per_tok=3, moe_intermediate_size=64, n_group=1, topk_group=1,
                                  norm_topk_prob=True, rope_parameters=rope, num_nextn_predict_layers=0) |
                            more))


def glm4moe_keys():
    return head(16) | {"rope.dimension_count": 8, "expert_count": 8, "expert_used_count": 3,
                       "expert_feed_forward_length": 64, "expert_gating_func": 2, "expert_weights_norm": True}


GLM4MOE = Layout(renamed={"post_attention_layernorm": "post_attention_norm"})


def glm4moe():
    c = glm4moe_config(n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.5,
                       attention_bias=True)
    keys = glm4moe_keys() | {"expert_shared_count": 1, "leading_dense_block_count": 1,
                             "expert_weights_scale": 1.5}
    return tiny("glm4moe", "glm4moe", 52, c, keys, GLM4MOE)


def glm4moe_norms():
    c = glm4moe_config(n_shared_experts=2, first_k_dense_replace=2, routed_scaling_factor=1.0,
                       use_qk_norm=True)
    keys = glm4moe_keys() | {"expert_shared_count": 2, "leading_dense_block_count": 2, "block_count": 4,
                             "nextn_predict_layers": 1}
    out = tiny("glm4moe-norms", "glm4moe", 53, c, keys, GLM4MOE)
    # Published files end with a layer that predicts the token after the next, which transformers leaves out.
    out.extra = {f"blk.3.{n}.weight": np.ones(32, dtype=np.float32)
                 for n in ("attn_norm", "nextn.enorm", "nextn.hnorm")}
    return out


def deepseek_sizes(unrotated, value, rank, **more):
    return sizes(num_hidden_layers=3, num_key_value_heads=4, n_routed_experts=8, num_experts_per_tok=3,
                 moe_intermediate_size=64, first_k_dense_replace=1, n_group=1, topk_group=1,
                 rms_norm_eps=1e-6,  # transformers has it in the norms of latents whatever the model's is
                 qk_nope_head_dim=unrotated, qk_rope_head_dim=16, v_head_dim=value, kv_lora_rank=rank) | more


def deepseek_keys(rank, **more):
    return {"attention.kv_lora_rank": rank, "rope.dimension_count": 16, "expert_count": 8,
            "expert_used_count": 3, "expert_feed_forward_length": 64, "leading_dense_block_count": 1} | more


def yarn_keys(multiplier):
    return {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.yarn_beta_fast": 8.0,
            "rope.scaling.original_context_length": 16, "rope.scaling.yarn_log_multiplier": multiplier}


def deepseek_yarn(multiplier):
    return {"rope_type": "yarn", "type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 8.0,
            "beta_slow": 1.0, "mscale": multiplier, "mscale_all_dim": multiplier,
            "original_max_position_embeddings": 16}


def deepseek2():
    """As the first converters wrote V2-Lite: attn_kv_b, widths of heads, nothing about the router."""
    c = DeepseekV2Config(**deepseek_sizes(32, 32, 64, q_lora_rank=None, n_shared_experts=2,
                                          rope_parameters=deepseek_yarn(0.707)))
    keys = deepseek_keys(64, **yarn_keys(0.0707)) | {
        "attention.key_length": 48, "attention.value_length": 32, "expert_shared_count": 2}
    return tiny("deepseek2", "deepseek2", 54, c, keys, gains={"ffn_gate_inp": 2.0})


def split_keys(unrotated, value, rank, query_rank):
    return deepseek_keys(rank, **{
        "attention.head_count_kv": 1, "attention.q_lora_rank": query_rank,
        "attention.key_length": rank + 16, "attention.value_length": rank,
        "attention.key_length_mla": unrotated + 16, "attention.value_length_mla": value,
        "expert_shared_count": 1, "expert_gating_func": 2, "expert_weights_norm": True})


def deepseek2_v3():
    c = DeepseekV3Config(**deepseek_sizes(32, 32, 96, q_lora_rank=64, n_shared_experts=1,
                                          routed_scaling_factor=2.5, norm_topk_prob=True,
                                          rope_parameters=deepseek_yarn(1.0)))
    keys = split_keys(32, 32, 96, 64) | yarn_keys(0.1) | {"expert_weights_scale": 2.5}
    return tiny("deepseek2-v3", "deepseek2", 57, c, keys, Layout(latents=(4, 32, 32)))


def deepseek2_glm():
    """GLM-4.7-Flash: keys and values of different widths."""
    more = deepseek_sizes(64, 96, 32, q_lora_rank=32, n_shared_experts=1, routed_scaling_factor=1.8,
                          norm_topk_prob=True, num_attention_heads=5, num_key_value_heads=5,
                          mlp_layer_types=["dense", "sparse", "sparse"])
    del more["first_k_dense_replace"]
    keys = split_keys(64, 96, 32, 32) | {"expert_weights_scale": 1.8}
    return tiny("deepseek2-glm", "deepseek2", 56, Glm4MoeLiteConfig(**more), keys,
                Layout(latents=(5, 64, 96)))


def grouped_keys(groups, used, **more):
    return {"expert_group_count": groups, "expert_group_used_count": used} | more


def deepseek2_groups():
    """Experts chosen from groups, as DeepSeek-V3 and R1 do: from 2 groups of 4, of two experts each."""
    c = DeepseekV3Config(**deepseek_sizes(32, 32, 32, q_lora_rank=32, n_shared_experts=1, num_hidden_layers=2,
                                          num_attention_heads=2, num_key_value_heads=2, n_group=4,
                                          topk_group=2, moe_intermediate_size=32, intermediate_size=32,
                                          routed_scaling_factor=2.5, norm_topk_prob=True,
                                          tie_word_embeddings=True))
    keys = split_keys(32, 32, 32, 32) | grouped_keys(4, 2, expert_weights_scale=2.5,
                                                     expert_feed_forward_length=32)
    return tiny("deepseek2-groups", "deepseek2", 58, c, keys, Layout(latents=(2, 32, 32)))


def deepseek2_groups_large():
    """Groups of four experts, all of whose weights stay as they are."""
    c = DeepseekV3Config(**deepseek_sizes(32, 32, 32, q_lora_rank=None, n_shared_experts=1,
                                          n_routed_experts=16, num_experts_per_tok=5, n_group=4, topk_group=3,
                                          norm_topk_prob=False, routed_scaling_factor=1.0))
    keys = split_keys(32, 32, 32, 1) | grouped_keys(4, 3, expert_count=16, expert_used_count=5,
                                                    expert_weights_norm=False)
    del keys["attention.q_lora_rank"]
    return tiny("deepseek2-groups-large", "deepseek2", 59, c, keys, Layout(latents=(4, 32, 32)))


def deepseek2_v2():
    """As published and as converters write it now: from the 2 groups of 4 with the best experts."""
    c = DeepseekV2Config(**deepseek_sizes(32, 32, 32, q_lora_rank=32, n_shared_experts=1, num_hidden_layers=2,
                                          num_attention_heads=2, num_key_value_heads=2, n_group=4,
                                          topk_group=2, n_routed_experts=12, num_experts_per_tok=4,
                                          topk_method="group_limited_greedy", moe_intermediate_size=32,
                                          intermediate_size=32,
                                          routed_scaling_factor=4.0, tie_word_embeddings=True,
                                          rope_parameters=deepseek_yarn(0.707)))
    keys = split_keys(32, 32, 32, 32) | yarn_keys(0.0707) | grouped_keys(
        4, 2, expert_count=12, expert_used_count=4, expert_gating_func=1,
        expert_weights_norm=False, expert_weights_scale=4.0, expert_feed_forward_length=32)
    return tiny("deepseek2-v2", "deepseek2", 85, c, keys, Layout(latents=(2, 32, 32)),
                gains={"ffn_gate_inp": 0.8})


def glm4moe_groups():
    c = glm4moe_config(n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.5, n_group=4,
                       topk_group=2, num_hidden_layers=2, moe_intermediate_size=32, intermediate_size=32,
                       tie_word_embeddings=True)
    keys = glm4moe_keys() | grouped_keys(4, 2, expert_shared_count=1, leading_dense_block_count=1,
                                         expert_weights_scale=1.5, expert_feed_forward_length=32)
    return tiny("glm4moe-groups", "glm4moe", 72, c, keys, GLM4MOE)


def ernie_keys(step, experts, width):
    return {"expert_count": experts, "expert_used_count": 3, "expert_feed_forward_length": width,
            "leading_dense_block_count": 1, "interleave_moe_layer_step": step}


def ernie4_5_moe():
    """Experts on the second of three layers; biases as large as the softmax that they are added to."""
    c = Ernie4_5_MoeConfig(**sizes(num_hidden_layers=3, moe_num_experts=6, moe_k=3, moe_num_shared_experts=2,
                                   moe_intermediate_size=64, moe_layer_start_index=1, moe_layer_interval=2,
                                   num_key_value_heads=1, tie_word_embeddings=True))
    keys = ernie_keys(2, 6, 64) | {"expert_shared_count": 2, "expert_shared_feed_forward_length": 128}
    return tiny("ernie4_5-moe", "ernie4_5-moe", 92, c, keys,
                gains={"ffn_gate_inp": 1.5, "exp_probs_b.bias": 0.1})


def ernie4_5_moe_plain():
    """Without a bias for the choice and without shared experts: what is left is Mixtral's router."""
    c = Ernie4_5_MoeConfig(**sizes(moe_num_experts=6, moe_k=3, moe_num_shared_experts=0,
                                   moe_intermediate_size=64, moe_layer_start_index=1,
                                   tie_word_embeddings=True))
    return tiny("ernie4_5-moe-plain", "ernie4_5-moe", 64, c, ernie_keys(1, 6, 64),
                Layout(no_choice_bias=True), gains={"ffn_gate_inp": 2.0})


ALL = [glm4moe, glm4moe_norms, deepseek2, deepseek2_v3, deepseek2_glm, deepseek2_groups,
       deepseek2_groups_large, deepseek2_v2, glm4moe_groups, ernie4_5_moe, ernie4_5_moe_plain]
