"""The tiny models: hyperparameters, block types, and how GGUF tensors map to transformers' modules.

Every model is a function that returns a `Tiny`. Weights are drawn in GGUF layout, quantized, decoded again,
and those exact values go to transformers; `to_hf` is the mapping. Nothing is shared with the C++ side. The
epsilon of most models is far larger than real ones, so that a wrong or misplaced epsilon shows.
"""

from dataclasses import dataclass, field
from typing import Callable

import numpy as np
from layouts import (VOCAB, dense_shapes, gpt_oss_shapes, gpt_oss_to_hf, llama3_factors, llama_to_hf,
                     phi3_to_hf,
                     plain_to_hf)
from transformers import GptOssConfig, LlamaConfig, Phi3Config, Qwen2Config

CHATML = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
HARMONY = ["<|startoftext|>", "<|endoftext|>", "<|return|>", "<|start|>", "<|end|>", "<|message|>",
           "<|channel|>",
           "<|call|>"]
PHI = ["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"]


@dataclass
class Case:
    """One run: `context` is what the worker serves; `rope` overrides the file, `hf_rope` is that for HF."""
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


def llama_freqs():
    """Llama 3 style: grouped heads, frequency factors, untied output; ten block types."""
    scaling = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    c = LlamaConfig(vocab_size=VOCAB, hidden_size=256, intermediate_size=288, num_hidden_layers=2,
                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                    rms_norm_eps=1e-2,
                    rope_parameters=scaling, tie_word_embeddings=False)
    types = {"token_embd": "Q4_K", "output": "Q6_K",
             "blk.0.attn_q": "Q4_K", "blk.0.attn_k": "Q5_K", "blk.0.attn_v": "Q6_K",
             "blk.0.attn_output": "Q4_K",
             "blk.0.ffn_gate": "Q5_K", "blk.0.ffn_up": "Q4_K", "blk.0.ffn_down": "Q5_0",
             "blk.1.attn_q": "Q8_0", "blk.1.attn_k": "F16", "blk.1.attn_v": "BF16",
             "blk.1.attn_output": "Q4_0",
             "blk.1.ffn_gate": "Q4_1", "blk.1.ffn_up": "Q5_1", "blk.1.ffn_down": "Q8_0"}
    factors = llama3_factors(10000.0, 64, 8.0, 1.0, 4.0, 64)
    return Tiny("llama-freqs", "llama", c, 11, types, {"rope.dimension_count": 64}, dense_shapes(c), {},
                llama_to_hf, ("bpe", "llama-bpe", CHATML, "<|im_start|>", "<|im_end|>"), [Case("plain")],
                extra={"rope_freqs.weight": factors})


def llama_tied():
    """SmolLM2 style: three heads on one, tied embedding, no matrix for a K-quant; linear by override."""
    c = LlamaConfig(vocab_size=VOCAB, hidden_size=96, intermediate_size=160, num_hidden_layers=3,
                    num_attention_heads=3, num_key_value_heads=1, max_position_embeddings=256,
                    rms_norm_eps=1e-5,
                    rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
                    tie_word_embeddings=True)
    types = {"token_embd": "Q8_0", "attn_q": "Q4_1", "attn_k": "Q4_1", "attn_v": "Q4_1",
             "attn_output": "Q4_1",
             "ffn_gate": "Q4_1", "ffn_up": "Q4_1", "ffn_down": "Q4_1", "blk.2.attn_q": "MXFP4"}
    linear = {"rope_type": "linear", "rope_theta": 100000.0, "factor": 4.0}
    cases = [Case("plain"), Case("linear", rope={"scaling": "linear", "freq_scale": 0.25}, hf_rope=linear)]
    return Tiny("llama-tied", "llama", c, 12, types, {"rope.dimension_count": 32}, dense_shapes(c), {},
                llama_to_hf, ("bpe", "smollm", CHATML, "<|im_start|>", "<|im_end|>"), cases)


