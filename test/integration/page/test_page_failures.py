"""What the page says where something goes wrong, and that it is true: a worker that is killed, restarted or
taken over from in the middle of an answer, refusals, another model."""
import json
import signal
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / 'failover'))

from browser import Tab, answer_with, cut, refusal, said  # noqa: E402
from completion_worker import TEMPLATE  # noqa: E402
from holders import Held  # noqa: E402
from worker_process import PATIENCE, Worker  # noqa: E402


@pytest.fixture
def template(tmp_path) -> tuple:
    path = tmp_path / 'chat.jinja'
    path.write_text(TEMPLATE)
    return '--chat-template', str(path)


def ask_long(tab: Tab, tokens: int) -> str:
    tab.go_on()
    tab.set('Seed', '7')
    tab.set('Tokens of an answer', str(tokens))
    tab.say('Once upon a time')
    return tab.wait(lambda: len(tab.said()) > 20 and tab.said(), 'text appears')


def whole_answer(worker, tab: Tab) -> str:
    """To what the page has sent, by an engine alone."""
    sent = {k: v for k, v in tab.bodies[0].items() if k in ('messages', 'seed', 'max_tokens')}
    body = json.dumps({**sent, 'ignore_eos': True})
    with worker.connect() as connection:
        connection.request('POST', '/v1/chat/completions', body.encode())
        return connection.read_response().json()['choices'][0]['message']['content']


def test_a_worker_that_is_killed_and_started_again(chromium, slow_model, template):
    """Without failover: the page says that the answer broke, keeps it, and goes on with it when it can."""
    options = ('--model', slow_model, *template)
    with Worker(*options) as worker, Tab(chromium, worker.port) as tab:
        worker.wait_event('ready')
        begun = ask_long(tab, 3000)
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait(PATIENCE)
        tab.wait(lambda: 'ended before the answer was complete' in tab.problem(), 'it says so')
        tab.wait_done()
        begun = tab.said()
        assert tab.page.locator('.broken').is_visible()
        assert tab.page.locator('.facts').last.text_content().startswith('broken off')
        pill = tab.page.locator('#pill')
        tab.wait(lambda: pill.text_content() == 'unreachable', 'the worker is gone')
        assert 'The worker is gone' in tab.page.locator('#gone').text_content()
        tab.button('Try again' if tab.button('Try again').count() else 'Continue the answer').click()
        tab.wait(lambda: 'cannot be reached' in tab.problem(), 'it says that, too')
        assert tab.said() == begun, 'nothing is lost'
        with Worker(*options, port=str(worker.port)) as again:
            again.wait_event('ready')
            tab.notice('The worker is there again')
            assert tab.page.locator('#gone').text_content() == ''
            tab.set('Tokens of an answer', '3')
            tab.page.locator('.broken').get_by_role('button', name='Continue').click()
            tab.wait(lambda: tab.said().startswith(begun) and len(tab.said()) > len(begun), 'it goes on')
            tab.wait_done()
            assert tab.page.locator('.broken').count() == 0 and tab.problem() == ''


def test_an_engine_that_is_killed_and_taken_over_from(chromium, slow_model, tmp_path, template):
    """With failover: the answer goes on as if nothing had been, and the page tells who serves now."""
    with Held(slow_model, tmp_path) as engines:
        engines.start_holder()
        active, standby = engines.pair('--holder', 'require', *template)
        with Tab(chromium, engines.port) as tab:
            tab.page.locator('#failover', has_text='engine 0').wait_for(state='attached')
            begun = ask_long(tab, 800)
            active.kill()
            tab.notice('Engine 1 has taken over from engine 0')
            tab.wait_done()
            assert tab.said().startswith(begun) and tab.problem() == ''
            assert tab.page.locator('.broken').count() == 0
            tab.wait(lambda: 'engine 1' in tab.page.locator('#failover-facts').text_content(), 'who serves')
            assert tab.said() == whole_answer(standby, tab)
            assert tab.errors == []


