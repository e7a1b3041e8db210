#!/usr/bin/env python3
"""Writes test/data/tokenizers/wordpiece.json: two WordPiece vocabularies and what `tokenizers` makes of the
strings of golden.jsonl with them.

    python3 test/oracle/wordpiece_golden.py

Run it in the repository root, after tokenizer_golden.py. Needs the PyPI package tokenizers (0.23.3 was
used).

The vocabularies, one uncased and one cased, are trained here on the strings themselves, in the spelling of
vocab.txt. Per vocabulary, `hashes` has 8 digits for every string: FNV-1a, 32 bits, of the little-endian
32-bit token ids with [CLS] and [SEP], as in golden.jsonl; or 8 dashes where the string has a character that
the package, whose tables are of Unicode 8, takes for something else than Python's Unicode 14 does.
"""
import json
import lzma
import sys
import unicodedata
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

sys.path.insert(0, str(Path(__file__).resolve().parent))

DATA = Path("test/data/tokenizers")
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LONG = ["a" * 100, "a" * 101, "x" + "\u0301" * 150, "\u4e00" * 120, "ab " * 60 + "b" * 99 + "."]
EXTRA = ["[CLS] a [SEP] b [MASK]", "[cls]",
         "\u00c5ngstr\u00f6m \u0130stanbul \u1e9e \u03a3\u03a3", "a\u00adb",
         "\u037e\u2028\u2029\u0085\u000b\u000c\u001c|", "\ud55c\uad6d\uc5b4 \uff21\uff22",
         "\ufa0c\uf900", "$+<=>^`|~"]


def fnv(values):
    h = 0x811C9DC5
    for value in values:
        for byte in value.to_bytes(4, "little"):
            h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return h


def is_known(c, plain=normalizers.BertNormalizer(lowercase=False, strip_accents=False),
             folded=normalizers.BertNormalizer(lowercase=True), words=pre_tokenizers.BertPreTokenizer()):
    """Whether the package's tables say of the character what Python's say."""
    category = unicodedata.category(c)
    if category in ("Cc", "Zs", "Zl", "Zp", "Lo") or c < "\x80":
        return True
    mark = category == "Mn"
    return ((plain.normalize_str(c) == "") == (category in ("Cf", "Co")) and
            (len(words.pre_tokenize_str("a" + c + "b")) == 3) == category.startswith("P") and
            (folded.normalize_str("a" + c) == "a") == (mark or category in ("Cf", "Co")))


def oracle(texts, lowercase):
    made = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=4000, special_tokens=SPECIALS, limit_alphabet=2000, show_progress=False))
    made.post_processor = processors.BertProcessing(("[SEP]", made.token_to_id("[SEP]")),
                                                    ("[CLS]", made.token_to_id("[CLS]")))
    return made


def main():
    with lzma.open(DATA / "golden.jsonl.xz", "rt", encoding="utf-8") as f:
        texts = [json.loads(line)[0] for line in f][1:]
    unlike = {c for c in set("".join(texts)) if not is_known(c)}
    known = [not unlike & set(t) for t in texts]
    print(len(texts), "strings,", known.count(False), "with characters newer than Unicode 8")
    out = {"extra": EXTRA + LONG, "vocabularies": []}
    for name, lowercase in (("uncased", True), ("cased", False)):
        made = oracle(texts, lowercase)
        vocab = sorted(made.get_vocab().items(), key=lambda item: item[1])
        assert [i for _, i in vocab] == list(range(len(vocab)))
        hashes = "".join("%08x" % fnv(e.ids) if k else 8 * "-"
                         for k, e in zip(known, made.encode_batch(texts)))
        unknown = made.token_to_id("[UNK]")
        ids = [i for e in made.encode_batch(texts) for i in e.ids]
        print(name, len(vocab), "tokens,", len(ids), "ids,", ids.count(unknown), "unknown")
        out["vocabularies"].append({"name": name, "tokens": [t for t, _ in vocab], "hashes": hashes,
                                    "extra": [made.encode(t).ids for t in out["extra"]]})
    (DATA / "wordpiece.json").write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
