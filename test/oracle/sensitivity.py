"""How far the logits of the tiny models move when one detail of the forward pass is wrong.

usage: sensitivity.py GOLDEN_DIR      beside which lies families/

A golden check is only worth its tolerance if each mistake below moves the logits by much more than that. The
figures are the largest relative errors over the stored positions; README.md quotes them.
"""

import json
import sys
from pathlib import Path

import gemma4_models
import numpy as np
import torch
import transformers
from kv16 import logits_of
from make_tiny_goldens import make_model, make_weights
from tiny_models import gpt_oss, llama_freqs, llama_tied, phi3_longrope, qwen2_yarn


def compare(label, model, golden_dir, name, case):
    golden = json.loads((golden_dir / f"{name}.json").read_text())
    run = next(c for c in golden["cases"] if c["name"] == case)
    rows = np.fromfile(golden_dir / run["logits"], dtype="<f4")
    rows = rows.reshape(2, len(run["positions"]), golden["vocab"])
    reference = torch.from_numpy(rows[0])
    wrong = logits_of(model, run["tokens"])[run["positions"]]
    error = float(((wrong - reference).norm(dim=1) / reference.norm(dim=1)).max())
    print(f"| {name}/{case} | {label} | {error:.1e} |")


def with_rope(tiny, **change):
    rope = dict(tiny.config.rope_parameters) | change
    return make_model(tiny, make_weights(tiny)[1], rope)


def with_config(make, **change):
    tiny = make()
    for key, value in change.items():
        setattr(tiny.config, key, value)
    return make_model(tiny, make_weights(tiny)[1], None)


def with_state(tiny, suffix, fill):
    """Every parameter whose name ends with `suffix` set to `fill`."""
    model = make_model(tiny, make_weights(tiny)[1], None)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith(suffix):
                value.fill_(fill)
    return model


def dense_mistakes(out):
    llama, qwen, phi = llama_freqs(), qwen2_yarn(), phi3_longrope()
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    freqs, yarn = (out, "llama-freqs", "plain"), (out, "qwen2-yarn", "yarn")
    compare("nothing: the same run again", with_rope(llama), *freqs)
    compare("rope_freqs ignored", make_model(llama, make_weights(llama)[1], plain), *freqs)
    compare("eps 1e-5 for 1e-2", with_config(llama_freqs, rms_norm_eps=1e-5), *freqs)
    compare("linear scaling ignored", with_rope(llama_tied()), out, "llama-tied", "linear")
    compare("YaRN bounds not rounded", with_rope(qwen, truncate=False), *yarn)
    compare("YaRN beta_fast 32 for 8", with_rope(qwen, beta_fast=32.0), *yarn)
    compare("YaRN magnitude 1", with_rope(qwen, attention_factor=1.0), *yarn)
    compare("K bias missing", with_state(qwen, "k_proj.bias", 0), *yarn)
    short = phi.config.rope_parameters["short_factor"]
    compare("short factors for long", with_rope(phi, long_factor=short), out, "phi3-longrope", "long")
    compare("magnitude 1", with_rope(phi, attention_factor=1.0), out, "phi3-longrope", "short")


def expert_mistakes(out):
    oss, golden = gpt_oss(), (out, "gpt-oss", "plain")
    kinds = ["full_attention", "sliding_attention"] * 2
    compare("window 9 for 8", with_config(gpt_oss, sliding_window=9), *golden)
    compare("window on odd layers", with_config(gpt_oss, layer_types=kinds), *golden)
    compare("YaRN bounds rounded", with_rope(oss, truncate=True), *golden)
    compare("no sinks", with_state(oss, "sinks", -1e9), *golden)
    compare("no clamp", with_config(gpt_oss, swiglu_limit=1e9), *golden)
    compare("silu for the 1.702 sigmoid", with_config(gpt_oss, swiglu_alpha=1.0), *golden)
    compare("router bias missing", with_state(oss, "router.bias", 0), *golden)
    compare("down bias missing", with_state(oss, "down_proj_bias", 0), *golden)
    compare("output bias missing", with_state(oss, "o_proj.bias", 0), *golden)


def changed(make, change):
    """The model with `change` made to its layers, or to itself."""
    tiny = make()
    model = make_model(tiny, make_weights(tiny)[1], None)
    with torch.no_grad():
        change(model.model)
    return model


def each_layer(change):
    return lambda model: [change(layer) for layer in model.layers]


def owners(change):
    """Layers that have keys and values of their own."""
    return each_layer(lambda layer: None if layer.self_attn.is_kv_shared_layer else change(layer))


def gemma_mistakes(out):
    def mistake(label, make, change, name):
        compare(label, changed(make, change), out, name, "plain")

    g, same = gemma4_models, torch.nn.Identity()
    compare("window 9 for 8", with_config(g.dense, sliding_window=9), out, "gemma4", "plain")
    compare("no cap", with_config(g.dense, final_logit_softcapping=None), out, "gemma4", "plain")
    mistake("no norm of values", g.dense, owners(
        lambda layer: setattr(layer.self_attn, "v_norm", same)), "gemma4")
    mistake("scores times 1/sqrt(head)", g.dense, each_layer(
        lambda layer: setattr(layer.self_attn, "scaling", layer.self_attn.head_dim**-0.5)), "gemma4")
    mistake("erf GELU", g.dense, each_layer(
        lambda layer: setattr(layer.mlp, "act_fn", torch.nn.GELU())), "gemma4")
    mistake("no scale at a layer's end", g.dense, each_layer(
        lambda layer: layer.layer_scalar.fill_(1.0)), "gemma4")
    mistake("no scales of experts", g.experts, each_layer(
        lambda layer: layer.router.per_expert_scale.fill_(1.0)), "gemma4-experts")
    mistake("router without 1/sqrt(width)", g.experts, each_layer(
        lambda layer: setattr(layer.router, "scalar_root_size", 1.0)), "gemma4-experts")
    mistake("inputs without 1/sqrt 2", g.inputs,
            lambda model: setattr(model, "per_layer_input_scale", 1.0), "gemma4-inputs")
    mistake("projection without 1/sqrt(width)", g.inputs,
            lambda model: setattr(model, "per_layer_model_projection_scale", 1.0), "gemma4-inputs")


def main():
    transformers.logging.set_verbosity_error()
    out = Path(sys.argv[1])
    print("| golden | mistake | relative error |\n|---|---|---|")
    dense_mistakes(out)
    expert_mistakes(out)
    gemma_mistakes(out.parent / "families")


if __name__ == "__main__":
    main()
