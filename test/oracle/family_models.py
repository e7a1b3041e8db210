"""Small models of the families whose tensors the `gguf` package names: generated in transformers' layout,
written as converters write them.

Each function returns a `Tiny` (tiny_models.py). Names come from gguf's table of original names. What else
converters change is in `Step`s: rows of Q and K reordered, norms with 1 added, experts' matrices split.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from gguf import MODEL_ARCH_NAMES, get_tensor_name_map
from layouts import VOCAB
from tiny_models import CHATML, Case, Tiny
from transformers import (AutoModelForCausalLM, Cohere2Config, CohereConfig, Ernie4_5Config, Exaone4Config,
                          Gemma2Config, Gemma3TextConfig, Glm4Config, GraniteConfig, GraniteMoeConfig,
                          GraniteMoeSharedConfig, LlamaConfig, Ministral3Config,
                          Olmo2Config, Olmo3Config, Qwen2MoeConfig, Qwen3Config, Qwen3MoeConfig,
                          SeedOssConfig, SmolLM3Config, Starcoder2Config)

BPE = ("bpe", "qwen2", CHATML, "<|endoftext|>", "<|im_end|>")
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}


@dataclass
class Step:
    """How one tensor of transformers is made of tensors of the file."""
    names: list
    shapes: list
    back: object  # values of the file's tensors -> array of transformers


@dataclass
class Layout:
    permuted: int = 0       # width of heads whose rows of Q and K are reordered; 0 = they are not
    norm_offset: float = 0  # the file's norms have this added
    renamed: dict = field(default_factory=dict)  # original part -> the file's, where the table has another
    skip: tuple = ()
    latents: tuple = ()     # heads, unrotated and value widths, where kv_b_proj is two stacks of matrices
    no_choice_bias: bool = False  # the file has none, which is one of zeros


def unpermuted(head):
    def back(values):
        half, w = head // 2, values[0]
        return w.reshape(-1, half, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
    return back


def split_rows(name, shape, parts):
    """A stacked [experts, rows of all parts, columns] is one tensor a part in the file."""
    rows = shape[1] // len(parts)
    return Step([name.format(p) for p in parts], [(shape[0], rows, shape[2])] * len(parts),
                lambda values: np.concatenate(values, axis=1))


def latent_step(name, shape, latents):
    """A stack of the keys' matrices, transposed, and one of the values'."""
    heads, unrotated, value = latents
    layer, rank = name.split(".")[2], shape[1]
    return Step([f"blk.{layer}.attn_{p}_b.weight" for p in "kv"],
                [(heads, rank, unrotated), (heads, value, rank)],
                lambda values: np.concatenate([values[0].swapaxes(1, 2), values[1]],
                                              axis=1).reshape(shape))


def expert_step(name, shape):
    if not name.startswith("model.layers."):
        return None
    layer = name.split(".")[2]
    if name.endswith(("experts.gate_up_proj", "input_linear.weight")) and len(shape) == 3:
        return split_rows(f"blk.{layer}.ffn_{{}}_exps.weight", shape, ["gate", "up"])
    if name.endswith("shared_mlp.input_linear.weight"):
        rows = shape[0] // 2
        return Step([f"blk.{layer}.ffn_{p}_shexp.weight" for p in ("gate", "up")], [(rows, shape[1])] * 2,
                    lambda values: np.concatenate(values, axis=0))
    if name.endswith(("experts.down_proj", "block_sparse_moe.output_linear.weight")):
        return Step([f"blk.{layer}.ffn_down_exps.weight"], [shape], lambda values: values[0])
    if name.endswith("e_score_correction_bias"):
        return Step([f"blk.{layer}.exp_probs_b.bias"], [shape[-1:]], lambda values: values[0].reshape(shape))
    for ending, to in (("block_sparse_moe.router.weight", "ffn_gate_inp.weight"),
                       ("shared_mlp.output_linear.weight", "ffn_down_shexp.weight")):
        if name.endswith(ending):
            return Step([f"blk.{layer}.{to}"], [shape], lambda values: values[0])
    if name.endswith("shared_expert_gate.weight"):
        return Step([f"blk.{layer}.ffn_gate_inp_shexp.weight"], [shape[1:]],
                    lambda values: values[0].reshape(shape))
    return None


def step_of(name, shape, names, layout):
    if layout.no_choice_bias and name.endswith("e_score_correction_bias"):
        return Step([], [], lambda values: np.zeros(shape, dtype=np.float32))
    if step := expert_step(name, shape):
        return step
    if layout.latents and name.endswith("kv_b_proj.weight"):
        return latent_step(name, shape, layout.latents)
    if name == "lm_head.weight":  # not in the table of families that tie it to the embedding
        return Step(["output.weight"], [shape], lambda values: values[0])
    file_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
    assert file_name, f"no name for {name}"
    stem, kind = file_name.rsplit(".", 1)
    for part, to in layout.renamed.items():
        if f".{part}." in name:
            stem = stem.rsplit(".", 1)[0] + "." + to
    file_name = f"{stem}.{kind}"
    if layout.permuted and stem.endswith((".attn_q", ".attn_k")):
        return Step([file_name], [shape], unpermuted(layout.permuted))
    if stem.endswith("norm") and layout.norm_offset:
        return Step([file_name], [shape], lambda values: values[0] - np.float32(layout.norm_offset))
    return Step([file_name], [shape], lambda values: values[0])


def steps_of(arch, config, layout):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    key = next(k for k, v in MODEL_ARCH_NAMES.items() if v == arch)
    names = get_tensor_name_map(key, config.num_hidden_layers)
    tied = ("lm_head.weight",) if config.tie_word_embeddings else ()
    return {name: step_of(name, tuple(v.shape), names, layout)
            for name, v in model.state_dict().items() if name not in tied}


def tiny(name, arch, seed, config, keys, layout=None, gains=None, kind="Q8_0"):
    steps = steps_of(arch, config, layout or Layout())
    shapes = {n: s for step in steps.values() for n, s in zip(step.names, step.shapes)}

    def to_hf(values, _):
        return {hf: step.back([values[n] for n in step.names]) for hf, step in steps.items()}

    kinds = {n.split(".")[-2]: kind for n in shapes}
    return Tiny(name, arch, config, seed, kinds, keys, shapes, gains or {}, to_hf, BPE,
                [Case("plain")])


def sizes(**more):
    return {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
            "rms_norm_eps": 1e-2, "rope_parameters": dict(PLAIN), "tie_word_embeddings": False,
            "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 1} | more


def head(width):
    return {"attention.key_length": width, "attention.value_length": width}


def olmo2():
    return tiny("olmo2", "olmo2", 61, Olmo2Config(**sizes(num_key_value_heads=4)), {})


def olmo3():
    """Windows of 8 on three layers of four, YaRN on the fourth."""
    yarn = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 8.0, "beta_slow": 1.0,
            "original_max_position_embeddings": 64, "attention_factor": 1.0 + 0.1 * float(np.log(4.0))}
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    c = Olmo3Config(**sizes(num_hidden_layers=4, sliding_window=8, layer_types=kinds,
                              rope_parameters={"full_attention": yarn, "sliding_attention": dict(PLAIN)}))
    keys = {"rope.freq_base": 10000.0, "attention.sliding_window": 8,
            "attention.sliding_window_pattern": [True] * 3 + [False],
            "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 64, "rope.scaling.yarn_beta_fast": 8.0,
            "rope.scaling.yarn_beta_slow": 1.0}
    return tiny("olmo3", "olmo2", 32, c, keys)


def granite_keys():
    return {"attention.scale": 0.5, "embedding_scale": 1.5, "residual_scale": 0.7, "logit_scale": 2.5}


def granite_config(kind, **more):
    return kind(**sizes(embedding_multiplier=1.5, residual_multiplier=0.7, attention_multiplier=0.5,
                        logits_scaling=2.5, **more))


def granite():
    c = granite_config(GraniteConfig, tie_word_embeddings=True)
    return tiny("granite", "granite", 33, c, granite_keys(), Layout(permuted=8))


def granite_biased():
    c = granite_config(GraniteConfig, attention_bias=True, num_key_value_heads=4)
    return tiny("granite-biased", "granite", 34, c, granite_keys(), Layout(permuted=8))


def granitemoe():
    c = granite_config(GraniteMoeConfig, num_local_experts=6, num_experts_per_tok=3)
    keys = granite_keys() | {"expert_count": 6, "expert_used_count": 3}
    return tiny("granitemoe", "granitemoe", 35, c, keys, Layout(permuted=8))


def granitemoe_shared():
    c = granite_config(GraniteMoeSharedConfig, num_local_experts=6, num_experts_per_tok=2,
                       shared_intermediate_size=128, tie_word_embeddings=True)
    keys = granite_keys() | {"expert_count": 6, "expert_used_count": 2,
                             "expert_shared_feed_forward_length": 128}
    return tiny("granitemoe-shared", "granitemoe", 36, c, keys, Layout(permuted=8))


def smollm3():
    c = SmolLM3Config(**sizes(num_hidden_layers=5, tie_word_embeddings=True,
                              no_rope_layers=[1, 1, 1, 0, 1], use_sliding_window=False))
    return tiny("smollm3", "smollm3", 37, c, {}, Layout(permuted=8))


def seed_oss():
    c = SeedOssConfig(**sizes(head_dim=16, attention_bias=True, attention_out_bias=False))
    return tiny("seed_oss", "seed_oss", 38, c, head(16) | {"rope.dimension_count": 16},
                Layout(renamed={"post_attention_layernorm": "post_attention_norm"}))


def internlm2():
    """transformers has it as Llama's layers."""
    c = LlamaConfig(**sizes(num_key_value_heads=1))
    return tiny("internlm2", "internlm2", 39, c, {}, Layout(permuted=8))


