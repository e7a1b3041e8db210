"""How GGUF tensors are shaped, and how they map to transformers' modules, for each family."""

import numpy as np

VOCAB = 320


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
        shapes |= {p + "attn_norm.weight": (n,), p + "ffn_norm.weight": (n,),
                   p + "attn_output.weight": (n, q),
                   p + "ffn_down.weight": (n, ff)}
        if fused:
            shapes |= {p + "attn_qkv.weight": (q + 2 * kv, n), p + "ffn_up.weight": (2 * ff, n)}
        else:
            shapes |= {p + "attn_q.weight": (q, n), p + "attn_k.weight": (kv, n),
                       p + "attn_v.weight": (kv, n),
                       p + "ffn_gate.weight": (ff, n), p + "ffn_up.weight": (ff, n)}
        if bias:
            shapes |= {p + "attn_q.bias": (q,), p + "attn_k.bias": (kv,), p + "attn_v.bias": (kv,)}
    return shapes


def gpt_oss_shapes(c):
    n, ff, e = c.hidden_size, c.intermediate_size, c.num_local_experts
    q, kv = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    shapes = {"token_embd.weight": (VOCAB, n), "output_norm.weight": (n,), "output.weight": (VOCAB, n)}
    for i in range(c.num_hidden_layers):
        p = f"blk.{i}."
        shapes |= {p + "attn_norm.weight": (n,), p + "post_attention_norm.weight": (n,),
                   p + "attn_sinks.weight": (c.num_attention_heads,),
                   p + "attn_q.weight": (q, n), p + "attn_q.bias": (q,), p + "attn_k.weight": (kv, n),
                   p + "attn_k.bias": (kv,), p + "attn_v.weight": (kv, n), p + "attn_v.bias": (kv,),
                   p + "attn_output.weight": (n, q), p + "attn_output.bias": (n,),
                   p + "ffn_gate_inp.weight": (e, n), p + "ffn_gate_inp.bias": (e,),
                   p + "ffn_gate_exps.weight": (e, ff, n), p + "ffn_gate_exps.bias": (e, ff),
                   p + "ffn_up_exps.weight": (e, ff, n), p + "ffn_up_exps.bias": (e, ff),
                   p + "ffn_down_exps.weight": (e, n, ff), p + "ffn_down_exps.bias": (e, n)}
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
    """GGUF llama rotates pairs (2i, 2i+1), transformers (i, i + d/2): undo the converter's permutation."""
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
    slow = wave > original / low
    return np.where(wave < original / high, 1.0, np.where(slow, factor,
                                                          middle)).astype(np.float32)
