#!/usr/bin/env python3
"""Writes test/data/tokenizers/pretokenizers.json.xz: what the `tokenizers` package makes of texts with each
pre-tokenizer.

    python3 test/oracle/pretokenizer_golden.py                       # writes the file
    python3 test/oracle/pretokenizer_golden.py NAME BLOCK [INSPECT]  # what differs in a block of a column

Run it in the repository root. Needs the PyPI packages tokenizers (0.23.3 was used) and gguf, and xz.

A column is a pipeline of the package over the vocabulary and merges of a GGUF: normalizer, pre-tokenizers and
BPE. The pre-tokenizers are those of the models' own tokenizer.json as they are published, patterns verbatim.
"gemma4" is SentencePiece's spelling of BPE, with Phi-3's pieces and all merges that lead to them.

The file: "random" are strings made here; "columns" has for each name one hash per block of BLOCK strings,
first of the texts of golden.jsonl.xz, then of "random". A hash is the CRC-32 of 32-bit numbers: for each
string how many ids, the ids, and the byte lengths of its words.

With a name and a block it prints the strings of the block with the package's words and ids or, given
worker-orcd-inspect, only those whose ids that program disagrees about.
"""
import functools
import json
import lzma
import os
import random
import struct
import subprocess
import sys
import zlib

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tokenizer_golden import C, DATA, END, GPT2, P, U, W, gguf_fields, phi3_oracle  # noqa: E402

BLOCK = 100
PATH = DATA + "pretokenizers.json.xz"
VOCABULARY = "ggml-vocab-gpt-2.gguf"

HAN = r"&&[^\p{Han}]]"
DIGITS = [{"Digits": True}]
LLAMA3 = C + "|" + P + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + END
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (P + U + "*" + W + "+" + C + "?|" + P + U + "+" + W + "*" + C + "?|" +
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + END)
KIMI = "|".join([r"[\p{Han}]+", P + U[:-1] + HAN + "*" + W[:-1] + HAN + "+" + C + "?",
                 P + U[:-1] + HAN + "+" + W[:-1] + HAN + "*" + C + "?", r"\p{N}{1,3}",
                 r" ?[^\s\p{L}\p{N}]+[\r\n]*", END])
