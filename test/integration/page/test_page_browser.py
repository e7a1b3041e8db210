"""The page at / in a browser: chats, settings, state. ORCD_SCREENSHOTS names a folder for pictures."""
import os

import pytest

from browser import MARKUP, Tab, answer_with, stream_of
from completion_worker import start
from worker_process import PATIENCE, Worker, wait_until


def test_a_chat_streams_and_goes_on(tab, worker):
    tab.go_on()
    tab.set('System prompt', 'Be brief.')
    tab.set('Temperature', '0')
    tab.set('Tokens of an answer', '1000')
    tab.say('Once upon a time')
    first = wait_until(tab.said, PATIENCE, 'the first text appears')
    assert tab.is_running(), 'text appears before the answer is complete'
    wait_until(lambda: len(tab.said()) > len(first), PATIENCE, 'more text appears')
    tab.wait_done()
    whole = tab.said()
    asked = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Once upon a time'}]
    body = {'messages': asked, 'temperature': 0, 'max_tokens': 1000, 'ignore_eos': True}
    same = worker.call('POST', '/v1/chat/completions', body)
    assert same.json()['choices'][0]['message']['content'] == whole
    assert 'tokens/s' in tab.page.locator('.facts').last.text_content()
    tab.set('Tokens of an answer', '5')
    tab.say('And then?')
    wait_until(lambda: tab.page.locator('.turn.assistant .facts').count() == 2, PATIENCE, 'the second answer')
    assert tab.bodies[1]['messages'] == [*asked, {'role': 'assistant', 'content': whole},
                                         {'role': 'user', 'content': 'And then?'}]
    assert tab.problem() == ''


@pytest.mark.parametrize('how', ['button', 'key'])
def test_stop_ends_the_job_and_keeps_what_came(tab, worker, how):
    tab.go_on()
    tab.say('Once upon a time')
    wait_until(tab.said, PATIENCE, 'text appears')
    if how == 'button':
        tab.page.get_by_role('button', name='Stop').click()
    else:
        tab.page.keyboard.press('Escape')
    wait_until(lambda: worker.running() == 0, PATIENCE, 'the job has ended')
    tab.wait_done()
    assert tab.page.locator('.facts').last.text_content() == 'stopped'
    kept = tab.said()
    tab.set('Tokens of an answer', '3')
    tab.say('Again')
    wait_until(lambda: tab.page.locator('.turn.assistant .facts').count() == 2, PATIENCE, 'the second answer')
    assert tab.bodies[1]['messages'][1] == {'role': 'assistant', 'content': kept}


def test_a_new_chat_forgets_the_old_one_while_it_runs(tab, worker):
    tab.go_on()
    tab.say('Once upon a time')
    wait_until(tab.said, PATIENCE, 'text appears')
    tab.page.get_by_role('button', name='New chat').click()
    tab.wait_done()
    worker.wait_idle()
    assert tab.page.locator('.turn').count() == 0
    tab.set('Tokens of an answer', '3')
    tab.say('Hello')
    wait_until(lambda: tab.page.locator('.facts').count() == 1, PATIENCE, 'the answer')
    assert tab.bodies[1]['messages'] == [{'role': 'user', 'content': 'Hello'}]


def test_reasoning_is_folded_and_tool_calls_are_shown(tab):
    call = {'index': 0, 'id': 'c1', 'type': 'function', 'function': {'name': 'weather', 'arguments': ''}}
    answer_with(tab, stream_of({'role': 'assistant', 'content': ''}, {'reasoning_content': 'Let me '},
                               {'reasoning_content': 'look.'}, {'tool_calls': [call]},
                               {'tool_calls': [{'index': 0, 'function': {'arguments': '{"city":'}}]},
                               {'tool_calls': [{'index': 0, 'function': {'arguments': '"Rome"}'}}]}),
                stream_of({'content': 'Sunny.'}))
    tab.set('Tools', '[{"type": "function", "function": {"name": "weather"}}]')
    tab.say('Rain?')
    shown = tab.page.locator('.call')
    shown.wait_for()
    tab.wait_done()
    assert shown.text_content() == 'Calls weather{"city":"Rome"}'
    thoughts = tab.page.locator('.reasoning .text')
    assert thoughts.text_content() == 'Let me look.' and not thoughts.is_visible()
    tab.page.get_by_text('Reasoning').click()
    assert thoughts.is_visible()
    tab.page.get_by_label('Result of weather').fill('22 C')
    tab.page.keyboard.press('Enter')
    wait_until(lambda: tab.said() == 'Sunny.', PATIENCE, 'the answer after the call')
    assert tab.bodies[0]['tools'][0]['function']['name'] == 'weather'
    made = {'id': 'c1', 'type': 'function', 'function': {'name': 'weather', 'arguments': '{"city":"Rome"}'}}
    assert tab.bodies[1]['messages'] == [
        {'role': 'user', 'content': 'Rain?'},
        {'role': 'assistant', 'content': '', 'reasoning_content': 'Let me look.', 'tool_calls': [made]},
        {'role': 'tool', 'tool_call_id': 'c1', 'content': '22 C'}]


