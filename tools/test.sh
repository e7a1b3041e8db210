#!/usr/bin/env bash
# Builds and runs every test. Usage: tools/test.sh [STAGE...]; without one, all:
#   lint     clang-format on everything; clang-tidy on what the last commits changed, up to 40 sources
#   release  unit, golden, style and integration tests of the shipped build, on a tiny and on the demo model,
#            published clients, a browser, and the attack
#   package  the Debian package, from its build to its removal in a chroot, its units under a real systemd,
#            the image; the demo
#   conan    the C library as a Conan package, with Debian's libraries, and the package's test
#   asan     unit and integration tests and the attack under the address and undefined-behaviour sanitizers
#   tsan     the same under the thread sanitizer, but for unit tests without threads of their own (named)
#   fuzz     every libFuzzer target for 30 s from its kept corpus
# ORCD_LEFT_OUT="STAGE:TEST ..." leaves tests out of a stage, by their names in CTest.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- lint release package conan asan tsan fuzz

tools/packages.sh test
tools/promtool.sh >/dev/null
tools/etcd.sh >/dev/null
PYTHONPATH=
for package in openai openai-agents anthropic litellm playwright axe; do
  PYTHONPATH=$PYTHONPATH${PYTHONPATH:+:}$PWD/$(tools/python_packages.sh $package)
done
ORCD_SCHEMATHESIS=$PWD/$(tools/python_packages.sh schemathesis)
ORCD_LM_EVAL=$PWD/$(tools/python_packages.sh lm_eval)
ORCD_CLIENTS=$PWD/$(tools/python_packages.sh clients)
ORCD_KUBERNETES=$PWD/$(tools/python_packages.sh kubernetes)
ORCD_OTLP=$PWD/$(tools/python_packages.sh otlp)
ORCD_TRILLIM=$PWD/$(tools/python_packages.sh trillim)
export PYTHONPATH ORCD_SCHEMATHESIS ORCD_LM_EVAL ORCD_CLIENTS ORCD_KUBERNETES ORCD_OTLP ORCD_TRILLIM
ORCD_DEMO_MODEL=$PWD/$(tools/fetch_demo_model.sh)
export ORCD_DEMO_MODEL ORCD_PROMTOOL=$PWD/build/tools/promtool ORCD_ETCD=$PWD/build/tools/etcd
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1

lint() {
  git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.h' '*.c' | grep -v '^test/fuzz/corpus/' |
    xargs clang-format-14 --dry-run -Werror
  tools/build.sh release help >/dev/null # configures: the commands of all sources are written
  local since changed
  since=$(git rev-parse --quiet --verify HEAD~30 || git rev-list --max-parents=0 HEAD | tail -n 1)
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$since" -- '*.cpp' |
    grep -E '^(app|engine|gpu|kernels|net)/')
  if [ ${#changed[@]} -gt 40 ]; then
    echo "clang-tidy: ${changed[*]:40} left out (tools/clang_tidy.py build/release checks them all)"
    changed=("${changed[@]:0:40}")
  fi
  [ ${#changed[@]} -eq 0 ] || tools/clang_tidy.py build/release "${changed[@]}"
}

# What failed once more, at the end, where one looks first.
say_failed() {
  echo "== $1: failed:"
  grep -hE '^(FAIL|FAILED|ERROR)[ :]|: error: in |SUMMARY: .*Sanitizer' \
    "build/$1/Testing/Temporary/LastTest.log" | cut -c 1-400 | tail -n 40
}

# What passed only when it was run again alone (test/integration/run_tests.py).
say_passed_alone() {
  grep -hE '^PASSED ONLY ALONE' "build/$1/Testing/Temporary/LastTest.log" || true
}

for stage in "$@"; do
  started=$SECONDS
  if [ "$stage" = lint ]; then
    echo "== lint"
    lint
    echo "== lint: done in $((SECONDS - started)) s"
    continue
  fi
  if [ "$stage" = package ]; then
    echo "== package"
    tools/build.sh release write_tiny_model
    deb=$(tools/package.sh)
    tools/package_check.sh "$deb" build/release
    if [ "$(id -u)" -eq 0 ]; then
      tools/systemd_check.sh "$deb" build/release
      tools/packages.sh image
      tools/image_check.sh build/release "$deb"
    else
      echo "== package: left out, since they need root: units under systemd, the image"
    fi
    tools/demo.sh
    echo "== package: done in $((SECONDS - started)) s"
    continue
  fi
  if [ "$stage" = conan ]; then
    echo "== conan"
    tools/conan_check.sh
    echo "== conan: done in $((SECONDS - started)) s"
    continue
  fi
  echo "== $stage: build"
  case "$stage" in
    release|asan|tsan) tools/build.sh "$stage" ;;
    fuzz) tools/build.sh fuzz fuzz_targets ;;
    *) echo "unknown stage '$stage'" >&2; exit 2 ;;
  esac
  echo "== $stage: built in $((SECONDS - started)) s; test"
  [[ $stage == *san ]] && echo "== $stage: clients and operations are run by the shipped build alone"
  if [ "$stage" = tsan ]; then
    echo "== tsan: of unit tests, these or, after a !, all but these:"
    sed -n 's/^set(orcd_thread_tests_\(.*\))/unit_\1/p' cmake/targets.cmake
  fi
  selection=(--parallel 2)
  [ "$stage" = fuzz ] && selection+=(--tests-regex '^fuzz_')
  left_out=$(tr ' ' '\n' <<<"${ORCD_LEFT_OUT:-}" | sed -n "s/^$stage://p" | paste -sd '|')
  if [ "$stage" = release ] && [[ "|$left_out|" != *"|fronts|"* ]]; then
    tools/packages.sh fronts
    ORCD_ROUTER=$PWD/$(tools/python_packages.sh vllm-router)
    export ORCD_ROUTER
  fi
  if [ -n "$left_out" ]; then
    echo "== $stage: left out here: $left_out"
    selection+=(--exclude-regex "^($left_out)\$")
  fi
  ctest --test-dir "build/$stage" --output-on-failure --no-tests=error "${selection[@]}" || {
    say_failed "$stage"
    exit 8
  }
  say_passed_alone "$stage"
  echo "== $stage: done in $((SECONDS - started)) s"
done
