"""The page at / in a tab of Chromium, and answers that come from a test instead of from a model."""
import json
from typing import List

from worker_process import PATIENCE, wait_until

# Lead to this machine, as an attacker's own name may after its page was loaded.
REBOUND = 'rebound.example'
FOREIGN_NAMES = (REBOUND, 'evil.example')
MARKUP = '<img src=x onerror="document.title=\'broken\'"><script>document.title="broken"</script>'


class Tab:
    """A page that was loaded, and what it asked for and complained about."""

    def __init__(self, browser, port: int, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.errors: List[str] = []
        self.urls: List[str] = []
        self.bodies: List[dict] = []
        self.origin = f'http://127.0.0.1:{port}/'
        self.page.on('console', self._hear)
        self.page.on('pageerror', lambda e: self.errors.append(str(e)))
        self.page.on('request', self._note)

    def _hear(self, message) -> None:
        if message.type in ('error', 'warning'):
            self.errors.append(message.text)

    def _note(self, request) -> None:
        self.urls.append(request.url)
        if request.method == 'POST':
            self.bodies.append(json.loads(request.post_data))

    def __enter__(self) -> 'Tab':
        self.load()
        return self

    def load(self, path: str = '') -> None:
        self.page.goto(self.origin + path)
        self.wait_ready()

    def wait_ready(self) -> None:
        """What is kept has been read, and keys are heard."""
        self.page.locator('body[data-ready=yes]').wait_for()

    def reload(self) -> None:
        self.page.reload()
        self.wait_ready()

    def __exit__(self, *_: object) -> None:
        self.context.close()
        assert [u for u in self.urls if not u.startswith((self.origin, f'blob:{self.origin}', 'data:'))] == []

    def open_panel(self) -> None:
        self.page.evaluate("setPanel('panel', true); document.getElementById('settings').open = true")

    def set(self, label: str, value: str) -> None:
        self.open_panel()
        self.page.get_by_label(label).fill(value)
        self.page.evaluate('closeCover()')

    def wait(self, condition, what: str):
        return wait_until(condition, PATIENCE, what)

    def field(self):
        return self.page.get_by_role('textbox', name='Message')

    def say(self, text: str) -> None:
        self.field().fill(text)
        self.page.keyboard.press('Enter')

    def button(self, name: str):
        return self.page.get_by_role('button', name=name, exact=True)

    def turns(self) -> List[str]:
        """What each message on the page says."""
        bodies = self.page.locator('.turn .body')
        return [text.strip() for text in bodies.all_text_contents()]

    def wait_turns(self, *texts: str) -> None:
        wait_until(lambda: self.turns() == list(texts), PATIENCE, f'the page shows {texts}')

    def notice(self, text: str):
        shown = self.page.locator('.notice', has_text=text)
        shown.last.wait_for()
        return shown.last

    def go_on(self) -> None:
        """Noise may end at any token; from here on no answer does before its limit."""
        self.page.route('**/v1/chat/completions', lambda route: route.continue_(
            post_data=json.dumps({**json.loads(route.request.post_data), 'ignore_eos': True})))

    def said(self) -> str:
        """What the last answer has said so far, before it was made Markdown."""
        answers = self.page.locator('.turn.assistant').last.locator('.answer')
        return answers.evaluate('e => e.source') if answers.count() else ''

    def is_running(self) -> bool:
        return self.page.locator('#stop').is_visible()

    def wait_done(self) -> None:
        busy = self.page.locator('.turn[aria-busy]')
        wait_until(lambda: not self.is_running() and not busy.count(), PATIENCE, 'the answer is complete')

    def problem(self) -> str:
        return self.page.get_by_role('alert').text_content()

    def fact(self, name: str) -> str:
        return self.page.locator(f'#facts dt:text-is("{name}") + dd').text_content()


def stream_of(*deltas: dict, usage: dict = None, **more) -> str:
    """A stream as the worker sends it; `more` is added to each of its parts."""
    chunks = [{'choices': [{'index': 0, 'delta': d, 'finish_reason': None}], **more} for d in deltas]
    chunks.append({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}], **more})
    if usage:
        chunks.append({'choices': [], 'usage': usage, **more})
    return ''.join(f'data: {json.dumps(c)}\n\n' for c in chunks) + 'data: [DONE]\n\n'


def said(text: str, **more) -> str:
    return stream_of({'content': text}, **more)


def cut(text: str) -> str:
    """A stream that ends in the middle of an answer."""
    return said(text).split('data: {"choices": [{"index": 0, "delta": {}')[0]


def answer_with(tab: Tab, *answers) -> None:
    """Chats are answered from here instead of by the worker: with streams, or arguments of fulfill."""
    left = list(answers)

    def fulfill(route) -> None:
        answer = left.pop(0)
        if isinstance(answer, dict):
            route.fulfill(**answer)
        else:
            route.fulfill(status=200, content_type='text/event-stream', body=answer)
    tab.page.unroute('**/v1/chat/completions')
    tab.page.route('**/v1/chat/completions', fulfill)


def refusal(status: int, code: str, message: str = 'no', **headers: str) -> dict:
    error = {'error': {'code': code, 'message': message, 'type': 'error', 'param': None, 'retriable': False}}
    return {'status': status, 'content_type': 'application/json', 'body': json.dumps(error), 'headers': {
        name.replace('_', '-'): value for name, value in headers.items()}}
