"""The active engine is killed while clients read, and nobody notices: the same connection goes on, with the
bytes that an engine alone would have sent."""
import http.client
import json
import os
import random
import re
import threading
import time
from typing import Callable, Dict, List

import pytest

from engines import Witness
from worker_process import PATIENCE, SANITIZED, STRETCH, wait_until

KILLS = int(os.environ.get('ORCD_STREAM_KILLS', 3 if SANITIZED else 6))
SLOTS = ('--slots', '5', '--max-queue', '64')
TOOL = {'type': 'function', 'function': {'name': 'look', 'parameters': {
    'type': 'object', 'properties': {'at': {'type': 'string'}, 'far': {'type': 'integer'}},
    'required': ['at']}}}
SCHEMA = {'type': 'json_schema', 'json_schema': {'name': 'x', 'strict': True, 'schema': {
    'type': 'object', 'properties': {'a': {'type': 'array', 'items': {'type': 'integer'}, 'maxItems': 9},
                                     'b': {'type': 'string', 'maxLength': 80}},
    'required': ['a', 'b'], 'additionalProperties': False}}}
CHAT = {'model': 'slow', 'messages': [{'role': 'user', 'content': 'tell me a story'}], 'seed': 5,
        'max_tokens': 160, 'temperature': 0.8}
TEMPLATE = ('{% if tools %}{{ tools | tojson }}{% endif %}'
            '{% for m in messages %}{{ m.role }}: {{ m.content }}\n'
            '{% endfor %}{% if add_generation_prompt %}assistant: <tool_call>{% endif %}')
# What tells of time, or was drawn for one request.
FIGURES = re.compile(r'"(\w*_ms|\w*_duration|\w*_per_second|started_at|created|created_at|completed_at|'
                     r'tokens_cached|cached_tokens|id|item_id|call_id|job_id)": ?("[^"]*"|[0-9.e+-]+)')

# Of /v1/messages, where others have a comment.
PING = ('event: ping', 'data: {"type":"ping"}')

REQUESTS: Dict[str, tuple] = {
    'execute': ('/execute', {'prompt': 'Once upon a time', 'max_tokens': 300, 'temperature': 0.8,
                             'seed': 11}),
    'execute with a stop string': ('/execute', {'prompt': 'Once', 'max_tokens': 300, 'seed': 3,
                                                'temperature': 1.0, 'stop': ['e', 'qx']}),
    'chat': ('/v1/chat/completions', {**CHAT, 'stream': True, 'stream_options': {'include_usage': True}}),
    'chat of two choices': ('/v1/chat/completions', {**CHAT, 'n': 2, 'stream': True}),
    'chat with a tool': ('/v1/chat/completions', {**CHAT, 'stream': True, 'tools': [TOOL],
                                                  'tool_choice': 'required'}),
    'chat with a schema': ('/v1/chat/completions', {**CHAT, 'stream': True, 'response_format': SCHEMA}),
    'chat with log probabilities': ('/v1/chat/completions', {**CHAT, 'stream': True, 'logprobs': True,
                                                             'top_logprobs': 3}),
    'whole chat': ('/v1/chat/completions', CHAT),
    'completion': ('/v1/completions', {'model': 'slow', 'prompt': 'One day', 'max_tokens': 200, 'seed': 9,
                                       'temperature': 0.9, 'presence_penalty': 0.4, 'stream': True}),
    'completion with all samplers': ('/completion', {
        'prompt': 'One day', 'n_predict': 200, 'seed': 9, 'temperature': 0.9, 'top_p': 0.9, 'stream': True,
        'typical_p': 0.95, 'xtc_probability': 0.5, 'xtc_threshold': 0.05, 'top_n_sigma': 2, 'n_probs': 1,
        'dynatemp_range': 0.3, 'dry_multiplier': 0.8, 'dry_allowed_length': 1}),
    'messages': ('/v1/messages', {'model': 'slow', 'max_tokens': 150, 'stream': True, 'temperature': 0.0,
                                  'messages': [{'role': 'user', 'content': 'hello'}]}),
    'responses': ('/v1/responses', {'model': 'slow', 'input': 'hello', 'max_output_tokens': 150,
                                    'stream': True, 'temperature': 0.0}),
    'ollama': ('/api/chat', {'model': 'slow', 'messages': CHAT['messages'],
                             'options': {'num_predict': 150, 'temperature': 0.8, 'seed': 4}}),
}


def chat_options(folder) -> tuple:
    """Of engines that answer every kind of request."""
    template = folder / 'template.jinja'
    template.write_text(TEMPLATE)
    return (*SLOTS, '--holder', 'require', '--model-name', 'slow', '--chat-template', str(template))