def test_markup_of_a_model_stays_text(tab):
    answer_with(tab, stream_of({'reasoning_content': MARKUP}, {'content': MARKUP}, {'tool_calls': [
        {'index': 0, 'id': 'c', 'function': {'name': MARKUP, 'arguments': MARKUP}}]}))
    tab.say(MARKUP)
    tab.page.locator('.call').wait_for()
    tab.wait_done()
    assert tab.said() == MARKUP
    assert tab.page.locator('#log img, #log script').count() == 0
    assert 'broken' not in tab.page.title()


def test_what_went_wrong_is_said(chromium, worker):
    with Tab(chromium, worker.port) as tab:
        tab.set('Tools', '[{"type": "magic"}]')
        tab.say('Hello')
        said = wait_until(tab.problem, PATIENCE, 'the refusal is shown')
        assert 'tools' in said and 'INVALID_REQUEST' in said and 'status 400' in said
        field = tab.page.get_by_role('textbox', name='Message')
        wait_until(lambda: field.input_value() == 'Hello', PATIENCE, 'the question is there to be sent again')
        tab.set('Tools', '')
        tab.set('Tokens of an answer', '3')
        tab.set('Temperature', '7')
        tab.say('Hello')
        wait_until(lambda: 'Temperature' in tab.problem(), PATIENCE, 'the field is named')
        tab.set('Temperature', '')
        cut = stream_of({'content': 'Half'}).replace('data: [DONE]\n\n', '')
        failed = cut + 'data: {"error": {"message": "the device is lost", "code": "CUDA_ERROR"}}\n\n'
        answer_with(tab, cut, failed)
        tab.say('Hello')
        wait_until(lambda: 'the answer was complete' in tab.problem(), PATIENCE, 'a cut stream')
        tab.say('Hello')
        wait_until(lambda: 'device is lost (CUDA_ERROR)' in tab.problem(), PATIENCE, 'an error in a stream')
        assert tab.said() == 'Half'


