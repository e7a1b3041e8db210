#!/usr/bin/env python3
"""Writes test/data/tokenizers/golden.jsonl.xz: what the `tokenizers` package makes of 12,000 strings.

    python3 test/oracle/tokenizer_golden.py

Run it in the repository root. Needs the PyPI packages tokenizers (0.23.3 was used) and gguf, and xz.

First line: the names of the columns. Every other line: a string, then one hash per column: FNV-1a, 32
bits, of the little-endian 32-bit token ids (columns of a vocabulary; a name that ends in "/text" is
with special tokens left as text) or of the byte lengths of the words (columns "words/...").

The oracles:
- qwen3, gpt-oss: the models' own tokenizer.json, loaded by the package.
- gpt-2: a BPE model of the vocabulary and merges in the GGUF, with the package's ByteLevel.
- phi-3: the GGUF holds a SentencePiece model, so the oracle is what Hugging Face makes of one: a BPE
  model with byte fallback whose merges are all ways to split a token into two, best score first; the
  normalizer puts U+2581 in front and for every space; the special tokens are those of the model card
  (right-stripping ones except <unk>, <s> and <|endoftext|>). "</s>" counts as special.
- words/...: the package's Split with the pattern of the tokenizer.json of that family.
"""
import json
import lzma
import os
import struct
import subprocess
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tokenizer_strings import strings  # noqa: E402

DATA = "test/data/tokenizers/"
C = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
END = r"\s*[\r\n]+|\s+(?!\S)|\s+"
U = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
W = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
P = r"[^\r\n\p{L}\p{N}]?"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = {
    "gpt-2": [GPT2],
    "llama-bpe": [C + "|" + P + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + END],
    "qwen2": [C + "|" + P + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + END],
    "qwen35": [C + "|" + P + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + END],
    "gpt-4o": [P + U + "*" + W + "+" + C + "?|" + P + U + "+" + W + "*" + C + "?|" +
               r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + END],
    "tekken": [P + U + "*" + W + "+|" + P + U + "+" + W + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + END],
    "smollm": [r"\p{N}", GPT2],
    "default": [r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}


def unpack(name):
    with lzma.open(DATA + name + ".xz") as f:
        return f.read()


def gguf_fields(name):
    path = "/tmp/" + name
    with open(path, "wb") as f:
        f.write(unpack(name))
    fields = GGUFReader(path).fields
    return lambda key: fields["tokenizer.ggml." + key].contents()


def gpt2_oracle():
    get = gguf_fields("ggml-vocab-gpt-2.gguf")
    vocab = {t: i for i, t in enumerate(get("tokens"))}
    merges = [tuple(m.split(" ")) for m in get("merges")]
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    return tok


def phi3_oracle():
    get = gguf_fields("ggml-vocab-phi-3.gguf")
    tokens, scores, types = get("tokens"), get("scores"), get("token_type")
    vocab = {t: i for i, t in enumerate(tokens) if types[i] in (1, 6)}
    merges = []
    for token, i in vocab.items():
        ways = [(token[:k], token[k:]) for k in range(1, len(token))]
        ways = sorted((vocab[a], vocab[b], a, b) for a, b in ways if a in vocab and b in vocab)
        merges += [(a, b, scores[i]) for _, _, a, b in ways]
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    special = {t: i for i, t in enumerate(tokens) if types[i] in (3, 4)}
    tok = Tokenizer(models.BPE(vocab={**vocab, **special}, merges=[m[:2] for m in merges], byte_fallback=True,
                               fuse_unk=True, unk_token="<unk>"))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    plain = ("<unk>", "<s>", "<|endoftext|>")
    tok.add_special_tokens([AddedToken(t, rstrip=t not in plain, normalized=False) for t in special])
    return tok


def oracles():
    return {
        "qwen3": Tokenizer.from_str(unpack("qwen3.tokenizer.json").decode()),
        "gpt-oss": Tokenizer.from_str(unpack("gpt-oss.tokenizer.json").decode()),
        "gpt-2": gpt2_oracle(),
        "phi-3": phi3_oracle(),
    }


def fnv(values):
    h = 0x811C9DC5
    for byte in struct.pack("<%dI" % len(values), *values):
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return h


def word_lengths(patterns, text):
    pieces = [text]
    for pattern in patterns:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        pieces = [w for piece in pieces for w, _ in split.pre_tokenize_str(piece)]
    return [len(p.encode()) for p in pieces]


def columns(texts):
    """Column name -> one list of ids or lengths per text."""
    out = {}
    for name, tok in oracles().items():
        for as_text in (False, True):
            tok.encode_special_tokens = as_text
            encoded = tok.encode_batch(texts, add_special_tokens=False)
            out[name + "/text" * as_text] = [e.ids for e in encoded]
    for name, patterns in WORDS.items():
        out["words/" + name] = [word_lengths(patterns, t) if t else [] for t in texts]
    return out


def main():
    texts = strings()
    table = columns(texts)
    lines = [json.dumps(sorted(table))]
    for i, text in enumerate(texts):
        hashes = "".join("%08x" % fnv(table[name][i]) for name in sorted(table))
        lines.append(json.dumps([text, hashes], ensure_ascii=False))
    data = ("\n".join(lines) + "\n").encode()
    path = DATA + "golden.jsonl.xz"
    subprocess.run(["xz", "-9e", "-c"], input=data, stdout=open(path, "wb"), check=True)
    print(len(texts), "strings,", len(data), "bytes,", os.path.getsize(path), "packed")


if __name__ == "__main__":
    main()