class Asked:
    """One client: a connection, a request in a thread, and what came of it."""

    def __init__(self, port: int, kind: str, name: str):
        self.kind, self.name, self.port = kind, name, port
        self.status, self.body, self.failure = 0, b'', None
        self.connection = http.client.HTTPConnection('127.0.0.1', port, timeout=PATIENCE * STRETCH)
        self.connection.connect()
        self.local = self.connection.sock.getsockname()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        path, body = REQUESTS[self.kind]
        if path == '/execute':
            body = {**body, 'job_id': self.name}
        try:
            self.connection.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
            answer = self.connection.getresponse()
            self.status, self.body = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as failure:
            self.failure = failure

    def told(self) -> List[str]:
        """What was answered, in its order; choices of one request each in theirs."""
        text = re.sub(r',"resumed":[0-9]+', '', self.body.decode())
        lines = [line.lstrip(' ') for line in FIGURES.sub(r'"\1":0', text).split('\n')]
        # What keeps a stream alive comes by the clock.
        return [line for line in lines if line and not line.startswith(':') and line not in PING]

    def by_choice(self) -> Dict[str, List[str]]:
        out: Dict[str, List[str]] = {}
        for line in self.told():
            index = re.search(r'"index":(\d+),"delta"', line)
            out.setdefault(index.group(1) if index else '', []).append(line)
        return out

    def still_serves(self) -> bool:
        """The same connection takes another request."""
        self.connection.request('GET', '/health')
        served = self.connection.getresponse().read() and self.connection.sock.getsockname() == self.local
        self.connection.close()
        return served


def ask_all(port: int, names: str, between: Callable[[], None]) -> List[Asked]:
    clients = [Asked(port, kind, f'{names}-{n}') for n, kind in enumerate(REQUESTS)]
    for one in clients:
        one.thread.start()
    between()
    for one in clients:
        one.thread.join(PATIENCE * STRETCH)
    return clients


@pytest.mark.parametrize('seed', [1])
def test_every_kind_of_answer_goes_on_through_kills(held, slow_model, tmp_path, seed):
    """Kills at random moments: before a request is read, while it is queued, in its prompt, in its stream."""
    held.model = os.environ.get('ORCD_STREAM_MODEL', slow_model)
    draw = random.Random(seed)
    options = chat_options(tmp_path)
    active, standby = held.pair(*options)
    begun = time.monotonic()
    alone = {one.kind: one for one in ask_all(held.port, 'alone', lambda: None)}
    # The kill must hit answers that are under way, and their witness, which has five times as many tokens.
    longest = min(0.6 * STRETCH, (time.monotonic() - begun) / 2)
    for one in alone.values():
        assert one.status == 200 and one.failure is None, (one.kind, one.status, one.body[:300], one.failure)
        assert one.still_serves()
    for number in range(KILLS):
        moment = draw.uniform(0, longest)

        def kill() -> None:
            time.sleep(moment)
            active.kill()

        witness = Witness(held.port)

        clients = ask_all(held.port, f'k{number}', kill)
        for one in clients:
            assert one.failure is None, (number, moment, one.kind, one.failure, one.body[-300:])
            assert one.by_choice() == alone[one.kind].by_choice(), (number, moment, one.kind)
            assert one.still_serves(), one.kind
        witness.is_gone_on_with()
        active, standby = standby, held.start(active.number, *options, state='STANDBY')
    assert active.metric('orcd_failover_conflicts_total') == 0


def test_a_resumed_stream_says_so(held, slow_model):
    held.model = slow_model
    active, standby = held.pair('--holder', 'require')
    # Not over before the death.
    stream = active.open(prompt='Once', max_tokens=800, seed=4, ignore_eos=True)
    seen = [next(iter(stream)) for _ in range(10)]
    active.kill()
    seen += list(stream)
    assert seen[-1].name == 'end' and seen[-1].data['resumed'] == 1
    assert [e.data['i'] for e in seen if e.name == 'token'] == sorted({e.data['i'] for e in seen
                                                                       if e.name == 'token'})
    assert standby.metric('orcd_failover_streams_resumed_total') == 1


def test_cancel_reaches_a_resumed_job(held, slow_model):
    held.model = slow_model
    active, standby = held.pair('--holder', 'require')
    stream = active.open(job_id='to-be-cancelled', prompt='Once', max_tokens=1500, ignore_eos=True)
    for _ in range(5):
        next(iter(stream))
    active.kill()
    standby.wait_event('ready')
    wait_until(lambda: standby.metric('orcd_failover_streams_resumed_total') == 1, PATIENCE, 'it is resumed')
    assert standby.cancel('to-be-cancelled').status == 202
    assert list(stream)[-1].name == 'error'


def test_a_full_journal_costs_a_connection_its_resumption_and_nothing_else(held, slow_model):
    """Bodies of a megabyte each fill a small journal: who does not fit works, and ends with the engine."""
    held.model = slow_model
    held.holder.terminate()
    held.holder.wait_exit(PATIENCE)
    held.start_holder('--journal-mib', '16')
    active, standby = held.pair('--holder', 'require', '--max-queue', '64')
    # All of them wait behind this one, with their bodies.
    first = active.open(prompt='Once', max_tokens=2000, ignore_eos=True)
    first.until('token')
    clients = []
    for n in range(24):
        connection = http.client.HTTPConnection('127.0.0.1', held.port, timeout=PATIENCE * STRETCH)
        body = json.dumps({'job_id': f'big-{n}', 'prompt': 'a', 'max_tokens': 2}) + ' ' * 900_000
        connection.request('POST', '/execute', body, {'Content-Type': 'application/json'})
        clients.append(connection)
    wait_until(lambda: active.metric('orcd_failover_journal_full_total') > 0, PATIENCE, 'the journal is full')
    first.close()
    answers = [one.getresponse().status for one in clients]
    assert set(answers) == {200}
    for one in clients:
        one.close()
