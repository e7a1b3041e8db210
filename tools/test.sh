#!/usr/bin/env bash
# Builds and runs every test. Usage: tools/test.sh [STAGE...], stages: release asan tsan fuzz (default: all)
#   release  unit, golden, style and integration tests of the shipped build, on a tiny and on the demo model
#   asan     unit and integration tests under the address and undefined-behaviour sanitizers
#   tsan     the same under the thread sanitizer, but for unit tests without threads of their own (named)
#   fuzz     every libFuzzer target for 30 s from its kept corpus
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- release asan tsan fuzz

tools/packages.sh test
tools/promtool.sh >/dev/null
PYTHONPATH=$PWD/$(tools/python_packages.sh openai)
PYTHONPATH=$PYTHONPATH:$PWD/$(tools/python_packages.sh playwright)
ORCD_SCHEMATHESIS=$PWD/$(tools/python_packages.sh schemathesis)
export PYTHONPATH ORCD_SCHEMATHESIS
ORCD_DEMO_MODEL=$PWD/$(tools/fetch_demo_model.sh)
export ORCD_DEMO_MODEL ORCD_PROMTOOL=$PWD/build/tools/promtool
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1

for stage in "$@"; do
  started=$SECONDS
  echo "== $stage: build"
  case "$stage" in
    release|asan|tsan) tools/build.sh "$stage" ;;
    fuzz) tools/build.sh fuzz fuzz_targets ;;
    *) echo "unknown stage '$stage'" >&2; exit 2 ;;
  esac
  echo "== $stage: built in $((SECONDS - started)) s; test"
  selection=(--parallel 2)
  [ "$stage" = fuzz ] && selection+=(--tests-regex '^fuzz_')
  ctest --test-dir "build/$stage" --output-on-failure --no-tests=error "${selection[@]}"
  echo "== $stage: done in $((SECONDS - started)) s"
done