def ernie4_5():
    c = Ernie4_5Config(**sizes(head_dim=16, tie_word_embeddings=True, use_bias=False))
    return tiny("ernie4_5", "ernie4_5", 40, c, head(16))


def exaone4():
    c = Exaone4Config(**sizes(num_key_value_heads=4, sliding_window=None, tie_word_embeddings=True,
                              layer_types=["full_attention"] * 2))
    return tiny("exaone4", "exaone4", 41, c, {})


def exaone4_windows():
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    c = Exaone4Config(**sizes(num_hidden_layers=4, sliding_window=8, sliding_window_pattern=4,
                              layer_types=kinds))
    return tiny("exaone4-windows", "exaone4", 42, c, {"attention.sliding_window": 8})


def starcoder2():
    c = Starcoder2Config(**sizes(norm_epsilon=1e-2, use_bias=True, sliding_window=None,
                                 tie_word_embeddings=True))
    return tiny("starcoder2", "starcoder2", 43, c, {"attention.layer_norm_epsilon": 1e-2})


def qwen3moe():
    c = Qwen3MoeConfig(**sizes(head_dim=16, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True,
                               moe_intermediate_size=64, decoder_sparse_step=1, mlp_only_layers=[]))
    keys = head(16) | {"expert_count": 8, "expert_used_count": 3, "expert_feed_forward_length": 64}
    return tiny("qwen3moe", "qwen3moe", 44, c, keys, gains={"ffn_gate_inp": 2.0})


