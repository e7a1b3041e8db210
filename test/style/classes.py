"""One class, one source: whoever reads a class finds all of it in one place, and it stays small enough to be
read. Counted are methods that are defined outside of the class body, in every overload once by name.
"""
import re
from collections import defaultdict
from typing import Dict, Iterator, Mapping, NamedTuple, Set

import cpp_text
import rules

METHODS_MAX = 30


class Size(NamedTuple):
    sources: int
    methods: int


# Classes that are larger: what they have today, which may only become less. A row that is larger than its
# class is a breach, too, so that what was gained is kept.
LARGER: Dict[str, Size] = {
    # To be cut into parts: every feature enters here.
    'cuda_forward': Size(9, 89),
    'holder': Size(5, 42),
    'cuda_steps': Size(2, 32),
    'host_forward': Size(5, 35),
    # A function for each field of requests, production of a language or keyword of schemas, behind one table.
    'completion_fields': Size(4, 68),
    'messages_fields': Size(2, 20),
    'response_fields': Size(2, 30),
    'parser': Size(2, 53),
    'interpreter': Size(2, 34),
    'schema_compiler': Size(5, 35),
    'gguf_file': Size(3, 27),
}

CLASS = re.compile(r'\b(?:class|struct)\s+(\w+)(?:\s+final)?\s*(?::[^;{]*)?\{')
METHOD = re.compile(r'^(?![ \t#}])[^\n=;{]*?(?<![\w:])((?:\w+::)+)(~?\w+)\s*\(', re.MULTILINE)


def methods_of(text: str) -> Iterator[tuple]:
    """(class, method) of each definition that begins a line: the class with those around it."""
    for match in METHOD.finditer(text):
        yield match[1].removesuffix('::'), match[2]


def sizes(sources: Mapping[str, str]) -> Dict[str, Size]:
    """By class. `sources`: text by path, of the product."""
    code = {path: cpp_text.code_only(text) for path, text in sources.items()}
    known = {name for text in code.values() for name in CLASS.findall(text)}
    files: Dict[str, Set[str]] = defaultdict(set)
    methods: Dict[str, Set[str]] = defaultdict(set)
    for path, text in code.items():
        if not path.endswith(('.cpp', '.cu')) or path.split('/')[0] not in rules.LAYERS:
            continue
        for name, method in methods_of(text):
            if name.split('::')[-1] in known:
                files[name].add(path)
                methods[name].add(method)
    return {name: Size(len(files[name]), len(methods[name])) for name in files}


def too_large(sources: Mapping[str, str], larger: Mapping[str, Size] = LARGER) -> Iterator[str]:
    """One line for each class that is larger than it may be, or smaller than its row in `larger` says."""
    counted = sizes(sources)
    for name, size in sorted(counted.items()):
        most = larger.get(name, Size(1, METHODS_MAX))
        if size.sources > most.sources or size.methods > most.methods:
            yield (f'{name}:1: {size.methods} methods in {size.sources} sources, '
                   f'limit {most.methods} in {most.sources}: parts own their state')
        row = larger.get(name, size)
        if size.sources < row.sources or size.methods < row.methods:
            yield f'{name}:1: {size.methods} methods in {size.sources} sources: its row in LARGER has more'
