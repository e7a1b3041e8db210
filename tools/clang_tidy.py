#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over C++ sources.

    tools/clang_tidy.py BUILD [FILE...]   exit 0: nothing found; without FILE: all sources that BUILD compiles

BUILD has g++'s compile_commands.json; what clang does not know of it (precompiled headers, g++'s own
warnings) is left out.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
FOLDERS = re.compile(r'^(app|engine|gpu|kernels|net)/.*\.cpp$')


def for_clang(command: str) -> str:
    """g++'s command as clang takes it."""
    words = shlex.split(command)
    if os.path.basename(words[0]) == 'ccache':
        words = words[1:]
    out = []
    skip = False
    for word, following in zip(words, [*words[1:], '']):
        if skip:
            skip = False
        elif word == '-include' and 'cmake_pch' in following:
            skip = True
        elif not re.match(r'-W(?!all$|extra$)|-fconcepts', word):
            out.append(word)
    return shlex.join([*out, '-Wno-everything'])


def main() -> int:
    build = Path(sys.argv[1])
    asked = {os.path.relpath(Path(name).resolve(), PROJECT) for name in sys.argv[2:]}
    entries = json.loads((build / 'compile_commands.json').read_text())
    chosen = {}
    for entry in entries:
        path = os.path.relpath(entry['file'], PROJECT)
        if FOLDERS.match(path) and (path in asked or not asked):
            chosen.setdefault(path, {**entry, 'command': for_clang(entry['command'])})
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / 'compile_commands.json').write_text(json.dumps(list(chosen.values())))

        def check(path: str) -> subprocess.CompletedProcess:
            return subprocess.run(['clang-tidy-14', '--quiet', '-p', folder, path], cwd=PROJECT,
                                  capture_output=True, text=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(check, sorted(chosen)))
    failed = [r for r in results if r.returncode != 0]
    for result in failed:
        print(result.stdout or result.stderr)
    print(f'clang-tidy: {len(chosen)} sources, {len(failed)} with findings')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
