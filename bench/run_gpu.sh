#!/usr/bin/env bash
# Measures the three target models on this machine's GPU and writes one JSON file of figures.
#   bench/run_gpu.sh BENCH_SYNTH BENCH_CUDA_DECODE OUT.json [option...]
# Options:
#   --worker FILE    also measure process start to READY of this worker-orcd
#   --commit ID      written into the figures
#   --models "A B"   some of qwen2.5-0.5b phi-3-mini gpt-oss-20b (default: all), or gpt-oss-120b (64 GB)
#   --layers N       models of N layers, to try the script; figures of such a run mean nothing
#   --backend NAME   cuda (default) or host, to try the script
#   --quick          one short run of everything
# Models are made where they are missing, in ORCD_BENCH_MODELS, else /dev/shm when they fit, else TMPDIR.
# Every step has a time limit; a model that fails is named, the others still count, and the exit is 1.
set -uo pipefail

fail() {
  echo "run_gpu.sh: $*" >&2
  exit 2
}
(($# >= 3)) || fail "usage: bench/run_gpu.sh BENCH_SYNTH BENCH_CUDA_DECODE OUT.json [option...]"
synth=$1 decode=$2 out=$3
shift 3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
worker='' commit=unknown models='qwen2.5-0.5b phi-3-mini gpt-oss-20b' backend=cuda layers='' extra=()
while (($# > 0)); do
  case $1 in
    --quick)
      extra+=(--quick)
      shift
      continue
      ;;
  esac
  (($# >= 2)) || fail "$1 is no option, or its value is missing"
  case $1 in
    --worker) worker=$2 ;;
    --commit) commit=$2 ;;
    --models) models=$2 ;;
    --layers) layers=$2 ;;
    --backend) backend=$2 ;;
    *) fail "no option $1" ;;
  esac
  shift 2
done
for binary in "$synth" "$decode" ${worker:+"$worker"}; do
  [[ -x $binary ]] || fail "$binary is not an executable file"
done
command -v python3 >/dev/null || fail "python3 is missing"
mkdir -p "$(dirname "$out")" || fail "no directory for $out"

# The three models take 15 GB; /dev/shm must have that and some room for others.
place=${ORCD_BENCH_MODELS:-}
if [[ -z $place ]]; then
  shm_kib=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')
  if ((${shm_kib:-0} > 18 * 1024 * 1024)) || compgen -G '/dev/shm/orcd-bench/*.gguf' >/dev/null; then
    place=/dev/shm/orcd-bench
  else
    place=${TMPDIR:-/tmp}/orcd-bench
  fi
fi
mkdir -p "$place" || fail "cannot make $place"
parts=$(mktemp -d) || fail "mktemp failed"
trap 'rm -rf "$parts"' EXIT

failed=()
for name in $models; do
  file=$place/$name${layers:+-$layers-layers}.gguf
  if [[ ! -s $file ]]; then
    timeout 180 "$synth" --model "$name" --out "$file" ${layers:+--layers "$layers"}
    status=$?
    if ((status != 0)); then
      rm -f "$file.partial"
      failed+=("$name: bench_synth ended with $status")
      continue
    fi
  fi
  timeout --kill-after=5 240 "$decode" --model "$file" --name "$name" --json "$parts/$name.json" \
    --commit "$commit" --backend "$backend" ${extra[@]+"${extra[@]}"}
  status=$?
  ((status == 0)) || failed+=("$name: bench_cuda_decode ended with $status")
  if [[ -n $worker ]]; then
    timeout 150 python3 -B "$here/gpu_figures.py" ready "$worker" "$file" "$name" \
      "$parts/$name-ready.json" --backend "$backend" --context 4096
    status=$?
    ((status == 0)) || failed+=("$name: the worker's start ended with $status")
  fi
done

shopt -s nullglob
figures=("$parts"/*.json)
if ((${#figures[@]} > 0)); then
  python3 -B "$here/gpu_figures.py" merge "$out" "${figures[@]}" || failed+=("merging the figures failed")
fi
for line in ${failed[@]+"${failed[@]}"}; do echo "run_gpu.sh: $line" >&2; done
((${#failed[@]} == 0))
