"""The tiny models: hyperparameters, block types, and how GGUF tensors map to transformers' modules.

Every model is a function that returns a `Tiny`. Weights are drawn in GGUF layout, quantized, decoded again, and
those exact values go to transformers; `to_hf` is the mapping. Nothing is shared with the C++ side. The epsilon of
most models is far larger than real ones, so that a wrong or misplaced epsilon shows.
"""

from dataclasses import dataclass, field
from typing import Callable

import numpy as np
from transformers import GptOssConfig, LlamaConfig, Phi3Config, Qwen2Config

VOCAB = 320
CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
HARMONY = ["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>",
           "<|call|>"]
PHI = ["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"]


@dataclass
class Case:
    """One run: `context` is what the worker serves, `rope` overrides the file, `hf_rope` what that means to HF."""
    name: str
    tokens: int = 40
    context: int = 64
    rope: dict = field(default_factory=dict)
    hf_rope: dict | None = None


@dataclass
class Tiny:
    name: str
    arch: str
    config: object
    seed: int
    types: dict  # tensor name, with or without "blk.N.", -> block type name
    keys: dict   # metadata beyond the common ones; names without the "<arch>." prefix
    shapes: dict  # GGUF name -> numpy shape
    gains: dict
    to_hf: Callable
    vocabulary: tuple
    cases: list
    extra: dict = field(default_factory=dict)  # tensors with given values (rope factors), F32


def head_dim(c):
    return getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads


def dense_shapes(c, bias=False, fused=False):
    n, ff, hd = c.hidden_size, c.intermediate_size, head_dim(c)
    q, kv = c.num_attention_heads * hd, c.num_key_value_heads * hd
    shapes = {"token_embd.weight": (VOCAB, n), "output_norm.weight": (n,)}
    if not c.tie_word_embeddings:
        shapes["output.weight"] = (VOCAB, n)
    for i in range(c.num_hidden_layers):
        p = f"blk.{i}."
        shapes |= {p + "attn_norm.weight": (n,), p + "ffn_norm.weight": (n,), p + "attn_output.weight": (n, q),
                   p + "ffn_down.weight": (n, ff)}
        if fused:
            shapes |= {p + "attn_qkv.weight": (q + 2 * kv, n), p + "ffn_up.weight": (2 * ff, n)}
        else:
            shapes |= {p + "attn_q.weight": (q, n), p + "attn_k.weight": (kv, n), p + "attn_v.weight": (kv, n),
                       p + "ffn_gate.weight": (ff, n), p + "ffn_up.weight": (ff, n)}
        if bias:
            shapes |= {p + "attn_q.bias": (q,), p + "attn_k.bias": (kv,), p + "attn_v.bias": (kv,)}
    return shapes


COMMON_NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
                "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
                "attn_output": "self_attn.o_proj", "attn_qkv": "self_attn.qkv_proj",
                "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def rename(name, names):
    top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    parts = name.split(".")
    if parts[0] != "blk":
        return f"{top[parts[0]]}.{parts[1]}"
    return f"model.layers.{parts[1]}.{names[parts[2]]}.{parts[3]}"


def plain_to_hf(values, config):
    return {rename(k, COMMON_NAMES): v for k, v in values.items()}


def llama_to_hf(values, config):
    """GGUF llama rotates pairs (2i, 2i+1), transformers (i, i + d/2): undo the converter's row permutation."""
    out, half = {}, head_dim(config) // 2
    for k, v in values.items():
        if ".attn_q." in k or ".attn_k." in k:
            v = v.reshape(-1, half, 2, v.shape[1]).swapaxes(1, 2).reshape(v.shape)
        out[rename(k, COMMON_NAMES)] = v
    return out


def phi3_to_hf(values, config):
    return {rename(k, COMMON_NAMES | {"ffn_up": "mlp.gate_up_proj"}): v for k, v in values.items()}


