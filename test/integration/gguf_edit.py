"""Breaks a valid GGUF file in one chosen place. It knows just enough of the format to find the place."""
import struct
from typing import Tuple

STRING, ARRAY = 8, 9
WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def _string(data: bytes, at: int) -> Tuple[bytes, int]:
    length, = struct.unpack_from('<Q', data, at)
    return data[at + 8:at + 8 + length], at + 8 + length


def _skip(data: bytes, at: int, kind: int) -> int:
    if kind == STRING:
        return _string(data, at)[1]
    if kind == ARRAY:
        element, count = struct.unpack_from('<IQ', data, at)
        at += 12
        for _ in range(count):
            at = _skip(data, at, element)
        return at
    return at + WIDTHS[kind]


def with_architecture(data: bytes, name: bytes) -> bytes:
    """Another general.architecture of the same length."""
    key = b'general.architecture'
    at = data.index(key) + len(key) + 4
    old, end = _string(data, at)
    assert len(old) == len(name), (old, name)
    return data[:at + 8] + name + data[end:]


def _tensor_table(data: bytes) -> Tuple[int, int]:
    """(number of tensors, where their table begins)."""
    tensors, pairs = struct.unpack_from('<QQ', data, 8)
    assert tensors > 0
    at = 24
    for _ in range(pairs):
        _, at = _string(data, at)
        at = _skip(data, at + 4, struct.unpack_from('<I', data, at)[0])
    return tensors, at


def _with_pairs(data: bytes, added: bytes, count: int, grown: int = 0) -> bytes:
    """More keys; one more that is only padding keeps the tensors aligned to 32 bytes, where the
    data has `grown` too."""
    pairs, = struct.unpack_from('<Q', data, 16)
    _, end = _tensor_table(data)
    name = b'test.padding'
    filled = -(grown + len(added) + 8 + len(name) + 4 + 8) % 32
    added += struct.pack('<Q', len(name)) + name + struct.pack('<IQ', STRING, filled) + b'.' * filled
    return data[:16] + struct.pack('<Q', pairs + count + 1) + data[24:end] + added + data[end:]


def with_integers(data: bytes, values: dict) -> bytes:
    """More keys with 32-bit integers."""
    added = b''.join(struct.pack('<Q', len(k)) + k + struct.pack('<II', 4, v) for k, v in values.items())
    return _with_pairs(data, added, len(values))


def with_strings(data: bytes, values: dict) -> bytes:
    """More keys with texts."""
    added = b''.join(struct.pack('<Q', len(k)) + k + struct.pack('<IQ', STRING, len(v)) + v
                     for k, v in values.items())
    return _with_pairs(data, added, len(values))


def with_control_tokens(data: bytes, names: list) -> bytes:
    """The first tokens of the vocabulary become control tokens of these names."""
    key = b'tokenizer.ggml.tokens'
    at = first = data.index(key) + len(key) + 4 + 12
    for _ in names:
        _, at = _string(data, at)
    renamed = b''.join(struct.pack('<Q', len(name)) + name for name in names)
    grown = len(renamed) - (at - first)
    before, behind = data[:first] + renamed, data[at:]
    key = b'tokenizer.ggml.token_type'
    at = behind.index(key) + len(key) + 4 + 12
    control = struct.pack('<I', 3) * len(names)
    return _with_pairs(before + behind[:at] + control + behind[at + len(control):], b'', 0,
                       grown)


def with_tensor_bytes(data: bytes, name: bytes, offset: int, replacement: bytes) -> bytes:
    """Other bytes at an offset of one tensor's payload; for the default alignment of 32."""
    tensors, at = _tensor_table(data)
    payload = None
    for _ in range(tensors):
        found, at = _string(data, at)
        dimensions, = struct.unpack_from('<I', data, at)
        at += 8 + 8 * dimensions
        if found == name:
            payload, = struct.unpack_from('<Q', data, at)
        at += 8
    assert payload is not None, name
    begin = (at + 31) // 32 * 32 + payload + offset
    return data[:begin] + replacement + data[begin + len(replacement):]


def with_tensor_type(data: bytes, kind: int) -> bytes:
    """Another ggml type for the first tensor of the table."""
    _, at = _tensor_table(data)
    _, at = _string(data, at)
    dimensions, = struct.unpack_from('<I', data, at)
    at += 4 + 8 * dimensions
    return data[:at] + struct.pack('<I', kind) + data[at + 4:]


def without_tokenizer(data: bytes) -> bytes:
    """Every tokenizer key under another name of the same length."""
    assert b'tokenizer.ggml.' in data
    return data.replace(b'tokenizer.ggml.', b'tokenizer.none.')
