"""Greedy tokens of SmolLM2-135M-Instruct Q4_1 by transformers in f32, and the gap to the runner-up.

usage: make_smollm2_golden.py MODEL.gguf OUT.json
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from gguf import GGUFReader, quants
from kv16 import logits_of
from prompts import QUESTIONS, chatml
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

NEW_TOKENS = 64


def text_tokenizer(reader):
    """The file's vocabulary in the `tokenizers` package, with SmolLM2's own pre-tokenizer."""
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ", 1)) for m in reader.fields["tokenizer.ggml.merges"].contents()]
    kinds = reader.fields["tokenizer.ggml.token_type"].contents()
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t, kind in zip(tokens, kinds) if kind == 3])
    return tokenizer


def check_conversion(model, reader):
    """transformers' GGUF import against the file itself: hyperparameters, and every matrix value by value."""
    def field(name):
        return reader.fields[name].contents()
    c = model.config
    assert c.rope_parameters["rope_theta"] == field("llama.rope.freq_base"), c.rope_parameters
    assert c.rope_parameters["rope_type"] == "default"
    assert abs(c.rms_norm_eps - field("llama.attention.layer_norm_rms_epsilon")) < 1e-12
    assert c.num_key_value_heads == 3 and c.head_dim == 64
    state = model.state_dict()
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
             "ffn_down": "mlp.down_proj"}
    top = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    seen = 0
    for t in reader.tensors:
        values = quants.dequantize(t.data, t.tensor_type)
        if t.name in top:
            key = top[t.name]
        else:
            _, layer, part, _ = t.name.split(".")
            key = f"model.layers.{layer}.{names[part]}.weight"
            if part in ("attn_q", "attn_k"):  # pairs (2i, 2i+1) of the file are (i, i+32) in transformers
                values = values.reshape(-1, 32, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        assert np.array_equal(state[key].numpy(), values), t.name
        seen += 1
    assert state["lm_head.weight"].data_ptr() == state["model.embed_tokens.weight"].data_ptr(), "not tied"
    return seen


def top_two(row):
    values, ids = torch.topk(row, 2)
    return ids.tolist(), float(values[0] - values[1])


def greedy(model, prompt, stop):
    tokens, steps, cache = list(prompt), [], None
    feed = tokens
    for _ in range(NEW_TOKENS):
        with torch.no_grad():
            out = model(torch.tensor([feed]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        (first, second), gap = top_two(out.logits[0, -1])
        steps.append((first, second, gap))
        tokens.append(first)
        feed = [first]
        if first == stop:
            break
    return tokens, steps


def main():
    path, out = Path(sys.argv[1]), Path(sys.argv[2])
    torch.manual_seed(0)
    reader = GGUFReader(path)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    print("tensors equal to the file:", check_conversion(model, reader))
    tokenizer = text_tokenizer(reader)
    stop = reader.fields["tokenizer.ggml.eos_token_id"].contents()
    cases, worst = [], 0.0
    for name, question in QUESTIONS.items():
        text = chatml(question)
        prompt = tokenizer.encode(text).ids
        tokens, steps = greedy(model, prompt, stop)
        # What f16 K and V alone do to the logits along the same tokens: the bound for a tie.
        exact, half = logits_of(model, tokens[:-1]), logits_of(model, tokens[:-1], half_cache=True)
        tail = slice(len(prompt) - 1, None)
        shift = float((exact[tail] - half[tail]).abs().max())
        relative = float(((exact[tail] - half[tail]).norm(dim=1) / exact[tail].norm(dim=1)).max())
        again = exact[tail].argmax(dim=1).tolist() == [s[0] for s in steps]
        half_steps = [top_two(row) for row in half[tail]]
        worst = max(worst, shift)
        answer = tokenizer.decode([s[0] for s in steps], skip_special_tokens=False)
        print(f"{name}: prompt {len(prompt)}, new {len(steps)}, least gap {min(s[2] for s in steps):.4f}, "
              f"f16 KV shift {shift:.4f} rel {relative:.2e}, one pass agrees {again}")
        print(f"   {answer!r}", flush=True)
        cases.append({"name": name, "text": text, "prompt": prompt, "tokens": [s[0] for s in steps],
                      "second": [s[1] for s in steps], "gap": [round(s[2], 5) for s in steps],
                      "kv16_tokens": [ids[0] for ids, _ in half_steps],
                      "kv16_gap": [round(gap, 5) for _, gap in half_steps],
                      "answer": answer,
                      "kv16_shift": round(shift, 5)})
    golden = {"model": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
              "made_by": {"transformers": transformers.__version__, "torch": torch.__version__},
              "kv16_shift_max": round(worst, 5), "cases": cases}
    lines = json.dumps(golden, ensure_ascii=False)
    out.write_text(lines.replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
