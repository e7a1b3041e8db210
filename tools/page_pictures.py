#!/usr/bin/env python3
"""Makes the pictures of the page at / in docs/page: a worker with a tiny model serves it, Chromium shows it,
and the answers are written here, since those of a tiny model are noise.

tools/page_pictures.py [FOLDER]    after tools/build.sh release worker-orcd write_tiny_model and
                                   tools/python_packages.sh playwright
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
TESTS = PROJECT / 'test' / 'integration'
sys.path[:0] = [str(PROJECT / 'build' / 'tools' / 'python' / 'playwright'), str(TESTS), str(TESTS / 'page')]

from playwright.sync_api import sync_playwright  # noqa: E402

from browser import Tab  # noqa: E402
from completion_worker import TEMPLATE  # noqa: E402
from worker_process import BUILD, PATIENCE, Worker, wait_until  # noqa: E402

QUALITY = 60  # of WebP, of 100
QUESTION = 'How does a prefix cache make the second turn of a conversation faster?'
ANSWER = '''A **prefix cache** keeps what the model has computed for the beginning of a prompt. When the \
next request begins with the same tokens, that part is not computed again.

1. The prompt is cut into pages of 256 positions.
2. A page is found by its tokens and *all tokens before it*.
3. What is found is shared; only the rest is computed.

```python
def longest_prefix(tree, tokens):
    node, found = tree.root, 0
    while node := node.next(tokens[found:found + 256]):
        found += 256
    return found
```

| turn | prompt | cached |
|------|-------:|-------:|
| 1    | 412    | 0      |
| 2    | 760    | 512    |
| 3    | 1,105  | 1,024  |

> The answer has the same bytes as without the cache.
'''
EARLIER = ['Explain RoPE scaling', 'A haiku about rain', 'Regex for ISO dates', 'Why is the sky blue?']
# name: width, height, scheme, what is done before the picture
PICTURES = {
    'desktop-light': (1280, 800, 'light', None), 'desktop-dark': (1280, 800, 'dark', 'tokens'),
    'wide-light': (1920, 1080, 'light', 'settings'), 'telephone-light': (390, 844, 'light', None),
    'telephone-dark': (390, 844, 'dark', 'list'), 'landscape-dark': (844, 390, 'dark', None),
}


# Chats are answered on the page itself, piece by piece, so that times and rates are those of a real answer.
PACED = """events => {
  window.asked ||= window.fetch;
  const pause = ms => new Promise(wake => setTimeout(wake, ms));
  window.fetch = (path, options) => path !== 'v1/chat/completions' ? asked(path, options) :
    new Response(new ReadableStream({async start(controller) {
      for (const [ms, event] of events) {
        await pause(ms);
        controller.enqueue(new TextEncoder().encode('data: ' + event + '\\n\\n'));
      }
      controller.close();
    }}));
}"""


def answer_slowly(tab: Tab, text: str, cached: int) -> None:
    """With what a worker sends, tokens' probabilities too, and the milliseconds before each piece."""
    words = [word if i == 0 else ' ' + word for i, word in enumerate(text.split(' '))]
    progress = {'total': 760, 'cache': cached, 'processed': cached, 'time_ms': 0}
    events = [(30, {'choices': [], 'prompt_progress': progress})]
    for i, word in enumerate(words):
        sure = -((i * 7) % 23) / 9
        others = [[word, sure], [' the', -1.5 - i % 3], [' a', -2.2], [' this', -3.1], [' it', -4.0]]
        entry = {'token': word, 'logprob': sure, 'top_logprobs': [
            {'token': t, 'logprob': p} for t, p in sorted(others, key=lambda one: -one[1])]}
        choice = {'index': 0, 'delta': {'content': word}, 'finish_reason': None,
                  'logprobs': {'content': [entry]}}
        events.append((8 if i else 120, {'choices': [choice]}))
    events.append((0, {'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]}))
    events.append((0, {'choices': [], 'usage': {'prompt_tokens': 760, 'completion_tokens': len(words),
                                                'prompt_tokens_details': {'cached_tokens': cached}}}))
    told = [(ms, json.dumps(event)) for ms, event in events] + [(0, '[DONE]')]
    tab.page.evaluate(PACED, told)


def prepare(tab: Tab, act) -> None:
    for title in EARLIER:
        answer_slowly(tab, 'Yes.', 0)
        tab.say(title)
        tab.page.locator('.turn.assistant .facts').wait_for()
        tab.wait_done()
        tab.page.evaluate('chat.fresh()')
    answer_slowly(tab, ANSWER, 256)
    tab.say(QUESTION)
    tab.page.locator('.turn.assistant .facts').wait_for()
    tab.wait_done()
    answer_slowly(tab, ANSWER, 512)
    tab.page.locator('.turn.assistant').focus()
    tab.page.keyboard.press('r')
    tab.page.locator('.turn.assistant .version', has_text='2 / 2').wait_for()
    tab.wait_done()
    wait_until(lambda: tab.page.locator('#busy').text_content(), PATIENCE, 'the state is shown')
    tab.page.evaluate('goToEnd()')
    if act == 'tokens':
        tab.page.locator('.turn.assistant').focus()
        tab.page.keyboard.press('p')
        tab.page.locator('.token').nth(20).hover()
    elif act == 'settings':
        tab.page.evaluate("$('settings').open = true; $('recent').open = $('state').open = false")
    elif act == 'list':
        tab.page.evaluate("setPanel('list', true)")


def take(tab: Tab, path: Path) -> None:
    session = tab.page.context.new_cdp_session(tab.page)
    shot = session.send('Page.captureScreenshot', {'format': 'webp', 'quality': QUALITY})
    path.write_bytes(base64.b64decode(shot['data']))
    print(f'{path}: {path.stat().st_size} bytes')


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else PROJECT / 'docs' / 'page')
    folder.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get('ORCD_CHROMIUM') or shutil.which('chromium')
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        model, template = Path(place) / 'tiny.gguf', Path(place) / 'template.jinja'
        writer = BUILD / 'write_tiny_model'
        subprocess.run([str(writer), '--out', str(model), '--context', '8192'], check=True)
        template.write_text(TEMPLATE)
        with Worker('--model', model, '--chat-template', str(template), '--model-name', 'example') as worker:
            worker.wait_event('ready')
            browser = driver.chromium.launch(executable_path=chromium, args=['--no-sandbox'])
            for name, (width, height, scheme, act) in PICTURES.items():
                window = {'viewport': {'width': width, 'height': height}, 'color_scheme': scheme}
                with Tab(browser, worker.port, **window) as tab:
                    prepare(tab, act)
                    take(tab, folder / f'{name}.webp')
            browser.close()
    return 0


if __name__ == '__main__':
    sys.exit(main())
