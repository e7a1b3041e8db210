"""Requests that several tables use."""

MEANING = 'I believe the meaning of life is'
BOOK = [{'role': 'system', 'content': 'Book'}, {'role': 'user', 'content': 'What is the best book'}]
HELLO = [{'role': 'user', 'content': 'Hello'}]
FAILED = {'error.message': str}
POSITIVE = lambda n: isinstance(n, int) and n > 0  # noqa: E731
NOT_OURS = 'a model property of the test, not a request'


def tool(name: str, properties: dict) -> dict:
    return {
        'type': 'function',
        'function': {
            'name': name,
            'description': 'd',
            'parameters': {'type': 'object', 'properties': properties, 'required': list(properties)},
        },
    }


TEST_TOOL = tool('test', {'success': {'type': 'boolean', 'const': True}})
PYTHON_TOOL = tool('python', {'code': {'type': 'string'}})
WEATHER_TOOL = tool('get_current_weather', {'location': {'type': 'string'}})

