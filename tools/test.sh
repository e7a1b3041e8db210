#!/usr/bin/env bash
# Builds and runs every test. Usage: tools/test.sh [STAGE...]; without one, all:
#   lint     clang-format on everything; clang-tidy on what the last commits changed, up to 24 sources
#   release  the shipped build: unit, golden, style and integration tests on a tiny and on the demo model,
#            published clients, a browser, and the attack
#   fuzz     by clang, under its address and undefined-behaviour sanitizers: unit and integration tests, and
#            every libFuzzer target from its kept corpus
#   asan     by g++, under its address sanitizer: that compiler destroys some temporaries of a co_await twice
#   tsan     under the thread sanitizer, but for unit tests without threads of their own (named)
#   conan    the C library as a Conan package, with Debian's libraries, and the package's test
#   package  the Debian package, from its build to its removal in a chroot, its units under a real systemd,
#            the image; the demo
# A stage is built while the one before is tested, behind it. What judges how long something takes is run at
# the end, with the machine to itself. A stage that fails does not keep the others from being tried.
#   ORCD_LEFT_OUT="STAGE:TEST ..."  leaves tests out of a stage, by their names in CTest (regular expressions)
#   ORCD_SHARE=N                    of integration tests every Nth file, others each time
#   ORCD_SANITIZER_SHARE=N          the same under a sanitizer
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- lint release fuzz asan tsan conan package
for stage in "$@"; do
  [[ " lint release fuzz asan tsan conan package " == *" $stage "* ]] ||
    { echo "unknown stage '$stage'" >&2; exit 2; }
done
has() { [[ " $stages " == *" $1 "* ]]; }
stages=$*

tools/packages.sh test
logs=build/stages
rm -rf "$logs"
mkdir -p "$logs"

# Python packages that tests import, and those that they find by a variable of their name.
imported=(openai openai-agents anthropic litellm playwright axe)
named=(schemathesis lm_eval clients kubernetes otlp trillim)

# What tests need of the network, fetched while the first stage is built.
fetch() {
  tools/promtool.sh >/dev/null
  tools/etcd.sh >/dev/null
  tools/fetch_demo_model.sh >/dev/null
  local package
  for package in "${imported[@]}" "${named[@]}"; do
    tools/python_packages.sh "$package" >/dev/null
  done
}

# Under the names that tests know; everything is there by then.
name_what_was_fetched() {
  local package path=
  for package in "${imported[@]}"; do
    path=$path${path:+:}$PWD/$(tools/python_packages.sh $package)
  done
  export PYTHONPATH=$path
  for package in "${named[@]}"; do
    export "ORCD_${package^^}=$PWD/$(tools/python_packages.sh $package)"
  done
  ORCD_DEMO_MODEL=$PWD/$(tools/fetch_demo_model.sh)
  export ORCD_DEMO_MODEL ORCD_PROMTOOL=$PWD/build/tools/promtool ORCD_ETCD=$PWD/build/tools/etcd
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  export UBSAN_OPTIONS=print_stacktrace=1
  export ORCD_NO_SKIP=1 # a skip that nothing expects is a failure (test/integration/verdicts)
}

