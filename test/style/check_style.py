#!/usr/bin/env python3
"""Checks the project's sources against its rules (rules.py, includes.py, classes.py, dead.py) and prints each
breach as file:line, or of a class by its name.

    check_style.py [PROJECT]      exit 0: clean; 1: breaches; 2: nothing to check

Runs in the test suite as `style`; test_check_style.py proves that every rule can fail.
"""
import os
import sys
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Iterable, Iterator, List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'cmake'))  # cpp_text, which CMake needs, too
import classes  # noqa: E402
import dead  # noqa: E402
import includes  # noqa: E402
import rules  # noqa: E402

SKIPPED_DIRECTORIES = {'.git', '.cache', '__pycache__', 'build', 'models', '.pytest_cache'}
# Data is not source: real text in many scripts, vocabularies, corpora of broken input.
DATA = ('test/data/', 'test/fuzz/corpus/')
# The rules' own words and bad samples live here.
SELF = 'test/style/'
TEXT_SUFFIXES = rules.SOURCE | {
    '', '.conf', '.ini', '.json', '.md', '.service', '.toml', '.txt', '.yaml', '.yml'}
BREACHES_SHOWN = 200
FILES_MAX = 45


def files(project: Path) -> Iterator[PurePosixPath]:
    for folder, names, leaves in os.walk(project):
        names[:] = sorted(n for n in names if n not in SKIPPED_DIRECTORIES)
        for leaf in sorted(set(leaves) - {'.git'}):  # a file where the checkout is a worktree
            yield PurePosixPath((Path(folder) / leaf).relative_to(project).as_posix())


def check_text(path: PurePosixPath, text: str) -> List[Tuple[int, str]]:
    """Every breach of every rule in one file."""
    found = []
    for rule in rules.RULES:
        if str(path).startswith(SELF) and rule in rules.ABOUT_WORDS:
            continue
        found.extend(rule(path, text))
    return sorted(found)


def corpora(project: Path) -> Iterator[str]:
    """Every fuzz target has a corpus to start from."""
    for target in sorted((project / 'test' / 'fuzz').glob('*.cpp')):
        corpus = project / 'test' / 'fuzz' / 'corpus' / target.stem
        if not corpus.is_dir() or not any(corpus.iterdir()):
            yield f'test/fuzz/{target.name}:1: no corpus in test/fuzz/corpus/{target.stem}/'


def crowded(paths: Iterable[PurePosixPath]) -> Iterator[str]:
    """A folder is looked through; past some number of files nobody does."""
    for folder, count in sorted(Counter(str(path.parent) for path in paths).items()):
        if count > FILES_MAX:
            yield f'{folder}:1: {count} files, limit {FILES_MAX}: make rooms'


def check_project(project: Path) -> Tuple[int, List[str]]:
    """(files checked, breaches)."""
    checked, breaches = 0, list(corpora(project))
    sources, with_tests, seen = {}, {}, []
    for path in files(project):
        if str(path).startswith(DATA) or path.suffix not in TEXT_SUFFIXES:
            continue
        try:
            text = (project / path).read_bytes().decode('utf-8')
        except UnicodeDecodeError:
            if rules.is_source(path):
                breaches.append(f'{path}:1: not UTF-8')
            continue
        checked += 1
        seen.append(path)
        breaches.extend(f'{path}:{line}: {message}' for line, message in check_text(path, text))
        if includes.is_checked(path):
            sources[str(path)] = text
        if path.suffix in rules.CPP:
            with_tests[str(path)] = text
    breaches.extend(includes.check(sources))
    breaches.extend(classes.too_large(sources))
    breaches.extend(dead.unused(with_tests))
    breaches.extend(crowded(seen))
    return checked, breaches


def main() -> int:
    project = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
    checked, breaches = check_project(project)
    for breach in breaches[:BREACHES_SHOWN]:
        print(breach)
    print(f'{checked} files checked, {len(breaches)} breaches')
    if checked == 0:
        return 2
    return 1 if breaches else 0


if __name__ == '__main__':
    sys.exit(main())