def test_a_key_is_asked_for_and_not_kept(chromium, slow_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('test-key\n')
    asking = start(slow_model, tmp_path, '--api-key-file', str(keys))
    with asking as worker, Tab(chromium, worker.port) as tab:
        tab.go_on()
        tab.set('Tokens of an answer', '3')
        tab.say('Hello')
        wait_until(lambda: 'UNAUTHORIZED' in tab.problem(), PATIENCE, 'the refusal is shown')
        field = tab.page.get_by_label('API key')
        wait_until(lambda: field.evaluate('e => e === document.activeElement'), PATIENCE, 'the key field')
        field.fill('test-key')
        tab.say('Hello')
        wait_until(tab.said, PATIENCE, 'the answer')
        tab.wait_done()
        assert tab.page.evaluate('localStorage.length + sessionStorage.length + document.cookie.length') == 0
        tab.page.reload()
        assert field.input_value() == ''


def test_the_state_is_live_while_the_page_is_seen(tab, worker):
    tab.go_on()
    wait_until(lambda: tab.page.locator('#facts dt').count() > 9, PATIENCE, 'the state is shown')
    health = worker.get('/health').json()
    assert tab.fact('Slots') == '0 of 2 busy' and health['model'] in tab.fact('Model')
    assert tab.fact('VRAM') == 'none', 'the host backend has none'
    tab.set('Tokens of an answer', '2000')
    tab.say('Once upon a time')
    wait_until(lambda: tab.fact('Slots') == '1 of 2 busy', PATIENCE, 'the job is seen')
    wait_until(lambda: float(tab.fact('Tokens/s')) > 1, PATIENCE, 'its rate is seen')
    tab.page.keyboard.press('Escape')
    wait_until(lambda: tab.fact('Slots') == '0 of 2 busy', PATIENCE, 'its end is seen')
    cached = worker.get('/health').json()
    assert tab.fact('Cache hits') == f"{cached['cache_hits']} of {cached['cache_queries']}"
    hide = "Object.defineProperty(document, 'visibilityState', {value: '%s', configurable: true});" \
           "document.dispatchEvent(new Event('visibilitychange'))"
    tab.page.evaluate(hide % 'hidden')
    tab.page.wait_for_timeout(1500)
    polls = len(tab.urls)
    tab.page.wait_for_timeout(2500)
    assert len(tab.urls) == polls, 'nobody looks'
    tab.page.evaluate(hide % 'visible')
    wait_until(lambda: tab.page.wait_for_timeout(50) or len(tab.urls) > polls + 3, PATIENCE, 'it asks again')


def test_a_worker_that_is_gone_is_said_to_be(chromium, tiny_model, tmp_path):
    with start(tiny_model, tmp_path) as worker, Tab(chromium, worker.port) as tab:
        pill = tab.page.locator('#pill')
        wait_until(lambda: pill.text_content() == 'ready', PATIENCE, 'the worker is ready')
        worker.terminate()
        assert worker.wait_exit(PATIENCE) == 0
        wait_until(lambda: pill.text_content() == 'unreachable', PATIENCE, 'the worker is gone')


def test_every_field_has_a_label_and_the_keyboard_reaches_it(tab):
    assert tab.page.evaluate("[...document.querySelectorAll('input, textarea')].every(e => e.labels.length)")
    tab.page.evaluate("document.getElementById('settings').open = true")
    reached = set()
    for _ in range(20):
        tab.page.keyboard.press('Tab')
        reached.add(tab.page.evaluate('document.activeElement.id || document.activeElement.textContent'))
    fields = {'input', 'system', 'temperature', 'max-tokens', 'tools', 'key'}
    assert fields | {'send', 'clear', 'State', 'Settings', 'log'} <= reached


@pytest.mark.parametrize('width', [320, 390, 1280])
def test_it_fits_phones_and_screens_in_light_and_dark(chromium, worker, width):
    backs = set()
    for scheme in ('light', 'dark'):
        with Tab(chromium, worker.port, viewport={'width': width, 'height': 640}, color_scheme=scheme) as tab:
            tab.go_on()
            tab.set('Tokens of an answer', '40')
            if width < 700:
                tab.page.evaluate("document.getElementById('settings').open = false")
            tab.say('x' * 200)
            wait_until(tab.said, PATIENCE, 'the answer')
            tab.wait_done()
            assert tab.page.evaluate('document.documentElement.scrollWidth') <= width
            for name in ('Send', 'Stop', 'New chat'):
                box = tab.page.get_by_role('button', name=name).bounding_box()
                assert 0 <= box['x'] and box['x'] + box['width'] <= width and box['y'] + box['height'] <= 640
            assert tab.page.locator('#log').bounding_box()['height'] > 150
            backs.add(tab.page.evaluate('getComputedStyle(document.body).backgroundColor'))
            assert tab.errors == []
            folder = os.environ.get('ORCD_SCREENSHOTS')
            if folder:
                tab.page.screenshot(path=f'{folder}/page-{width}-{scheme}.png')
    assert len(backs) == 2


def test_a_real_model_talks(chromium, demo_model):
    with Worker('--model', demo_model, '--context', '1024') as worker:
        worker.wait_event('ready')
        with Tab(chromium, worker.port) as tab:
            tab.set('Temperature', '0')
            tab.set('Tokens of an answer', '24')
            tab.say('What is the capital of France?')
            wait_until(lambda: 'Paris' in tab.said(), PATIENCE, 'the answer')
            tab.wait_done()
            assert tab.errors == []
