#!/usr/bin/env bash
# From a fresh Debian 12 to a haiku: installs what is missing, builds build/demo, fetches a real small model,
# serves it, streams one answer to this terminal, drains, and says how to start it again. A second run takes
# seconds.
# Usage: tools/demo.sh [FOLDER]   with a folder of binaries nothing is installed or built
# ORCD_BACKEND says host or cuda; without it CUDA is taken where this machine builds and runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
backend=${ORCD_BACKEND:-}
case "$backend" in
  '' | host | cuda) ;;
  *) echo "ORCD_BACKEND is '$backend'; it must be host or cuda" >&2 && exit 2 ;;
esac

# Why the CUDA kernels are not built, or nothing where they are.
why_without_cuda() {
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || true
  if [ -z "$capability" ]; then
    echo "this machine shows no NVIDIA GPU"
  elif [ "$capability" != 9.0 ]; then
    echo "this GPU has compute capability $capability, and they run on 9.0 alone"
  elif ! command -v "${CUDACXX:-nvcc}" >/dev/null; then
    echo "there is a GPU for them, but no nvcc in the PATH (CUDA 13)"
  fi
}

folder=${1:-build/demo}
if [ $# -eq 0 ]; then
  tools/packages.sh demo
  preset=release
  if [ "$backend" = host ]; then
    why="ORCD_BACKEND is host"
  else
    why=$(why_without_cuda)
  fi
  if [ -n "$why" ] && [ "$backend" = cuda ]; then
    echo "ORCD_BACKEND is cuda, but the CUDA kernels cannot be built: $why" >&2
    exit 1
  fi
  if [ -n "$why" ]; then
    preset=demo-host
    echo "== the CUDA kernels are not built: $why"
  fi
  echo "== building build/$preset"
  tools/build.sh "$preset" worker-orcd worker-orcd-inspect
  ln -sfn "$preset" build/demo
fi
model=${ORCD_DEMO_MODEL:-$(tools/fetch_demo_model.sh)}

log=$(mktemp)
worker=
stop() {
  [ -n "$worker" ] && kill -TERM "$worker" 2>/dev/null && wait "$worker" || true
  rm -f "$log"
}
trap stop EXIT

serve=("$folder/worker-orcd" --backend "${backend:-host}" --model "$model")
why=${backend:+ORCD_BACKEND is $backend}
why=${why:-without CUDA}
if [ -z "$backend" ] &&
  "$folder/worker-orcd" --version | grep -q '^backends: cuda' && nvidia-smi -L >/dev/null 2>&1; then
  serve=("$folder/worker-orcd" --model "$model")
  why="CUDA, the default; $(nvidia-smi -L | head -n 1 | sed 's/ (UUID.*//')"
fi

echo "== starting ${serve[*]} ($why)"
"${serve[@]}" --port 0 --log-format json 2>"$log" &
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
[ "$status" -eq 0 ] || exit "$status"
echo "== To start it again, with a page to chat from at http://127.0.0.1:8080/ :"
printf '%q ' "${serve[@]}" | sed 's/ $/\n/'
