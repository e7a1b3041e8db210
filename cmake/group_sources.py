"""Which sources of a library are compiled together, as CMake's unity builds do it: in one translation unit no
source may define, in an anonymous namespace, a name that another one uses, or the compiler takes the wrong
function or refuses both. Usage: group_sources.py SOURCE...; prints `GROUP SOURCE` a line, for sources that
share a unit; the others are compiled alone.

A source's group follows from its path, as far as its names allow, so that a new source moves no other and the
compiler's cache stays good."""
import hashlib
import re
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Set

import cpp_text

ROOT = Path(__file__).resolve().parents[1]

WANTED = 8  # sources a unit, about
MOST = 12
TYPE = re.compile(r'(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(\w+)(?:\s+final)?\s*[:{]')
ALIAS = re.compile(r'(?:using\s+(\w+)\s*=|namespace\s+(\w+)\s*=)\s*([^;]+);')
TEMPLATE = re.compile(r'template\s*<[^({;]*?>\s*(?=\w)')
NO_NAME = r'(?!struct|class|union|enum|using|namespace|return|template\b)'
FUNCTION = re.compile(NO_NAME + r'[^=({;]*?[\s&*>](\w+)\s*\(')
VALUE = re.compile(NO_NAME + r'[\w:][^=({;]*?[\s&*>](\w+)(?:\s*\[[^\]]*\])*\s*[={;]')
ARGUMENTS = re.compile(r'<[^<>]*>')  # of a template; in other words they may have parentheses
MACRO = re.compile(r'#\s*define\s+(\w+)')


class Source(NamedTuple):
    path: str
    own: Dict[str, Optional[str]]  # names that no other source may use; of an alias what it stands for
    words: Set[str]


def without_arguments(line: str) -> str:
    while True:
        shorter = ARGUMENTS.sub('', line)
        if shorter == line:
            return line
        line = shorter


def read_source(path: str, text: str) -> Source:
    code = cpp_text.code_only(text)
    own: Dict[str, Optional[str]] = {}
    inside = False
    for line in code.split('\n'):
        inside = inside or line.startswith('namespace {') or line.startswith('static ')
        macro = MACRO.match(line)
        if macro:
            own[macro[1]] = None
        if not inside or not line[:1].strip() or line.startswith(('#', '}')):
            continue
        line = without_arguments(TEMPLATE.sub('', line, 1))
        alias = ALIAS.match(line)
        if alias:
            own[alias[1] or alias[2]] = ' '.join(alias[3].split())
            continue
        found = TYPE.match(line) or FUNCTION.match(line) or VALUE.match(line)
        if found:
            own[found[1]] = None
    return Source(path, own, set(re.findall(r'[A-Za-z_]\w*', code)))


def clash(one: Source, other: Source) -> bool:
    for a, b in ((one, other), (other, one)):
        for name, alias in a.own.items():
            if name in b.words and not (alias is not None and b.own.get(name) == alias):
                return True
    return False


def home(path: str, groups: int) -> int:
    """The group that a path's hash names. With one group more only one is cut in two (linear hashing)."""
    number = int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], 'big')
    level = 1 << (groups.bit_length() - 1)
    place = number % (2 * level)
    return place if place < groups else place - level


def group(sources: List[Source]) -> List[List[Source]]:
    """Each source goes to its home, or to the next group that takes it; those that none takes make further
    ones."""
    wanted = -(-len(sources) // WANTED)
    groups: List[List[Source]] = [[] for _ in range(wanted)]

    def takes(index: int, source: Source) -> bool:
        return len(groups[index]) < MOST and not any(clash(source, member) for member in groups[index])

    # Those with many names first: they are hardest to place.
    for source in sorted(sources, key=lambda one: (-len(one.own), one.path)):
        first = home(source.path, wanted)
        order = [*range(first, wanted), *range(first), *range(wanted, len(groups))]
        place = next((index for index in order if takes(index, source)), None)
        if place is None:
            groups.append([])
            place = len(groups) - 1
        groups[place].append(source)
    return groups


def main(paths: List[str]) -> None:
    sources = [read_source(path, (ROOT / path).read_text(encoding='utf-8')) for path in sorted(paths)]
    for index, members in enumerate(group(sources)):
        for source in sorted(members):
            if len(members) > 1:
                print(index, source.path)


if __name__ == '__main__':
    main(sys.argv[1:])