def gpt_oss_to_hf(values, config):
    """Gate and up interleave row by row in transformers, and its expert matrices are [expert, in, out]."""
    names = COMMON_NAMES | {"post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"}
    out = {}
    for k, v in values.items():
        if "_exps" in k:
            continue
        if "attn_sinks" in k:
            out[f"model.layers.{k.split('.')[1]}.self_attn.sinks"] = v
        else:
            out[rename(k, names)] = v
    for i in range(config.num_hidden_layers):
        g, p = f"blk.{i}.ffn_", f"model.layers.{i}.mlp.experts."
        weight = np.stack([values[g + "gate_exps.weight"], values[g + "up_exps.weight"]], axis=2)
        bias = np.stack([values[g + "gate_exps.bias"], values[g + "up_exps.bias"]], axis=2)
        e, rows, _, cols = weight.shape
        out[p + "gate_up_proj"] = weight.reshape(e, 2 * rows, cols).swapaxes(1, 2)
        out[p + "gate_up_proj_bias"] = bias.reshape(e, 2 * rows)
        out[p + "down_proj"] = values[g + "down_exps.weight"].swapaxes(1, 2)
        out[p + "down_proj_bias"] = values[g + "down_exps.bias"]
    return out


def llama3_factors(base, dims, factor, low, high, original):
    wave = 2 * np.pi * base ** (np.arange(0, dims, 2) / dims)
    smooth = (original / wave - low) / (high - low)
    middle = 1 / ((1 - smooth) / factor + smooth)
    return np.where(wave < original / high, 1.0, np.where(wave > original / low, factor, middle)).astype(np.float32)


def llama_freqs():
    """Llama 3 style: grouped heads, frequency factors, untied output; ten block types."""
    scaling = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    c = LlamaConfig(vocab_size=VOCAB, hidden_size=256, intermediate_size=288, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-2,
                    rope_parameters=scaling, tie_word_embeddings=False)
    types = {"token_embd": "Q4_K", "output": "Q6_K",
             "blk.0.attn_q": "Q4_K", "blk.0.attn_k": "Q5_K", "blk.0.attn_v": "Q6_K", "blk.0.attn_output": "Q4_K",
             "blk.0.ffn_gate": "Q5_K", "blk.0.ffn_up": "Q4_K", "blk.0.ffn_down": "Q5_0",
             "blk.1.attn_q": "Q8_0", "blk.1.attn_k": "F16", "blk.1.attn_v": "BF16", "blk.1.attn_output": "Q4_0",
             "blk.1.ffn_gate": "Q4_1", "blk.1.ffn_up": "Q5_1", "blk.1.ffn_down": "Q8_0"}
    factors = llama3_factors(10000.0, 64, 8.0, 1.0, 4.0, 64)
    return Tiny("llama-freqs", "llama", c, 11, types, {"rope.dimension_count": 64}, dense_shapes(c), {},
                llama_to_hf, ("bpe", "llama-bpe", CHATML, "<|im_start|>", "<|im_end|>"), [Case("plain")],
                extra={"rope_freqs.weight": factors})


def llama_tied():
    """SmolLM2 style: three heads on one, tied embedding, no matrix fits a K-quant; linear scaling as an override."""
    c = LlamaConfig(vocab_size=VOCAB, hidden_size=96, intermediate_size=160, num_hidden_layers=3,
                    num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=256, rms_norm_eps=1e-5,
                    rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, tie_word_embeddings=True)
    types = {"token_embd": "Q8_0", "attn_q": "Q4_1", "attn_k": "Q4_1", "attn_v": "Q4_1", "attn_output": "Q4_1",
             "ffn_gate": "Q4_1", "ffn_up": "Q4_1", "ffn_down": "Q4_1", "blk.2.attn_q": "MXFP4"}
    linear = {"rope_type": "linear", "rope_theta": 100000.0, "factor": 4.0}
    cases = [Case("plain"), Case("linear", rope={"scaling": "linear", "freq_scale": 0.25}, hf_rope=linear)]
    return Tiny("llama-tied", "llama", c, 12, types, {"rope.dimension_count": 32}, dense_shapes(c), {},
                llama_to_hf, ("bpe", "smollm", CHATML, "<|im_start|>", "<|im_end|>"), cases)


