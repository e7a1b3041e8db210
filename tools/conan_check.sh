#!/usr/bin/env bash
# `conan create` with Debian's libraries and without a remote, then test_package: the C library on the CPU.
# Compiles everything as position-independent code, which takes minutes, so that .ci/run leaves it out; a
# second run takes the objects from ccache.
# Usage: tools/conan_check.sh
set -euo pipefail
cd "$(dirname "$0")/.."
CONAN_PATH=$PWD/$(tools/python_packages.sh conan)
export PYTHONPATH=$CONAN_PATH CONAN_HOME=$PWD/build/conan
# Each run has a folder of its own in there.
export CCACHE_BASEDIR=$CONAN_HOME CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
conan() { /usr/bin/python3 -c 'import sys; from conans.conan import run; run()' "$@"; }
conan --version
conan create . -pr:a etc/conan/debian12-gcc12 --no-remote --lockfile=etc/conan/debian12-gcc12.lock "$@"
