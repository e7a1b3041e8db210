"""Answers as Markdown: what is shown, and that nothing a model says can run, load or leave the page."""
import pytest

from browser import MARKUP, Tab, answer_with, stream_of
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
HARMLESS = {'DIV', 'P', 'H3', 'H4', 'H5', 'H6', 'UL', 'OL', 'LI', 'BLOCKQUOTE', 'HR', 'BR', 'CODE', 'PRE',
            'STRONG', 'EM', 'DEL', 'A', 'SPAN', 'TABLE', 'THEAD', 'TBODY', 'TR', 'TH', 'TD', 'BUTTON'}
ATTRIBUTES = {'class', 'href', 'target', 'rel', 'title', 'type', 'tabindex', 'aria-label', 'scope', 'start'}
ATTACKS = [
    MARKUP,
    '[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,<script>alert(1)</script>)',
    '[a](java&#115;cript:alert(1)) [b](&#x6a;avascript:alert(1)) [c](\x01javascript:alert(1))',
    '<javascript:alert(1)> <a href="javascript:alert(1)">x</a> <iframe srcdoc="<script>a()"></iframe>',
    '![x](https://example.org/x.png" onerror="alert(1)) ![y](javascript:a()) ![z][r]\n\n[r]: javascript:a()',
    '```html" onclick="alert(1)\n<script>document.title="broken"</script>\n```',
    '| <img src=x onerror=alert(1)> |\n|---|\n| <svg onload=alert(1)> |',
    '<style>*{display:none}</style><link rel=stylesheet href=https://example.org/x.css>',
    '<base href=https://example.org/><form action=https://example.org><input name=key></form>',
    '<meta http-equiv=refresh content="0;url=https://example.org"> [d](vbscript:x)',
    '[a](\\\\example.org) [b](//example.org/x) [c](/shutdown) [d](#x) [e](file:///etc/passwd)',
    '<!-- --!><img src=x onerror=alert(1)> -->', '<![CDATA[<script>alert(1)</script>]]>',
    '&lt;script&gt;alert(1)&lt;/script&gt;',
    '__proto__ constructor [__proto__]: x\n\n[x][__proto__] [y][constructor]',
]


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
    assert [li.text_content().strip() for li in shown.locator('xpath=./ul/li').all()] == ['☑ done', '☐ open']
    assert shown.locator('blockquote').text_content() == 'quoted' and shown.locator('hr').count() == 1
    assert shown.locator('td').all_text_contents() == ['x', '1']
    assert shown.locator('td').last.evaluate('e => getComputedStyle(e).textAlign') == 'right'
    assert shown.locator('pre').text_content() == 'if a < b and c > "d":\n    print(\'&amp;\')'
    assert shown.locator('.code-bar span').text_content() == 'python'
    assert shown.locator('img').count() == 0, 'no image is fetched'


def test_what_was_shown_stays_while_text_comes(tab):
    """Only the last block is made again: a selection or an opened link above it is kept."""
    tab.page.evaluate('''() => {
      const box = document.getElementById('log').appendChild(document.createElement('div'));
      window.view = new MarkdownText(box);
      view.append('first\\n\\nsecond\\n\\nthird');
      view.finish();
      window.kept = [...view.box.children];
      view.append(' and more\\n\\nfourth');
      view.finish();
    }''')
    same = tab.page.evaluate('[...view.box.children].map((e, i) => e === kept[i])')
    assert same == [True, True, False, False]
    assert tab.page.evaluate('view.box.children[2].textContent') == 'third and more'


@pytest.mark.parametrize('attack', range(len(ATTACKS)))
def test_nothing_a_model_says_can_run(tab, attack):
    answer(tab, ATTACKS[attack])
    shown = last(tab)
    assert set(shown.evaluate('e => [...e.querySelectorAll("*")].map(n => n.tagName)')) <= HARMLESS
    attributes = shown.evaluate('e => [...e.querySelectorAll("*")].flatMap(n => n.getAttributeNames())')
    assert set(attributes) <= ATTRIBUTES
    for link in shown.locator('a').all():
        assert link.evaluate('a => a.protocol') in ('http:', 'https:', 'mailto:')
    assert 'broken' not in tab.page.title()
    assert tab.page.locator('#composer').is_visible()


def test_nesting_and_length_have_bounds(tab):
    deep = '> ' * 400 + 'deep'
    answer(tab, deep)
    assert last(tab).evaluate('''e => {
        const depth = n => n === e ? 0 : 1 + depth(n.parentNode);
        return Math.max(...[...e.querySelectorAll('*')].map(depth));
    }''') < 40
    answer(tab, '*' * 20000 + '[' * 20000)
    answer(tab, 'word ' * 50000)
    assert last(tab).evaluate('e => e.children.length') == 0, 'a very long answer is plain text'
    assert last(tab).text_content() == 'word ' * 50000


@pytest.mark.parametrize('spoil', ['delete globalThis.marked',
                                   'void (marked.lexer = () => { throw new Error("no"); })'])
def test_without_the_library_it_is_plain_text(tab, spoil):
    tab.page.evaluate(spoil)
    answer(tab, TEXT)
    assert last(tab).text_content() == TEXT and last(tab).locator('*').count() == 0
    assert last(tab).evaluate('e => getComputedStyle(e).whiteSpace') == 'pre-wrap'


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
