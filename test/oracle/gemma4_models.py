"""Small models of Gemma 4, one of each kind that is published: dense with keys as values, with experts,
with inputs of layers and shared caches; and one with an odd pattern. As those of family_models.py.

Weights of the norms of Q and K are small: scores are not scaled, so that the rounding of K and V in the
cache would else be most of what the logits have.
"""

import numpy as np
import torch
from family_models import BPE, Layout, Step, step_of
from gguf import MODEL_ARCH_NAMES, get_tensor_name_map
from layouts import VOCAB
from tiny_models import Case, Tiny
from transformers import AutoModelForCausalLM, Gemma4TextConfig

WINDOWED, FULL = "sliding_attention", "full_attention"
TURNED = 0.25  # of a full head's pairs


def config(kinds, width, full_width, **more):
    rope = {WINDOWED: {"rope_type": "default", "rope_theta": 100.0},
            FULL: {"rope_type": "proportional", "partial_rotary_factor": TURNED, "rope_theta": 10000.0}}
    return Gemma4TextConfig(**({
        "vocab_size": VOCAB, "vocab_size_per_layer_input": VOCAB, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": len(kinds), "layer_types": kinds, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": width, "global_head_dim": full_width, "sliding_window": 8,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-2, "rope_parameters": rope,
        "hidden_size_per_layer_input": 0, "tie_word_embeddings": True, "pad_token_id": 0} | more))


def keys_of(c):
    """As converters write them: arrays where layers differ."""
    layers = range(c.num_hidden_layers)
    full, windowed = (c.per_layer_config[c.layer_types.index(kind)].head_dim for kind in (FULL, WINDOWED))
    shared = c.num_hidden_layers - c.num_kv_shared_layers
    out = {"attention.key_length": full, "attention.value_length": full,
           "attention.key_length_swa": windowed, "attention.value_length_swa": windowed,
           "attention.sliding_window": c.sliding_window, "attention.shared_kv_layers": c.num_kv_shared_layers,
           "attention.sliding_window_pattern": [kind == WINDOWED for kind in c.layer_types],
           "attention.head_count_kv": [c.per_layer_config[i].num_key_value_heads for i in layers],
           "rope.freq_base": 10000.0, "rope.freq_base_swa": 100.0,
           "rope.dimension_count": full, "rope.dimension_count_swa": windowed,
           "embedding_length_per_layer_input": c.hidden_size_per_layer_input or 0}
    if c.final_logit_softcapping:
        out["final_logit_softcapping"] = c.final_logit_softcapping
    if c.use_double_wide_mlp:
        out["feed_forward_length"] = [c.intermediate_size * (2 if i >= shared else 1) for i in layers]
    if c.enable_moe_block:
        out |= {"expert_count": c.num_experts, "expert_used_count": c.top_k_experts,
                "expert_feed_forward_length": c.moe_intermediate_size}
    return out


def gemma_step(name, shape, names, split_experts):
    """Names of what is no matrix or vector of a module are not all in the table, or without an ending."""
    def one(to):
        return Step([to], [shape], lambda values: values[0])
    if name.endswith(("router.scale", "router.per_expert_scale")):
        part = "ffn_gate_inp" if name.endswith("router.scale") else "ffn_down_exps"
        return one(f"blk.{name.split('.')[2]}.{part}.scale")
    if name.endswith("layer_scalar") or (name.endswith("experts.gate_up_proj") and not split_experts):
        return one(names.get_name(name, try_suffixes=(".weight",)) + ".weight")
    return step_of(name, shape, names, Layout())


def tiny_gemma(name, seed, c, gain, kind="Q8_0", split_experts=False):
    with torch.device("meta"):
        state = AutoModelForCausalLM.from_config(c).state_dict()
    key = next(k for k, v in MODEL_ARCH_NAMES.items() if v == "gemma4")
    names = get_tensor_name_map(key, c.num_hidden_layers)
    steps = {n: gemma_step(n, tuple(v.shape), names, split_experts)
             for n, v in state.items() if n != "lm_head.weight"}
    shapes = {n: s for step in steps.values() for n, s in zip(step.names, step.shapes)}

    def to_hf(values, _):
        return {hf: step.back([values[n] for n in step.names]) for hf, step in steps.items()}

    keys = keys_of(c)
    pairs = keys["attention.key_length"] // 2
    turned = int(2 * pairs * TURNED / 2)
    factors = np.array([1.0] * turned + [1e30] * (pairs - turned), dtype=np.float32)
    gains = {"attn_q_norm": gain, "attn_k_norm": gain, "token_embd": 0.5, "ffn_gate_inp": 2.0,
             "per_layer_token_embd": 2.0}
    return Tiny(name, "gemma4", c, seed, {n.split(".")[-2]: kind for n in shapes}, keys, shapes, gains, to_hf,
                BPE, [Case("plain")], extra={"rope_freqs.weight": factors})


def dense():
    """31B, 12B: values are keys in full layers, which have fewer heads; heads of the published widths."""
    c = config([WINDOWED, WINDOWED, FULL, FULL], 256, 512, attention_k_eq_v=True, num_attention_heads=2,
               num_global_key_value_heads=1, final_logit_softcapping=5.0)
    return tiny_gemma("gemma4", 91, c, 0.2)


def experts():
    """26B-A4B: experts beside the dense part, gate and up in one tensor."""
    c = config([WINDOWED, WINDOWED, FULL, WINDOWED, FULL], 32, 64, attention_k_eq_v=True,
               enable_moe_block=True, num_global_key_value_heads=1, num_experts=8, top_k_experts=3,
               moe_intermediate_size=32, final_logit_softcapping=30.0)
    return tiny_gemma("gemma4-experts", 96, c, 0.25)


def inputs():
    """E2B: inputs of layers, shared caches, wider feed-forwards where they are; heads as published."""
    c = config([WINDOWED, WINDOWED, FULL, WINDOWED, FULL], 256, 512, num_kv_shared_layers=2,
               num_key_value_heads=1, num_attention_heads=2, hidden_size_per_layer_input=32,
               use_double_wide_mlp=True)
    return tiny_gemma("gemma4-inputs", 100, c, 0.2)


def odd():
    """Owners end on a windowed layer, readers follow no period; experts in two tensors, inputs of layers."""
    kinds = [WINDOWED, FULL, WINDOWED, WINDOWED, FULL, WINDOWED, WINDOWED, FULL]
    c = config(kinds, 32, 64, num_kv_shared_layers=4, hidden_size_per_layer_input=32, enable_moe_block=True,
               num_experts=4, top_k_experts=2, moe_intermediate_size=32, final_logit_softcapping=30.0)
    return tiny_gemma("gemma4-odd", 94, c, 0.25, split_experts=True)


ALL = [dense, experts, inputs, odd]
