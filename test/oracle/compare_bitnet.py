"""Greedy tokens of generated BitNet models beside those of pytritium, an independent implementation: the
worker runs with a KV cache in f32, because pytritium rounds nothing there either. Exits with 1 where tokens
differ although the two best logits are not nearly the same.

    compare_bitnet.py BUILD_FOLDER [MODELS]     (20 models, 30 prompts each; pip install pytritium==1.1.0rc2)
"""
import os
import random
import subprocess
import sys
import tempfile
from typing import List

import tritium
from served import Served, gap

PROMPTS, TOKENS, VOCABULARY = 30, 16, 256
NO_END = 999_999  # a token that does not exist
NEARLY_THE_SAME = 1e-3
# Embedding, feed-forward, layers, heads, KV heads.
SHAPES = [(256, 256, 2, 4, 2), (256, 512, 3, 4, 4), (512, 256, 2, 8, 2), (256, 768, 4, 4, 1),
          (512, 512, 4, 8, 4), (384, 384, 2, 6, 2), (256, 256, 6, 4, 2), (640, 1024, 2, 5, 1),
          (512, 1536, 3, 4, 2), (768, 768, 2, 6, 3)]


def write_model(build: str, path: str, number: int) -> None:
    names = ('--embedding', '--ffn', '--layers', '--heads', '--kv-heads')
    shape = [word for pair in zip(names, map(str, SHAPES[number % len(SHAPES)])) for word in pair]
    subprocess.run([os.path.join(build, 'write_tiny_model'), '--out', path, '--family', 'bitnet-b1.58',
                    '--type', 'I2_S', '--embedding-type', 'F16', '--tied', '--context', '256',
                    '--seed', str(100 + number), *shape], check=True)


def compare(served: Served, other: 'tritium.Model', number: int) -> List[float]:
    """The gaps at the first difference of each prompt that has one."""
    draw = random.Random(number)
    gaps = []
    for _ in range(PROMPTS):
        prompt = [draw.randrange(VOCABULARY) for _ in range(draw.randrange(3, 40))]
        answer = served.complete(prompt, TOKENS, 2)
        theirs = list(other.generate(prompt, TOKENS, True, NO_END))
        different = [at for at, (a, b) in enumerate(zip(answer['tokens'], theirs)) if a != b]
        if different:
            gaps.append(gap(answer, different[0]))
    return gaps


def main() -> int:
    build, models = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(models):
            path = os.path.join(folder, 'model.gguf')
            write_model(build, path, number)
            with Served(build, path) as served:
                gaps = compare(served, tritium.Model.load(path), number)
            wrong += sum(one >= NEARLY_THE_SAME for one in gaps)
            same = f'{PROMPTS - len(gaps)} of {PROMPTS} the same'
            print(*SHAPES[number % len(SHAPES)], same, *gaps, flush=True)
    print(f'compared {models * PROMPTS} prompts, {wrong} differ by more than {NEARLY_THE_SAME}')
    return wrong > 0


if __name__ == '__main__':
    sys.exit(main())