def qwen2_yarn():
    """Biases on Q, K and V; YaRN in the file, switched off by an override in the second case."""
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128,
            "beta_fast": 8.0, "beta_slow": 1.0}
    c = Qwen2Config(vocab_size=VOCAB, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-2,
                    rope_parameters=yarn, tie_word_embeddings=False, use_sliding_window=False)
    types = {"token_embd": "Q5_0", "output": "Q8_0", "attn_q": "Q5_0", "attn_k": "Q5_0", "attn_v": "Q8_0",
             "attn_output": "Q5_0", "ffn_gate": "Q5_0", "ffn_up": "Q5_1", "blk.0.ffn_down": "Q6_K",
             "blk.1.ffn_down": "Q4_K", "blk.2.ffn_down": "Q5_K", "blk.1.attn_v": "F32", "blk.1.ffn_gate": "BF16",
             "blk.2.ffn_up": "F16", "blk.2.attn_output": "MXFP4", "blk.1.attn_q": "Q4_0"}
    keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 128,
            "rope.scaling.yarn_beta_fast": 8.0, "rope.scaling.yarn_beta_slow": 1.0}
    off = {"rope_type": "default", "rope_theta": 10000.0}
    unrounded = yarn | {"truncate": False}
    cases = [Case("yarn"), Case("none", rope={"scaling": "none"}, hf_rope=off),
             Case("yarn-unrounded", rope={"round_correction_dims": False}, hf_rope=unrounded)]
    return Tiny("qwen2-yarn", "qwen2", c, 13, types, keys, dense_shapes(c, bias=True), {}, plain_to_hf,
                ("bpe", "qwen2", CHATML, "<|endoftext|>", "<|im_end|>"), cases)


def phi3_plain():
    """Phi-3-mini style: fused QKV and gate/up, all heads their own K and V, SentencePiece."""
    c = Phi3Config(vocab_size=VOCAB, hidden_size=96, intermediate_size=256, num_hidden_layers=2,
                   num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=4096, rms_norm_eps=1e-2,
                   original_max_position_embeddings=4096, sliding_window=2047, pad_token_id=0,
                   rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0})
    types = {"token_embd": "Q4_0", "output": "Q5_1", "attn_qkv": "Q5_0", "attn_output": "Q8_0", "ffn_up": "Q4_1",
             "blk.0.ffn_down": "Q6_K", "blk.1.ffn_down": "Q4_K"}
    keys = {"rope.dimension_count": 32, "attention.sliding_window": 2047}
    return Tiny("phi3-plain", "phi3", c, 14, types, keys, dense_shapes(c, fused=True), {}, phi3_to_hf,
                ("spm", PHI, "<|endoftext|>"), [Case("plain")])


def phi3_longrope():
    """Phi-4-mini style: grouped heads, three quarters of a head rotated, LongRoPE short and long sets."""
    steps = np.arange(24)
    short, long = (1.0 + 0.02 * steps).astype(np.float32), (1.0 + 0.45 * steps).astype(np.float32)
    scaling = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
               "short_factor": short.astype(float).tolist(), "long_factor": long.astype(float).tolist(),
               "original_max_position_embeddings": 64}
    c = Phi3Config(vocab_size=VOCAB, hidden_size=256, intermediate_size=256, num_hidden_layers=2,
                   num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5,
                   original_max_position_embeddings=64, pad_token_id=0, rope_parameters=scaling)
    types = {"token_embd": "Q4_K", "output": "Q6_K", "attn_qkv": "Q5_K", "attn_output": "Q4_K", "ffn_up": "Q4_K",
             "ffn_down": "Q6_K", "blk.1.attn_qkv": "Q4_K"}
    magnitude = float(np.sqrt(1 + np.log(8.0) / np.log(64.0)))
    keys = {"rope.dimension_count": 48, "rope.scaling.original_context_length": 64,
            "rope.scaling.attn_factor": magnitude}
    cases = [Case("short", context=64), Case("long", tokens=80, context=256)]
    return Tiny("phi3-longrope", "phi3", c, 15, types, keys, dense_shapes(c, fused=True), {}, phi3_to_hf,
                ("spm", PHI, "<|endoftext|>"), cases,
                extra={"rope_factors_short.weight": short, "rope_factors_long.weight": long})


