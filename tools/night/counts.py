"""What a log says was counted: the summaries of every program that the night runs."""
import re
from typing import Dict, Iterator, Tuple

WORDS = {'passed': 'passed', 'failed': 'failed', 'error': 'failed', 'errors': 'failed', 'skipped': 'skipped',
         'aborted': 'failed'}


def _pytest(text: str) -> Iterator[Tuple[str, int]]:
    for line in re.findall(r'^(?:=+ )?((?:\d+ \w+, )*\d+ \w+) in \d+\.\d+s', text, re.M):
        for number, word in re.findall(r'(\d+) (\w+)', line):
            if word in WORDS:
                yield WORDS[word], int(number)
    # What passed when it was run again stands among the failed before.
    alone = len(re.findall(r'^PASSED ONLY ALONE ', text, re.M))
    yield 'failed', -alone
    yield 'only_alone', alone


def _boost(text: str) -> Iterator[Tuple[str, int]]:
    line = r'^ +(\d+) test cases? out of \d+ (passed|failed|skipped|aborted)'
    for number, word in re.findall(line, text, re.M):
        yield WORDS[word], int(number)


def _attack(text: str) -> Iterator[Tuple[str, int]]:
    for held, tried in re.findall(r'^(\d+) of (\d+) held; seed', text, re.M):
        yield 'passed', int(held)
        yield 'failed', int(tried) - int(held)


def _tidy(text: str) -> Iterator[Tuple[str, int]]:
    for sources, wrong in re.findall(r'^clang-tidy: (\d+) sources, (\d+) with findings', text, re.M):
        yield 'passed', int(sources) - int(wrong)
        yield 'failed', int(wrong)


# What a program counts of its own; a line that has no number counts as one.
OTHERS = {
    'kills': r'^(\d+) kills, (?:seed )?\d|positions, (\d+) kills: ',
    'resumed': r' kills: (\d+) connections resumed',
    'takeovers': r'^(\d+) takeovers in ',
    'inputs': r'^stat::number_of_executed_units: +(\d+)',
    'compared': r'^compared (\d+) ',
    'figures': r': (\d+) figures of \d+ files$',
    'same_packages': r'^[0-9a-f]{64}  \S+\.deb$',
}
STEPS = re.compile(r'^== ', re.M)


def _number(hit: 're.Match[str]') -> int:
    return next((int(group) for group in hit.groups() if group), 1)


def counts(text: str) -> Dict[str, int]:
    """Sums over all of the log. What only says its steps has them counted."""
    found: Dict[str, int] = {}
    for source in (_pytest, _boost, _attack, _tidy):
        for name, number in source(text):
            found[name] = found.get(name, 0) + number
    for name, pattern in OTHERS.items():
        numbers = [_number(hit) for hit in re.finditer(pattern, text, re.M)]
        found[name] = sum(numbers)
    if not any(found.values()):
        found['steps'] = len(STEPS.findall(text))
    return {name: number for name, number in found.items() if number}
