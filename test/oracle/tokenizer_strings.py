"""The strings that tokenizer_golden.py asks the oracles about: seeded, so a rerun gives the same."""
import os
import random
import subprocess
import unicodedata

SEED = 20260
GENERATED = 11000

HERE = os.path.dirname(os.path.abspath(__file__))

SPECIAL = """<|im_start|> <|im_end|> <|endoftext|> <|start|> <|end|> <|message|> <|channel|>
<|return|> <|call|>
<|user|> <|assistant|> <|system|> </s> <s> <unk> <think> </think> <tool_call> </tool_call>
<|fim_prefix|> <|im_ <| |>
<|placeholder1|> <|constrain|> <|startoftext|> <0x0A> <tool_response> <|end <|im_end| <|<|end|>""".split()

SCRIPTS = {
    "latin": [(0x41, 0x5A), (0x61, 0x7A), (0x61, 0x7A), (0xC0, 0x24F), (0x1E00, 0x1EFF)],
    "ascii": [(0x20, 0x7E)],
    "greek": [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "cyrillic": [(0x400, 0x52F)],
    "armenian_georgian": [(0x530, 0x58F), (0x10A0, 0x10FF), (0x1C90, 0x1CBF)],
    "hebrew": [(0x590, 0x5FF)],
    "arabic": [(0x600, 0x6FF), (0x750, 0x77F), (0xFE70, 0xFEFF)],
    "indic": [(0x900, 0xDFF)],
    "thai_lao": [(0xE00, 0xEFF)],
    "tibetan_burmese_khmer": [(0xF00, 0x109F), (0x1780, 0x17FF)],
    "ethiopic_cherokee": [(0x1200, 0x13FF), (0xAB70, 0xABBF)],
    "cjk": [(0x4E00, 0x9FFF), (0x4E00, 0x6FFF), (0x3000, 0x303F), (0x20000, 0x2A6DF)],
    "kana": [(0x3040, 0x30FF), (0xFF00, 0xFFEF)],
    "hangul": [(0xAC00, 0xD7A3), (0x1100, 0x11FF), (0x3130, 0x318F)],
    "emoji": [(0x1F300, 0x1FAFF), (0x2600, 0x27BF), (0x1F1E6, 0x1F1FF), (0x1F3FB, 0x1F3FF)],
    "marks": [(0x300, 0x36F), (0x61, 0x7A), (0x41, 0x5A), (0x1AB0, 0x1AFF), (0x20D0, 0x20FF)],
    "numbers": [(0x30, 0x39), (0x30, 0x39), (0x660, 0x669), (0x966, 0x96F), (0x2150, 0x218F), (0x2460,
        0x249B)],
    "cased": [(0x10400, 0x1044F), (0x1C4, 0x1CC), (0x2C00, 0x2C5F), (0xA640, 0xA69F), (0x1D400, 0x1D7FF)],
    "symbols": [(0xA0, 0xBF), (0x2000, 0x206F), (0x20A0, 0x20BF), (0x2190, 0x22FF), (0x2500, 0x25FF)],
    "any": [(0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x1FFFF), (0xE0000, 0xE01EF), (0x1, 0x10FFFF)],
}
SPACES = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t", " \n", "\n ",
    "\u00a0", "\u3000",
          "\u2028", "\u200b", "\u0085", "\x0b", "\x0c", "        ", "\n\t\t", " \r", "\u202f", "\u180e",
          "\ufeff", "\x1c"]
SUFFIXES = ["'s", "'S", "'re", "'RE", "'Ve", "'m", "'ll", "'LL", "'d", "'t", "'\u017f", "'x", "''s",
    "\u2019s", "'", "'l", "'r"]
ZWJ = ["\u200d", "\ufe0f", "\u20e3", "\u200c", "\U0001f3fd", "\u0301", "\u0323\u0301", "\u0308"]
PUNCTUATION = ["...", "/", "//", "\\n", "!?", "(", ")", "{}", "=>", "->", "::", "<", ">", "|", "#", "--",
    "$", "+=", "_", "`", "^", "~",
               "\u3002", "\u060c", "\u00bf", "\u2026", "/\n/", ".\n\n", ";\r\n"]


def character(rng, ranges):
    while True:
        first, last = rng.choice(ranges)
        c = chr(rng.randint(first, last))
        # Unassigned and surrogate code points: a later Unicode version may give them a class.
        if unicodedata.category(c) not in ("Cn", "Cs"):
            return c


def generated(rng):
    scripts = rng.sample(sorted(SCRIPTS), rng.randint(1, 3))
    out = []
    for _ in range(rng.randint(1, 14)):
        ranges = SCRIPTS[rng.choice(scripts)]
        kind = rng.random()
        if kind < 0.62:
            out.append("".join(character(rng, ranges) for _ in range(rng.randint(1, 9))))
            if rng.random() < 0.15:
                out.append(rng.choice(SUFFIXES))
            if rng.random() < 0.10:
                out.append(rng.choice(ZWJ) + character(rng, ranges))
        elif kind < 0.72:
            out.append("".join(rng.choice("0123456789") for _ in range(rng.randint(1, 9))))
        elif kind < 0.85:
            out.append(rng.choice(PUNCTUATION))
        elif kind < 0.90:
            out.append(rng.choice(SPECIAL))
        else:
            out.append(rng.choice(SPACES) * rng.randint(1, 3))
        if rng.random() < 0.6:
            out.append(rng.choice(SPACES))
    return "".join(out)


def own_sources():
    """Real code and prose: chunks of this repository's own files."""
    command = ["git", "ls-files", "engine", "cmake", "docs", "*.md"]
    names = subprocess.run(command, capture_output=True, text=True, check=True)
    chunks = []
    for name in sorted(names.stdout.split()):
        if name.endswith((".hpp", ".cpp", ".md", ".cmake", ".txt")) and "unicode_tables.cpp" not in name:
            with open(name, encoding="utf-8") as f:
                lines = f.read().splitlines(keepends=True)
            chunks += ["".join(lines[i:i + 8]) for i in range(0, len(lines), 40)]
    return chunks[:300]


def unescape(line):
    return line.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t")


def strings():
    rng = random.Random(SEED)
    with open(os.path.join(HERE, "tokenizer_sentences.txt"), encoding="utf-8") as f:
        sentences = [unescape(line) for line in f.read().strip().split("\n")]
    out = [""] + sentences + [" " + s for s in sentences] + [s.upper() for s in sentences]
    out += [unicodedata.normalize("NFD", s) for s in sentences] + [s.lower() + "\n" for s in sentences]
    for s in sentences:  # cut anywhere, as a chat message may be
        for _ in range(6):
            a, b = sorted((rng.randint(0, len(s)), rng.randint(0, len(s))))
            out.append(s[a:b])
    out += own_sources()
    repeated = ("a", " ", "\n", "é", "中", "🙂", "A", "0", "'", "\u0301", "\r\n", "ab", "aB")
    out += [c * n for c in repeated for n in (1, 2, 3, 17, 200)]
    return out + [generated(rng) for _ in range(GENERATED)]
