"""Small models of families whose layers keep a state or rows of a convolution: one, two and four value heads
a key head, every kind of feed-forward. As those of family_models.py, with 300 tokens.

Tensors are drawn as files have them; `back` makes transformers' of them.
"""

import numpy as np
import torch
from family_models import BPE, PLAIN, Step, head
from layouts import VOCAB
from tiny_models import Case, Tiny
from transformers import (AutoModelForCausalLM, GraniteMoeHybridConfig, Lfm2Config, Lfm2MoeConfig,
                          NemotronHConfig, Qwen3_5MoeTextConfig, Qwen3_5TextConfig, Qwen3NextConfig)

LINEAR, FULL = "linear_attention", "full_attention"
EPS = 1e-2
TOKENS, CONTEXT = 300, 320


def common(**more):
    return {"vocab_size": VOCAB, "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1,
            "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 1,
            "tie_word_embeddings": False} | more


def same(name, shape):
    return Step([name], [shape], lambda values: values[0])


def reshaped(name, file_shape, shape):
    return Step([name], [file_shape], lambda values: values[0].reshape(shape))


def less_one(name, shape):
    """The file's norms have 1 added."""
    return Step([name], [shape], lambda values: values[0] - np.float32(1))


def decay(name, file_shape, order=lambda x: x):
    """A file has -exp of the original's logarithm."""
    return Step([name], [file_shape], lambda values: np.log(-order(values[0].reshape(-1))))


def in_place(name, layer, shape, places):
    for ending, to in places.items():
        if name.endswith(ending):
            return same(f"blk.{layer}.{to}", shape)
    return None


