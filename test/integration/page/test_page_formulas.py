"""Formulas, colours of programs and the source of an answer, on the page in Chromium."""
import pytest

from answers import LATEX
from browser import Tab
from test_page_floods import Meter
from test_page_markdown import TEXT, VIEW, answer, last
from worker_process import PATIENCE, wait_until

# Milliseconds until something is seen, by the clock or, where that was shared, of the page's processor.
PAINT_MAX = 100
TRIES = 3


def drawn(tab: Tab) -> list:
    texts = last(tab).locator('.katex-html').all_inner_texts()
    return [' '.join(text.split()).replace('\u200b', '') for text in texts]


def test_formulas_are_drawn(tab):
    answer(tab, LATEX)
    formulas = last(tab).locator('.formula')
    assert [f.get_attribute('title') for f in formulas.all()] == [
        '\\[x=\\frac{-b\\pm\\sqrt{b^2-4ac}}{2a}\\]', '\\(a_1 * b_2 * c\\)']
    assert [f.locator('annotation').text_content() for f in formulas.all()] == [
        'x=\\frac{-b\\pm\\sqrt{b^2-4ac}}{2a}', 'a_1 * b_2 * c']
    assert [f.get_attribute('class') for f in formulas.all()] == ['formula display', 'formula']
    assert last(tab).locator('em').count() == 0, 'stars in a formula emphasise nothing'
    seen = drawn(tab)
    assert sorted(seen[0].replace(' ', '')) == sorted('x=2a−b±b2−4ac') and seen[1].startswith('a 1')
    # Placed by properties, which the policy allows, and in KaTeX's own letters.
    heights = last(tab).locator('.strut').evaluate_all('all => all.map(e => parseFloat(e.style.height))')
    assert max(heights) > 1
    assert tab.page.evaluate("document.fonts.load('1em KaTeX_Main')"), 'the fonts are in the page'
    used = "[...document.fonts].some(f => f.status === 'loaded')"
    wait_until(lambda: tab.page.evaluate(used), PATIENCE, 'a font')
    below, above = (last(tab).locator('.mfrac .mord', has_text=text).first.bounding_box() for text in '2±')
    root = last(tab).locator('.sqrt svg').bounding_box()
    assert above['y'] + 10 < below['y'] and root['width'] > 30, 'a fraction'


def test_words_in_a_formula_have_their_room(tab):
    answer(tab, 'then $\\begin{cases} a & \\text{if } b \\\\ c & \\text{otherwise} \\end{cases}$ words')
    wide = last(tab).locator('.base').first.evaluate('e => [e.clientWidth, e.scrollWidth]')
    assert wide[0] >= wide[1] > 90


def test_a_formula_covers_nothing_else(tab):
    answer(tab, 'before $\\smash{\\rule{20em}{20em}}$ and $\\raisebox{20em}{up}$ after')
    assert last(tab).locator('.formula').count() == 2
    covers = last(tab).evaluate("""e => {
      const range = document.createRange(), {firstChild: text} = e.querySelector('p');
      range.selectNodeContents(text);
      const {left, top, height} = range.getBoundingClientRect();
      const at = (x, y) => document.elementFromPoint(x, y);
      return [at(left + 2, top + height / 2).tagName, !at(left + 120, top - 40).closest('.formula')];
    }""")
    assert covers == ['P', True]


def test_a_formula_is_a_formula_once_it_is_complete(tab):
    """While it comes it is what was said; at no time has it lost its backslashes."""
    tab.page.evaluate(VIEW)
    seen = tab.page.evaluate("""async text => {
      const seen = [];
      for (const letter of text) {
        view.append(letter);
        await view.later.now();
        seen.push([view.box.textContent.trim(), view.box.querySelectorAll('.formula').length]);
      }
      await view.finish();
      return seen;
    }""", 'so \\[x\\] is')
    for i, (text, formulas) in enumerate(seen):
        said = 'so \\[x\\] is'[:i + 1]
        assert formulas == (1 if '\\]' in said else 0) and (formulas or text == said.strip()), said


@pytest.mark.parametrize('text, formulas', [
    ('a $x$ b', ['$x$']), ('$x$-axis, ($y$).', ['$x$', '$y$']), ('$5 and $6', []), ('$5-$6 a$b$', []),
    ('`$x$` and ``$y$``', []), ('$x\n+y$', ['$x\n+y$']), ('$x\n\ny$', []), ('**$x$**', ['$x$']),
    ('[$x$](https://example.org/)', ['$x$']), ('\\\\(x\\\\)', []), ('$$x$$ $y$', ['$$x$$', '$y$']),
    ('\\[\n- a\n= b\n> c\n\\]', ['\\[\n- a\n= b\n> c\n\\]']), ('so \\[\n- a\n\\] on', ['\\[\n- a\n\\]']),
    ('\\begin{align}\na &= b \\\\\n&= c\n\\end{align}', ['\\begin{align}\na &= b \\\\\n&= c\n\\end{align}']),
    ('> $$\n> x\n> $$', ['$$\nx\n$$']), ('1. $$x$$\n2. \\(y\\)', ['$$x$$', '\\(y\\)']), ('\\(\\foo\\)', []),
    ('```\n$x$\n```\n\n    $y$', []), ('US$x$ and 3$y$', []), ('$x$y', []), ('$ x$ $y $', []),
])
def test_what_is_a_formula(page_tab, text, formulas):
    found = page_tab.page.evaluate("""async text => {
      const box = log.appendChild(document.createElement('div')), view = new MarkdownText(box);
      view.append(text);
      await view.finish();
      return [...box.querySelectorAll('.formula')].map(f => f.title);
    }""", text)
    assert found == formulas