lint() {
  git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.h' '*.c' | grep -v '^test/fuzz/corpus/' |
    xargs clang-format-14 --dry-run -Werror || return
  local since changed
  since=$(git rev-parse --quiet --verify HEAD~30 || git rev-list --max-parents=0 HEAD | tail -n 1)
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$since" -- '*.cpp' |
    grep -E '^(app|engine|gpu|kernels|net)/')
  if [ ${#changed[@]} -gt 24 ]; then
    echo "clang-tidy: $((${#changed[@]} - 24)) of ${#changed[@]} changed sources are left out, from" \
      "${changed[24]} on (tools/clang_tidy.py build/dev checks them all)"
    changed=("${changed[@]:0:24}")
  fi
  [ ${#changed[@]} -gt 0 ] || return 0
  # Configuring writes the command of each source, as no other preset does.
  tools/build.sh dev help >/dev/null || return
  tools/clang_tidy.py build/dev "${changed[@]}"
}

package() {
  tools/build.sh release write_tiny_model
  local deb
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
}

left_out_of() { tr ' ' '\n' <<<"${ORCD_LEFT_OUT:-}" | sed -n "s/^$1://p" | paste -sd '|'; }

# The tests of a stage that are run here, a name a line: all, or with a word those that CTest runs `alone` or
# `beside` others.
tests_of() {
  local left_out
  left_out=$(left_out_of "$1")
  ctest --test-dir "build/$1" --show-only=json-v1 | /usr/bin/python3 -c '
import json, re, sys
left_out, which = sys.argv[1:3]
for test in json.load(sys.stdin)["tests"]:
    told = {one["name"]: one["value"] for one in test.get("properties", [])}
    alone = told.get("RUN_SERIAL", False)
    if not (told.get("DISABLED") or re.fullmatch(left_out or "(?!)", test["name"])
            or (which == "alone" and not alone) or (which == "beside" and alone)):
        print(test["name"])' "$left_out" "${2:-}"
}

# What the tests that are run need: executables of their names, and programs that are tried from outside; of
# the shipped build everything, since what is installed is tried.
targets_of() {
  local needed
  needed=$(tests_of "$1" | grep -v '^style')
  if [ "$1" = release ]; then
    echo all
  else
    sed -E 's/_rest$//; /^integration_http$/b; s/^(integration.*|attack)$/programs/' <<<"$needed" | sort -u
  fi
}

build_stage() {
  if [ "$1" = conan ]; then
    tools/conan_check.sh
    return
  fi
  local targets
  tools/build.sh "$1" help >/dev/null && targets=$(targets_of "$1") || return
  # shellcheck disable=SC2086 # names without spaces
  tools/build.sh "$1" $targets
}

# Of the seconds of a user and of the system that `time` wrote.
sum_of() { awk '{printf "%.0f", $1 + $2}' "$1"; }

# In the background: one stage after the other. `.built` says how long one took, by the clock and in seconds
# of the processors.
build_stages() {
  local stage started
  TIMEFORMAT='%U %S'
  for stage in "$@"; do
    started=$SECONDS
    { time build_stage "$stage" >"$logs/$stage.build" 2>&1; } 2>"$logs/$stage.spent" || return 1
    echo "$((SECONDS - started)) $(sum_of "$logs/$stage.spent")" >"$logs/$stage.part"
    mv "$logs/$stage.part" "$logs/$stage.built"
  done
}

wait_for_build() {
  until [ -e "$logs/$1.built" ]; do
    if ! kill -0 "$builder" 2>/dev/null && [ ! -e "$logs/$1.built" ]; then
      tail -n 60 "$logs/$1.build" >&2 || true
      echo "== $1: the build failed" >&2
      exit 1
    fi
    sleep 1
  done
}

# What failed once more, at the end, where one looks first.
say_failed() {
  echo "== $1: failed:"
  grep -hE '^(FAIL|FAILED|ERROR)[ :]|: error: in |SUMMARY: .*Sanitizer' \
    "build/$1/Testing/Temporary/LastTest.log" | cut -c 1-400 | tail -n 40 || true # CTest has said the rest
}

# What passed only when it was run again alone (test/integration/run_tests.py).
say_passed_alone() {
  grep -hE '^PASSED ONLY ALONE' "build/$1/Testing/Temporary/LastTest.log" || true
}

# Seconds of the clock and of the processors, for the table at the end.
declare -a told
tell() { told+=("$(printf '%-22s %6s s %8s s of processors' "$1" "$2" "${3:-?}")"); }

# run_tests STAGE NAME [WHICH]: its tests, or those that are run `alone` or `beside` others.
run_tests() {
  local stage=$1 names started=$SECONDS spent
  names=$(tests_of "$stage" "${3:-}" | paste -sd '|')
  [ -n "$names" ] || return 0
  echo "== $2: test"
  TIMEFORMAT='%U %S'
  { time ctest --test-dir "build/$stage" --output-on-failure --no-tests=error --parallel 2 \
      --tests-regex "^($names)\$" 2>&3 || touch "$logs/$stage.red"; } 3>&2 2>"$logs/$stage.spent"
  spent=$(sum_of "$logs/$stage.spent")
  if [ -e "$logs/$stage.red" ]; then
    say_failed "$stage" | tee -a "$logs/failed"
    rm "$logs/$stage.red"
  else
    say_passed_alone "$stage"
  fi
  tell "$2: test" $((SECONDS - started)) "$spent"
}

test_stage() {
  local stage=$1 left_out built
  wait_for_build "$stage"
  read -ra built <"$logs/$stage.built"
  tell "$stage: build" "${built[@]}"
  if [ "$stage" = conan ]; then
    tail -n 3 "$logs/conan.build"
    return
  fi
  if [ "$stage" = tsan ]; then
    echo "== tsan: of unit tests, these or, after a !, all but these:"
    sed -n 's/^set(orcd_thread_tests_\(.*\))/unit_\1/p' cmake/targets.cmake
  fi
  left_out=$(left_out_of "$stage")
  [ -z "$left_out" ] || echo "== $stage: left out here: $left_out"
  if [[ $'\n'$(tests_of "$stage")$'\n' == *$'\nfronts\n'* ]]; then
    tools/packages.sh fronts
    ORCD_ROUTER=$PWD/$(tools/python_packages.sh vllm-router)
    export ORCD_ROUTER
  fi
  run_tests "$stage" "$stage" beside
}

to_build=()
for stage in release fuzz asan tsan conan; do has "$stage" && to_build+=("$stage"); done
builder=
if [ ${#to_build[@]} -gt 0 ]; then
  # A group of its own, which can be ended whole; behind the tests, which take what they need first.
  set -m
  build_stages "${to_build[@]}" &
  builder=$!
  set +m
  renice -n 10 -g "$builder" >/dev/null
  trap 'kill -- "-$builder" 2>/dev/null || true' EXIT
fi
fetch
name_what_was_fetched
if has lint; then
  echo "== lint"
  started=$SECONDS
  (lint) || echo "== lint: failed" | tee -a "$logs/failed"
  tell lint $((SECONDS - started))
fi
for stage in "${to_build[@]}"; do test_stage "$stage"; done
for stage in release fuzz asan tsan; do
  if has "$stage"; then run_tests "$stage" "$stage, alone" alone; fi
done
if has package; then
  echo "== package"
  started=$SECONDS
  package
  tell package $((SECONDS - started))
fi
echo "== seconds, of $SECONDS in all"
printf '%s\n' "${told[@]}"
if [ -e "$logs/failed" ]; then
  echo "== all that failed, once more"
  cat "$logs/failed"
  exit 8
fi