def parted(names, shape):
    """Rows one behind the other, of each expert where there are some."""
    axis = len(shape) - 2
    part = tuple(n // len(names) if i == axis else n for i, n in enumerate(shape))
    return Step(names, [part] * len(names), lambda values: np.concatenate(values, axis=axis))


def turned(width, key_heads, ratio, axis=0):
    """The original's order of value heads, of heads that the file has in turn over the key heads."""
    def order(x):
        x = np.moveaxis(x, axis, 0)
        out = x.reshape(ratio, key_heads, width, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
        return np.moveaxis(out, 0, axis)
    return order


def delta_step(name, layer, shape, c, in_turn):
    hk, hv = c.linear_num_key_heads, c.linear_num_value_heads
    dk, dv = c.linear_key_head_dim, c.linear_value_head_dim
    keys, values_, ratio = hk * dk, hv * dv, hv // hk
    blk = f"blk.{layer}."
    heads = turned(1, hk, ratio) if in_turn else lambda x: x
    wide = turned(dv, hk, ratio) if in_turn else lambda x: x

    def of_values(x):
        return np.concatenate([x[:2 * keys], wide(x[2 * keys:])])

    def by_key_head(values):
        qkv, z = values
        parts = [qkv[:keys].reshape(hk, dk, -1), qkv[keys:2 * keys].reshape(hk, dk, -1),
                 qkv[2 * keys:].reshape(hk, ratio * dv, -1), z.reshape(hk, ratio * dv, -1)]
        return np.concatenate(parts, axis=1).reshape(shape)

    width = shape[-1]
    return {
        "dt_bias": lambda: Step([blk + "ssm_dt.bias"], [shape], lambda v: heads(v[0])),
        "A_log": lambda: decay(blk + "ssm_a", shape, heads),
        "conv1d.weight": lambda: Step([blk + "ssm_conv1d.weight"], [(shape[0], shape[2])],
                                      lambda v: of_values(v[0]).reshape(shape)),
        "norm.weight": lambda: same(blk + "ssm_norm.weight", shape),
        "out_proj.weight": lambda: Step([blk + "ssm_out.weight"], [shape],
                                        lambda v: turned(dv, hk, ratio, 1)(v[0]) if in_turn else v[0]),
        "in_proj_qkv.weight": lambda: Step([blk + "attn_qkv.weight"], [shape], lambda v: of_values(v[0])),
        "in_proj_z.weight": lambda: Step([blk + "attn_gate.weight"], [shape], lambda v: wide(v[0])),
        "in_proj_b.weight": lambda: Step([blk + "ssm_beta.weight"], [shape], lambda v: heads(v[0])),
        "in_proj_a.weight": lambda: Step([blk + "ssm_alpha.weight"], [shape], lambda v: heads(v[0])),
        "in_proj_ba.weight": lambda: same(blk + "ssm_ba.weight", shape),
        "in_proj_qkvz.weight": lambda: Step([blk + "attn_qkv.weight", blk + "attn_gate.weight"],
                                            [(2 * keys + values_, width), (values_, width)], by_key_head),
    }[name.split("linear_attn.")[1]]()


def outer_step(name, shape, norm, norm_of=same):
    for ending, to in (("embed_tokens.weight", "token_embd.weight"), ("lm_head.weight", "output.weight"),
                       ("model.embeddings.weight", "token_embd.weight")):
        if name.endswith(ending):
            return same(to, shape)
    return norm_of(norm, shape)


def qwen_step(name, shape, c, in_turn, fused):
    if ".layers." not in name:
        return outer_step(name, shape, "output_norm.weight", less_one)
    layer = name.split(".")[2]
    blk = f"blk.{layer}."
    if "linear_attn." in name:
        return delta_step(name, layer, shape, c, in_turn)
    for ending, to in (("input_layernorm", "attn_norm"), ("post_attention_layernorm", "post_attention_norm"),
                       ("self_attn.q_norm", "attn_q_norm"), ("self_attn.k_norm", "attn_k_norm")):
        if name.endswith(ending + ".weight"):
            return less_one(f"{blk}{to}.weight", shape)
    if name.endswith("experts.gate_up_proj"):
        parts = ["ffn_gate_up_exps"] if fused else ["ffn_gate_exps", "ffn_up_exps"]
        return parted([f"{blk}{p}.weight" for p in parts], shape)
    if name.endswith("shared_expert_gate.weight"):
        return reshaped(blk + "ffn_gate_inp_shexp.weight", shape[1:], shape)
    return in_place(name, layer, shape, {
        "q_proj.weight": "attn_q.weight", "k_proj.weight": "attn_k.weight", "v_proj.weight": "attn_v.weight",
        "o_proj.weight": "attn_output.weight", "experts.down_proj": "ffn_down_exps.weight",
        "mlp.gate.weight": "ffn_gate_inp.weight", "shared_expert.gate_proj.weight": "ffn_gate_shexp.weight",
        "shared_expert.up_proj.weight": "ffn_up_shexp.weight",
        "shared_expert.down_proj.weight": "ffn_down_shexp.weight", "mlp.gate_proj.weight": "ffn_gate.weight",
        "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight"})


def lfm2_step(name, shape, _):
    if ".layers." not in name:
        return outer_step(name, shape, "token_embd_norm.weight")
    layer = name.split(".")[2]
    blk = f"blk.{layer}."
    if name.endswith("conv.conv.weight"):
        return reshaped(blk + "shortconv.conv.weight", (shape[0], shape[2]), shape)
    if name.endswith("experts.gate_up_proj"):
        return parted([f"{blk}ffn_{p}_exps.weight" for p in ("gate", "up")], shape)
    return in_place(name, layer, shape, {
        "conv.in_proj.weight": "shortconv.in_proj.weight",
        "conv.out_proj.weight": "shortconv.out_proj.weight",
        "experts.down_proj": "ffn_down_exps.weight", "feed_forward.gate.weight": "ffn_gate_inp.weight",
        "expert_bias": "exp_probs_b.bias", "w1.weight": "ffn_gate.weight", "w3.weight": "ffn_up.weight",
        "w2.weight": "ffn_down.weight", "operator_norm.weight": "attn_norm.weight",
        "ffn_norm.weight": "ffn_norm.weight", "q_proj.weight": "attn_q.weight",
        "k_proj.weight": "attn_k.weight", "v_proj.weight": "attn_v.weight",
        "self_attn.out_proj.weight": "attn_output.weight", "q_layernorm.weight": "attn_q_norm.weight",
        "k_layernorm.weight": "attn_k_norm.weight"})


def mamba_step(name, layer, shape, groups):
    blk, part = f"blk.{layer}.", name.rsplit(".", 1)[-1]
    if name.endswith("conv1d.weight"):
        return reshaped(blk + "ssm_conv1d.weight", (shape[0], shape[2]), shape)
    if name.endswith("norm.weight"):
        return reshaped(blk + "ssm_norm.weight", (groups, shape[0] // groups), shape)
    if part == "A_log":
        return decay(blk + "ssm_a", (shape[0], 1))
    if part == "D":
        return reshaped(blk + "ssm_d", (shape[0], 1), shape)
    return in_place(name, layer, shape, {
        "dt_bias": "ssm_dt.bias", "conv1d.bias": "ssm_conv1d.bias", "in_proj.weight": "ssm_in.weight",
        "out_proj.weight": "ssm_out.weight"})


def unpermuted(name, shape, width):
    """Converters reorder rows of Q and K for a rotation of neighbours."""
    def back(values):
        return values[0].reshape(-1, width // 2, 2, shape[1]).swapaxes(1, 2).reshape(shape)
    return Step([name], [shape], back)


def granite_step(name, shape, c):
    if ".layers." not in name:
        return outer_step(name, shape, "output_norm.weight")
    layer = name.split(".")[2]
    blk = f"blk.{layer}."
    if ".mamba." in name:
        return mamba_step(name, layer, shape, c.mamba_n_groups)
    if name.endswith("experts.gate_up_proj"):
        return parted([f"{blk}ffn_{p}_exps.weight" for p in ("gate", "up")], shape)
    beside = "_shexp" if c.num_local_experts > 0 else ""
    if name.endswith("shared_mlp.input_linear.weight"):
        return parted([f"{blk}ffn_{p}{beside}.weight" for p in ("gate", "up")], shape)
    for part in "qk":
        if name.endswith(f"{part}_proj.weight"):
            return unpermuted(f"{blk}attn_{part}.weight", shape, c.hidden_size // c.num_attention_heads)
    return in_place(name, layer, shape, {
        "shared_mlp.output_linear.weight": f"ffn_down{beside}.weight",
        "experts.down_proj": "ffn_down_exps.weight", "router.weight": "ffn_gate_inp.weight",
        "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "ffn_norm.weight",
        "v_proj.weight": "attn_v.weight", "o_proj.weight": "attn_output.weight"})


def nemotron_step(name, shape, c):
    if ".layers." not in name:
        return outer_step(name, shape, "output_norm.weight")
    layer = name.split(".")[2]
    if name.endswith("layers." + layer + ".norm.weight"):
        return same(f"blk.{layer}.attn_norm.weight", shape)
    kind = c.layers_block_type[int(layer)]
    if kind == LINEAR:
        return mamba_step(name, layer, shape, c.n_groups)
    return in_place(name, layer, shape, {
        "q_proj.weight": "attn_q.weight", "k_proj.weight": "attn_k.weight", "v_proj.weight": "attn_v.weight",
        "o_proj.weight": "attn_output.weight", "experts.up_proj": "ffn_up_exps.weight",
        "experts.down_proj": "ffn_down_exps.weight", "gate.weight": "ffn_gate_inp.weight",
        "e_score_correction_bias": "exp_probs_b.bias", "shared_experts.up_proj.weight": "ffn_up_shexp.weight",
        "shared_experts.down_proj.weight": "ffn_down_shexp.weight", "mixer.up_proj.weight": "ffn_up.weight",
        "mixer.down_proj.weight": "ffn_down.weight"})


def hybrid(name, arch, seed, c, keys, step, gains=None, extra=None):
    with torch.device("meta"):
        state = AutoModelForCausalLM.from_config(c).state_dict()
    tied = ("lm_head.weight",) if c.tie_word_embeddings else ()
    steps = {n: step(n, tuple(v.shape), c) for n, v in state.items() if n not in tied}
    assert all(steps.values()), [n for n, s in steps.items() if not s]
    shapes = {n: s for one in steps.values() for n, s in zip(one.names, one.shapes)}

    def to_hf(values, _):
        return {hf: one.back([values[n] for n in one.names]) for hf, one in steps.items()}

    kinds = {n.split(".")[-2]: "Q8_0" for n in shapes}
    return Tiny(name, arch, c, seed, kinds, keys, shapes, {"ffn_gate_inp": 2.0} | (gains or {}), to_hf, BPE,
                [Case("plain", TOKENS, CONTEXT)], extra or {})


def ssm_keys(groups, heads, state, width, kernel=4):
    return {"ssm.conv_kernel": kernel, "ssm.state_size": state, "ssm.group_count": groups,
            "ssm.time_step_rank": heads, "ssm.inner_size": heads * width}


def delta_heads(key_heads, value_heads, width, kinds, kernel=4):
    rope = PLAIN | {"partial_rotary_factor": 0.25}
    return common(head_dim=64, num_hidden_layers=len(kinds), layer_types=kinds, rms_norm_eps=EPS,
                  linear_num_key_heads=key_heads, linear_num_value_heads=value_heads,
                  linear_conv_kernel_dim=kernel, linear_key_head_dim=width, linear_value_head_dim=width,
                  rope_parameters=rope)


def delta_keys(c, by_interval=0):
    keys = head(64) | {"rope.dimension_count": 16} | ssm_keys(
        c.linear_num_key_heads, c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim,
        c.linear_conv_kernel_dim)
    if by_interval:
        return keys | {"full_attention_interval": by_interval}
    return keys | {"attention.recurrent_layers": [kind == LINEAR for kind in c.layer_types]}


SECTIONS = {"rope.dimension_sections": [3, 3, 2, 0]}


def qwen35():
    """Two value heads a key head, in turn; layers by an array."""
    c = Qwen3_5TextConfig(intermediate_size=64, **delta_heads(2, 4, 32, [LINEAR, LINEAR, FULL]))
    return hybrid("qwen35", "qwen35", 101, c, delta_keys(c) | SECTIONS,
                  lambda n, s, c: qwen_step(n, s, c, True, False))


def qwen35_one():
    """One value head a key head, tied; layers by their interval, heads of an odd width."""
    more = delta_heads(2, 2, 48, [LINEAR, FULL, LINEAR, FULL]) | {"tie_word_embeddings": True}
    c = Qwen3_5TextConfig(intermediate_size=64, **more)
    return hybrid("qwen35-one", "qwen35", 102, c, delta_keys(c, 2) | SECTIONS,
                  lambda n, s, c: qwen_step(n, s, c, True, False))


def expert_keys(count, used, width, shared):
    return {"expert_count": count, "expert_used_count": used, "expert_feed_forward_length": width,
            "expert_shared_feed_forward_length": shared, "feed_forward_length": width}


def qwen35moe():
    """Four value heads a key head; gate and up of experts in one tensor; a layer that predicts further
    tokens at the end, of which the file has some tensors."""
    c = Qwen3_5MoeTextConfig(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32,
                             shared_expert_intermediate_size=64, **delta_heads(2, 8, 16, [LINEAR, FULL]))
    keys = delta_keys(c) | SECTIONS | expert_keys(8, 3, 32, 64) | {
        "block_count": 3, "nextn_predict_layers": 1, "attention.recurrent_layers": [True, False, False]}
    further = {f"blk.2.{n}.weight": np.ones(32, dtype=np.float32)
               for n in ("attn_norm", "nextn.enorm", "nextn.hnorm")}
    return hybrid("qwen35moe", "qwen35moe", 103, c, keys, lambda n, s, c: qwen_step(n, s, c, True, True),
                  extra=further)


def next_config(key_heads, value_heads, width, kinds):
    return Qwen3NextConfig(intermediate_size=64, num_experts=8, num_experts_per_tok=3,
                           moe_intermediate_size=32, shared_expert_intermediate_size=32,
                           decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True,
                           **delta_heads(key_heads, value_heads, width, kinds, 3))


def qwen3next():
    c = next_config(2, 4, 32, [LINEAR, FULL])
    return hybrid("qwen3next", "qwen3next", 104, c, delta_keys(c) | expert_keys(8, 3, 32, 32),
                  lambda n, s, c: qwen_step(n, s, c, False, False))


def qwen3next_four():
    c = next_config(2, 8, 16, [LINEAR, LINEAR, FULL])
    return hybrid("qwen3next-four", "qwen3next", 105, c, delta_keys(c) | expert_keys(8, 3, 32, 32),
                  lambda n, s, c: qwen_step(n, s, c, False, True))


def liquid(kind, kinds, **more):
    c = kind(**common(num_hidden_layers=len(kinds), layer_types=kinds, norm_eps=EPS, intermediate_size=64,
                      rope_parameters=dict(PLAIN), **more))
    c.rms_norm_eps = EPS
    kv = [0 if k == "conv" else c.num_key_value_heads for k in kinds]
    return c, {"shortconv.l_cache": c.conv_L_cache, "attention.head_count_kv": kv}


def lfm2():
    c, keys = liquid(Lfm2Config, ["conv", "conv", FULL, "conv"], block_auto_adjust_ff_dim=False)
    return hybrid("lfm2", "lfm2", 106, c, keys, lfm2_step)


def lfm2moe():
    c, keys = liquid(Lfm2MoeConfig, ["conv", FULL, "conv"], num_experts=8, num_experts_per_tok=3,
                     moe_intermediate_size=32, num_dense_layers=1, use_expert_bias=True, norm_topk_prob=True,
                     routed_scaling_factor=1.0, conv_L_cache=4)
    keys |= {"expert_count": 8, "expert_used_count": 3, "expert_feed_forward_length": 32,
             "leading_dense_block_count": 1, "expert_gating_func": 2}
    return hybrid("lfm2moe", "lfm2moe", 107, c, keys, lfm2_step)


def granite_config(kinds, experts, used, groups, rotates):
    rope = {"position_embedding_type": "rope" if rotates else None}
    return GraniteMoeHybridConfig(**common(
        num_hidden_layers=len(kinds), layer_types=kinds, rms_norm_eps=EPS, intermediate_size=32,
        num_local_experts=experts, num_experts_per_tok=used, shared_intermediate_size=64, mamba_n_heads=4,
        mamba_d_head=16, mamba_n_groups=groups, mamba_d_state=32, mamba_expand=2, mamba_chunk_size=16,
        rope_parameters=dict(PLAIN), embedding_multiplier=1.5, residual_multiplier=0.7,
        attention_multiplier=0.5, logits_scaling=2.5, **rope))


def granite_keys(c, rotates):
    kv = [c.num_key_value_heads if k in ("attention", FULL) else 0 for k in c.layer_types]
    return ssm_keys(c.mamba_n_groups, c.mamba_n_heads, c.mamba_d_state, c.mamba_d_head) | {
        "attention.head_count_kv": kv, "rope.scaling.finetuned": rotates, "embedding_scale": 1.5,
        "residual_scale": 0.7, "attention.scale": 0.5, "logit_scale": 2.5}


def granitehybrid():
    """Experts and a shared one; heads of two groups; no rotation."""
    c = granite_config(["mamba", "attention", "mamba"], 8, 3, 2, False)
    keys = granite_keys(c, False) | {"expert_count": 8, "expert_used_count": 3,
                                     "expert_shared_feed_forward_length": 64, "feed_forward_length": 32}
    return hybrid("granitehybrid", "granitehybrid", 108, c, keys, granite_step)


def granitehybrid_dense():
    """All heads in one group, attention that rotates."""
    c = granite_config(["mamba", "mamba", "attention"], 0, 0, 1, True)
    return hybrid("granitehybrid-dense", "granitehybrid", 109, c,
                  granite_keys(c, True) | {"feed_forward_length": 64}, granite_step)


def nemotron_config(kinds, groups, **more):
    c = NemotronHConfig(**common(layers_block_type=kinds, layer_norm_epsilon=EPS, head_dim=32,
                                 intermediate_size=64, ssm_state_size=32, mamba_num_heads=8,
                                 mamba_head_dim=16, n_groups=groups, chunk_size=16, time_step_min=1e-30,
                                 conv_kernel=4, mlp_hidden_act="relu2", **more))
    c.rms_norm_eps = EPS
    return c


def nemotron_keys(c, width):
    kinds = c.layers_block_type
    return ssm_keys(c.n_groups, c.mamba_num_heads, c.ssm_state_size, c.mamba_head_dim) | head(32) | {
        "attention.layer_norm_epsilon": EPS, "rope.freq_base": 10000.0,
        "attention.head_count_kv": [c.num_key_value_heads if k == FULL else 0 for k in kinds],
        "feed_forward_length": [width if k in ("moe", "mlp") else 0 for k in kinds]}


def nemotron_h():
    c = nemotron_config([LINEAR, "mlp", FULL, LINEAR, "mlp"], 4)
    return hybrid("nemotron_h", "nemotron_h", 110, c, nemotron_keys(c, 64), nemotron_step)


def nemotron_h_moe():
    c = nemotron_config([LINEAR, "moe", FULL, "moe"], 2, n_routed_experts=8, num_experts_per_tok=3,
                        moe_intermediate_size=32, moe_shared_expert_intermediate_size=64,
                        n_shared_experts=1, routed_scaling_factor=2.5, norm_topk_prob=True)
    keys = nemotron_keys(c, 32) | {
        "expert_count": 8, "expert_used_count": 3, "expert_feed_forward_length": 32,
        "expert_shared_feed_forward_length": 64, "expert_shared_count": 1, "expert_weights_norm": True,
        "expert_weights_scale": 2.5, "expert_group_count": 1}
    return hybrid("nemotron_h_moe", "nemotron_h_moe", 111, c, keys, nemotron_step)


ALL = [qwen35, qwen35_one, qwen35moe, qwen3next, qwen3next_four, lfm2, lfm2moe, granitehybrid,
       granitehybrid_dense, nemotron_h, nemotron_h_moe]
