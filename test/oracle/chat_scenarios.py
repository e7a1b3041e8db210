"""Conversations that the chat templates are rendered with: what apply_chat_template would pass."""

WEATHER = {
    'type': 'function',
    'function': {
        'name': 'get_weather',
        'description': 'Current weather of a place.\nSeveral lines, "quotes" & <tags>.',
        'parameters': {
            'type': 'object',
            'properties': {
                'city': {'type': 'string', 'description': 'The city, e.g. Zürich'},
                'unit': {'type': 'string', 'enum': ['celsius', 'fahrenheit'], 'default': 'celsius'},
                'days': {'type': 'integer', 'minimum': 1, 'maximum': 18446744073709551615, 'default': 3},
            },
            'required': ['city'],
        },
    },
}
SEARCH = {
    'type': 'function',
    'function': {
        'name': 'search',
        'description': 'Full-text search',
        'parameters': {
            'type': 'object',
            'properties': {
                'query': {'type': 'string'},
                'limits': {
                    'type': 'object',
                    'description': 'How far to look',
                    'properties': {
                        'score': {'type': 'number', 'default': 0.25, 'nullable': True},
                        'tags': {'type': 'array', 'items': {'type': 'string'}, 'description': 'any of'},
                        'matrix': {'type': 'array', 'items': {'type': 'array', 'items': {'type': 'number'}}},
                    },
                    'required': ['score'],
                },
                'mode': {'type': ['string', 'null'], 'description': 'fast or deep'},
                'when': {'oneOf': [{'type': 'string', 'description': 'a date'}, {'type': 'integer'}]},
                'safe': {'type': 'boolean', 'default': True},
            },
            'required': ['query', 'limits'],
        },
        'return': {'type': 'string'},
    },
}
NOW = {'type': 'function', 'function': {
    'name': 'now', 'description': 'The time', 'parameters': {'type': 'object', 'properties': {}}}}
TOOLS = [WEATHER, SEARCH, NOW]


def user(text):
    return {'role': 'user', 'content': text}


def assistant(text, **more):
    return {'role': 'assistant', 'content': text, **more}


def call(name, arguments, ident):
    return {'id': ident, 'type': 'function', 'function': {'name': name, 'arguments': arguments}}


def tool(text, name, ident):
    return {'role': 'tool', 'content': text, 'name': name, 'tool_call_id': ident}


SYSTEM = {'role': 'system', 'content': 'You are terse.\n'}
ODD_TEXT = '  \tleading, trailing  \n\n<|im_end|> {{ 7 * 7 }} {% raw %} ' \
    '"q" \'s\' \\ & <b> naïve 狐狸 🦊 ﬁ\u2028x\x7f \u00a0 '
ONE_CALL = [
    user('Weather in Zürich?'),
    assistant('', tool_calls=[
        call('get_weather', {'city': 'Zürich', 'days': 2, 'exact': None}, 'abcdef123')]),
    tool('{"celsius": 21.5}', 'get_weather', 'abcdef123')]
LONG = [SYSTEM] + [m for n in range(9) for m in (
    user(f'Question {n}: why is the number {n} interesting? ' * 3),
    assistant(f'Because {n} times {n} is {n * n}, and that is a square.\n' * 4))] + [user('Go on.')]

