"""Answers as Markdown: what is shown, and that nothing a model says can run, load or leave the page."""
import re
from pathlib import Path

import pytest

from answers import ATTACKS, FORMULAS
from browser import Tab, answer_with, stream_of
from worker_process import PATIENCE, wait_until

TEXT = '''# Title

A *soft* **loud** ~~old~~ `a < b` &amp; &#65; \\*star\\* <b>text</b>
[link](https://example.org/a?b=1&c=2 "t") and <https://example.org/auto>

1. one
   - inner
2. two

- [x] done
- [ ] open

> quoted

| name | n |
|------|--:|
| `x`  | 1 |

```python
if a < b and c > "d":
    print('&amp;')
```

---
![picture](https://example.org/p.png)
'''
# Elements that the page makes of an answer; none of them can load or run anything.
HARMLESS = set("""DIV P H3 H4 H5 H6 UL OL LI BLOCKQUOTE HR BR CODE PRE STRONG EM DEL A SPAN TABLE THEAD
    TBODY TR TH TD BUTTON svg path line math semantics annotation mrow mi mo mn mtext mspace
    mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd mstyle
    mpadded mphantom menclose""".split())
ATTRIBUTES = set("""class href target rel title type tabindex aria-label scope start value style aria-hidden
    encoding display mathvariant stretchy fence separator lspace rspace minsize maxsize
    width height depth voffset linethickness columnalign columnspacing rowspacing
    columnlines rowlines displaystyle scriptlevel notation accent accentunder movablelimits
    viewBox preserveAspectRatio d x1 x2 y1 y2 stroke-width""".split())


