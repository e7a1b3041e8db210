"""The kinds of streams that bench/failover kills engines under."""
from gpu_http import Stream

# So many numbers that no stream ends before it is measured.
NUMBERS = {'type': 'object', 'properties': {'numbers': {'type': 'array', 'items': {'type': 'integer'},
                                                        'minItems': 1000}},
           'required': ['numbers'], 'additionalProperties': False}
ASKED = {'completion': {}, 'choices': {'n': 2}, 'logprobs': {'logprobs': 3},
         'schema': {'response_format': {'type': 'json_schema',
                                        'json_schema': {'name': 'numbers', 'strict': True,
                                                        'schema': NUMBERS}}}}


class Completion(Stream):
    """A running /v1/completions."""
    PATH, TOKEN, END = '/v1/completions', b'data: {', b'[DONE]'

    def __init__(self, kind, worker, prompt, max_tokens, cache=False):
        request = {'prompt': prompt, 'temperature': 0, 'max_tokens': max_tokens, 'stream': True,
                   'cache_prompt': cache, **ASKED[kind]}
        if kind != 'schema':  # whose grammar says where it ends
            request['ignore_eos'] = True
        self.send(worker, request)


def begin(kind, worker, prompt, max_tokens):
    """A stream of that kind; what is computed is kept, as requests usually have it."""
    if kind == 'execute':
        return Stream(worker, prompt, max_tokens, cache=True)
    return Completion(kind, worker, prompt, max_tokens, cache=True)
