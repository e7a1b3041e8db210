"""Answers as models write them, half of them odd: for tests of what the page shows of each."""
import json
from pathlib import Path
from typing import Dict, List

DATA = Path(__file__).resolve().parents[2] / 'data' / 'page'
LATEX = (DATA / 'latex.md').read_text(encoding='utf-8')
KINDS: Dict[str, List[str]] = json.loads((DATA / 'answers.json').read_text(encoding='utf-8'))
# What no renderer knows, or only when it is complete: shown letter by letter as it was said.
AS_IT_IS = KINDS['as it is']
FORMULAS = [LATEX, *KINDS['formulas'], '$' + '{' * 200 + 'x' + '}' * 200 + '$', '\\[' + 'x+' * 900 + 'x\\]',
            '\\[' + 'y+' * 1500 + 'y\\]']
LONG = ['x' * 9000, 'word ' * 2000, '# ' + 'h' * 300]
# What would like to run, to load, to cover the page or to leave it.
ATTACKS: List[str] = json.loads((DATA / 'attacks.json').read_text(encoding='utf-8'))['attacks']


def beginnings(text: str, count: int) -> List[str]:
    """Of a text, as they are while it comes."""
    return [text[:len(text) * i // (count + 1)] for i in range(1, count + 1)]


def all_answers(text: str) -> Dict[str, str]:
    """By name: all of the above, and what of `text` and of formulas is there while it comes."""
    half = [*beginnings(LATEX, 24), *beginnings(text, 24), *beginnings('\n\n'.join(KINDS['formulas']), 24)]
    kinds = {**KINDS, 'formulas': FORMULAS, 'long': LONG, 'half': half}
    return {f'{kind} {i}: {answer[:40]!r}': answer
            for kind, answers in kinds.items() for i, answer in enumerate(answers)}
