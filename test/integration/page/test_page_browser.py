"""The page at / in a browser: a chat with the worker, tools, keys, state."""

import pytest

from browser import MARKUP, Tab, answer_with, stream_of
from completion_worker import start
from worker_process import PATIENCE, Worker, wait_until


def test_a_chat_streams_and_goes_on(tab, worker):
    tab.go_on()
    tab.set('System prompt', 'Be brief.')
    tab.set('Temperature', '0')
    tab.set('Tokens of an answer', '400')
    tab.say('Once upon a time')
    first = wait_until(tab.said, PATIENCE, 'the first text appears')
    assert tab.is_running(), 'text appears before the answer is complete'
    wait_until(lambda: len(tab.said()) > len(first), PATIENCE, 'more text appears')
    tab.wait_done()
    whole = tab.said()
    asked = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Once upon a time'}]
    body = {'messages': asked, 'temperature': 0, 'max_tokens': 400, 'ignore_eos': True}
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
        tab.button('Stop').click()
    else:
        tab.page.keyboard.press('Escape')
    wait_until(lambda: worker.running() == 0, PATIENCE, 'the job has ended')
    tab.wait_done()
    assert tab.page.locator('.facts').last.text_content().startswith('stopped')
    kept = tab.said()
    tab.set('Tokens of an answer', '3')
    tab.say('Again')
    wait_until(lambda: tab.page.locator('.turn.assistant .facts').count() == 2, PATIENCE, 'the second answer')
    assert tab.bodies[1]['messages'][1] == {'role': 'assistant', 'content': kept}


def test_an_answer_goes_on_while_another_chat_is_shown(tab, worker):
    tab.go_on()
    tab.set('Tokens of an answer', '500')
    tab.say('Once upon a time')
    begun = wait_until(tab.said, PATIENCE, 'text appears')
    tab.button('New chat').click()
    wait_until(lambda: tab.page.locator('.turn').count() == 0, PATIENCE, 'another one is shown')
    tab.set('Tokens of an answer', '3')
    tab.say('Hello')
    wait_until(lambda: tab.page.locator('.facts').count() == 1, PATIENCE, 'the answer')
    assert tab.bodies[1]['messages'] == [{'role': 'user', 'content': 'Hello'}]
    tab.page.locator('#chats li', has_text='Once upon').locator('.open').click()
    tab.wait(lambda: len(tab.said()) > len(begun) and tab.said().startswith(begun), 'it has gone on')
    tab.wait_done()
    assert tab.page.locator('.facts').text_content().endswith('tokens/s')


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
    tab.page.locator('.reasoning summary').click()
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
        tab.page.keyboard.press('Escape')
        tab.button('Enter a key').wait_for()
        tab.say('Hello')
        wait_until(tab.said, PATIENCE, 'the answer')
        tab.wait_done()
        assert tab.page.evaluate('localStorage.length + sessionStorage.length + document.cookie.length') == 0
        assert 'test-key' not in tab.page.evaluate("""async () => JSON.stringify(await Promise.all(
            Object.keys(storeParts).map(part => store.database.all(part))))""")
        tab.reload()
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
