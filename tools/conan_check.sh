#!/usr/bin/env bash
# `conan create` with Debian's libraries and without a remote, then test_package: the C library on the CPU.
# Compiles everything as position-independent code, which takes minutes, so that CI does not run it.
# Usage: tools/conan_check.sh
set -euo pipefail
cd "$(dirname "$0")/.."
CONAN_PATH=$PWD/$(tools/python_packages.sh conan)
export PYTHONPATH=$CONAN_PATH CONAN_HOME=$PWD/build/conan
conan() { /usr/bin/python3 -c 'import sys; from conans.conan import run; run()' "$@"; }
conan --version
conan create . -pr:a etc/conan/debian12-gcc12 --no-remote --lockfile=etc/conan/debian12-gcc12.lock "$@"
