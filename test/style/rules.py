"""The rules of check_style.py: each takes a path relative to the project and the file's text and
yields (line, message). A rule decides by itself which files it is about."""
import re
from pathlib import Path, PurePosixPath
from typing import Callable, Iterator, List, Set, Tuple

import cpp_text

Finding = Tuple[int, str]
Rule = Callable[[PurePosixPath, str], Iterator[Finding]]

CPP = {'.cpp', '.hpp', '.cu', '.cuh', '.h'}
SOURCE = CPP | {'.py', '.sh', '.cmake'}
LAYERS = ('app', 'net', 'engine', 'gpu', 'kernels')
# Who may include whom (design: layers point one way).
MAY_INCLUDE = {
    'app': {'app', 'net', 'engine', 'gpu', 'kernels'},
    'net': {'net', 'engine'},
    'gpu': {'gpu', 'engine', 'kernels'},
    'engine': {'engine'},
    'kernels': {'kernels'},
}
# The vocabularies that device code shares with engine/: block formats and the types of a KV cache.
SHARED_WITH_KERNELS = ('engine/gguf/ggml_type.hpp', 'engine/model/kv_type.hpp')
LINES_MAX = 500
COLUMNS_MAX = 110
HOST_FUNCTION_MAX = 70
DEVICE_FUNCTION_MAX = 120
# Tables that a tool wrote, and nothing else.
GENERATED = ('engine/text/unicode_tables.cpp',)


def is_source(path: PurePosixPath) -> bool:
    return path.suffix in SOURCE or path.name in ('CMakeLists.txt', 'conanfile.py')


def numbered(text: str) -> Iterator[Tuple[int, str]]:
    return enumerate(text.split('\n'), 1)