@pytest.fixture(scope='module')
def page_tab(chromium, worker):
    with Tab(chromium, worker.port) as opened:
        yield opened
        assert opened.errors == []


def test_programs_have_colours(tab):
    tab.page.evaluate(VIEW)
    told = tab.page.evaluate("""async () => {
      const told = e => [e.className, e.textContent];
      const colours = () => [...view.box.querySelectorAll('[class^=hljs-]')].map(told);
      view.append('```python\\ndef f():\\n    return "a" # b');
      await view.later.now();
      const open = colours();
      view.append('\\n```\\n');
      await view.later.now();
      const closed = colours();
      view.append('\\n```js\\nlet a\\n```\\n\\n```nolanguage\\nlet b\\n```\\n\\n```\\nlet c\\n```\\n');
      await view.finish();
      const text = [...view.box.querySelectorAll('pre')].map(e => e.textContent);
      return {open, closed, all: colours(), text};
    }""")
    assert told['open'] == [], 'what grows is not coloured again and again'
    assert ['hljs-keyword', 'def'] in told['closed'] and ['hljs-comment', '# b'] in told['closed']
    assert [c for c in told['all'] if c not in told['closed']] == [['hljs-keyword', 'let']]
    assert told['text'] == ['def f():\n    return "a" # b', 'let a', 'let b', 'let c']


def test_long_programs_stay_as_they_are(tab):
    tab.page.evaluate(VIEW)
    for program in ('let a = 1;\n' * 3000, 'let a = [' + '1, ' * 1000 + '];\n', 'x' * 1000000):
        told = tab.page.evaluate("""async program => {
          view = new MarkdownText(log.appendChild(document.createElement('div')));
          view.append('```js\\n' + program + '```\\n');
          await view.finish();
          const coloured = view.box.querySelectorAll('[class^=hljs-]').length;
          return [coloured, view.box.textContent.includes(program.trimEnd())];
        }""", program)
        assert told == [0, True]


def test_the_source_is_always_there(tab):
    answer(tab, TEXT)
    turn = tab.page.locator('.turn.assistant').last
    button = turn.get_by_role('button', name='Text as the model wrote it')
    button.focus()
    tab.page.keyboard.press('Enter')
    turn.locator('.raw').wait_for()
    assert turn.locator('.raw').text_content() == TEXT
    turn.get_by_role('button', name='Text as the model wrote it').click()
    last(tab).wait_for()
    assert turn.locator('.raw').count() == 0


def test_what_is_copied_has_the_source_of_formulas(chromium, worker):
    with Tab(chromium, worker.port, permissions=['clipboard-read', 'clipboard-write']) as tab:
        answer(tab, 'The **sum** is \\(a_1\\).\n\n$$b^2$$\n\nEnd.')
        tab.page.evaluate("""() => {
          const range = document.createRange();
          range.selectNodeContents(document.querySelector('.answer'));
          document.getSelection().removeAllRanges();
          document.getSelection().addRange(range);
        }""")
        tab.page.keyboard.press('Control+C')
        copied = tab.page.evaluate('navigator.clipboard.readText()')
        assert copied.split() == 'The sum is \\(a_1\\). $$b^2$$ End.'.split()
        assert tab.errors == [] and tab.page.locator('.copied').count() == 0


def test_many_answers_share_a_few_workers(tab):
    """A conversation that is shown again: all of it is there at once as text, and then formatted."""
    shown = tab.page.evaluate("""async () => {
      let most = 0;
      const views = Array.from({length: 60}, (_, i) => {
        const view = new MarkdownText(log.appendChild(document.createElement('div')));
        view.append('*answer* ' + i + ' $x_{' + i + '}$');
        return view;
      });
      const watch = setInterval(() => { most = Math.max(most, workers.made); }, 1);
      await Promise.all(views.map(view => view.finish()));
      clearInterval(watch);
      return [most, workers.made, views.every((view, i) => view.box.textContent.startsWith('answer ' + i)),
              views.every(view => view.box.querySelectorAll('em, .formula').length === 2)];
    }""")
    assert shown[0] <= 3 and shown[1:] == [1, True, True]


def test_libraries_do_not_keep_the_page_from_being_seen(tab):
    meter, tries = Meter(tab), []
    for _ in range(TRIES):
        before = meter.used()
        tab.page.reload()
        painted = "performance.getEntriesByType('paint').map(e => e.startTime)"
        wait_until(lambda: tab.page.evaluate(painted), PATIENCE, 'something is seen')
        tries.append((tab.page.evaluate(painted)[0], meter.used() - before))
        assert tab.page.evaluate('[workers.made, formulaSheet]') == [0, None]
        if min(tries[-1]) < PAINT_MAX:
            return
    raise AssertionError(tries)
