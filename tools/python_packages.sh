#!/usr/bin/env bash
# Puts a Python program that only tests need, pinned, with what it needs at build/tools/python/NAME and prints
# the path. A second run takes nothing from the network.
# Usage: tools/python_packages.sh openai|schemathesis|playwright
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  openai) package=openai==3.54.0 ;;
  schemathesis) package=schemathesis==4.32.5 ;;
  playwright) package=playwright==1.65.2 ;;
  *) echo "usage: tools/python_packages.sh openai|schemathesis|playwright" >&2; exit 2 ;;
esac
target=build/tools/python/$1
if [ "$(cat "$target/.package" 2>/dev/null)" != "$package" ]; then
  rm -rf "$target"
  /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --target "$target" "$package" >&2
  echo "$package" >"$target/.package"
fi
echo "$target"