def answer(tab: Tab, text: str, pieces: int = 7) -> None:
    """The model says `text`, in pieces."""
    tab.page.unroute_all()
    step = max(1, len(text) // pieces)
    answer_with(tab, stream_of(*({'content': text[i:i + step]} for i in range(0, len(text), step))))
    answers = tab.page.locator('.turn.assistant').count()
    tab.say('go on')
    wait_until(lambda: tab.page.locator('.turn.assistant').count() > answers, PATIENCE, 'the answer begins')
    tab.wait_done()
    wait_until(lambda: tab.said() == text, PATIENCE, 'the answer is there')


def last(tab: Tab):
    return tab.page.locator('.turn.assistant').last.locator('.answer')


def test_markdown_is_shown_as_elements(tab):
    answer(tab, TEXT)
    shown = last(tab)
    assert shown.locator('h3').text_content() == 'Title'
    assert shown.locator('em').text_content() == 'soft' and shown.locator('strong').text_content() == 'loud'
    assert shown.locator('del').text_content() == 'old'
    assert shown.locator('p code').first.text_content() == 'a < b'
    assert '& A *star* <b>text</b>' in shown.locator('p').first.text_content()
    assert [a.get_attribute('href') for a in shown.locator('a').all()] == [
        'https://example.org/a?b=1&c=2', 'https://example.org/auto', 'https://example.org/p.png']
    assert all(a.get_attribute('rel') == 'noopener noreferrer' for a in shown.locator('a').all())
    assert shown.locator('ol > li').count() == 2 and shown.locator('ol ul li').text_content() == 'inner'
    tasks = [li.text_content().strip() for li in shown.locator('xpath=./div/ul/li').all()]
    assert tasks == ['☑ done', '☐ open']
    assert shown.locator('blockquote').text_content() == 'quoted' and shown.locator('hr').count() == 1
    assert shown.locator('td').all_text_contents() == ['x', '1']
    assert shown.locator('td').last.evaluate('e => getComputedStyle(e).textAlign') == 'right'
    assert shown.locator('pre').text_content() == 'if a < b and c > "d":\n    print(\'&amp;\')'
    assert shown.locator('.code-bar span').text_content() == 'python'
    assert shown.locator('img').count() == 0, 'no image is fetched'


# view: a MarkdownText on the page that says what it reads; shown(): its blocks.
VIEW = """() => {
  const box = document.getElementById('log').appendChild(document.createElement('div'));
  window.view = new MarkdownText(box);
  window.reads = [];
  const read = view.reader.read.bind(view.reader);
  view.reader.read = (text, whole) => {
    reads.push({size: text.length, whole});
    return read(text, whole);
  };
  window.shown = () => [...box.children].flatMap(section => [...section.children]);
}"""


def test_what_was_shown_stays_while_text_comes(tab):
    """Only the last block is made again: a selection or an opened link above it is kept."""
    tab.page.evaluate(VIEW)
    same = tab.page.evaluate("""async () => {
      view.append('first\\n\\nsecond\\n\\nthird');
      await view.later.now();
      const kept = shown();
      view.append(' and more\\n\\nfourth');
      await view.finish();
      return shown().map((e, i) => e === kept[i]);
    }""")
    assert same == [True, True, False, False]
    assert tab.page.evaluate('shown()[2].textContent') == 'third and more'


def test_what_is_complete_is_read_once(tab):
    """However many pieces a text comes in, what is read for each does not grow with what was there before."""
    tab.page.evaluate(VIEW)
    paragraph = 'A paragraph of *some* words, with `code` and **more** to be read. ' * 5 + '\n\n'
    reads = tab.page.evaluate("""async paragraph => {
      for (let i = 0; i < 200; ++i) {
        view.append(paragraph);
        await view.later.now();
      }
      await view.finish();
      return reads;
    }""", paragraph)
    assert tab.page.evaluate('shown().length') == 200
    complete = [read['size'] for read in reads if read['whole']]
    assert sum(complete) == 200 * len(paragraph) and len(complete) > 20
    assert max(read['size'] for read in reads) < 4000


LONG_CODE = '```\n' + 'a = 1\n\n# not a title\n\n- no item\n\n' * 100 + '```\n\n'
LONG_LIST = ''.join(f'{i}. item {i}\n\n     more of it\n\n' for i in range(1, 121))
LONG_COMMENT = '<!-- ' + 'not a *text*\n\n' * 200 + ' -->\n\n'


def test_pieces_mean_what_the_whole_means(tab):
    """A text is read piece by piece, and no piece begins within a list, a program or a comment."""
    text = ''.join(f'{LONG_CODE}{LONG_LIST}{TEXT}{LONG_COMMENT}## Title {i}\n\n' for i in range(4))
    answer(tab, text, 500)
    tags = last(tab).evaluate('e => [...e.children].flatMap(s => [...s.children]).map(n => n.tagName)')
    once = ['DIV', 'OL', 'H3', 'P', 'OL', 'UL', 'BLOCKQUOTE', 'DIV', 'DIV', 'HR', 'P', 'DIV', 'H4']
    assert tags == once * 4
    assert last(tab).locator('pre').first.text_content() == LONG_CODE[4:-6]
    assert last(tab).locator('ol').first.locator('> li').count() == 120
    assert last(tab).evaluate('e => e.children.length') > 12


def test_a_link_may_be_defined_later(tab):
    filler = 'A paragraph that takes some room.\n\n' * 300
    answer(tab, f'[one][x] and [two][y]\n\n{filler}[x]: https://example.org/x\n\n{filler}[three][x]')
    links = [(a.text_content(), a.get_attribute('href')) for a in last(tab).locator('a').all()]
    assert links == [('one', 'https://example.org/x'), ('three', 'https://example.org/x')]
    assert '[two][y]' in last(tab).locator('p').first.text_content()


# Shows each text as an answer; tells what it was made of, and what is drawn outside of it.
MADE = """async texts => {
  const made = [];
  window.alert = () => { document.title = 'broken'; };
  for (const text of texts) {
    const turn = log.appendChild(make('div', 'turn')), box = turn.appendChild(make('div', 'answer'));
    const view = new MarkdownText(box);
    const cut = text.length / 2;
    view.append(text.slice(0, cut));
    await view.later.now();
    view.append(text.slice(cut));
    await view.finish();
    const all = [...box.querySelectorAll('*')], composer = $('composer').getBoundingClientRect();
    const at = (left, top) => document.elementFromPoint(left, top);
    made.push({
      tags: all.map(n => n.tagName), attributes: all.flatMap(n => n.getAttributeNames()),
      protocols: [...box.querySelectorAll('a')].map(a => a.protocol), html: box.outerHTML,
      covered: [at(5, 5), at(composer.left + 50, composer.top + 30)].some(e => e && turn.contains(e)),
    });
    turn.remove();
  }
  return made;
}"""


def test_nothing_a_model_says_can_run(tab):
    for text, made in zip(ATTACKS, tab.page.evaluate(MADE, ATTACKS)):
        assert set(made['tags']) <= HARMLESS, text
        assert set(made['attributes']) <= ATTRIBUTES, text
        assert set(made['protocols']) <= {'http:', 'https:', 'mailto:'}, text
        assert not made['covered'], text
    assert 'broken' not in tab.page.title()
    assert tab.page.locator('#composer').is_visible()


PURIFY = Path('/usr/share/nodejs/dompurify/dist/purify.min.js')


def test_a_judge_of_markup_finds_nothing(chromium, worker):
    """What an answer is made of, written as markup: DOMPurify would take away nothing of it."""
    if not PURIFY.exists():
        pytest.skip('node-dompurify is not here')
    with Tab(chromium, worker.port, bypass_csp=True) as tab:
        made = tab.page.evaluate(MADE, [*ATTACKS, TEXT, *FORMULAS])
        # Debian's 2.4.1+deb12u1 asks for a name outside of the loop that has it.
        tab.page.evaluate('window.shadowNode = {__depth: 1}')
        tab.page.evaluate(PURIFY.read_text(encoding='utf-8'))
        judged = tab.page.evaluate("""texts => texts.map(text => {
          DOMPurify.sanitize(text, {ADD_TAGS: ['semantics', 'annotation'],
                                    ADD_ATTR: ['target', 'encoding', 'columnalign', 'columnspacing']});
          return DOMPurify.removed.map(r => r.attribute ? r.attribute.name : r.element.nodeName);
        })""", [m['html'] for m in made] + ['<b onclick="a()">x</b><script>a()</script>'])
        assert judged.pop() != [], 'it judges nothing'
        assert [j for j in judged if j] == []


def test_nesting_and_length_have_bounds(tab):
    for levels in (60, 400):
        answer(tab, '> ' * levels + 'deep')
        assert last(tab).evaluate("""e => {
            const depth = n => n === e ? 0 : 1 + depth(n.parentNode);
            return Math.max(...[...e.querySelectorAll('*')].map(depth));
        }""") < 40
        assert 'deep' in last(tab).text_content()
    answer(tab, 'word ' * 50000)
    assert last(tab).locator('p').count() == 0, 'a very long answer is plain text'
    assert last(tab).text_content() == 'word ' * 50000


def is_plain(tab: Tab, text: str) -> bool:
    tags = last(tab).evaluate('e => [...e.querySelectorAll("*")].map(n => n.tagName)')
    return last(tab).text_content() == text and set(tags) == {'DIV'}


@pytest.mark.parametrize('spoil', [
    'delete window.Worker',
    'void (MarkdownReader.prototype.read = async () => { throw new Error("no"); })'])
def test_without_a_reader_it_is_plain_text(tab, spoil):
    tab.page.evaluate(spoil)
    answer(tab, TEXT)
    assert is_plain(tab, TEXT)
    assert last(tab).locator('.text').first.evaluate('e => getComputedStyle(e).whiteSpace') == 'pre-wrap'


@pytest.mark.parametrize('reader', ['', 'throw new Error("no");'])
def test_without_the_library_it_is_plain_text(tab, reader):
    """As the page is where the library was not there when it was built, and with one that cannot be run."""
    def without(route) -> None:
        page = route.fetch()
        body = re.sub(r'(<script [^>]*id="reader">).*?(?=</script>)', rf'\1{reader}', page.text(), flags=re.S)
        assert len(body) < len(page.text()) - 100000
        route.fulfill(response=page, body=body)
    tab.page.route(tab.origin, without)
    tab.page.reload()
    answer(tab, TEXT)
    assert is_plain(tab, TEXT)


def test_text_is_shown_before_it_has_been_read(tab):
    """A reader that is slow keeps nobody waiting, and one that never answers is not waited for for ever."""
    def shows(text: str, emphasised: int) -> None:
        now = '[view.box.textContent, view.box.querySelectorAll("em").length]'
        wait_until(lambda: tab.page.evaluate(now) == [text, emphasised], PATIENCE, f'{text} is shown')

    def go() -> None:
        one = 'waiting.length && (waiting.shift()(), true)'
        wait_until(lambda: tab.page.evaluate(one), PATIENCE, 'something is to be read')
    tab.page.evaluate(VIEW)
    tab.page.evaluate("""() => {
      const read = view.reader.read;
      window.waiting = [];
      view.reader.read = (...given) => new Promise(done => waiting.push(() => done(read(...given))));
      view.append('*first*');
    }""")
    shows('*first*', 0)
    tab.page.evaluate("view.append(' *second*')")
    shows('*first* *second*', 0)
    go()
    shows('first *second*', 1)
    go()
    shows('first second', 2)
    assert tab.page.evaluate('view.box.querySelectorAll(".source").length') == 0
    tab.page.evaluate("""() => {
      readingMax = 50;
      delete view.reader.read;
      view.reader.worker.postMessage = () => {};
      view.append(' *third*');
    }""")
    wait_until(lambda: tab.page.evaluate('view.rest !== null'), PATIENCE, 'it gives up')
    shows('*first* *second* *third*', 0)


def test_code_can_be_copied(chromium, worker):
    for secure in (True, False):
        with Tab(chromium, worker.port, permissions=['clipboard-read', 'clipboard-write']) as tab:
            if not secure:  # as a page that came without TLS from another machine
                tab.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
            answer(tab, f'Code:\n\n```\ncopied {secure}\n  line 2\n```\n')
            button = tab.page.get_by_role('button', name='Copy code')
            button.focus()
            tab.page.keyboard.press('Enter')
            wait_until(lambda: button.text_content() == 'Copied', PATIENCE, 'it says so')
            if secure:
                assert tab.page.evaluate('navigator.clipboard.readText()') == f'copied {secure}\n  line 2'
            else:
                assert button.evaluate('e => e === document.activeElement')
                tab.page.get_by_role('textbox', name='Message').focus()
                tab.page.keyboard.press('Control+V')
                pasted = tab.page.get_by_role('textbox', name='Message').input_value()
                assert pasted == f'copied {secure}\n  line 2'
            assert tab.errors == []
