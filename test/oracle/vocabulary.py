"""Small but complete vocabularies of 320 entries: byte-level BPE and SentencePiece with byte fallback."""

from collections import Counter

SIZE = 320
TEXT = """\
the worker loads one model into memory and streams the tokens of an answer while the client reads them a \
lighthouse keeper writes the weather and the names of the passing ships in a diary every morning and \
evening numbers such as one two three and ten are shorter than the words of a long sentence about water \
and winter"""


def byte_alphabet():
    """GPT-2's printable stand-in for each byte value."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in keep]
    return [chr(b) if b in keep else chr(0x100 + rest.index(b)) for b in range(256)]


def train_merges(count):
    """The `count` most frequent merges of TEXT; ties to the lexicographically least pair."""
    space = byte_alphabet()[0x20]
    words = Counter(space + w for w in TEXT.split())
    pieces = {w: list(w) for w in words}
    merges = []
    while len(merges) < count:
        pairs = Counter()
        for word, times in words.items():
            for pair in zip(pieces[word], pieces[word][1:]):
                pairs[pair] += times
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        for word, parts in pieces.items():
            i = 0
            while i + 1 < len(parts):
                if (parts[i], parts[i + 1]) == best:
                    parts[i:i + 2] = ["".join(best)]
                i += 1
    return merges


def add_bpe(writer, pre, specials, bos, eos):
    """Byte-level BPE: 256 bytes, trained merges, then the control tokens, which end the vocabulary."""
    alphabet = byte_alphabet()
    merges = train_merges(SIZE - 256 - len(specials))
    tokens = [*alphabet, *("".join(m) for m in merges), *specials]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (SIZE - len(specials)) + [3] * len(specials))
    writer.add_token_merges([" ".join(m) for m in merges])
    writer.add_bos_token_id(tokens.index(bos))
    writer.add_eos_token_id(tokens.index(eos))
    writer.add_add_bos_token(False)


def add_spm(writer, specials, eos):
    """SentencePiece: <unk> <s> </s>, 256 bytes, pieces with falling scores, then the control tokens."""
    fixed = ["<unk>", "<s>", "</s>"]
    room = SIZE - len(fixed) - 256 - len(specials)
    letters = ["\u2581", *sorted({c for c in TEXT if c.isalpha()})]
    joined = ["".join(m).replace("\u0120", "\u2581") for m in train_merges(room)]
    pieces = list(dict.fromkeys(joined))[:room - len(letters)] + letters
    tokens = [*fixed, *(f"<0x{b:02X}>" for b in range(256)), *pieces, *specials]
    assert len(tokens) == SIZE
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(pieces))] + [0.0] * len(specials))
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(pieces) + [3] * len(specials))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(tokens.index(eos))
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
