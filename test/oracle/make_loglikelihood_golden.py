"""Log likelihoods of continuations by transformers in f32, for SmolLM2-135M-Instruct Q4_1.

usage: make_loglikelihood_golden.py MODEL.gguf DOCUMENTS.jsonl OUT.json
"""

import hashlib
import json
import sys
from pathlib import Path

import torch
import transformers
from gguf import GGUFReader
from kv16 import logits_of
from make_smollm2_golden import check_conversion, text_tokenizer
from transformers import AutoModelForCausalLM


def likelihood(model, context, continuation, half_cache=False):
    """The sum of the continuation's log probabilities in f64 and whether each token is likeliest."""
    rows = logits_of(model, context + continuation, half_cache)[len(context) - 1:-1].double()
    own = torch.tensor(continuation)
    logprobs = rows.log_softmax(dim=1).gather(1, own[:, None])[:, 0]
    return float(logprobs.sum()), bool((rows.argmax(dim=1) == own).all())


def main():
    path, documents, out = map(Path, sys.argv[1:])
    reader = GGUFReader(path)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    print("tensors equal to the file:", check_conversion(model, reader))
    tokenizer = text_tokenizer(reader)
    cases = []
    for line in documents.read_text(encoding="utf-8").splitlines():
        document = json.loads(line)
        context = tokenizer.encode(document["context"]).ids
        whole = tokenizer.encode(document["context"] + document["continuation"]).ids
        assert whole[:len(context)] == context, document
        exact, greedy = likelihood(model, context, whole[len(context):])
        half, _ = likelihood(model, context, whole[len(context):], half_cache=True)
        cases.append({"tokens": len(whole) - len(context), "sum": exact, "sum_f16_kv": half,
                      "greedy": greedy})
        print(f"{exact:10.5f} {half - exact:+.5f} {greedy} {document['continuation']!r}", flush=True)
    golden = {"model": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
              "made_by": {"transformers": transformers.__version__, "torch": torch.__version__},
              "cases": cases}
    out.write_text(json.dumps(golden).replace('{"tokens"', '\n{"tokens"') + "\n")


if __name__ == "__main__":
    main()