ASCII_WORD = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"""
MARKED_WORD = r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
DEEPSEEK3 = ASCII_WORD + MARKED_WORD + r" ?[\p{P}\p{S}]+[\r\n]*|" + END
SPARK = ASCII_WORD + MARKED_WORD + r" ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
KANA = "[一-龥\u3040-ゟ゠-ヿ]+"
IDEOGRAPHS = "[一-龥\u0800-一가-\ud7ff]+"
CASED = (
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec"
    "\u1ff2-\u1ff4\u1ff6-\u1ffcℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎ"
    "ꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")
WIDE = "!-/:-~！-／：-～‘-‟\u3000-。"
YOUTU = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-\u303f︰-﹏]+|[ㄅ-ㄯ]+|" + KANA
ASIAN = ("[一-\u9fff㐀-䶿\u8c48-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdf\u0e40-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff"
         "가-\ud7afᄀ-ᇿ]+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
HALVES = "|".join(r"\s{%d}(?!\S)" % (1 << k) for k in range(9, 1, -1)) + r"|\s{1,2}(?!\S)|\s{1}"
LINES = {"Split": r"(?:\r?\n)+(?!\r?\n)", "behavior": "merged_with_next"}
BYTES = "ByteLevel"  # the package's byte-level alphabet; what follows it sees bytes

# Name of the preset -> pre-tokenizers in order: a pattern, or the package's own by name.
PRE = {
    "gpt-2": [GPT2],
    "llama-bpe": [LLAMA3],
    "jais-2": [LLAMA3.replace(r"\s+(?!\S)|\s+", HALVES)],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")],
    "stablelm2": [QWEN2],
    "qwen2": [QWEN2],
    "qwen35": [QWEN2.replace(P + r"\p{L}+", P + r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}", r"[^\s\p{L}\p{M}")],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
                   r"\s*[\r\n]|\s+(?!\S)|\s+"],
    "laguna": [LINES, QWEN2],
    "ufakzeka": [QWEN2[len(C) + 1:]],
    "seed-coder": [C + "|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|"
                   r"\s+(?!\S)|\s+"],
    "exaone-moe": [C + "|" + P + r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|"
                   r"\s*[\r\n]|\s+(?!\S)|\s+"],
    "gpt-4o": [O200K],
    "granite-embed-multi-97m": [O200K],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", O200K],
    "youtu": [YOUTU, O200K.replace(r"\p{N}{1,3}", r"\p{N}")],
    "tekken": [O200K.replace(C + "?", "").replace(r"\p{N}{1,3}", r"\p{N}")],
    "kimi-k2": [KIMI],
    "smollm": [*DIGITS, GPT2],
    "command-r": [*DIGITS, GPT2],
    "deepseek-llm": ["[\r\n]", r"\s?[" + CASED + "]+", r"\s?[" + WIDE + "]+", r"\s+$", IDEOGRAPHS, *DIGITS],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", IDEOGRAPHS, *DIGITS],
    "deepseek-v3": [r"\p{N}{1,3}", KANA, DEEPSEEK3],
    "spark2_5": [r"\p{N}{1,3}", KANA, SPARK, *DIGITS],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", ASIAN, DEEPSEEK3],
    "falcon": [{"Punctuation": "contiguous"}, GPT2, BYTES, {"Digits": False}, "[0-9][0-9][0-9]"],
    "bloom": [BLOOM],
    "viking": [BLOOM, *DIGITS],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", *DIGITS,
                  {"Punctuation": "isolated"}, GPT2],
    "default": [r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}
NFC = {"qwen2", "qwen35", "command-r", "tiny_aya"}
IGNORE_MERGES = {"llama-bpe", "minicpm5", "granite-embed-multi-97m", "youtu", "tekken"}

# What the patterns make distinctions about.
PIECES = (
    "a b A B é É ß ǅ ʰ ª ά Ω \u2126 \u1fd3 ñ ŋ ﬁ "
    "ﬆ Ａ ａ 𐐀 𞤀 \u017f \u212a і Ж א ب क ก ක ა Ꭰ ꭰ "
    "0 1 12 123 1234 12345 123456 1234567 ² ³ ¹ ½ ¼ ٣ ४ ⅻ 〇 〡 ㊀ 𝟗 "
    "' '' 's 'S 're 'LL 'd 't 'x . , ! ? … 。 ， 、 । ۔ ، ( ) | "
    "[ ] { } < > = + $ ^ ` ~ _ - – — “ ” ‘ ’ / \\ "
    "\u3000 \u00a0 \u2028 \u0085 \u200b \u200d \ufeff \u00ad "
    "\u0000 \u001c \u0301 \u0323 \u0489 \u20dd \u0e31 "
    "一 龥 鿿 㐀 豈 𠀀 ⺀ ⼀ 々 ぁ ん ァ ン ー ･ ﾟ 가 힣 "
    "\ud7b0 ㄱ ᄀ ㆎ ㄅ ㄯ ㆠ ︰ ﹏ ！ ～ ： ； 〿 ꀀ ﷐ \ue000 "
    "🚀 🇩 👍🏽 ☃ € ☎ \U00011de0 "
    "\U00016ff4 \U000e0041 ẹ́ <sentinel:12> <sentinel:> IMGIMGABZ IMGIMGABCDEZ IMGIMGZ"
).split(" ") + ["\t", "\n", "\r", "\r\n", " ", " ", " ", " ", "  ", "   ", "    ", "\n\n", "\x0b", "\u2003"]


def random_strings():
    rng = random.Random(4711)
    out = ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 16))) for _ in range(2400)]
    for _ in range(300):
        data = bytes(rng.choice((rng.randrange(256), rng.randrange(0x20, 0x7F))) for _ in range(60))
        out.append(data[:rng.randint(1, 60)].decode("utf-8", "replace"))
    spaces = " \t\u00a0\n"
    for _ in range(100):  # long runs of one kind
        c = rng.choice(("7", "a", "中", "(", " ", "\u0301", "\r\n", "A", "가") + tuple(spaces))
        out.append(rng.choice(PIECES) + c * rng.randint(1, 2100 // len(c)) + rng.choice(PIECES))
    while len(out) < 3000:
        size = rng.randint(1, 12)
        code = [rng.randrange(rng.choice((0x800, 0x3000, 0x10000, 0x20000, 0x110000))) for _ in range(size)]
        out.append("".join(chr(c) for c in code if not 0xD800 <= c < 0xE000))
    return out


def step(what):
    if what == BYTES:
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if isinstance(what, str):
        what = {"Split": what, "behavior": "isolated"}
    if "Split" in what:
        return pre_tokenizers.Split(Regex(what["Split"]), what["behavior"])
    if "Digits" in what:
        return pre_tokenizers.Digits(individual_digits=what["Digits"])
    return pre_tokenizers.Punctuation(what["Punctuation"])


@functools.cache
def gpt2_model():
    get = gguf_fields(VOCABULARY)
    return {t: i for i, t in enumerate(get("tokens"))}, [tuple(m.split(" ")) for m in get("merges")]


def byte_level_oracle(name):
    vocab, merges = gpt2_model()
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=name in IGNORE_MERGES))
    steps = PRE[name] + ([] if BYTES in PRE[name] else [BYTES])
    tok.pre_tokenizer = pre_tokenizers.Sequence([step(s) for s in steps])
    if name in NFC:
        tok.normalizer = normalizers.NFC()
    return tok


def gemma4_oracle():
    tok = phi3_oracle()
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    return tok


def oracle(name):
    tok = gemma4_oracle() if name == "gemma4" else byte_level_oracle(name)
    tok.encode_special_tokens = True
    return tok


def words(tok, text):
    """The byte lengths of the words; of a tokenizer that cuts none, the length of the text."""
    if tok.normalizer is not None:
        text = tok.normalizer.normalize_str(text)
    if not text:
        return []
    if tok.pre_tokenizer is None:
        return [len(text.encode())]
    return [len(w) for w, _ in tok.pre_tokenizer.pre_tokenize_str(text)]  # one character a byte


def hash_of(tok, texts):
    crc = 0
    for text, encoded in zip(texts, tok.encode_batch(texts, add_special_tokens=False)):
        values = [len(encoded.ids), *encoded.ids, *words(tok, text)]
        crc = zlib.crc32(struct.pack("<%dI" % len(values), *values), crc)
    return "%08x" % crc


def golden_texts():
    with lzma.open(DATA + "golden.jsonl.xz", "rt", encoding="utf-8", newline="\n") as f:
        next(f)
        return [json.loads(line)[0] for line in f]


def blocks(texts):
    return [texts[i:i + BLOCK] for i in range(0, len(texts), BLOCK)]


def show(name, block, inspect):
    tok = oracle(name)
    for text in blocks(golden_texts() + random_strings())[block]:
        ids = tok.encode(text, add_special_tokens=False).ids
        if inspect is not None:
            model = "/tmp/" + (VOCABULARY if name != "gemma4" else "ggml-vocab-phi-3.gguf")
            command = [inspect, "tokenize", model, "--tokenizer-pre", name, "--no-special"]
            ours = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
            if [int(i) for i in ours.split()] == ids:
                continue
            print("ours  ", ours.decode().strip())
        print(repr(text), "\nwords ", words(tok, text), "\nids   ", *ids)


def main():
    if len(sys.argv) > 2:
        show(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
        return
    extra = random_strings()
    texts = blocks(golden_texts() + extra)
    table = {}
    for name in [*PRE, "gemma4"]:
        tok = oracle(name)
        table[name] = "".join(hash_of(tok, block) for block in texts)
    data = json.dumps({"random": extra, "columns": table}, ensure_ascii=False).encode()
    with open(PATH, "wb") as f:
        subprocess.run(["xz", "-9e", "-c"], input=data, stdout=f, check=True)
    print(len(table), "columns,", len(texts), "blocks,", os.path.getsize(PATH), "bytes packed")


if __name__ == "__main__":
    main()
