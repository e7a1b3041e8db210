#!/usr/bin/env bash
# Runs every libFuzzer target from all that earlier runs have found, as many at a time as there are
# processors, and keeps what this one finds. What makes a target fail is left in build/night/fuzz, and the end
# of its log is shown.
# Usage: tools/fuzz_kept.sh BUILD MINUTES [TARGET...]   MINUTES are for all; without targets all in BUILD
# Inputs are kept in ORCD_FUZZ_KEPT, else ${XDG_CACHE_HOME:-~/.cache}/worker-orcd/corpus, a folder a target.
set -euo pipefail
cd "$(dirname "$0")/.."
usage='usage: tools/fuzz_kept.sh BUILD MINUTES [TARGET...]'
build=$(realpath "${1:?$usage}")
minutes=${2:?$usage}
shift 2
kept=${ORCD_FUZZ_KEPT:-${XDG_CACHE_HOME:-$HOME/.cache}/worker-orcd/corpus}
found=$PWD/build/night/fuzz
[ $# -gt 0 ] || set -- $(cd "$build" && printf '%s\n' fuzz_* | grep -xE 'fuzz_[a-z0-9_]+' | sed 's/^fuzz_//')
[ $# -gt 0 ] || { echo "fuzz_kept: $build has no fuzz_* program" >&2; exit 1; }
at_once=$(nproc)
[ "$at_once" -le $# ] || at_once=$#
seconds=$((minutes * 60 * at_once / $#))
mkdir -p "$kept" "$found"
exec 9>"$kept/.lock"
flock --nonblock 9 || { echo "fuzz_kept: another run uses $kept" >&2; exit 1; }

fuzz_one() {
  local name=$1 mine=$kept/$1 log=$found/$1.log
  rm -rf "$mine.smaller"
  mkdir -p "$mine" "$mine.smaller"
  "$build/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="$found/$name-" "$mine" "test/fuzz/corpus/$name" >"$log" 2>&1 ||
    { echo "FAIL $name: $found/$name-*"; tail -n 40 "$log"; return 1; }
  # Of what it now has, those few stay that reach everything together.
  "$build/fuzz_$name" -merge=1 -timeout=10 -rss_limit_mb=4096 "$mine.smaller" "$mine" >>"$log" 2>&1 ||
    { echo "FAIL $name: its inputs cannot be merged"; tail -n 40 "$log"; return 1; }
  rm -rf "$mine"
  mv "$mine.smaller" "$mine"
  echo "$name: $(find "$mine" -type f | wc -l) inputs kept"
  grep 'stat::number_of_executed_units' "$log"
}
export -f fuzz_one
export build seconds kept found
printf '%s\n' "$@" | xargs -P "$at_once" -I{} bash -euo pipefail -c 'fuzz_one {}'
