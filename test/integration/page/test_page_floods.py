"""Answers that are made to be slow to read: the page goes on answering its user, in time that grows with
their length and no faster, and their text is shown."""
import pytest

from browser import Tab

SIZE = 27000
# Milliseconds of its processor that the page may spend without a pause. Where it spent less in all, what is
# longer by the clock is the time of other programs.
BLOCKED_MAX = 200
TRIES = 3


def nested_list(size: int) -> str:
    """Each line deeper than the one before."""
    lines, length = [], 0
    while length < size:
        lines.append('  ' * len(lines) + '- a\n')
        length += len(lines[-1])
    return ''.join(lines)


def repeated(text: str):
    return lambda size: text * (size // len(text))


def growing(mark: str):
    """Runs of a mark, each longer than the one before, so that none closes another."""
    def make(size: int) -> str:
        runs, length = [], 0
        while length < size:
            runs.append(mark * (len(runs) + 1) + 'a ')
            length += len(runs[-1])
        return ''.join(runs)
    return make


def wide_table(size: int) -> str:
    """Rows of one cell under a head of many, to whose length they are filled up."""
    columns = size // 10
    return '|a' * columns + '|\n' + '|-' * columns + '|\n' + '|\n' * (size // 2 - 2 * columns)


def programs(language: str, text: str):
    """Each as long as one that gets colours may be, in lines that are."""
    line = text * (900 // len(text)) + '\n'
    return repeated(f'```{language}\n' + line * 19 + '```\n\n')


def nested_formula(begin: str, end: str):
    """As deep as the longest formula that is read, again and again."""
    def make(size: int) -> str:
        levels = 1900 // len(begin + end)
        return ('$$' + begin * levels + 'a' + end * levels + '$$\n\n') * (size // 1900)
    return make


def macros(size: int) -> str:
    """Each is twice the next one."""
    names = 'abcdefghijklmnopqrstuvwxyz'
    defined = ''.join(f'\\def\\m{a}{{\\m{b}\\m{b}}}' for a, b in zip(names, names[1:]))
    return f'$${defined}\\ma$$' + 'a' * size


def defined_links(size: int) -> str:
    links = size // 24
    return ''.join(f'[l{i}]: a\n' for i in range(links)) + '\n' + ''.join(f'[l{i}] ' for i in range(links))


UNITS = {
    'brackets': '[', 'images': '![', 'links': '[a](', 'double stars': '**a ', 'stars and bars': '*a_',
    'tildes': '~~a ', 'angles': '<', 'attributes': '<a b="', 'comments': '<!--', 'quotes': '> ',
    'quoted lines': '> a\n', 'bullets': '- ', 'items': '- a\n', 'loose items': '1. a\n\n',
    'table rows': '|a|b|\n|-|-|\n', 'headings': '# a\n', 'paragraphs': 'a\n\n', 'lines': 'a\n', 'empty': '\n',
    'tabs': '\ta\n', 'fences': '```\na\n', 'mail': 'a@', 'money': '$a ', 'formulas': '$a_b$ ',
    'half formulas': '\\[a ', 'formula blocks': '$$\na^2\n$$\n\n', 'notes': '[^a] ',
    'words': 'word ', 'one word': 'x',
    'large formulas': '\\[\\frac{a+b}{\\sqrt{c}} = \\sum_{i=0}^n x_i\\]\n',
    'two-part characters': '\U0001f600',
}
MADE = {
    'bracket pairs': lambda size: '[' * (size // 2) + ']' * (size // 2),
    'nested emphasis': lambda size: '*a **b ' * (size // 14) + '** *' * (size // 14),
    'backticks': growing('`'), 'growing stars': growing('*'), 'nested list': nested_list,
    'wide table': wide_table, 'definitions': defined_links,
    'deep fractions': nested_formula('\\frac{', '}{b}'), 'deep roots': nested_formula('\\sqrt{', '}'),
    'deep scripts': nested_formula('a^{', '}'), 'deep braces': nested_formula('{', '}'),
    'deep matrices': nested_formula('\\begin{matrix}', '\\end{matrix}'),
    'macros of macros': macros, 'long matrix': repeated(
        '\\[\\begin{matrix}' + 'a&b\\\\' * 300 + '\\end{matrix}\\]\n\n'),
    'programs': programs('cpp', 'int a = b + "c"; '), 'templates': programs('js', 'let a = "b" + `c${d}`; '),
    'tags': programs('html', '<a b="c'), 'half comments': programs('c', '/*a* /'),
    'half strings': programs('python', 'f"{a'), 'expressions': programs('js', '/a/'),
    'one long line': lambda size: '```js\n' + 'a("b");' * (size // 7) + '\n```\n',
    'one program': lambda size: '```\n' + 'a = 1\n' * (size // 6),
}


def flood(name: str, size: int) -> str:
    return MADE[name](size) if name in MADE else UNITS[name] * (size // len(UNITS[name]))


# Shows a text that comes in pieces, and tells how long in milliseconds the page was blocked at a time.
SHOW = """async ([text, pieces]) => {
  readingMax = 150;
  log.replaceChildren();
  const blocked = [0];
  const observer = new PerformanceObserver(list => blocked.push(...list.getEntries().map(e => e.duration)));
  observer.observe({type: 'longtask'});
  const box = log.appendChild(document.createElement('div')), view = new MarkdownText(box);
  const rest = () => new Promise(wake => setTimeout(wake, 0));
  const step = Math.ceil(text.length / pieces);
  for (let i = 0; i < text.length; i += step) {
    view.append(text.slice(i, i + step));
    await rest();
  }
  await view.finish();
  const drawn = () => new Promise(wake => requestAnimationFrame(() => setTimeout(wake, 0)));
  await drawn();
  await drawn();
  blocked.push(...observer.takeRecords().map(e => e.duration));
  observer.disconnect();
  return {blocked: Math.max(...blocked), shown: box.textContent};
}"""


def letters(text: str) -> int:
    return sum('a' <= c <= 'z' for c in text)


class Meter:
    """What the page's thread has done, in milliseconds of its processor."""

    def __init__(self, tab: Tab):
        self.tab = tab
        self.session = tab.page.context.new_cdp_session(tab.page)
        self.session.send('Performance.enable', {'timeDomain': 'threadTicks'})

    def used(self) -> float:
        metrics = self.session.send('Performance.getMetrics')['metrics']
        return 1000 * next(m['value'] for m in metrics if m['name'] == 'TaskDuration')

    def show(self, text: str, pieces: int = 20) -> dict:
        before = self.used()
        told = self.tab.page.evaluate(SHOW, [text, pieces])
        return {**told, 'used': self.used() - before}


@pytest.fixture(scope='module')
def meter(chromium, worker):
    with Tab(chromium, worker.port) as opened:
        yield Meter(opened)
        assert opened.errors == []


@pytest.mark.parametrize('name', [*UNITS, *MADE])
def test_a_flood_blocks_nothing(meter, name):
    short, long = flood(name, SIZE), flood(name, 2 * SIZE)
    tries = []
    for _ in range(TRIES):
        once, twice = meter.show(short), meter.show(long)
        for told, text in ((once, short), (twice, long)):
            assert letters(told.pop('shown')) >= letters(text)
        tries.append((once, twice))
        blocked = min(twice['blocked'], twice['used'])
        if blocked <= BLOCKED_MAX and twice['used'] <= 2.5 * once['used'] + 50:
            return
    raise AssertionError(tries)