def include_direction(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Includes point one way; engine/ knows no sockets; device code knows no Boost."""
    if path.suffix not in CPP or path.parts[0] not in LAYERS:
        return
    layer = path.parts[0]
    for line, content in numbered(cpp_text.without_comments(text)):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', content)
        if not match:
            continue
        target = match.group(2)
        first = target.split('/')[0]
        shared = layer == 'kernels' and target in SHARED_WITH_KERNELS
        if first in LAYERS and first not in MAY_INCLUDE[layer] and not shared:
            allowed = ', '.join(sorted(MAY_INCLUDE[layer]))
            yield line, f'{layer}/ may not include {target}; it may include: {allowed}'
        if '..' in target.split('/'):
            yield line, f'{target}: includes are rooted at the project'
        if layer == 'engine' and re.match(r'boost/(asio|beast)\b', target):
            yield line, f'engine/ knows no sockets, but includes {target}'
        if layer == 'kernels' and target.startswith('boost/'):
            yield line, f'kernels/ may not include {target}'
        if path.suffix in ('.cu', '.cuh') and target.startswith('boost/'):
            yield line, f'device code may not include {target}'


def co_await_temporaries(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """g++ 12 destroys some temporaries of a co_await expression twice: capturing lambdas, aggregates."""
    if path.suffix not in CPP:
        return
    code = cpp_text.code_only(text)
    reported = set()
    for match in re.finditer(r'\bco_await\b', code):
        begin, end = cpp_text.statement_around(code, match.start())
        expression = code[begin:end]
        for at, captures, body, body_end in list(cpp_text.lambdas(expression)):
            held = [c.strip() for c in captures.split(',') if c.strip()]
            if any(not (c.startswith('&') or c == 'this') for c in held) and (begin + at) not in reported:
                reported.add(begin + at)
                yield (cpp_text.line_of(code, begin + at),
                       f'lambda that captures [{captures}] by value inside a co_await expression: '
                       'name it first, move it in')
            inner = re.sub(r'[^\n]', ' ', expression[body:body_end + 1])
            expression = expression[:body] + inner + expression[body_end + 1:]
        if match.start() - begin < len(expression) and expression[match.start() - begin] == ' ':
            continue  # this co_await stands in the body of a lambda and is judged as its own statement
        for brace in re.finditer(r'\{', expression):
            if (begin + brace.start()) not in reported:
                reported.add(begin + brace.start())
                yield (cpp_text.line_of(code, begin + brace.start()),
                       'braces build a temporary inside a co_await expression: name it first, move it in')


def no_detached(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """A detached coroutine or thread loses its errors and outlives its owner."""
    if path.suffix in CPP and path.parts[0] in LAYERS + ('test', 'bench'):
        for line, content in numbered(cpp_text.code_only(text)):
            if re.search(r'\bdetached\b|\.\s*detach\s*\(\s*\)', content):
                yield line, 'detached work: give it a completion handler or join it'


MARKER = re.compile(r'\b(?:XXX|TODO|FIXME|HACK)\b')
MACHINE_PATH = re.compile(r'(?<![\w.])/(?:work|root|home)/|(?<!\w)shared/')


def no_markers(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Work that is not done is not hidden in a comment."""
    for line, content in numbered(text):
        if MARKER.search(content):
            yield line, f'marker {MARKER.search(content).group()}: do it or file it'


def no_machine_paths(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Nothing depends on where one machine keeps its files."""
    for line, content in numbered(text):
        match = MACHINE_PATH.search(content)
        if match:
            yield line, f'path of one machine: {match.group()}'


# What may part the words of a phrase: a space, or the end of a comment's line and the beginning of the next.
GAP = r'(?:\s|//[/!]?<?|[*#])+'
# Numbers of papers that are not in the tree; not "each warp issues 4 loads", nor "a design of 3 stages".
CITATION = re.compile('|'.join((
    rf'\b[Ii]ssues?{GAP}\d+(?=\s*(?:[.,;:)"\'\]]|\*/|$)|{GAP}(?:items?\b|"|and{GAP}\d))',
    rf'\b[Dd]esign{GAP}\d+(?=\s*(?:[.,;:)"\'\]]|\*/|$)|{GAP}(?:\(|items?\b|and{GAP}\d))',
    rf'\b[Rr]eliability{GAP}\d',
    rf'\b[Ss]tyle{GAP}\d+\.\d',
    rf'\b[Ss]eed{GAP}0\d\d\b',
    rf'\b[Pp]erformance{GAP}notes\b',
    r'(?<![\w/-])(?:design|features|reliability|measured)\.md\b')), re.M)


def no_dead_citations(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """A comment says the reason itself, or names a requirement (M0-W-1310, WORK-3040)."""
    if not is_source(path):
        return
    comments = cpp_text.comments_only(text) if path.suffix in CPP else text
    for match in CITATION.finditer(comments):
        words = ' '.join(re.sub(r'//[/!]?<?|[*#]', ' ', match.group()).split())
        yield cpp_text.line_of(comments, match.start()), (
            f'cites "{words}", which readers do not have: say the reason, or a requirement id')


# An id, and what follows it without its letters: `M0-W-1300, 1302` and `WORK-3080..3082`.
REQUIREMENT = re.compile(r'\b(M0-W-|WORK-)(\d{4}(?:(?:, |\.\.)\d{4}\b)*)')


def requirements_in(text: str) -> Iterator[Tuple[int, str]]:
    """Where a requirement is named, and its whole id; of a range both ends."""
    for match in REQUIREMENT.finditer(text):
        for number in re.findall(r'\d{4}', match[2]):
            yield match.start(), match[1] + number


def explained_requirements(text: str) -> Set[str]:
    """The ids of the first cells of the tables' rows; a range means every id in it."""
    found: Set[str] = set()
    for cell in re.findall(r'^\|([^|]*)\|', text, re.M):
        found.update(whole for _, whole in requirements_in(cell))
        for letters, first, last in re.findall(r'(M0-W-|WORK-)(\d{4})\.\.(\d{4})', cell):
            found.update(f'{letters}{number}' for number in range(int(first), int(last) + 1))
    return found


EXPLAINED = explained_requirements(
    (Path(__file__).resolve().parents[2] / 'docs' / 'requirements.md').read_text(encoding='utf-8'))


def requirements_resolve(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """A reader finds what a requirement asks for."""
    if not is_source(path) or path.parts[:2] == ('test', 'style'):
        return
    comments = cpp_text.comments_only(text) if path.suffix in CPP else text
    for at, whole in requirements_in(comments):
        if whole not in EXPLAINED:
            yield cpp_text.line_of(comments, at), f'{whole} has no row in docs/requirements.md'


def file_length(path: PurePosixPath, text: str) -> Iterator[Finding]:
    if is_source(path) and str(path) not in GENERATED:
        lines = text.count('\n')
        if lines > LINES_MAX:
            yield lines, f'{lines} lines, limit {LINES_MAX}: one file, one purpose'


def function_length(path: PurePosixPath, text: str) -> Iterator[Finding]:
    if path.suffix not in CPP or str(path) in GENERATED:
        return
    limit = DEVICE_FUNCTION_MAX if path.suffix in ('.cu', '.cuh') else HOST_FUNCTION_MAX
    for function in cpp_text.functions(text):
        if function.lines > limit:
            yield function.line, f'{function.name}: {function.lines} lines, limit {limit}'


# What sleeps for the tests, and a preloaded library that is built without the project.
SLEEPERS = ('test/integration/pauses.py', 'test/support/pause.hpp', 'test/support/wait_until.hpp',
            'test/gpu/injected_fault.cu')
# Loads, takeovers and pods, whose sleeps are the paces of clients and the moments of faults.
PACED = ('test/attack/', 'test/integration/failover/', 'test/integration/fronts/',
         'test/integration/kubernetes/', 'test/unit/gpu/gpu_thread_test.cpp')
SLEEP = re.compile(r'\btime\.sleep\b|\bfrom time import\b.*\bsleep\b')
CPP_SLEEP = re.compile(r'\b(?:sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w>])::sleep\b')


def no_sleeps(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Who sleeps until something must have happened fails on a busy machine, and is slow on all others."""
    if path.parts[0] != 'test' or str(path) in SLEEPERS or str(path).startswith(PACED):
        return
    if path.suffix not in CPP | {'.py'}:
        return
    code, sleep = (text, SLEEP) if path.suffix == '.py' else (cpp_text.code_only(text), CPP_SLEEP)
    for line, content in numbered(code):
        if sleep.search(content):
            yield line, 'a sleep: wait_until what is waited for; pause() where the time itself is the test'


# Who opens what is its own, or written, or no file.
OPENERS = ('engine/base/plain_file.cpp', 'app/quantize/output_file.cpp', 'app/holder/socket_place.cpp',
           'app/process/standard_streams.cpp', 'net/failover/flock_lock.cpp', 'net/failover/peer.cpp',
           'net/failover/peer_user.cpp', 'net/server/server.cpp')
OPENS = re.compile(r'\bi?fstream\b|\bf(?:re)?open\s*\(|(?<![\w>])::open(?:at)?\s*\(')


def plain_files_only(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Who opens a pipe that somebody named as a file waits for its writer, for ever where there is none."""
    if path.suffix not in CPP or path.parts[0] not in LAYERS or str(path) in OPENERS:
        return
    for line, content in numbered(cpp_text.code_only(text)):
        if OPENS.search(content):
            yield line, 'opens a file itself: engine/base/plain_file.hpp does, and refuses what would hold it'


WRITES_TO_STDERR = re.compile(r'\bc?err\s*<<|\bfprintf\s*\(\s*stderr|\bfputs\s*\(.*\bstderr\b')


def escaped_complaints(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """What a program says of an option or a file may have any bytes, which a terminal would obey."""
    if path.suffix not in CPP or path.parts[0] != 'app':
        return
    for line, content in numbered(cpp_text.code_only(text)):
        if WRITES_TO_STDERR.search(content) and 'complaint(' not in content:
            yield line, 'writes to standard error itself: complaint() of app/console/one_line.hpp escapes it'


FAMILY = re.compile(
    r'(?<![A-Za-z])(?:llama|qwen[0-9]*|phi[-_]?3|gpt[-_]?oss|mistral|gemma[0-9]*)(?![A-Za-z])', re.I)


def no_family_names(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Forward passes branch on fields of the model's description, never on a family's name."""
    if path.suffix in CPP and path.parts[0] in ('gpu', 'kernels'):
        for line, content in numbered(cpp_text.without_comments(text)):
            match = FAMILY.search(content)
            if match:
                yield line, f'family name {match.group()} in a forward pass: make it a field of model_spec'


def layout(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Line ends, tabs, columns."""
    if not (is_source(path) or path.suffix == '.md'):
        return
    for line, content in numbered(text):
        if content.endswith('\r'):
            yield line, 'carriage return at the end of the line'
        elif content.rstrip() != content:
            yield line, 'white space at the end of the line'
        if '\t' in content:
            yield line, 'tab'
        if is_source(path) and len(content) > COLUMNS_MAX:
            yield line, f'{len(content)} columns, limit {COLUMNS_MAX}'
    if text and not text.endswith('\n'):
        yield text.count('\n') + 1, 'no newline at the end of the file'


def header_form(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """A header opens with a comment that says what it is for, and is included once."""
    if path.suffix not in ('.hpp', '.cuh', '.h'):
        return
    if not text.lstrip().startswith(('//', '/*')):
        yield 1, 'the header does not open with a comment that says what it is for'
    code = cpp_text.without_comments(text)
    if not re.search(r'^\s*#\s*pragma\s+once\b', code, re.M) and path.suffix != '.h':
        yield 1, 'no #pragma once'


RULES: List[Rule] = [
    include_direction, co_await_temporaries, no_detached, no_markers, no_machine_paths,
    no_dead_citations, requirements_resolve, file_length, function_length, no_sleeps, plain_files_only,
    escaped_complaints, no_family_names, layout, header_form]
# Rules whose own words and bad samples break them.
ABOUT_WORDS: List[Rule] = [no_markers, no_machine_paths, no_dead_citations, no_sleeps]
