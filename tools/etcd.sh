#!/usr/bin/env bash
# Puts etcd at build/tools/etcd and prints the path. Only this one program is taken out of Debian's package:
# installing the package would start a server on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
target=build/tools/etcd
if [ ! -x "$target" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p build/tools
  (cd "$work" && chmod 755 . && apt-get download -qq etcd-server 2>/dev/null &&
    dpkg-deb -x etcd-server_*.deb .)
  mv "$work/usr/bin/etcd" "$target"
fi
echo "$target"
