"""Writes the tiny GGUF models and the logits transformers computes from exactly their values.

usage: make_tiny_goldens.py OUT_DIR [MODEL...]             the models of tiny_models.py
       make_tiny_goldens.py --families OUT_DIR [MODEL...]  those of family_models.py, expert_models.py
                                                           gemma4_models.py and hybrid_models.py

Per model: NAME.gguf, NAME.json (tokens, positions, figures) and NAME.CASE.f32 (little-endian f32, the rows of
`positions` from a pure f32 run, then the same rows with K and V rounded to f16); NAME.inputs.f32 where layers
have inputs of their own.
"""

import copy
import hashlib
import itertools
import json
import sys
from pathlib import Path

import expert_models
import family_models
import gemma4_models
import hybrid_models
import numpy as np
import tiny_models
import torch
import transformers
import vocabulary
from gguf import GGMLQuantizationType, GGUFWriter
from kv16 import logits_of
from layouts import VOCAB
from quantize import decode, encode
from transformers import AutoModelForCausalLM

# Its importer of gpt-oss expects tensor names that no published file has, of others it has none, and gemma2
# is always tied for it.
IMPORTED = {"llama", "qwen2", "phi3", "starcoder2", "gemma2", "gemma3"}
INPUT_TOKENS = 4
POSITIONS = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 39, 63, 64, 79, 128, 255, 256, 299]


def draw(rng, tiny, name, shape):
    """Random values of a size that makes every part matter to the logits."""
    part = name.split(".")[-2]
    if name.endswith(".ssm_a"):
        return -np.exp(rng.standard_normal(shape) - 0.5)
    if name.endswith(".ssm_d"):
        return rng.standard_normal(shape)
    if part.endswith(("_norm", "_norm_1", "_norm_2", "_output_scale")) or name.endswith(".scale"):
        gain = tiny.gains.get(part, 1.0) if part.endswith("_norm") else 1.0
        return gain * (1.0 + 0.3 * rng.standard_normal(shape))
    if part == "attn_sinks":
        return 1.5 * rng.standard_normal(shape)
    if name.endswith(".bias"):
        return tiny.gains.get(f"{part}.bias", 0.5) * rng.standard_normal(shape)
    if part == "token_embd":
        return tiny.gains.get(part, 1.0) * rng.standard_normal(shape)
    gain = tiny.gains.get(part, {"attn_q": 1.2, "attn_k": 1.2, "output": 3.0}.get(part, 1.0))
    return gain * rng.standard_normal(shape) / np.sqrt(shape[-1])


def type_of(tiny, name, shape):
    stem, kind = name.rsplit(".", 1)
    if kind in ("bias", "ssm_a", "ssm_d") or len(shape) == 1 or \
            stem.endswith(("ffn_gate_inp", "_norm", "ssm_conv1d", "shortconv.conv")):
        return GGMLQuantizationType.F32
    return GGMLQuantizationType[tiny.types.get(stem) or tiny.types[stem.split(".")[-1]]]


def make_weights(tiny):
    """GGUF name -> (stored array, type) and GGUF name -> exact f32 values."""
    rng = np.random.default_rng(tiny.seed)
    stored, values = {}, {}
    for name, shape in tiny.shapes.items():
        kind = type_of(tiny, name, shape)
        data = encode(draw(rng, tiny, name, shape), kind)
        stored[name] = (data, kind)
        values[name] = decode(data, kind).reshape(shape)
    return stored, values


def write_gguf(tiny, stored, path):
    c, w = tiny.config, GGUFWriter(path, tiny.arch)
    w.add_name(f"tiny {tiny.name}")
    w.add_quantization_version(2)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    if "block_count" not in tiny.keys:
        w.add_block_count(c.num_hidden_layers)
    if "feed_forward_length" not in tiny.keys:
        w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    if "attention.head_count_kv" not in tiny.keys:
        w.add_head_count_kv(c.num_key_value_heads)
    if "attention.layer_norm_epsilon" not in tiny.keys:
        w.add_layer_norm_rms_eps(c.rms_norm_eps)
    if "rope.freq_base" not in tiny.keys:
        w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_vocab_size(VOCAB)
    for key, value in tiny.keys.items():
        add = {str: w.add_string, float: w.add_float32, int: w.add_uint32, bool: w.add_bool,
               list: w.add_array}[type(value)]
        add(f"{tiny.arch}.{key}", value)
    model, *rest = tiny.vocabulary
    (vocabulary.add_bpe if model == "bpe" else vocabulary.add_spm)(w, *rest)
    for name, (data, kind) in stored.items():
        w.add_tensor(name, data, raw_dtype=kind)
    for name, data in tiny.extra.items():
        w.add_tensor(name, data)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_model(tiny, values, rope):
    config = copy.deepcopy(tiny.config)
    if rope is not None:
        config.rope_parameters = dict(rope)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager",
                                             experts_implementation="eager").eval()
    named = tiny.to_hf(values, tiny.config)
    state = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in named.items()}
    if tiny.config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model