def gpt_oss():
    """Experts, sinks, a window of 8 on even layers, YaRN without rounding, clamped SwiGLU, biases everywhere."""
    yarn = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "original_max_position_embeddings": 128,
            "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False}
    c = GptOssConfig(vocab_size=VOCAB, hidden_size=96, intermediate_size=64, num_hidden_layers=4, head_dim=32,
                     num_attention_heads=8, num_key_value_heads=2, num_local_experts=8, num_experts_per_tok=4,
                     sliding_window=8, max_position_embeddings=4096, rms_norm_eps=1e-2, rope_parameters=yarn)
    n, ff, e, q, kv = 96, 64, 8, 256, 64
    shapes = {"token_embd.weight": (VOCAB, n), "output_norm.weight": (n,), "output.weight": (VOCAB, n)}
    for i in range(4):
        p = f"blk.{i}."
        shapes |= {p + "attn_norm.weight": (n,), p + "post_attention_norm.weight": (n,), p + "attn_sinks.weight": (8,),
                   p + "attn_q.weight": (q, n), p + "attn_q.bias": (q,), p + "attn_k.weight": (kv, n),
                   p + "attn_k.bias": (kv,), p + "attn_v.weight": (kv, n), p + "attn_v.bias": (kv,),
                   p + "attn_output.weight": (n, q), p + "attn_output.bias": (n,),
                   p + "ffn_gate_inp.weight": (e, n), p + "ffn_gate_inp.bias": (e,),
                   p + "ffn_gate_exps.weight": (e, ff, n), p + "ffn_gate_exps.bias": (e, ff),
                   p + "ffn_up_exps.weight": (e, ff, n), p + "ffn_up_exps.bias": (e, ff),
                   p + "ffn_down_exps.weight": (e, n, ff), p + "ffn_down_exps.bias": (e, n)}
    types = {"token_embd": "Q8_0", "output": "Q8_0", "attn_q": "Q8_0", "attn_k": "Q8_0", "attn_v": "Q8_0",
             "attn_output": "Q8_0", "ffn_gate_exps": "MXFP4", "ffn_up_exps": "MXFP4", "ffn_down_exps": "MXFP4",
             "blk.1.attn_output": "Q6_K", "blk.2.attn_q": "BF16", "blk.3.ffn_up_exps": "Q5_1"}
    keys = {"attention.key_length": 32, "attention.value_length": 32, "attention.sliding_window": 8,
            "expert_count": 8, "expert_used_count": 4, "expert_feed_forward_length": 64,
            "rope.scaling.type": "yarn", "rope.scaling.factor": 32.0, "rope.scaling.original_context_length": 128,
            "rope.scaling.yarn_beta_fast": 8.0, "rope.scaling.yarn_beta_slow": 1.0}
    # Both clamps at 7 bite through the biases, which add no sensitivity to rounding.
    gains = {"ffn_gate_exps.bias": 5.0, "ffn_up_exps.bias": 5.0, "ffn_down_exps": 0.25, "ffn_gate_inp": 2.0}
    return Tiny("gpt-oss", "gpt-oss", c, 16, types, keys, shapes, gains, gpt_oss_to_hf,
                ("bpe", "gpt-4o", HARMONY, "<|startoftext|>", "<|return|>"), [Case("plain")])


ALL = [llama_freqs, llama_tied, qwen2_yarn, phi3_plain, phi3_longrope, gpt_oss]