def qwen2moe():
    c = Qwen2MoeConfig(**sizes(num_experts=8, num_experts_per_tok=3, norm_topk_prob=False,
                               moe_intermediate_size=64, shared_expert_intermediate_size=128,
                               decoder_sparse_step=1, mlp_only_layers=[]))
    keys = {"expert_count": 8, "expert_used_count": 3, "expert_feed_forward_length": 64,
            "expert_shared_feed_forward_length": 128}
    return tiny("qwen2moe", "qwen2moe", 45, c, keys, gains={"ffn_gate_inp": 2.0})


def gemma2():
    """Caps so low that they matter."""
    c = Gemma2Config(**sizes(num_hidden_layers=4, head_dim=16, query_pre_attn_scalar=16, sliding_window=8,
                             attn_logit_softcapping=3.0, final_logit_softcapping=5.0,
                             tie_word_embeddings=True))
    keys = head(16) | {"attention.sliding_window": 8, "attn_logit_softcapping": 3.0,
                       "final_logit_softcapping": 5.0}
    return tiny("gemma2", "gemma2", 46, c, keys, Layout(norm_offset=1))


def gemma3():
    """A base of its own for layers with windows, linear scaling for the others."""
    rope = {"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 8.0}}
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    c = Gemma3TextConfig(**sizes(num_hidden_layers=6, num_key_value_heads=1, head_dim=16,
                                 query_pre_attn_scalar=16, sliding_window=8, rope_parameters=rope,
                                 layer_types=kinds, tie_word_embeddings=True))
    keys = head(16) | {"attention.sliding_window": 8, "rope.freq_base": 10000.0, "rope.freq_base_swa": 100.0,
                       "rope.scaling.type": "linear", "rope.scaling.factor": 8.0}
    return tiny("gemma3", "gemma3", 47, c, keys, Layout(norm_offset=1))


def mistral3():
    """YaRN whose magnitude is 1, and queries that grow every 16 positions."""
    yarn = {"rope_type": "yarn", "type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 8.0,
            "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.5,
            "original_max_position_embeddings": 16, "max_position_embeddings": 64}
    c = Ministral3Config(**sizes(head_dim=16, rope_parameters=yarn))
    keys = head(16) | {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                       "rope.scaling.original_context_length": 16, "rope.scaling.yarn_beta_fast": 8.0,
                       "rope.scaling.yarn_beta_slow": 1.0, "rope.scaling.yarn_log_multiplier": 1.0,
                       "attention.temperature_scale": 0.5}
    return tiny("mistral3", "mistral3", 48, c, keys, Layout(permuted=16))


def command_r():
    c = CohereConfig(**sizes(layer_norm_eps=1e-2, logit_scale=0.25, use_qk_norm=False,
                             tie_word_embeddings=True))
    return tiny("command-r", "command-r", 49, c, {"attention.layer_norm_epsilon": 1e-2, "logit_scale": 0.25})


def command_r_plus():
    """LayerNorms of the heads of Q and K, with weights of each head's own."""
    c = CohereConfig(**sizes(layer_norm_eps=1e-2, logit_scale=0.25, use_qk_norm=True,
                             num_attention_heads=8, tie_word_embeddings=True, hidden_size=64))
    return tiny("command-r-plus", "command-r", 62, c,
                {"attention.layer_norm_epsilon": 1e-2, "logit_scale": 0.25})


def cohere2():
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    c = Cohere2Config(**sizes(num_hidden_layers=4, head_dim=8, layer_norm_eps=1e-2, logit_scale=0.25,
                              sliding_window=8, layer_types=kinds, tie_word_embeddings=True))
    keys = {"attention.layer_norm_epsilon": 1e-2, "logit_scale": 0.25, "attention.sliding_window": 8}
    return tiny("cohere2", "cohere2", 50, c, keys)


def glm4():
    rope = PLAIN | {"partial_rotary_factor": 0.5}
    c = Glm4Config(**sizes(head_dim=16, attention_bias=True, rope_parameters=rope))
    return tiny("glm4", "glm4", 51, c, head(16) | {"rope.dimension_count": 8})


def variants():
    """Other numbers of heads and keys, tied and untied outputs, biases."""
    tied, own_keys = {"tie_word_embeddings": True}, {"num_key_value_heads": 4}
    permuted = Layout(permuted=8)
    qwen3 = Qwen3Config(**sizes(head_dim=16, **tied))
    yield tiny("qwen3", "qwen3", 71, qwen3, head(16))
    smol = SmolLM3Config(**sizes(num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0], use_sliding_window=False,
                                 **own_keys))
    yield tiny("smollm3-untied", "smollm3", 72, smol, {}, permuted)
    seed = SeedOssConfig(**sizes(head_dim=8, attention_bias=False, attention_out_bias=True, **tied,
                                 **own_keys))
    yield tiny("seed_oss-tied", "seed_oss", 73, seed, {},
               Layout(renamed={"post_attention_layernorm": "post_attention_norm"}))
    yield tiny("internlm2-tied", "internlm2", 74, LlamaConfig(**sizes(**tied, **own_keys)), {}, permuted)
    ernie = Ernie4_5Config(**sizes(head_dim=8, use_bias=False, **own_keys))
    yield tiny("ernie4_5-untied", "ernie4_5", 75, ernie, {})
    star = Starcoder2Config(**sizes(norm_epsilon=1e-5, use_bias=True, sliding_window=None,
                                    num_key_value_heads=1))
    yield tiny("starcoder2-untied", "starcoder2", 76, star, {"attention.layer_norm_epsilon": 1e-5})
    qwen = Qwen3MoeConfig(**sizes(head_dim=8, num_experts=4, num_experts_per_tok=4, norm_topk_prob=True,
                                  moe_intermediate_size=64, decoder_sparse_step=1, mlp_only_layers=[],
                                  **tied, **own_keys))
    keys = {"expert_count": 4, "expert_used_count": 4, "expert_feed_forward_length": 64}
    yield tiny("qwen3moe-all", "qwen3moe", 77, qwen, keys)
    gemma = Gemma2Config(**sizes(head_dim=8, query_pre_attn_scalar=8, sliding_window=16, **own_keys,
                                 attn_logit_softcapping=50.0, final_logit_softcapping=30.0))
    yield tiny("gemma2-keys", "gemma2", 78, gemma,
               head(8) | {"attention.sliding_window": 16, "attn_logit_softcapping": 50.0,
                          "final_logit_softcapping": 30.0}, Layout(norm_offset=1), kind="F32")
    # Without scaling of queries, and with YaRN's usual magnitude.
    yarn = {"rope_type": "yarn", "type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32.0,
            "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 0.0, "llama_4_scaling_beta": 0.0,
            "original_max_position_embeddings": 64, "max_position_embeddings": 256}
    mistral = Ministral3Config(**sizes(head_dim=8, rope_parameters=yarn, **tied, **own_keys))
    yield tiny("mistral3-plain", "mistral3", 79, mistral,
               {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 64}, permuted)
    command = CohereConfig(**sizes(layer_norm_eps=1e-5, logit_scale=0.5, use_qk_norm=False, **own_keys))
    yield tiny("command-r-keys", "command-r", 80, command,
               {"attention.layer_norm_epsilon": 1e-5, "logit_scale": 0.5}, kind="F32")
    glm = Glm4Config(**sizes(head_dim=8, attention_bias=False, **tied, **own_keys,
                             rope_parameters=PLAIN | {"partial_rotary_factor": 0.5}))
    yield tiny("glm4-tied", "glm4", 81, glm, {"rope.dimension_count": 4})


ALL = [olmo2, olmo3, granite, granite_biased, granitemoe, granitemoe_shared, smollm3, seed_oss, internlm2,
       ernie4_5, exaone4, exaone4_windows, starcoder2, qwen3moe, qwen2moe, gemma2, gemma3, mistral3,
       command_r, command_r_plus, cohere2, glm4]
