"""Compares the logits in test/data/families with those of llama.cpp for the same files.

usage: compare_llama_cpp.py FOLDER [MODEL...]     needs llama-cpp-python; exit code 1: not as expected

The worker's own logits agree with the stored ones to 1e-3 (test/unit/golden). llama.cpp multiplies
activations that it rounds to 8 bits, so a few percent are expected here; a wrong order of rows, pattern of
windows or norm is off by tens of percent. Counts positions of which the most likely token is the same, and of
these the clear ones, whose runner-up is further away than the error.
"""

import json
import sys
from pathlib import Path

import numpy as np
from llama_cpp import Llama

ERROR_MAX = 0.05
# Why is in README.md, Families.
NOT_LOADED = {"command-r-keys", "deepseek2-groups-large", "ernie4_5-moe", "gemma2-keys", "internlm2-tied",
              "seed_oss-tied"}
DIFFERENT = {"deepseek2-groups", "deepseek2-v2", "exaone4-windows"}


def compare(folder, name):
    golden = json.loads((folder / f"{name}.json").read_text())
    case, vocab = golden["cases"][0], golden["vocab"]
    rows = np.fromfile(folder / case["logits"], dtype="<f4").reshape(2, -1, vocab)[0]
    model = Llama(str(folder / golden["model"]), n_ctx=case["context"], n_batch=64, logits_all=True,
                  verbose=False, n_threads=2)
    model.eval(case["tokens"])
    theirs = np.array([model.scores[p] for p in case["positions"]])
    errors = np.linalg.norm(theirs - rows, axis=1) / np.linalg.norm(rows, axis=1)
    ordered = np.sort(rows, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 2 * np.abs(theirs - rows).max(axis=1)
    same = theirs.argmax(axis=1) == rows.argmax(axis=1)
    print(f"{name:20} relative difference {errors.max():.1e}, same token at {int(same.sum())} of "
          f"{len(same)}, at {int((same & clear).sum())} of {int(clear.sum())} clear ones")
    return bool(errors.max() < ERROR_MAX and (same | ~clear).all())


def as_expected(folder, name):
    try:
        alike = compare(folder, name)
    except ValueError as problem:
        print(f"{name:20} not loaded: {problem}")
        return name in NOT_LOADED
    return name not in NOT_LOADED and alike != (name in DIFFERENT)


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    names = names or sorted(p.stem for p in folder.glob("*.gguf"))
    wrong = [name for name in names if not as_expected(folder, name)]
    print(f"compared {len(names)} models, not as expected: {', '.join(wrong) or 'none'}")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