def qwen2_yarn():
    """Biases on Q, K and V; YaRN in the file, switched off by an override in the second case."""
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
            "original_max_position_embeddings": 128,
            "beta_fast": 8.0, "beta_slow": 1.0}
    c = Qwen2Config(vocab_size=VOCAB, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                    rms_norm_eps=1e-2,
                    rope_parameters=yarn, tie_word_embeddings=False, use_sliding_window=False)
    types = {"token_embd": "Q5_0", "output": "Q8_0", "attn_q": "Q5_0", "attn_k": "Q5_0", "attn_v": "Q8_0",
             "attn_output": "Q5_0", "ffn_gate": "Q5_0", "ffn_up": "Q5_1", "blk.0.ffn_down": "Q6_K",
             "blk.1.ffn_down": "Q4_K", "blk.2.ffn_down": "Q5_K", "blk.1.attn_v": "F32",
             "blk.1.ffn_gate": "BF16",
             "blk.2.ffn_up": "F16", "blk.2.attn_output": "MXFP4", "blk.1.attn_q": "Q4_0"}
    keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 128,
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
                   num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=4096,
                   rms_norm_eps=1e-2,
                   original_max_position_embeddings=4096, sliding_window=2047, pad_token_id=0,
                   rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                    "partial_rotary_factor": 1.0})
    types = {"token_embd": "Q4_0", "output": "Q5_1", "attn_qkv": "Q5_0", "attn_output": "Q8_0",
             "ffn_up": "Q4_1",
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
                   num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                   rms_norm_eps=1e-5,
                   original_max_position_embeddings=64, pad_token_id=0, rope_parameters=scaling)
    types = {"token_embd": "Q4_K", "output": "Q6_K", "attn_qkv": "Q5_K", "attn_output": "Q4_K",
             "ffn_up": "Q4_K",
             "ffn_down": "Q6_K", "blk.1.attn_qkv": "Q4_K"}
    magnitude = float(np.sqrt(1 + np.log(8.0) / np.log(64.0)))
    keys = {"rope.dimension_count": 48, "rope.scaling.original_context_length": 64,
            "rope.scaling.attn_factor": magnitude}
    cases = [Case("short", context=64), Case("long", tokens=80, context=256)]
    return Tiny("phi3-longrope", "phi3", c, 15, types, keys, dense_shapes(c, fused=True), {}, phi3_to_hf,
                ("spm", PHI, "<|endoftext|>"), cases,
                extra={"rope_factors_short.weight": short, "rope_factors_long.weight": long})


def gpt_oss():
    """Experts, sinks, a window of 8 on even layers, YaRN without rounding, clamped SwiGLU, biases."""
    yarn = {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0,
            "original_max_position_embeddings": 128,
            "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False}
    c = GptOssConfig(vocab_size=VOCAB, hidden_size=96, intermediate_size=64, num_hidden_layers=4, head_dim=32,
                     num_attention_heads=8, num_key_value_heads=2, num_local_experts=8, num_experts_per_tok=4,
                     sliding_window=8, max_position_embeddings=4096, rms_norm_eps=1e-2, rope_parameters=yarn)
    types = {"token_embd": "Q8_0", "output": "Q8_0", "attn_q": "Q8_0", "attn_k": "Q8_0", "attn_v": "Q8_0",
             "attn_output": "Q8_0", "ffn_gate_exps": "MXFP4", "ffn_up_exps": "MXFP4",
             "ffn_down_exps": "MXFP4",
             "blk.1.attn_output": "Q6_K", "blk.2.attn_q": "BF16", "blk.3.ffn_up_exps": "Q5_1"}
    keys = {"attention.key_length": 32, "attention.value_length": 32, "attention.sliding_window": 8,
            "expert_count": 8, "expert_used_count": 4, "expert_feed_forward_length": 64,
            "rope.scaling.type": "yarn", "rope.scaling.factor": 32.0,
            "rope.scaling.original_context_length": 128,
            "rope.scaling.yarn_beta_fast": 8.0, "rope.scaling.yarn_beta_slow": 1.0}
    # Both clamps at 7 bite through the biases, which add no sensitivity to rounding.
    gains = {"ffn_gate_exps.bias": 5.0, "ffn_up_exps.bias": 5.0, "ffn_down_exps": 0.25, "ffn_gate_inp": 2.0}
    return Tiny("gpt-oss", "gpt-oss", c, 16, types, keys, gpt_oss_shapes(c), gains, gpt_oss_to_hf,
                ("bpe", "gpt-4o", HARMONY, "<|startoftext|>", "<|return|>"), [Case("plain")])


ALL = [llama_freqs, llama_tied, qwen2_yarn, phi3_plain, phi3_longrope, gpt_oss]
