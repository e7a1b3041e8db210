"""axe-core finds no fault with the page, in light and dark, wide and narrow. The Python package
axe-playwright-python carries it."""
from importlib import resources

import pytest

from browser import Tab, answer_with, stream_of
from test_page_markdown import TEXT
from worker_process import PATIENCE, wait_until

pytest.importorskip('axe_playwright_python', reason='the Python package axe-playwright-python is missing')


def faults(tab: Tab) -> list:
    source = resources.files('axe_playwright_python').joinpath('axe.min.js').read_text(encoding='utf-8')
    tab.page.evaluate(source)
    found = tab.page.evaluate('axe.run(document, {resultTypes: ["violations"]})')
    return [(v['id'], [n['html'] for n in v['nodes']]) for v in found['violations']]


@pytest.mark.parametrize('width', [390, 1280])
@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_axe_finds_nothing(chromium, worker, width, scheme):
    call = {'index': 0, 'id': 'c1', 'type': 'function', 'function': {'name': 'weather', 'arguments': '{}'}}
    with Tab(chromium, worker.port, viewport={'width': width, 'height': 700}, color_scheme=scheme) as tab:
        answer_with(tab, stream_of({'role': 'assistant', 'content': ''}, {'reasoning_content': 'Hm.'},
                                   {'content': TEXT}, {'tool_calls': [call]}))
        tab.say('Hello')
        tab.page.locator('.call').wait_for()
        tab.wait_done()
        wait_until(lambda: tab.page.locator('#facts dt').count() > 9, PATIENCE, 'the state is shown')
        tab.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        assert faults(tab) == []


def test_axe_would_find_something(tab):
    tab.page.evaluate("document.body.append(document.createElement('textarea'))")
    assert [name for name, _ in faults(tab)] != []


def test_the_tree_names_what_matters(tab):
    """What a screen reader is told, by Chromium's own accessibility tree."""
    tree = tab.page.locator('body').aria_snapshot()
    for line in ('- log "Conversation"', '- textbox "Message"', '- button "Send"', '- button "New chat"',
                 '- button "Stop" [disabled]', '- complementary "State and settings"'):
        assert line in tree, tree


def test_the_key_field_is_in_a_form(tab):
    assert tab.page.evaluate("document.getElementById('key').form.id") == 'options'
    tab.set('API key', 'secret')
    tab.page.get_by_label('API key').press('Enter')
    assert tab.page.url == tab.origin, 'Enter in a setting leads nowhere'
