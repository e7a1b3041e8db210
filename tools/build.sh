#!/usr/bin/env bash
# Configures and builds one preset. Usage: tools/build.sh PRESET [TARGET...]
#   ORCD_CUDA_ARCHS=LIST   for other GPUs than the preset says: WORKER_CUDA_ARCHS
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: tools/build.sh PRESET [TARGET...]}
shift
# One cache for all checkouts; precompiled headers need the sloppiness (ccache's manual).
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
mkdir -p "build/$preset"
log=build/$preset/configure.log
cmake --preset "$preset" ${ORCD_CUDA_ARCHS:+-DWORKER_CUDA_ARCHS="$ORCD_CUDA_ARCHS"} >"$log" 2>&1 ||
  { cat "$log" >&2; exit 1; }
cmake --build --preset "$preset" ${1:+--target "$@"}
