"""Writes small embedding and ranking GGUF models and what transformers makes of token ids with their exact
values.

usage: make_embedding_goldens.py OUT_DIR

bert.gguf and qwen3.gguf have the key pooling_type 4 (rank), which the tests replace. NAME.json holds what
one way to use a model gives for each input: pooled final states in f32, or logits. They are mean, cls and
every state of BERT with token types of both segments, the logit of a BERT cross-encoder (pooler, tanh,
classifier), the last state of qwen3 with its causal mask, the mean of its states without one, and the two
logits of a qwen3 that ranks.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from quantize import decode, encode
from transformers import BertConfig, BertForSequenceClassification, Qwen3Config, Qwen3Model

VOCAB = 320
LENGTHS = [1, 2, 17, 63, 255, 256, 257, 400]
NONE, MEAN, CLS, LAST, RANK = range(5)


def draw(rng, name, shape):
    part = name.split(".")[-2]
    if part.endswith("norm"):
        return 0.2 * rng.standard_normal(shape) + name.endswith(".weight")
    if name.endswith(".bias"):
        return 0.3 * rng.standard_normal(shape)
    if part in ("token_embd", "position_embd", "token_types"):
        return rng.standard_normal(shape)
    return (1.5 if part in ("attn_q", "attn_k") else 1.0) * rng.standard_normal(shape) / np.sqrt(shape[-1])


def type_of(name, shape):
    if len(shape) == 1 or name.split(".")[0] in ("position_embd", "token_types", "cls"):
        return GGMLQuantizationType.F32
    return {"attn_q": GGMLQuantizationType.Q8_0, "ffn_down": GGMLQuantizationType.Q5_0,
            "token_embd": GGMLQuantizationType.F16}.get(name.split(".")[-2], GGMLQuantizationType.F32)


BERT_LAYER = {"attn_q": "attention.self.query", "attn_k": "attention.self.key",
              "attn_v": "attention.self.value", "attn_output": "attention.output.dense",
              "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense",
              "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm"}
BERT_TOP = {"token_embd": "bert.embeddings.word_embeddings",
            "position_embd": "bert.embeddings.position_embeddings",
            "token_types": "bert.embeddings.token_type_embeddings",
            "token_embd_norm": "bert.embeddings.LayerNorm", "cls": "bert.pooler.dense",
            "cls.output": "classifier"}
QWEN_LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
              "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
              "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
              "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
              "ffn_down": "mlp.down_proj"}
QWEN_TOP = {"token_embd": "embed_tokens", "output_norm": "norm"}


def bert_shapes(c):
    n, ff, out = c.hidden_size, c.intermediate_size, {}

    def linear(name, rows, cols):
        out[name + ".weight"], out[name + ".bias"] = (rows, cols), (rows,)

    def norm(name):
        out[name + ".weight"], out[name + ".bias"] = (n,), (n,)
    out |= {"token_embd.weight": (VOCAB, n), "position_embd.weight": (c.max_position_embeddings, n),
            "token_types.weight": (2, n)}
    norm("token_embd_norm")
    for i in range(c.num_hidden_layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            linear(f"blk.{i}.{name}", n, n)
        norm(f"blk.{i}.attn_output_norm")
        linear(f"blk.{i}.ffn_up", ff, n)
        linear(f"blk.{i}.ffn_down", n, ff)
        norm(f"blk.{i}.layer_output_norm")
    linear("cls", n, n)
    linear("cls.output", 1, n)
    return out


def qwen_shapes(c):
    n, ff, hd = c.hidden_size, c.intermediate_size, c.head_dim
    q, kv = c.num_attention_heads * hd, c.num_key_value_heads * hd
    out = {"token_embd.weight": (VOCAB, n), "output_norm.weight": (n,), "cls.output.weight": (2, n)}
    for i in range(c.num_hidden_layers):
        p = f"blk.{i}."
        out |= {p + "attn_norm.weight": (n,), p + "attn_q.weight": (q, n), p + "attn_k.weight": (kv, n),
                p + "attn_v.weight": (kv, n), p + "attn_q_norm.weight": (hd,),
                p + "attn_k_norm.weight": (hd,),
                p + "attn_output.weight": (n, q), p + "ffn_norm.weight": (n,), p + "ffn_gate.weight": (ff, n),
                p + "ffn_up.weight": (ff, n), p + "ffn_down.weight": (n, ff)}
    return out


def rename(name, layer, top, prefix):
    stem, kind = name.rsplit(".", 1)
    if not stem.startswith("blk."):
        return f"{top[stem]}.{kind}"
    _, index, part = stem.split(".")
    return f"{prefix}{index}.{layer[part]}.{kind}"


def make_weights(shapes, seed):
    rng, stored, values = np.random.default_rng(seed), {}, {}
    for name, shape in shapes.items():
        kind = type_of(name, shape)
        stored[name] = (encode(draw(rng, name, shape), kind), kind)
        exact = np.array(decode(stored[name][0], kind), dtype=np.float32)
        values[name] = torch.from_numpy(exact.reshape(shape))
    return stored, values


def write(path, arch, c, stored, keys):
    w = GGUFWriter(path, arch)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_block_count(c.num_hidden_layers)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    for key, value in keys.items():
        add = {bool: w.add_bool, float: w.add_float32, int: w.add_uint32, list: w.add_array}[type(value)]
        add(f"{arch}.{key}", value)
    for name, (data, kind) in stored.items():
        w.add_tensor(name, data, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def inputs(rng):
    return [(rng.integers(0, VOCAB, n).tolist(), n // 3 if n % 2 else 0) for n in LENGTHS]


def bert_state(model, tokens, second):
    types = torch.tensor([[int(second > 0 and i >= second) for i in range(len(tokens))]])
    return model(input_ids=torch.tensor([tokens]), token_type_ids=types, output_hidden_states=True)


def main():
    out = Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    bert = BertConfig(vocab_size=VOCAB, hidden_size=96, num_hidden_layers=2, num_attention_heads=3,
                      intermediate_size=160, max_position_embeddings=512, num_labels=1, layer_norm_eps=1e-3,
                      hidden_act="gelu", attn_implementation="eager")
    stored, values = make_weights(bert_shapes(bert), 5)
    ranker = BertForSequenceClassification(bert).eval()
    state = {rename(k, BERT_LAYER, BERT_TOP, "bert.encoder.layer."): v for k, v in values.items()}
    missing, unexpected = ranker.load_state_dict(state, strict=False)
    assert not unexpected and all("position_ids" in m for m in missing), (missing, unexpected)
    qwen = Qwen3Config(vocab_size=VOCAB, hidden_size=96, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, head_dim=32, intermediate_size=160, max_position_embeddings=512,
                       rms_norm_eps=1e-3, rope_theta=1e4, attn_implementation="eager")
    q_stored, q_values = make_weights(qwen_shapes(qwen), 6)
    decoder = Qwen3Model(qwen).eval()
    decoder.load_state_dict({rename(k, QWEN_LAYER, QWEN_TOP, "layers."): v for k, v in q_values.items()
                             if not k.startswith("cls")}, strict=True)

    def bert_pooled(kind):
        def run(tokens, second):
            answer = bert_state(ranker, tokens, second)
            last = answer.hidden_states[-1][0]
            return {MEAN: last.mean(0), CLS: last[0], NONE: last.flatten(), RANK: answer.logits[0]}[kind]
        return run

    def causal(tokens):
        return decoder(input_ids=torch.tensor([tokens])).last_hidden_state[0]

    def unmasked(tokens):
        mask = torch.zeros(1, 1, len(tokens), len(tokens))
        return decoder(input_ids=torch.tensor([tokens]),
                       attention_mask={"full_attention": mask}).last_hidden_state[0]

    uses = [("bert-mean", "bert", MEAN, bert_pooled(MEAN)), ("bert-cls", "bert", CLS, bert_pooled(CLS)),
            ("bert-none", "bert", NONE, bert_pooled(NONE)), ("bert-rank", "bert", RANK, bert_pooled(RANK)),
            ("qwen3-last", "qwen3", LAST, lambda t, _: causal(t)[-1]),
            ("qwen3-unmasked", "qwen3", MEAN, lambda t, _: unmasked(t).mean(0)),
            ("qwen3-rank", "qwen3", RANK, lambda t, _: causal(t)[-1] @ q_values["cls.output.weight"].T)]
    for name, arch, pooling, run in uses:
        cases = []
        for tokens, second in inputs(np.random.default_rng(7)):
            if pooling == NONE and len(tokens) > 17:
                continue
            second = second if arch == "bert" else 0
            pooled = run(tokens, second).numpy().astype(np.float32)
            cases.append({"tokens": tokens, "second": second, "pooled": [float(f"{v:.8g}") for v in pooled]})
        (out / f"{name}.json").write_text(json.dumps(
            {"model": f"{arch}.gguf", "pooling": pooling, "causal": name in ("qwen3-last", "qwen3-rank"),
             "cases": cases}).replace(
            '{"tokens"', '\n{"tokens"') + "\n")
    write(out / "bert.gguf", "bert", bert, stored,
          {"attention.layer_norm_epsilon": 1e-3, "attention.causal": False, "pooling_type": RANK})
    write(out / "qwen3.gguf", "qwen3", qwen, q_stored,
          {"attention.layer_norm_rms_epsilon": 1e-3, "attention.head_count_kv": 2, "attention.key_length": 32,
           "attention.value_length": 32, "rope.freq_base": 1e4, "pooling_type": RANK,
           "classifier.output_labels": ["yes", "no"]})


if __name__ == "__main__":
    main()
