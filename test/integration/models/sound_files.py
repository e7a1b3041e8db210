"""Sounds that tests send: WAV files made of nothing but struct, and how a chat carries them."""
import base64
import math
import struct


def wav(seconds: float, hertz: float = 440, rate: int = 16000, channels: int = 1, touched: int = 0) -> bytes:
    """A tone of 16 bits. `touched`: added to one sample in its middle."""
    count = round(seconds * rate)
    samples = [round(12000 * math.sin(2 * math.pi * hertz * i / rate)) for i in range(count)]
    samples[count // 2] += touched
    data = b''.join(struct.pack('<h', s) * channels for s in samples)
    return chunks(data, rate, channels)


def chunks(data: bytes, rate: int = 16000, channels: int = 1, kind: int = 1, bits: int = 16,
           declared=None) -> bytes:
    """A file of these samples; `declared`: the size that their chunk says instead."""
    frame = channels * bits // 8
    head = struct.pack('<HHIIHH', kind, channels, rate, rate * frame, frame, bits)
    size = len(data) if declared is None else declared
    body = b'WAVEfmt ' + struct.pack('<I', len(head)) + head + b'data' + struct.pack('<I', size) + data
    return b'RIFF' + struct.pack('<I', len(body)) + body


def audio_part(file, kind: str = 'wav') -> dict:
    data = file if isinstance(file, str) else base64.b64encode(file).decode()
    return {'type': 'input_audio', 'input_audio': {'data': data, 'format': kind}}
