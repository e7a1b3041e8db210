#!/usr/bin/env bash
# Puts promtool at build/tools/promtool and prints the path. Only this one program is taken out of
# Debian's package: installing the package would start a Prometheus server on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
target=build/tools/promtool
if [ ! -x "$target" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p build/tools
  (cd "$work" && chmod 755 . && apt-get download -qq prometheus 2>/dev/null && dpkg-deb -x prometheus_*.deb .)
  mv "$work/usr/bin/promtool" "$target"
fi
echo "$target"
