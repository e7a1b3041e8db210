#!/usr/bin/env python3
"""Asks a running worker one question and prints the answer as it is generated.

usage: tools/ask.py URL "question" [--max-tokens N] [--temperature T] [--seed S]

The prompt is wrapped in the ChatML that the demo model expects. Ends with exit code 1 when the stream
ends with an error.
"""
import argparse
import json
import sys
import urllib.error
import urllib.request
import uuid

CHATML = ("<|im_start|>system\n"
          "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
          "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")


def events(stream):
    """Yields (event, data) of a Server-Sent Events stream."""
    name, data = "message", []
    for line in (raw.decode().rstrip("\r\n") for raw in stream):
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].strip())
        elif not line and data:
            yield name, json.loads("\n".join(data))
            name, data = "message", []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("question")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()

    body = {"job_id": f"ask-{uuid.uuid4()}", "prompt": CHATML.format(question=options.question),
            "max_tokens": options.max_tokens, "temperature": options.temperature, "seed": options.seed}
    request = urllib.request.Request(options.url + "/execute", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as stream:
            for name, data in events(stream):
                if name == "token":
                    print(data["t"], end="", flush=True)
                elif name == "end":
                    rate = 1000 * (data["tokens_out"] - 1) / max(data["decode_ms"], 1e-3)
                    print(f"\n\n[{data['tokens_out']} tokens, {rate:.1f} tokens/s, {data['finish_reason']}]")
                    return 0
                elif name == "error":
                    print(f"\n{data['code']}: {data['message']}", file=sys.stderr)
                    return 1
    except urllib.error.HTTPError as refusal:
        print(f"{refusal.code}: {refusal.read().decode()}", file=sys.stderr)
        return 1
    print("the stream ended without a terminal event", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
