"""How fast trillim-quantize is, and how much memory of its own it takes.

    python3 bench/quantize.py --build DIR [--mib 300] [--runs 5] [--folder DIR] [--json FILE]

Writes a BitNet model of about --mib MiB below --folder (the system's place for temporary files), once with
masters in BF16 and once packed, and converts each --runs times with its files in the page cache. MB/s are
bytes of the shard by wall time, from the start of the process to its end, the disk's own time for the output
among them; the memory is the largest RssAnon of /proc/PID/status, looked at each millisecond.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

HIDDEN, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY = 2560, 6912, 20, 5, 128, 4096
CHUNK = 4 << 20
# High bytes of bf16: both signs and exponents about that of 0.02.
HIGH = bytes((i & 0x80) | (0x3b + (i & 1)) for i in range(256))
# Four codes of 0, 1 or 2 in each byte.
PACKED = bytes(sum((i // 3 ** k % 3) << (2 * k) for k in range(4)) for i in range(256))


def shapes(layers: int) -> Iterator[Tuple[str, List[int]]]:
    yield 'model.embed_tokens.weight', [VOCABULARY, HIDDEN]
    yield 'model.norm.weight', [HIDDEN]
    for i in range(layers):
        layer = f'model.layers.{i}.'
        for name, size in (('input_layernorm', HIDDEN), ('self_attn.attn_sub_norm', HEADS * HEAD_DIM),
                           ('post_attention_layernorm', HIDDEN), ('mlp.ffn_sub_norm', FFN)):
            yield f'{layer}{name}.weight', [size]
        for name, rows, cols in (('self_attn.q_proj', HEADS * HEAD_DIM, HIDDEN),
                                 ('self_attn.k_proj', KV_HEADS * HEAD_DIM, HIDDEN),
                                 ('self_attn.v_proj', KV_HEADS * HEAD_DIM, HIDDEN),
                                 ('self_attn.o_proj', HIDDEN, HEADS * HEAD_DIM),
                                 ('mlp.gate_proj', FFN, HIDDEN), ('mlp.up_proj', FFN, HIDDEN),
                                 ('mlp.down_proj', HIDDEN, FFN)):
            yield f'{layer}{name}.weight', [rows, cols]


def layers_for(mib: int, packed: bool) -> int:
    of_layer = sum(shape[0] * shape[1] for _, shape in shapes(1) if len(shape) == 2) - VOCABULARY * HIDDEN
    return max(1, round((mib << 20) / (of_layer / 4 if packed else of_layer * 2)))


def random_bytes(count: int, packed: bool) -> Iterator[bytes]:
    while count > 0:
        drawn = bytearray(os.urandom(min(count, CHUNK)))
        if packed:
            drawn = drawn.translate(PACKED)
        else:
            drawn[1::2] = drawn[1::2].translate(HIGH)
        yield bytes(drawn)
        count -= len(drawn)


def write_model(folder: Path, mib: int, packed: bool) -> int:
    """The bytes of the shard."""
    header: Dict[str, dict] = {}
    order: List[Tuple[int, bool]] = []
    at = 0

    def add(name: str, kind: str, shape: List[int], size: int) -> None:
        nonlocal at
        header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [at, at + size]}
        order.append((size, kind == 'U8'))
        at += size
    for name, shape in shapes(layers_for(mib, packed)):
        if packed and '_proj' in name:
            add(name, 'U8', [shape[0] // 4, shape[1]], shape[0] * shape[1] // 4)
            add(name + '_scale', 'BF16', [1], 2)
        else:
            add(name, 'BF16', shape, 2 * shape[0] * (shape[1] if len(shape) == 2 else 1))
    text = json.dumps(header).encode()
    with open(folder / 'model.safetensors', 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        for size, codes in order:
            for piece in random_bytes(size, codes):
                file.write(piece)
    (folder / 'config.json').write_text(json.dumps({
        'model_type': 'bitnet', 'hidden_size': HIDDEN, 'intermediate_size': FFN, 'num_attention_heads': HEADS,
        'num_key_value_heads': KV_HEADS, 'max_position_embeddings': 4096, 'rms_norm_eps': 1e-5,
        'rope_theta': 500000.0, 'hidden_act': 'relu2', 'tie_word_embeddings': True,
        'quantization_config': {'linear_class': 'autobitlinear'}}))
    return 8 + len(text) + at


def anonymous_kib(pid: int) -> int:
    try:
        status = Path(f'/proc/{pid}/status').read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith('RssAnon')), 0)


def convert(program: Path, model: Path, out: Path) -> Tuple[float, int]:
    """Seconds, and the largest RssAnon in KiB."""
    most, begin = 0, time.perf_counter()
    with subprocess.Popen([program, model, '--out', out]) as process:
        while process.poll() is None:
            most = max(most, anonymous_kib(process.pid))
            time.sleep(0.001)
        took = time.perf_counter() - begin
    if process.returncode != 0:
        sys.exit(f'{program} ended with {process.returncode}')
    out.unlink()
    return took, most


def measure(program: Path, folder: Path, mib: int, runs: int, packed: bool) -> dict:
    folder.mkdir()
    size = write_model(folder, mib, packed)
    with open(folder / 'model.safetensors', 'rb') as file:
        while file.read(CHUNK):
            pass
    results = [convert(program, folder, folder / 'out.gguf') for _ in range(runs)]
    rates = sorted(size / took / 1e6 for took, _ in results)
    return {'what': 'packed to I2_S' if packed else 'BF16 to I2_S', 'bytes': size,
            'mb_s_best': round(rates[-1], 1), 'mb_s_median': round(statistics.median(rates), 1),
            'anonymous_kib': max(most for _, most in results)}


def main() -> None:
    parser = argparse.ArgumentParser(prog='bench/quantize.py', description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--build', type=Path, required=True, help='folder of the binaries')
    parser.add_argument('--mib', type=int, default=300)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--folder', type=Path)
    parser.add_argument('--json', type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        program = chosen.build.resolve() / 'trillim-quantize'
        rows = [measure(program, Path(folder) / kind, chosen.mib, chosen.runs, kind == 'packed')
                for kind in ('masters', 'packed')]
    for row in rows:
        print(f"{row['what']:16} {row['bytes'] / 1e6:8.1f} MB  best {row['mb_s_best']:8.1f} MB/s  median "
              f"{row['mb_s_median']:8.1f} MB/s  anonymous memory {row['anonymous_kib']:6} KiB")
    if chosen.json:
        chosen.json.write_text(json.dumps({'load': os.getloadavg(), 'rows': rows}, indent=1) + '\n')


if __name__ == '__main__':
    main()