SCENARIOS = {
    'single': {'messages': [user('Hello!')]},
    'system': {'messages': [SYSTEM, user('Hi'), assistant('Hello.'), user(' Who are you? ')]},
    'history': {'messages': [user('Hi'), assistant('Hello.\n')], 'add_generation_prompt': False},
    'odd_text': {'messages': [user(ODD_TEXT), assistant(ODD_TEXT), user('ok')]},
    'tools': {'messages': [SYSTEM, user('Weather?')], 'tools': TOOLS},
    'tool_call': {'messages': ONE_CALL, 'tools': TOOLS},
    'tool_answer': {
        'messages': [SYSTEM] + ONE_CALL + [assistant('21.5 degrees.'), user('Thanks!')], 'tools': TOOLS},
    'tool_string': {'messages': [
        user('Weather?'),
        assistant('', tool_calls=[call('get_weather', '{"city": "Bern"}', 'abcdef123')]),
        tool('rain', 'get_weather', 'abcdef123')], 'tools': [WEATHER]},
    'tool_parallel': {'messages': [
        user('Weather in both?'),
        assistant('Let me look.', tool_calls=[
            call('get_weather', {'city': 'Bern'}, 'aaaaaaaa1'),
            call('search', {'query': 'x & y', 'limits': {'score': 1e-07, 'tags': ['a', 'b']}}, 'aaaaaaaa2')]),
        tool('rain', 'get_weather', 'aaaaaaaa1'),
        tool('["found", 2]', 'search', 'aaaaaaaa2'),
        assistant('Rain.'), user('And now?')], 'tools': TOOLS},
    'null_content': {'messages': [
        user('Weather?'),
        {'role': 'assistant', 'content': None, 'tool_calls': [call('now', {}, 'abcdef123')]},
        tool('noon', 'now', 'abcdef123')], 'tools': [NOW]},
    'absent_content': {'messages': [
        user('Weather?'), {'role': 'assistant', 'tool_calls': [call('now', {}, 'abcdef123')]},
        tool('', 'now', 'abcdef123'), {'role': 'assistant', 'content': 'Noon.'}], 'tools': [NOW],
        'add_generation_prompt': False},
    'open_call': {'messages': [SYSTEM] + ONE_CALL[:2], 'tools': TOOLS, 'add_generation_prompt': False},
    'two_rounds': {'messages': ONE_CALL + [
        {**ONE_CALL[1], 'content': 'Once more.', 'reasoning_content': 'Is it so?', 'thinking': 'Is it so?'},
        ONE_CALL[2], assistant('21.5.', reasoning_content='It is.', thinking='It is.'),
        user('And tomorrow?')],
        'tools': [WEATHER]},
    'late_system': {'messages': [user('Hi'), assistant('Hello.'), SYSTEM, user('Who are you?')]},
    'two_assistants': {'messages': [user('a'), assistant('b'), assistant('c')]},
    'unknown_role': {'messages': [user('a'), {'role': 'critic', 'content': 'b'}]},
    'only_system': {'messages': [SYSTEM]},
    'thoughts': {'messages': [
        user('2+2?'), assistant('<think>\nTwo and two.\n</think>\n\n4'),
        user('3+3?'), assistant('6', reasoning_content='Three and three.', thinking='Three and three.'),
        user('4+4?')]},
    'no_thinking': {'messages': [user('2+2?')], 'enable_thinking': False, 'thinking': False,
                    'reasoning_effort': 'high'},
    'thinking_tools': {'messages': ONE_CALL[:1] + [
        {**ONE_CALL[1], 'thinking': 'I need the weather.', 'reasoning_content': 'I need the weather.'},
        ONE_CALL[2]], 'tools': TOOLS, 'enable_thinking': True, 'thinking': True, 'reasoning_effort': 'low',
        'builtin_tools': ['browser', 'python'], 'model_identity': 'You are a test.'},
    'parts': {'messages': [{'role': 'user', 'content': [
        {'type': 'text', 'text': 'First.'}, {'type': 'text', 'text': ' Second.'}]}]},
    'two_users': {'messages': [user('a'), user('b'), assistant('c')], 'add_generation_prompt': False},
    'developer': {'messages': [{'role': 'developer', 'content': 'Be kind.'}, user('Hi')]},
    'no_messages': {'messages': []},
    'long': {'messages': LONG},
}
DEFAULTS = {'tools': None, 'documents': None, 'add_generation_prompt': True, 'bos_token': '<s>',
            'eos_token': '</s>', 'pad_token': '<pad>', 'unk_token': '<unk>'}


def variables(name):
    return {**DEFAULTS, **SCENARIOS[name]}
