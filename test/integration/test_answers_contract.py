"""The answers of fixed runs beside stored ones. Engines of one answers_contract go on with one another's
streams, so that whoever changes an answer has to raise that number (app/identity/model_digest.hpp), and to
store the answers anew: once with ORCD_STORE_ANSWERS=1 on each backend."""
import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from worker_process import BACKEND, PROJECT, Worker

STORED = PROJECT / 'test' / 'data' / 'answers_contract.json'
HEADER = PROJECT / 'app' / 'identity' / 'model_digest.hpp'
LEVELS = ('baseline', 'v3', 'v3-vnni', 'v4', 'v4-vnni')
MODELS = {'dense': ('--layers', '2', '--type', 'Q8_0'),
          'mixture': ('--mixture', '--layers', '2', '--type', 'MXFP4'),
          'k-quants': ('--layers', '2', '--embedding', '256', '--heads', '8', '--ffn', '256', '--type',
                       'Q4_K'),
          'yarn': ('--yarn', '--context', '512', '--type', 'F16')}
# Prompts of one token and of several pages; greedy, drawn, constrained.
REQUESTS = [{'prompt': 'Once upon a time ' * 30, 'max_tokens': 24, 'temperature': 0, 'logprobs': 3},
            {'prompt': 'a', 'max_tokens': 24, 'temperature': 0.9, 'seed': 7, 'top_p': 0.9, 'logprobs': 2,
             'presence_penalty': 0.3},
            {'prompt': 'x', 'max_tokens': 16, 'seed': 3, 'response_format': {
                'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': {
                    'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'],
                    'additionalProperties': False}}}}]


def contract() -> int:
    return int(re.search(r'answers_contract = (\d+);', HEADER.read_text()).group(1))


def run(model: Path, level: str = '') -> str:
    """SHA-256 of what the model answers."""
    told = hashlib.sha256()
    environment = {'WORKER_ORCD_HOST_ISA': level} if level else {}
    with Worker('--model', str(model), '--context', '512', environment=environment) as worker:
        worker.wait_event('ready')
        for request in REQUESTS:
            reply = worker.call('POST', '/v1/completions', request)
            assert reply.status == 200, reply.body
            told.update(json.dumps(reply.json()['choices']).encode())
    return told.hexdigest()


def of_this_backend(models, level: str = '') -> dict:
    out = {}
    for name, shape in MODELS.items():
        path = models(name, *shape)
        out[name] = {'model': hashlib.sha256(path.read_bytes()).hexdigest(), BACKEND: run(path, level)}
    return out


def store(now: dict) -> None:
    """Answers of the other backend stay where they are of this contract and this model."""
    stored = json.loads(STORED.read_text()) if STORED.exists() else {'contract': 0, 'answers': {}}
    old = stored['answers'] if stored['contract'] == contract() else {}
    for name, one in now.items():
        same = old.get(name, {}).get('model') == one['model']
        old[name] = {**(old[name] if same else {}), **one}
    STORED.write_text(json.dumps({'contract': contract(), 'answers': old}, indent=1) + '\n')


def judge(now: dict, stored: dict) -> None:
    assert contract() == stored['contract'], \
        f'answers_contract was raised: store the answers of each backend anew in {STORED.name}'
    for name, one in now.items():
        before = stored['answers'][name]
        assert one['model'] == before['model'], f'the model {name} is written otherwise: store its answers'
        assert one[BACKEND] == before[BACKEND], \
            f'{name} answers otherwise on {BACKEND}: raise answers_contract, and store the answers anew'


def test_answers_change_only_with_the_contract(models):
    now = of_this_backend(models)
    if os.environ.get('ORCD_STORE_ANSWERS'):
        store(now)
    judge(now, json.loads(STORED.read_text()))


@pytest.mark.skipif(BACKEND != 'host', reason='levels of the processor')
def test_every_level_of_the_processor_gives_them(models):
    path = models('dense', *MODELS['dense'])
    usual = run(path)
    for level in LEVELS:
        assert run(path, level) == usual, level


@pytest.mark.parametrize('change', ['answer', 'model', 'contract'])
def test_a_change_is_told(change):
    stored = {'contract': contract(), 'answers': {'a': {'model': '1', BACKEND: '2'}}}
    now = {'a': {'model': '1', BACKEND: '2'}}
    judge(now, stored)
    if change == 'contract':
        stored['contract'] += 1
    else:
        now['a']['model' if change == 'model' else BACKEND] = '?'
    with pytest.raises(AssertionError):
        judge(now, stored)
