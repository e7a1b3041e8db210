#!/usr/bin/env bash
# Configures and builds one preset. Usage: tools/build.sh PRESET [TARGET...]
#   ORCD_CUDA_ARCHS=LIST   for these GPUs this time (cmake/cuda.cmake)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: tools/build.sh PRESET [TARGET...]}
shift
# One cache for all checkouts; precompiled headers need the sloppiness (ccache's manual).
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
mkdir -p "build/$preset"
log=build/$preset/configure.log
cmake --preset "$preset" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
cmake --build --preset "$preset" ${1:+--target "$@"}
