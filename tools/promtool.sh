#!/usr/bin/env bash
# Puts promtool, and beside it a prometheus that tests start themselves, at build/tools/ and prints promtool's
# path. Only these two programs are taken out of Debian's package: installing the package would start a
# Prometheus server on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
target=build/tools
if [ ! -x "$target/promtool" ] || [ ! -x "$target/prometheus" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$target"
  (cd "$work" && chmod 755 . && apt-get download -qq prometheus 2>/dev/null && dpkg-deb -x prometheus_*.deb .)
  mv "$work/usr/bin/promtool" "$work/usr/bin/prometheus" "$target/"
fi
echo "$target/promtool"
