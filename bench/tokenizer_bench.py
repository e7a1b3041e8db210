#!/usr/bin/env python3
"""Our tokenizer and the `tokenizers` package on the same 1 MB of mixed text, side by side, one thread each.

    python3 bench/tokenizer_bench.py BUILD_DIR
    python3 bench/tokenizer_bench.py BUILD_DIR pretokenizers   # each of ours, over GPT-2's vocabulary

BUILD_DIR holds bench_tokenize and the unpacked vocabularies (target test_vocabularies). Needs the PyPI
package tokenizers. The two take turns; the best of the rounds counts for each. The text: sentences of
many scripts (test/oracle/tokenizer_sentences.txt), and this repository's own sources, shuffled with a
fixed seed. The package sees the text as one string and again cut into 256 pieces, where its word cache
helps most; its better figure is the one compared.
"""
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SIZE = 1_000_000
ROUNDS = 5


def mixed_text():
    rng = random.Random(1)
    with open(os.path.join(ROOT, "test/oracle/tokenizer_sentences.txt"), encoding="utf-8") as f:
        sentences = [s for s in f.read().split("\n") if s and "<|" not in s]
    command = ["git", "ls-files", "engine", "net", "test/unit"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    sources = []
    for name in sorted(names.stdout.split()):
        if name.endswith((".hpp", ".cpp")) and "unicode_tables.cpp" not in name:
            with open(os.path.join(ROOT, name), encoding="utf-8") as f:
                sources += f.read().split("\n\n")
    out, size = [], 0
    while size < SIZE:
        piece = rng.choice(sources) if rng.random() < 0.4 else rng.choice(sentences)
        out.append(piece)
        size += len(piece.encode()) + 1
    return "\n".join(out)


def package_speed(tok, pieces, size):
    start = time.perf_counter()
    tokens = sum(len(e.ids) for e in (tok.encode(p, add_special_tokens=False) for p in pieces))
    return tokens, size / 1e6 / (time.perf_counter() - start)


def compare(build, name, text):
    path = os.path.join(build, "vocabularies", name)
    start = time.perf_counter()
    tok = Tokenizer.from_file(path)
    package_load = (time.perf_counter() - start) * 1e3
    size = len(text.encode())
    step = len(text) // 256 + 1
    pieces = [text[i:i + step] for i in range(0, len(text), step)]
    ours = theirs = tokens = 0
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt", newline="") as f:
        f.write(text)
        f.flush()
        for _ in range(ROUNDS):
            command = [os.path.join(build, "bench_tokenize"), path, f.name, "3"]
            figures = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            ours = max(ours, figures["mb_per_s"])
            tokens, speed = package_speed(tok, [text], size)
            theirs = max(theirs, speed, package_speed(tok, pieces, size)[1])
    counts = (figures["tokens"], tokens)
    same = "same number of ids" if counts[0] == counts[1] else "%d and %d ids" % counts
    print("%s\n  encode: ours %.2f MB/s, tokenizers %.2f MB/s, ratio %.1f, %s" %
          (name, ours, theirs, ours / theirs, same))
    print("  load: ours %.0f ms, tokenizers %.0f ms; we hold %.0f MB after it, %.0f MB at the peak" %
          (figures["load_ms"], package_load, figures["loaded_mb"], figures["peak_mb"]))


def pretokenizers(build, text):
    with lzma.open(os.path.join(ROOT, "test/data/tokenizers/pretokenizers.json.xz")) as f:
        names = [n for n in json.load(f)["columns"] if n != "gemma4"]
    path = os.path.join(build, "vocabularies", "ggml-vocab-gpt-2.gguf")
    speeds = dict.fromkeys(names, 0)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt", newline="") as f:
        f.write(text)
        f.flush()
        for _ in range(ROUNDS):
            for name in names:
                command = [os.path.join(build, "bench_tokenize"), path, f.name, "3", name]
                figures = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
                speeds[name] = max(speeds[name], figures["mb_per_s"])
    for name in sorted(names, key=speeds.get):
        print("%-24s %6.2f MB/s" % (name, speeds[name]))


def main():
    text = mixed_text()
    print("%d bytes, %d characters" % (len(text.encode()), len(text)))
    build = sys.argv[1] if len(sys.argv) > 1 else "build/release"
    if sys.argv[2:] == ["pretokenizers"]:
        pretokenizers(build, text)
        return
    for name in ("qwen3.tokenizer.json", "gpt-oss.tokenizer.json"):
        compare(build, name, text)


if __name__ == "__main__":
    main()
