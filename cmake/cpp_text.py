"""A small view of C++ text: code without comments and literals, and where functions begin and end.

It is not a parser. It knows enough of the language to judge this project's own sources, and its
self-test (test_check_style.py) says what it must tell apart. Line numbers are kept: everything
that is removed becomes spaces, and newlines stay.
"""
import re
from functools import lru_cache
from typing import Iterator, List, NamedTuple, Tuple

TOKEN = re.compile(
    r'//[^\n]*(?:\\\n[^\n]*)*'                       # line comment
    r'|/\*.*?\*/'                                    # block comment
    r'|R"(?P<delim>[^()\\\s]{0,16})\(.*?\)(?P=delim)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'                          # string
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'",        # character, not a digit separator
    re.DOTALL)


def _blank(text: str) -> str:
    return re.sub(r'[^\n]', ' ', text)


def without_comments(text: str) -> str:
    """Comments become spaces; literals stay."""
    return TOKEN.sub(lambda m: _blank(m.group()) if m.group().startswith('/') else m.group(), text)


def comments_only(text: str) -> str:
    """All but comments becomes spaces."""
    kept, at = [], 0
    for match in TOKEN.finditer(text):
        if match.group().startswith('/'):
            kept += [_blank(text[at:match.start()]), match.group()]
            at = match.end()
    return ''.join(kept) + _blank(text[at:])


@lru_cache(maxsize=None)
def code_only(text: str) -> str:
    """Comments and the insides of literals become spaces."""
    def replace(match: 're.Match[str]') -> str:
        found = match.group()
        if found.startswith('/'):
            return _blank(found)
        return '"' + _blank(found[1:-1]) + '"'
    return TOKEN.sub(replace, text)


def line_of(text: str, offset: int) -> int:
    return text.count('\n', 0, offset) + 1


def matching(code: str, opening: int) -> int:
    """Offset of the bracket that closes the one at `opening`, or the end of the text."""
    pairs = {'(': ')', '{': '}', '[': ']'}
    opener, closer = code[opening], pairs[code[opening]]
    depth = 0
    for offset in range(opening, len(code)):
        if code[offset] == opener:
            depth += 1
        elif code[offset] == closer:
            depth -= 1
            if depth == 0:
                return offset
    return len(code) - 1


class Function(NamedTuple):
    name: str
    line: int   # of the head's first line
    lines: int  # head and body


SCOPE = re.compile(r'(?:^|\s)(?:inline\s+)?(?:namespace|class|struct|union|extern)\b')
ENUM = re.compile(r'(?:^|\s)enum\b')
CALLABLE_END = re.compile(
    r'\)\s*(?:(?:\b(?:const|noexcept|override|final|mutable|try|requires|volatile)\b|&&?)'
    r'\s*(?:\([^()]*\))?\s*)*'
    r'(?:->\s*[\w:<>,&*\s\[\]().]+)?$')


def _initialiser_list(head: str) -> bool:
    """The head of `name(...) : a_{1}, b_` up to a brace: a member initialiser, not yet the body."""
    return bool(re.search(r'\)\s*(?:noexcept\s*)?:(?!:)[^;]*[\w>]\s*$', head))


def functions(text: str) -> List[Function]:
    """Function definitions at namespace and class scope; lambdas and local classes are part of theirs."""
    code = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', lambda m: _blank(m.group()), code_only(text), flags=re.M)
    found: List[Function] = []
    start = offset = 0
    while offset < len(code):
        char = code[offset]
        if char in ';}':
            start = offset + 1
        elif char == ':' and re.search(r'\b(?:public|private|protected)\s*$', code[start:offset]):
            start = offset + 1
        elif char == '(':
            offset = matching(code, offset)
        elif char == '{':
            head = code[start:offset].strip()
            if _initialiser_list(head) or ENUM.search(head) or head.endswith('='):
                offset = matching(code, offset)
            elif CALLABLE_END.search(head) or re.search(r'\)\s*(?:noexcept\s*)?:(?!:)', head):
                end = matching(code, offset)
                first = start + len(code[start:offset]) - len(code[start:offset].lstrip())
                name = re.search(r'([\w:~]+|operator[^(]*)\s*\(', head)
                begin = line_of(code, first)
                found.append(Function(name.group(1) if name else '?', begin, line_of(code, end) - begin + 1))
                offset = end
                start = end + 1
            elif SCOPE.search(' ' + head) or not head:
                start = offset + 1
            else:
                offset = matching(code, offset)
        offset += 1
    return found


LAMBDA_AFTER = re.compile(r'\s*(?:\(|\{|<|mutable\b|noexcept\b|->)')


def lambdas(code: str) -> Iterator[Tuple[int, str, int, int]]:
    """(offset, captures, body begin, body end) of each lambda in `code`."""
    for match in re.finditer(r'\[(?!\[)([^\[\]]*)\]', code):
        before = code[:match.start()].rstrip()
        if before and (before[-1].isalnum() or before[-1] in '_)]"') and not before.endswith('return'):
            continue
        if not LAMBDA_AFTER.match(code, match.end()):
            continue
        body = match.end()
        while body < len(code) and code[body] != '{':
            body = matching(code, body) + 1 if code[body] == '(' else body + 1
        if body < len(code):
            yield match.start(), match.group(1).strip(), body, matching(code, body)


def statement_around(code: str, offset: int) -> Tuple[int, int]:
    """Begin and end of the full expression that holds `offset`; braces inside it are included."""
    begin = offset
    while begin > 0:
        char = code[begin - 1]
        if char in ';{' or (char == '}' and code[begin:].lstrip()[:1] not in (',', ')')):
            break
        if char == '}':
            depth = 0
            while begin > 0:
                begin -= 1
                depth += {'}': 1, '{': -1}.get(code[begin], 0)
                if depth == 0:
                    break
            continue
        begin -= 1
    end, depth = offset, 0
    while end < len(code):
        char = code[end]
        if char in '([{':
            depth += 1
        elif char in ')]}':
            depth -= 1
            if depth < 0:
                break
        elif char == ';' and depth == 0:
            break
        end += 1
    return begin, end
