"""Functions that a header declares and nothing uses: found by name, so that a name two functions share hides
both. What a library or the language calls is named here with who calls it."""
import re
from collections import Counter
from typing import Dict, Iterator

import cpp_text
import rules
from includes import unit_of

CALLED_FROM_OUTSIDE = {
    'throw_exception_from_error': 'boost::system::result, by argument-dependent lookup',
    'deallocate': 'containers, of their allocator',
}
# The C API is called by its users.
PUBLIC = ('gpu/include/', 'gpu/capi/')
# A name after a type and before parentheses: a declaration or a definition, and no call.
DECLARATION = re.compile(r'([\w>&*\]])\s+[&*]?([a-z]\w*)\s*\((?=[^;{}]*\)[^;{}()]*(?:;|\{|->))')
NO_TYPE = re.compile(r'\b(?:return|co_return|co_await|throw|new|else|delete)\s+$')
KEYWORDS = {'if', 'for', 'while', 'switch', 'return', 'sizeof', 'alignof', 'decltype', 'static_assert',
            'noexcept', 'catch', 'requires', 'defined', 'alignas', 'explicit', 'operator', 'co_await',
            'co_return'}
WORD = re.compile(r'[A-Za-z_]\w*')


def unused(sources: Dict[str, str]) -> Iterator[str]:
    """`sources`: text by path, of the product, its tests and its benches. Yields "path:line: message"."""
    code = {path: cpp_text.code_only(text) for path, text in sources.items()}
    counts: Dict[str, Dict[str, int]] = {}
    for path, text in code.items():
        for word, count in Counter(WORD.findall(text)).items():
            counts.setdefault(word, {})[path] = count
    for path in sorted(code):
        is_own = path.split('/')[0] in rules.LAYERS and not path.startswith(PUBLIC)
        if not is_own or not path.endswith(('.hpp', '.cuh')):
            continue
        for match in DECLARATION.finditer(code[path]):
            name = match.group(2)
            if NO_TYPE.search(code[path][max(0, match.start() - 12):match.start(2)]):
                continue
            line = code[path][code[path].rfind('\n', 0, match.start()) + 1:match.end() + 200].split('\n')[0]
            if name in KEYWORDS or name in CALLED_FROM_OUTSIDE or ' override' in line:
                continue
            uses = counts[name]
            elsewhere = [p for p in uses if unit_of(p) != unit_of(path)]
            # With a body here, a second mention is a use; without one it is the definition.
            is_definition = re.match(r'[^;{]*\{', code[path][match.end():]) is not None
            own = [n for p, n in uses.items() if p != path]
            if not elsewhere and uses[path] == 1 and all(n == 1 for n in own) and not (own and is_definition):
                at = cpp_text.line_of(code[path], match.start(2))
                yield f'{path}:{at}: nothing uses {name}()'