def check_import(tiny, values, path):
    """transformers' own GGUF reader must find the same weights in the file, where it knows the family."""
    if tiny.arch not in IMPORTED or (tiny.arch == "gemma2" and not tiny.config.tie_word_embeddings):
        return
    ours = make_model(tiny, values, None).state_dict()
    theirs = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32,
                                                  pad_token_id=0).state_dict()
    for name, value in ours.items():
        assert torch.equal(theirs[name], value), f"{tiny.name}: {name} differs"


def relative(a, b):
    return float(((a - b).norm(dim=-1) / b.norm(dim=-1)).max())


def run_case(tiny, case, values, out):
    model = make_model(tiny, values, case.hf_rope)
    tokens = np.random.default_rng(tiny.seed + 100).integers(0, VOCAB, case.tokens).tolist()
    exact = logits_of(model, tokens)
    half = logits_of(model, tokens, half_cache=True)
    double = logits_of(model.double(), tokens).float()
    double_half = logits_of(model, tokens, half_cache=True).float()
    positions = [p for p in POSITIONS if p < case.tokens]
    rows = torch.cat([exact[positions], half[positions]]).numpy().astype("<f4")
    file = f"{tiny.name}.{case.name}.f32"
    rows.tofile(out / file)
    figures = {"f32_against_f64": relative(exact, double), "f16_kv_against_f32": relative(half, exact),
               "f16_kv_noise": relative(half, double_half)}
    print(f"{tiny.name}/{case.name}: logits std {exact.std():.2f}, " +
          ", ".join(f"{k} {v:.1e}" for k, v in figures.items()))
    rounded = {k: float(f"{v:.2e}") for k, v in figures.items()}
    return {"name": case.name, "context": case.context, "rope": case.rope, "tokens": tokens,
            "positions": positions, "logits": file, "figures": rounded}


def layer_inputs(tiny, values, case, out):
    """What layers have of the first tokens beside the stream, [tokens][layers][values]: an RMS norm and a sum
    follow the factors in it, so that logits hardly show a wrong one."""
    model = make_model(tiny, values, None).model
    tokens = torch.tensor([case["tokens"][:INPUT_TOKENS]])
    with torch.no_grad():
        embedded = model.embed_tokens(tokens)
        rows = model.project_per_layer_inputs(embedded, model.get_per_layer_inputs(tokens, embedded))
    rows[0].numpy().astype("<f4").tofile(out / f"{tiny.name}.inputs.f32")


def main():
    transformers.logging.set_verbosity_error()
    families = sys.argv[1] == "--families"
    args = sys.argv[2:] if families else sys.argv[1:]
    out, only = Path(args[0]), set(args[1:])
    torch.set_num_threads(1)
    families_all = family_models.ALL + expert_models.ALL + gemma4_models.ALL + hybrid_models.ALL
    functions = families_all if families else tiny_models.ALL
    models = (make() for make in functions)
    for tiny in itertools.chain(models, family_models.variants() if families else []):
        if only and tiny.name not in only:
            continue
        stored, values = make_weights(tiny)
        path = out / f"{tiny.name}.gguf"
        write_gguf(tiny, stored, path)
        check_import(tiny, values, path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        versions = {"transformers": transformers.__version__, "torch": torch.__version__}
        golden = {"model": path.name, "vocab": VOCAB, "sha256": digest, "made_by": versions,
                  "cases": [run_case(tiny, case, values, out) for case in tiny.cases]}
        if getattr(tiny.config, "hidden_size_per_layer_input", None):
            layer_inputs(tiny, values, golden["cases"][0], out)
        text = json.dumps(golden).replace('{"name"', '\n{"name"')
        (out / f"{tiny.name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
