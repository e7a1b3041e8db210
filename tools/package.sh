#!/usr/bin/env bash
# Builds the Debian package and prints its path. The same sources and the same Debian give the same bytes, in
# any folder. Usage: tools/package.sh [PRESET]   package (the default, with CUDA where nvcc is), package-host
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-package}
# The time of everything in the package: the last commit's, or that of VERSION outside a repository.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y VERSION)}
export SOURCE_DATE_EPOCH
umask 022
tools/build.sh "$preset" >&2
rm -f "build/$preset"/worker-orcd_*.deb
(cd "build/$preset" && cpack >package.log 2>&1) || { cat "build/$preset/package.log" >&2; exit 1; }
ls "$PWD/build/$preset"/worker-orcd_*.deb
