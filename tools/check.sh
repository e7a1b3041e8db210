#!/usr/bin/env bash
# What a change breaks, in a minute where it is one file: format, style, clang-tidy, build and the unit tests
# that it reaches. Warnings are errors of the build. tools/test.sh runs everything.
# Usage: tools/check.sh [COMMIT]   what differs from COMMIT (default: HEAD, or HEAD~1 where nothing differs)
set -euo pipefail
cd "$(dirname "$0")/.."

changed() {
  { git diff --name-only --diff-filter=d "$1" && git ls-files --others --exclude-standard; } | sort -u
}
base=${1:-HEAD}
mapfile -t files < <(changed "$base")
if [ ${#files[@]} -eq 0 ] && [ $# -eq 0 ]; then
  base=HEAD~1
  mapfile -t files < <(changed "$base")
fi
mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep -E '\.(cpp|hpp|cu|cuh|h|c)$' |
  grep -v '^test/fuzz/corpus/')
mapfile -t plain < <(printf '%s\n' "${sources[@]}" | grep -E '^(app|engine|gpu|kernels|net)/.*\.cpp$')
echo "== ${#files[@]} files differ from $base"

[ ${#sources[@]} -eq 0 ] || clang-format-14 --dry-run -Werror "${sources[@]}"
python3 -B test/style/check_style.py .

# Without CUDA: nvcc takes minutes. Device code is named, not checked.
echo "== build"
tools/build.sh host
[ ${#plain[@]} -eq 0 ] || tools/clang_tidy.py build/host "${plain[@]}"
printf '%s\n' "${sources[@]}" | grep -E '\.(cu|cuh)$|^gpu/cuda/|^test/gpu/' |
  sed 's/^/not built here, for nvcc: /' || true

# What was linked since the last check that passed is what the change reaches; at first that is everything.
passed=build/host/check.stamp
newer=()
[ -e "$passed" ] && newer=(-newer "$passed")
selection=$(find build/host -maxdepth 1 "${newer[@]}" -type f \
              \( -name 'unit_*' -o -name integration_http \) -printf '%f|')
selection=${selection%|}
printf '%s\n' "${files[@]}" | grep -q '^test/style/' && selection=${selection:+$selection|}style_self_test
if [ -n "$selection" ]; then
  echo "== unit tests: ${selection//|/ }"
  ctest --test-dir build/host --output-on-failure --parallel 2 --tests-regex "^($selection)\$"
fi
printf '%s\n' "${files[@]}" | grep -E '^test/(integration|attack)/.*\.py$' |
  sed 's/^/not run here, by tools\/test.sh: /' || true
touch "$passed"
echo "== checked in $SECONDS s"
