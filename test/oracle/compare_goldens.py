"""Makes the tiny models and their logits once more and compares them with those that are stored: the files of
the models byte for byte, logits of f32 to f32 noise, those with K and V in f16 to what rounding the other way
does, which each golden says of itself.

usage: compare_goldens.py DATA      DATA has golden/ and families/; exit code 1: something differs
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List

import numpy as np

HERE = Path(__file__).resolve().parent
NOISE = 5e-6


def relative(ours: np.ndarray, stored: np.ndarray) -> float:
    return float((np.linalg.norm(ours - stored, axis=1) / np.linalg.norm(stored, axis=1)).max())


def wrong_logits(name: str, case: dict, vocabulary: int, made: Path, kept: Path) -> List[str]:
    rows = [np.fromfile(folder / case['logits'], dtype='<f4').reshape(2, -1, vocabulary)
            for folder in (made, kept)]
    bounds = {'f32': NOISE, 'f16 KV': NOISE + 2 * case['figures']['f16_kv_noise']}
    errors = {kind: relative(*(both[n] for both in rows)) for n, kind in enumerate(bounds)}
    return [f'{name}/{case["name"]}, {kind}: {errors[kind]:.1e}, above {bounds[kind]:.1e}'
            for kind in bounds if not errors[kind] <= bounds[kind]]


def wrong(made: Path, kept: Path, name: str) -> List[str]:
    golden = json.loads((kept / f'{name}.json').read_text())
    if not (made / golden['model']).exists():
        return [f'{name}: not made']
    found = [] if (made / golden['model']).read_bytes() == (kept / golden['model']).read_bytes() else [
        f'{name}: the file of the model has other bytes']
    for case in golden['cases']:
        found += wrong_logits(name, case, golden['vocab'], made, kept)
    inputs = f'{name}.inputs.f32'
    if (kept / inputs).exists():
        ours, stored = (np.fromfile(folder / inputs, dtype='<f4').reshape(1, -1) for folder in (made, kept))
        if not relative(ours, stored) <= NOISE:
            found.append(f'{name}: inputs of layers differ by {relative(ours, stored):.1e}')
    return found


def main() -> int:
    data, found, models = Path(sys.argv[1]), [], 0
    for kept, options in ((data / 'golden', []), (data / 'families', ['--families'])):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, '-B', HERE / 'make_tiny_goldens.py', *options, folder],
                           check=True, stdout=subprocess.DEVNULL)
            names = sorted(path.stem for path in kept.glob('*.gguf'))
            models += len(names)
            for name in names:
                found += wrong(Path(folder), kept, name)
    print('\n'.join(found))
    print(f'compared {models} models, {len(found)} differences')
    return 1 if found or not models else 0


if __name__ == '__main__':
    sys.exit(main())
