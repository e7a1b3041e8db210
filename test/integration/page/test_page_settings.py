"""Settings: each field gets into a request, each wrong value is said at its field before anything is sent."""
import json

from browser import answer_with, said

TOOL = '[{"type": "function", "function": {"name": "weather"}}]'
# What is written into which field, and what of it is in the request.
FIELDS = {
    'Temperature': ('0.5', 'temperature', 0.5), 'Top k': ('40', 'top_k', 40), 'Top p': ('0.9', 'top_p', 0.9),
    'Min p': ('.05', 'min_p', 0.05), 'Repetition penalty': ('1.1', 'repetition_penalty', 1.1),
    'Presence penalty': ('-0.5', 'presence_penalty', -0.5),
    'Frequency penalty': ('2', 'frequency_penalty', 2),
    'Tokens that penalties look at': ('-1', 'repeat_last_n', -1), 'Seed': ('7', 'seed', 7),
    'Tokens of an answer': ('1e2', 'max_tokens', 100),
    'Stop texts': ('END\n\nSTOP\n', 'stop', ['END', 'STOP']),
    'Tools': (TOOL, 'tools', json.loads(TOOL)), 'Tokens of reasoning': ('50', 'thinking_budget', 50),
    'Further fields': ('{"min_tokens": 2}', 'min_tokens', 2)}
WRONG = {
    'Temperature': {'2.1': 'at most 2', '-1': 'at least 0', 'warm': 'no number: warm', '0x1': 'no number'},
    'Top k': {'1.5': 'a whole number'}, 'Top p': {'0': 'more than 0', '1.01': 'at most 1'},
    'Repetition penalty': {'0': 'more than 0'}, 'Seed': {'1e99': 'at most'},
    'Tokens of an answer': {'0': 'at least 1'},
    'Stop texts': {'\n'.join('abcdefghijklmnopq'): 'at most 16', 'ü' * 129: 'at most 256 bytes'},
    'Tools': {'{}': 'no list', '[': 'no JSON', '[{"type": "magic"}]': 'number 1 is no'},
    'Further fields': {'[]': 'no JSON object'}}


def choose(tab, label: str, option: str) -> None:
    tab.page.get_by_label(label, exact=True).select_option(label=option)


def test_every_field_gets_into_the_request(tab):
    answer_with(tab, said('A.'), said('B.'), said('C.'), said('D.'))
    tab.open_panel()
    for label, (text, _, _) in FIELDS.items():
        tab.page.get_by_label(label).fill(text)
    choose(tab, 'Reasoning', 'off')
    choose(tab, 'Effort', 'low')
    schema = {'type': 'json_schema', 'json_schema': {'name': 'answer', 'schema': {'type': 'object'}}}
    forms = {'JSON by a schema': ('{"type": "object"}', 'response_format', schema),
             'by a grammar (GBNF)': ('root ::= "a"', 'guided_grammar', 'root ::= "a"'),
             'by a regular expression': ('a+', 'guided_regex', 'a+'),
             'any JSON object': (None, 'response_format', {'type': 'json_object'})}
    for i, (form, (text, name, value)) in enumerate(forms.items()):
        tab.open_panel()
        choose(tab, 'Form of the answer', form)
        if text is not None:
            tab.page.get_by_label('Schema, grammar').fill(text)
        tab.page.evaluate('closeCover()')
        tab.say('Go')
        tab.wait(lambda: tab.page.locator('.turn.assistant .toolbar').count() == i + 1, 'the answer')
        tab.wait_done()
        sent = tab.bodies[-1]
        assert sent[name] == value and ('guided_grammar' in sent) == (name == 'guided_grammar')
    assert {name: sent[name] for _, name, _ in FIELDS.values()} == {name: v for _, name, v in FIELDS.values()}
    assert sent['enable_thinking'] is False and sent['reasoning_effort'] == 'low'
    assert sent['logprobs'] is True and sent['top_logprobs'] == 5
    tab.open_panel()
    tab.button("Back to the worker's defaults").click()
    tab.page.evaluate('closeCover()')
    answer_with(tab, said('E.'))
    tab.say('Go')
    tab.wait(lambda: tab.said() == 'E.', 'the answer')
    always = {'messages', 'stream', 'stream_options', 'timings_per_token', 'return_progress'}
    left = set(tab.bodies[-1]) - always
    assert left == {'logprobs', 'top_logprobs', 'seed'}
    tab.notice('own again').get_by_role('button', name='Undo').click()
    assert tab.page.get_by_label('Temperature').input_value() == '0.5'


