#!/usr/bin/env bash
# From a fresh Debian 12 to a haiku: installs what is missing, builds, fetches a real small model,
# serves it, streams one answer to this terminal, drains. A second run takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/packages.sh demo
preset=release
if ! nvidia-smi -L >/dev/null 2>&1; then
  preset=host
  echo "== this machine shows no NVIDIA GPU: the CUDA kernels are not built"
fi
echo "== building build/$preset"
tools/build.sh "$preset" worker-orcd worker-orcd-inspect
model=$(tools/fetch_demo_model.sh)

log=$(mktemp)
worker=
stop() {
  [ -n "$worker" ] && kill -TERM "$worker" 2>/dev/null && wait "$worker" || true
  rm -f "$log"
}
trap stop EXIT

worker_binary=build/$preset/worker-orcd
backend=host
why="this build has no CUDA backend"
if "$worker_binary" --version | grep -q '^backends: cuda'; then
  backend=cuda
  why="the default; $(nvidia-smi -L | head -n 1 | sed 's/ (UUID.*//')"
fi

echo "== starting worker-orcd --backend $backend ($why) with $model"
"$worker_binary" --backend "$backend" --model "$model" --port 0 --log-format json 2>"$log" &
worker=$!
# The model is loaded first.
for _ in $(seq 600); do
  port=$(sed -n 's/.*"event":"ready".*"port":\([0-9]*\).*/\1/p' "$log")
  [ -n "$port" ] && break
  kill -0 "$worker" 2>/dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
[ -n "$port" ] || { echo "the worker was not ready within 60 s" >&2; cat "$log" >&2; exit 1; }

echo "== Write a haiku about GPU computing"
tools/ask.py "http://127.0.0.1:$port" "Write a haiku about GPU computing"

echo "== draining"
kill -TERM "$worker"
status=0
wait "$worker" || status=$?
worker=
echo "worker exited with $status"
exit "$status"
