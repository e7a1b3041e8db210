"""The page at / in a tab of Chromium, and answers that come from a test instead of from a model."""
import json
from typing import List

from worker_process import PATIENCE, wait_until

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
        self.page.goto(self.origin)
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()
        assert [u for u in self.urls if not u.startswith((self.origin, 'data:'))] == []

    def set(self, label: str, value: str) -> None:
        self.page.evaluate("document.getElementById('settings').open = true")
        self.page.get_by_label(label).fill(value)

    def say(self, text: str) -> None:
        self.page.get_by_role('textbox', name='Message').fill(text)
        self.page.keyboard.press('Enter')

    def go_on(self) -> None:
        """Noise may end at any token; from here on no answer does before its limit."""
        self.page.route('**/v1/chat/completions', lambda route: route.continue_(
            post_data=json.dumps({**json.loads(route.request.post_data), 'ignore_eos': True})))

    def said(self) -> str:
        """What the last answer has said so far, before it was made Markdown."""
        answers = self.page.locator('.turn.assistant').last.locator('.answer')
        return answers.evaluate('e => e.source') if answers.count() else ''

    def is_running(self) -> bool:
        return self.page.get_by_role('button', name='Stop').is_enabled()

    def wait_done(self) -> None:
        wait_until(lambda: not self.is_running(), PATIENCE, 'the answer is complete')

    def problem(self) -> str:
        return self.page.get_by_role('alert').text_content()

    def fact(self, name: str) -> str:
        return self.page.locator(f'#facts dt:text-is("{name}") + dd').text_content()


def stream_of(*deltas: dict) -> str:
    chunks = [{'choices': [{'index': 0, 'delta': d, 'finish_reason': None}]} for d in deltas]
    chunks.append({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]})
    return ''.join(f'data: {json.dumps(c)}\n\n' for c in chunks) + 'data: [DONE]\n\n'


def answer_with(tab: Tab, *answers: str) -> None:
    """Chats are answered from here instead of by the worker."""
    left = list(answers)
    tab.page.route('**/v1/chat/completions', lambda route: route.fulfill(
        status=200, content_type='text/event-stream', body=left.pop(0)))
