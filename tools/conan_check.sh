#!/usr/bin/env bash
# `conan create` with Debian's libraries and without a remote, then test_package: the C library on the CPU,
# and programs that were built with it. Where the preset release has been built with CUDA, as CI does, ccache
# has all but a few of the objects.
# Usage: tools/conan_check.sh [OPTION...]   options of conan create, as -o '&:library=False'
set -euo pipefail
cd "$(dirname "$0")/.."
CONAN_PATH=$PWD/$(tools/python_packages.sh conan)
export PYTHONPATH=$CONAN_PATH CONAN_HOME=$PWD/build/conan
# Each run has a folder of its own in there.
export CCACHE_BASEDIR=$CONAN_HOME CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
conan() { /usr/bin/python3 -c 'import sys; from conans.conan import run; run()' "$@"; }
conan --version
# That versions rise for Conan, too; test/integration/build_files/test_version.py has Debian's order.
/usr/bin/python3 -B - "$(cmake/version.sh .)" <<'PYTHON'
import itertools, sys
from conan.api.model import RecipeReference
from conan.tools.scm import Version
ordered = ['1.2.3', '1.2.3+0.gd77fcfd1a2b3', '1.2.3+9.gffffffffffff', '1.2.3+690.gd77fcfd1a2b3',
           '1.2.3+690.gd77fcfd1a2b3.dirty', '1.2.3+1000.g000000000000', '1.2.4', '1.2.4+1.g000000000000',
           '1.10.0+1.g000000000000']
for older, newer in itertools.combinations(ordered, 2):
    assert Version(older) < Version(newer), f'{newer} is not newer than {older}'
for version in (*ordered, '1.2.3+0.unknown', sys.argv[1]):
    RecipeReference.loads(f'worker-orcd/{version}').validate_ref()
PYTHON
# Of this run alone, whoever else compiles meanwhile.
export CCACHE_STATSLOG=$CONAN_HOME/compiled.log
mkdir -p "$CONAN_HOME"
rm -f "$CCACHE_STATSLOG"
conan create . -pr:a etc/conan/debian12-gcc12 --no-remote --lockfile=etc/conan/debian12-gcc12.lock "$@"
ccache --show-log-stats
