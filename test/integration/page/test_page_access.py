"""axe-core finds no fault with the page, in light and dark, wide and narrow. The Python package
axe-playwright-python carries it."""
from importlib import resources

import pytest

from answers import LATEX
from browser import Tab, answer_with, cut, stream_of
from test_page_markdown import TEXT
from worker_process import PATIENCE, wait_until

# Every colour that a program has, and formulas of all widths.
MORE = LATEX + '''
```python
@at(1)
class A(B):  # comment
    """text"""
    def f(self): return f"{x}" + str(None) or 1.5
```
```diff
- a
+ b
```
```html
<!-- a --><p class="b">&amp;</p>
```
```css
#a .b:hover::before, p[x=y] { color: #fff; margin: 1px }
```
```bash
for i in $A; do echo "$i"; done
```
```markdown
# a *b* **c** `d` [e](f)
```
\\[ \\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix} = aaaaaaaa + bbbbbbbb + cccccccc + dddddddd \\]
'''

pytest.importorskip('axe_playwright_python', reason='the Python package axe-playwright-python is missing')


def faults(tab: Tab) -> list:
    source = resources.files('axe_playwright_python').joinpath('axe.min.js').read_text(encoding='utf-8')
    tab.page.evaluate(source)
    found = tab.page.evaluate('axe.run(document, {resultTypes: ["violations"]})')
    return [(v['id'], [n['html'] for n in v['nodes']]) for v in found['violations']]


@pytest.mark.parametrize('width, scheme', [(360, 'dark'), (1400, 'light')])
def test_axe_finds_nothing(chromium, worker, width, scheme):
    call = {'index': 0, 'id': 'c1', 'type': 'function', 'function': {'name': 'weather', 'arguments': '{}'}}
    with Tab(chromium, worker.port, viewport={'width': width, 'height': 700}, color_scheme=scheme) as tab:
        answer_with(tab, stream_of({'role': 'assistant', 'content': ''}, {'reasoning_content': 'Hm.'},
                                   {'content': f'{TEXT}\n\n{MORE}'}, {'tool_calls': [call]}))
        tab.say('Hello')
        tab.page.locator('.call').wait_for()
        tab.wait_done()
        wait_until(lambda: tab.page.locator('#facts dt').count() > 9, PATIENCE, 'the state is shown')
        assert faults(tab) == []
        tab.open_panel()
        tab.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        tab.page.get_by_label('Temperature').fill('7')
        assert faults(tab) == [], 'of the panel'
        tab.page.evaluate("closeCover(); setPanel('list', true); document.getElementById('help').showModal()")
        assert faults(tab) == [], 'of the list and the help'
        tab.page.keyboard.press('Escape')
        answer_with(tab, cut('Half'))
        tab.set('Temperature', '')
        tab.button('New chat' if tab.button('New chat').is_visible() else 'Another chat').click()
        tab.say('Hello')
        tab.page.locator('.broken').wait_for()
        tab.wait_done()
        token = {'token': 'Half', 'logprob': -2, 'top_logprobs': [{'token': 'Full', 'logprob': -0.5}]}
        tab.page.evaluate('token => log.lastChild.append(new TokenView([keptToken(token)], 3).box)', token)
        tab.page.locator('.token').hover()
        assert faults(tab) == [], 'of what went wrong, and of tokens'


def test_axe_would_find_something(tab):
    tab.page.evaluate("document.body.append(document.createElement('textarea'))")
    assert [name for name, _ in faults(tab)] != []


def test_the_tree_names_what_matters(tab):
    """What a screen reader is told, by Chromium's own accessibility tree."""
    tree = tab.page.locator('body').aria_snapshot()
    for line in ('- region "Conversation"', '- textbox "Message"', '- button "Send"', '- button "New chat"',
                 '- navigation "Conversations"', '- group "State of the worker"'):
        assert line in tree, tree
    tab.open_panel()
    assert '- complementary "State and settings"' in tab.page.locator('body').aria_snapshot()


def test_the_key_field_is_in_a_form(tab):
    assert tab.page.evaluate("document.getElementById('key').form.id") == 'options'
    tab.set('API key', 'secret')
    tab.page.get_by_label('API key').press('Enter')
    assert tab.page.url == tab.origin, 'Enter in a setting leads nowhere'