REFUSED = {
    'UNAUTHORIZED': (401, 'asks for an API key', 'Enter a key'),
    'FORBIDDEN': (403, 'may not do that', 'Enter a key'),
    'QUEUE_FULL': (429, 'all places are taken', 'Try again'), 'NOT_READY': (503, 'is starting', 'Try again'),
    'DRAINING': (503, 'about to stop', 'Try again'), 'PAYLOAD_TOO_LARGE': (413, 'too long', None),
    'context_length_exceeded': (400, 'longer than the model can read', None),
    'model_not_found': (404, 'no such model or adapter', 'Open settings'),
    'VRAM_OOM': (500, 'no memory left', 'Try again'),
    'CUDA_ERROR': (500, 'GPU has failed', 'Try again'), 'ENGINE_LOST': (500, 'are gone', 'Try again'),
    'ENGINE_CHANGED': (500, 'Another engine serves', 'Try again'),
    'INFERENCE_TIMEOUT': (504, 'longer than the worker allows', 'Try again'),
    'SOMETHING_NEW': (418, 'could not do this', 'Try again')}


def test_every_refusal_has_words_of_its_own(chromium, worker):
    with Tab(chromium, worker.port) as tab:
        for code, (status, words, act) in REFUSED.items():
            answer_with(tab, refusal(status, code, 'in the words of the worker', Retry_After='3'))
            tab.page.evaluate('closeCover()')
            tab.say(code)
            tab.wait(lambda: words in tab.problem(), f'{code}: {words}')
            assert f'in the words of the worker ({code}, status {status})' in tab.problem()
            assert 'Try again in 3 s' in tab.problem()
            buttons = tab.page.locator('#problem button').all_text_contents()
            more = ['Try again'] if act and act != 'Try again' else []
            assert buttons == ([act, *more, ''] if act else [''])
        answer_with(tab, said('At last.'))
        tab.page.evaluate('closeCover()')
        tab.page.locator('#problem button').first.click()
        tab.wait(lambda: tab.said() == 'At last.', 'it is asked again')
        assert tab.problem() == ''
        tab.wait(lambda: tab.turns() == [code, 'At last.'], 'as the same question')


def test_an_error_within_an_answer_keeps_what_came(chromium, worker):
    with Tab(chromium, worker.port) as tab:
        failed = cut('Half') + 'data: {"error": {"message": "the device is lost", "code": "CUDA_ERROR"}}\n\n'
        answer_with(tab, failed)
        tab.say('Hello')
        tab.wait(lambda: 'device is lost (CUDA_ERROR)' in tab.problem(), 'an error in a stream')
        tab.wait_done()
        tab.wait_turns('Hello', 'Half')
        answer_with(tab, said(' and half.'))
        tab.button('Continue the answer').click()
        tab.wait_turns('Hello', 'Half and half.')


def test_another_model_is_told(tab, worker):
    answer_with(tab, said('One.', model='older'))
    tab.say('Hello')
    by = tab.page.locator('.turn.assistant .by')
    tab.wait(lambda: by.count() and by.text_content() == ' by older', 'who said it')
    health = worker.get('/health').json()
    other = {**health, 'model': 'newer', 'version': '99'}
    tab.page.route('**/health', lambda route: route.fulfill(json=other))
    tab.notice('Another model serves now: newer')
    tab.notice('The worker is now of version 99').get_by_role('button', name='Load its page').wait_for()


METRICS = '''worker_lora_adapters 2
worker_lora_adapters_max 4
worker_lora_adapter_bytes{adapter="legal"} 1048576
worker_lora_adapter_bytes{adapter="to \\"ne"} 2097152
worker_lora_adapter_requests{adapter="legal"} 2
worker_lora_adapter_requests{adapter="to \\"ne"} 0
worker_lora_adapter_requests_total{adapter="legal"} 31
worker_lora_adapter_requests_total{adapter="to \\"ne"} 1
'''


def test_adapters_and_their_load_are_shown_and_can_be_chosen(tab):
    tab.page.route('**/metrics', lambda route: route.fulfill(body=METRICS, content_type='text/plain'))
    rows = tab.page.locator('#adapter-rows li')
    shown = ['legal1.0 MiB, 2 now, 31 in all', 'to "ne2.0 MiB, 0 now, 1 in all']
    tab.wait(lambda: rows.all_text_contents() == shown, 'the adapters')
    assert tab.page.locator('#adapter-room').text_content() == '2 of 4 places taken'
    tab.open_panel()
    tab.page.get_by_label('Adapter', exact=True).select_option(label='legal')
    tab.page.evaluate('closeCover()')
    answer_with(tab, said('Hereby.'))
    tab.say('Hello')
    tab.wait(lambda: tab.said() == 'Hereby.', 'the answer')
    assert tab.bodies[-1]['model'] == 'legal'
