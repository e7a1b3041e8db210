"""Pictures that tests send: PNG files made of nothing but zlib, and how a chat carries them."""
import base64
import struct
import zlib


def png(width: int, height: int, seed: int = 1, declared=None, touched: int = 0) -> bytes:
    """Colours that follow from place and seed. `declared`: the size that its header says instead; `touched`:
    added to one value of the first pixel."""
    rows = b''.join(b'\0' + bytes((seed * 40 + c * 70 + x * 5 + y * 11) % 256
                                  for x in range(width) for c in range(3)) for y in range(height))
    rows = rows[:1] + bytes([(rows[1] + touched) % 256]) + rows[2:]

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
    head = struct.pack('>IIBBBBB', *(declared or (width, height)), 8, 2, 0, 0, 0)
    chunks = chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')
    return b'\x89PNG\r\n\x1a\n' + chunks


def data_url(file: bytes, kind: str = 'image/png') -> str:
    return f'data:{kind};base64,{base64.b64encode(file).decode()}'


def image_part(file: bytes, detail=None) -> dict:
    url = {'url': data_url(file)}
    if detail:
        url['detail'] = detail
    return {'type': 'image_url', 'image_url': url}


def text_part(text: str) -> dict:
    return {'type': 'text', 'text': text}
