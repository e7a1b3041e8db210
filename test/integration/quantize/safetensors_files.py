"""Writes safetensors files and GGUF images and reads them, with nothing but the standard library."""
import json
import struct
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

WIDTHS = {'F32': 4, 'F16': 2, 'BF16': 2, 'I8': 1, 'U8': 1}
BLOCKS = {0: (1, 4, 0), 1: (1, 2, 0), 8: (32, 34, 0), 30: (1, 2, 0), 34: (256, 54, 0), 35: (256, 66, 0),
          36: (128, 32, 32)}  # values, bytes, bytes behind a tensor
I2_S, BF16, F32, Q8_0 = 36, 30, 0, 8
SCALARS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}


class Tensor(NamedTuple):
    extents: Tuple[int, ...]
    kind: int
    data: bytes

    def codes(self) -> List[int]:
        """Of I2_S: -1, 0 and 1."""
        out = []
        for at in range(0, len(self.data) - 32, 32):
            block = self.data[at:at + 32]
            out += [(byte >> shift & 3) - 1 for shift in (6, 4, 2, 0) for byte in block]
        return out

    def scale(self) -> float:
        return struct.unpack_from('<f', self.data, len(self.data) - 32)[0]


def write_safetensors(path: Path, tensors: Dict[str, Tuple[str, List[int], bytes]]) -> None:
    header, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    data = b''.join(data for _, _, data in tensors.values())
    path.write_bytes(struct.pack('<Q', len(text)) + text + data)


def read_safetensors(path: Path) -> Dict[str, Tuple[str, List[int], bytes]]:
    image = path.read_bytes()
    length, = struct.unpack_from('<Q', image)
    header = json.loads(image[8:8 + length])
    data = image[8 + length:]
    return {name: (t['dtype'], t['shape'], data[slice(*t['data_offsets'])])
            for name, t in header.items() if name != '__metadata__'}


class _Reader:
    def __init__(self, image: bytes):
        self.image, self.at = image, 0

    def number(self, form: str):
        value, = struct.unpack_from('<' + form, self.image, self.at)
        self.at += struct.calcsize('<' + form)
        return value

    def text(self) -> str:
        length = self.number('Q')
        self.at += length
        return self.image[self.at - length:self.at].decode()

    def value(self, kind: int):
        if kind == 8:
            return self.text()
        if kind == 9:
            element, count = self.number('I'), self.number('Q')
            return [self.value(element) for _ in range(count)]
        return self.number(SCALARS[kind])


def read_gguf(image: bytes) -> Tuple[dict, Dict[str, Tensor]]:
    assert image[:8] == b'GGUF\x03\0\0\0'
    reader = _Reader(image)
    reader.at = 8
    tensors, keys = reader.number('Q'), reader.number('Q')
    metadata = {}
    for _ in range(keys):
        key = reader.text()
        metadata[key] = reader.value(reader.number('I'))
    table = []
    for _ in range(tensors):
        name, dims = reader.text(), reader.number('I')
        extents = tuple(reader.number('Q') for _ in range(dims))
        table.append((name, extents, reader.number('I'), reader.number('Q')))
    begin, out = (reader.at + 31) // 32 * 32, {}
    for name, extents, kind, offset in table:
        values, size, behind = BLOCKS[kind]
        count = 1
        for extent in extents:
            count *= extent
        length = count // values * size + behind
        out[name] = Tensor(extents, kind, image[begin + offset:begin + offset + length])
        assert len(out[name].data) == length
    return metadata, out


def _text(value: str) -> bytes:
    return struct.pack('<Q', len(value.encode())) + value.encode()


def _value(value) -> bytes:
    """Numbers as u32 and f32, and texts: what read_gguf() gave of a model of ours."""
    if isinstance(value, str):
        return struct.pack('<I', 8) + _text(value)
    return struct.pack('<If', 6, value) if isinstance(value, float) else struct.pack('<II', 4, value)


def write_gguf(path: Path, metadata: dict, tensors: Dict[str, Tensor]) -> None:
    head = struct.pack('<4sIQQ', b'GGUF', 3, len(tensors), len(metadata))
    head += b''.join(_text(key) + _value(value) for key, value in metadata.items())
    data = b''
    for name, tensor in tensors.items():
        head += _text(name) + struct.pack(f'<I{len(tensor.extents)}QIQ', len(tensor.extents), *tensor.extents,
                                          tensor.kind, len(data))
        data += tensor.data + bytes(-len(tensor.data) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)