def test_a_wrong_value_is_said_at_its_field_and_nothing_is_sent(tab):
    for label, values in WRONG.items():
        tab.open_panel()
        field = tab.page.get_by_label(label)
        for text, why in values.items():
            field.fill(text)
            wrong = tab.page.locator('#' + field.get_attribute('aria-describedby'))
            assert why in wrong.text_content() and field.get_attribute('aria-invalid') == 'true'
        tab.page.evaluate('closeCover()')
        tab.say('Hello')
        tab.wait(lambda: why in tab.problem(), 'it is said')
        assert tab.bodies == [] and tab.field().input_value() == 'Hello'
        tab.wait(lambda: field.evaluate('e => e === document.activeElement'), 'it leads to the field')
        field.fill('')
        assert wrong.text_content() == '' and field.get_attribute('aria-invalid') is None
        tab.page.evaluate('closeCover()')


def test_a_schema_that_is_missing_is_said(tab):
    tab.open_panel()
    choose(tab, 'Form of the answer', 'JSON by a schema')
    tab.page.evaluate('closeCover()')
    tab.say('Hello')
    tab.wait(lambda: 'is missing' in tab.problem(), 'it is said')
    assert tab.bodies == []


def test_what_the_worker_refuses_is_said_at_its_field(chromium, worker, tab):
    tab.open_panel()
    choose(tab, 'Form of the answer', 'by a grammar (GBNF)')
    tab.page.get_by_label('Schema, grammar').fill('root ::= (')
    tab.page.evaluate('closeCover()')
    tab.say('Hello')
    tab.wait(lambda: 'does not take this request' in tab.problem(), 'the refusal is shown')
    assert 'INVALID_REQUEST' in tab.problem() and 'status 400' in tab.problem()
    tab.errors.clear()  # the browser itself notes a status of 400
    tab.wait_turns('Hello')
    choose_free = tab.page.get_by_label('Form of the answer', exact=True)
    tab.open_panel()
    choose_free.select_option(label='free text')
    tab.page.evaluate('closeCover()')
    answer_with(tab, said('Good day.'))
    tab.page.locator('.turn.user').hover()
    tab.page.get_by_role('button', name='Ask again').click()
    tab.wait_turns('Hello', 'Good day.')


def test_the_workers_defaults_are_shown(chromium, tab, worker):
    params = worker.get('/props').json()['default_generation_settings']['params']
    field = tab.page.get_by_label('Temperature')
    tab.open_panel()
    wanted = f'default {params["temperature"]:g}'
    tab.wait(lambda: field.get_attribute('placeholder') == wanted, 'the default')
    assert tab.page.get_by_label('Top k').get_attribute('placeholder') == f'default {params["top_k"]}'


def test_system_prompts_are_kept_by_name(tab):
    tab.open_panel()
    for name, text in (('Brief', 'Be brief.'), ('Rude', 'Be rude.')):
        tab.page.get_by_label('System prompt').fill(text)
        tab.page.get_by_label('Name to keep').fill(name)
        tab.page.get_by_role('button', name='Keep', exact=True).click()
    kept = "store.one('settings', 'presets').then(p => p && p.values.length)"
    tab.wait(lambda: tab.page.evaluate(kept) == 2, 'they are kept')
    tab.reload()
    tab.open_panel()
    choose(tab, 'Kept prompts', 'Brief')
    assert tab.page.get_by_label('System prompt').input_value() == 'Be brief.'
    tab.button('Delete this prompt').click()
    options = tab.page.locator('#presets option')
    assert options.all_text_contents() == ['choose a kept prompt', 'Rude']
    tab.notice('was deleted').get_by_role('button', name='Undo').click()
    assert options.count() == 3
