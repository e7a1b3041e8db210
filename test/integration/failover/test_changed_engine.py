"""An engine takes over that would answer otherwise: what it cannot go on with ends with one ENGINE_CHANGED in
the form of its protocol, nothing is mixed, and a hand-over to it is refused by name."""
import json
import os
from typing import Dict, List, NamedTuple

import pytest

from engines import Witness
from holders import Held
from test_hand_over import reason, sleep
from test_streams import REQUESTS, SLOTS, TEMPLATE, Asked
from worker_process import BACKEND, PATIENCE, STRETCH, wait_until

pytestmark = pytest.mark.skipif(BACKEND != 'host', reason='the stream is over too soon on a GPU')
KINDS = ('execute', 'chat', 'whole chat', 'completion', 'messages', 'responses', 'ollama')


class Change(NamedTuple):
    named: str  # in the refusal of a hand-over; '' where engines differ in nothing that counts
    options: tuple = ()
    model: bool = False  # a model of the same header and size


CHANGES: Dict[str, Change] = {
    'weights': Change('the weights', model=True),
    'context': Change('--context', ('--context', '4096')),
    'max-tokens-out': Change('--max-tokens-out', ('--max-tokens-out', '50')),
    'max-body-bytes': Change('--max-body-bytes', ('--max-body-bytes', '1024')),
    'max-prompt-chars': Change('--max-prompt-chars', ('--max-prompt-chars', '3')),
    'strict-fields': Change('--strict-fields', ('--strict-fields',)),
    'model-name': Change('--model-name', ('--model-name', 'other')),
    'parse-special-in-chat': Change('--parse-special-in-chat', ('--parse-special-in-chat',)),
    'no-null-usage': Change('--no-null-usage', ('--no-null-usage',)),
    'kv-type': Change('KV types', ('--kv-type-k', 'bf16')),
    'no-prefix-cache': Change('', ('--no-prefix-cache',)),
    'speculate': Change('', ('--speculate', 'off')),
}
# All of them in the night; here one that the bytes depend on, one that refuses what was let in, one that
# makes no difference.
SOME = ('weights', 'max-body-bytes', 'speculate')
if os.environ.get('ORCD_CHANGES') == 'all':
    SOME = tuple(CHANGES)
UPDATES = int(os.environ.get('ORCD_UPDATES', 2))


def is_end(data: dict) -> bool:
    """/v1/messages and /api/chat have the message alone."""
    return 'ENGINE_CHANGED' in json.dumps(data) or 'the engine is gone, and' in json.dumps(data)


def check(one: Asked, alone: Asked, goes_on: bool) -> bool:
    """Whether it was changed; else it is whole, byte for byte."""
    assert one.failure is None, (one.kind, one.failure)
    text = one.body.decode()
    changed = is_end({'body': text})
    if not changed:
        assert one.by_choice() == alone.by_choice(), one.kind
        return False
    assert not goes_on, (one.kind, text[-300:])
    if one.status != 200:
        assert one.kind == 'ollama' or json.loads(text)['error']['code'] == 'ENGINE_CHANGED', text
        return True
    between = '\n' if one.kind == 'ollama' else '\n\n'
    frames = [frame for frame in text.split(between) if frame and not frame.startswith(':')]
    assert [is_end({'frame': frame}) for frame in frames].count(True) == 1 and is_end({'': frames[-1]}), \
        (one.kind, frames[-3:])
    if one.kind == 'messages':
        assert frames[-1].startswith('event: error\ndata: {"type":"error"'), frames[-1]
    if one.kind == 'ollama':
        assert list(json.loads(frames[-1])) == ['error'], frames[-1]
    if one.kind == 'responses':
        assert frames[-1].startswith(('event: response.failed', 'event: error')), frames[-1]
    return True


def begin(port: int, names: str = 'changed') -> List[Asked]:
    clients = [Asked(port, kind, f'{names}-{n}') for n, kind in enumerate(KINDS)]
    for one in clients:
        one.thread.start()
    return clients


def finish(clients: List[Asked]) -> None:
    for one in clients:
        one.thread.join(PATIENCE * STRETCH)
        assert not one.thread.is_alive(), one.kind


@pytest.mark.parametrize('name', SOME)
def test_another_engine_mixes_nothing(held: Held, slow_model, slow_twin, tmp_path, name):
    change = CHANGES[name]
    template = tmp_path / 'template.jinja'
    template.write_text(TEMPLATE)
    usual = (*SLOTS, '--holder', 'require', '--chat-template', str(template))
    held.model = slow_model
    active = held.start(0, *usual, '--model-name', 'slow', state='ACTIVE')
    active.wait_event('ready')
    active.wait_event('model_digest')
    alone = begin(held.port)
    finish(alone)
    if change.model:
        held.model = slow_twin
    names = () if '--model-name' in change.options else ('--model-name', 'slow')
    other = held.start(1, *usual, *names, *change.options, state='STANDBY')
    other.wait_event('model_digest')
    if change.named:
        wait_until(lambda: change.named in reason(sleep(active)), PATIENCE, 'the refusal names it')
    witness = Witness(held.port)
    clients = begin(held.port)
    wait_until(lambda: active.metric('worker_requests_running') >= 5, PATIENCE * STRETCH, 'they run')
    active.kill()
    finish(clients)
    changed = [check(one, before, not change.named) for one, before in zip(clients, alone)]
    assert any(changed) == bool(change.named), 'the kill hit no answer'
    if not change.named:
        witness.is_gone_on_with()
    else:
        witness.stream.rest()
        assert witness.stream.seen[-1].data['code'] == 'ENGINE_CHANGED'
        witness.stream.close()


@pytest.mark.parametrize('name', ['weights', 'kv-type'])
def test_updates_one_after_the_other_mix_nothing(held: Held, slow_model, slow_twin, tmp_path, name):
    """As an operator rolls a model or an option out under load, and back, and out again: the engine that
    stands by is another one, then the one that serves is ended. Every second time it is killed: then what it
    had begun ends by name."""
    template = tmp_path / 'template.jinja'
    template.write_text(TEMPLATE)
    usual = (*SLOTS, '--holder', 'require', '--chat-template', str(template), '--model-name', 'slow')

    def start(number: int, updated: bool, state: str):
        held.model = slow_twin if updated and CHANGES[name].model else slow_model
        engine = held.start(number, *usual, *(CHANGES[name].options if updated else ()), state=state)
        engine.wait_event('model_digest')
        return engine

    def answers() -> List[Asked]:
        alone = begin(held.port)
        finish(alone)
        assert [one.status for one in alone] == [200] * len(KINDS), [one.body[-200:] for one in alone]
        return alone

    active = start(0, False, 'ACTIVE')
    expected = {False: answers()}
    outcomes = {'old': 0, 'new': 0, 'ended': 0, 'refused': 0}
    for update in range(UPDATES):
        updated, number = update % 2 == 0, 1 - active.number
        standby = start(number, updated, 'STANDBY')
        clients = begin(held.port)
        wait_until(lambda: active.metric('worker_requests_running') >= 5, PATIENCE * STRETCH, 'they run')
        if update % 2 == 0:
            active.terminate()
            late = begin(held.port, 'late')
        else:
            active.kill()
            late = []
        finish(clients + late)
        assert active.wait_exit(30) in (0, -9)
        standby.wait_state('ACTIVE')
        after = answers()
        for one, before in zip(after, expected.setdefault(updated, after)):
            assert one.by_choice() == before.by_choice(), (update, one.kind)
        for n, one in enumerate(clients + late):
            old, new = (expected[which][n % len(KINDS)] for which in (not updated, updated))
            if one.failure is None and one.status == 503:  # it drains: nothing has begun, and one asks again
                outcomes['refused'] += 1
            elif one.failure is None and one.by_choice() == new.by_choice():
                outcomes['new'] += 1
            elif check(one, old, goes_on=False):
                outcomes['ended'] += 1
            else:
                outcomes['old'] += 1
        active = standby
    print(f'{UPDATES} updates of {name}: {outcomes}')
    assert outcomes['old'] > 0 and (UPDATES < 2 or outcomes['ended'] > 0), 'the updates hit no answer'


def test_the_same_file_elsewhere_is_the_same_model_once_its_digest_is_known(held: Held, slow_model, tmp_path):
    copy = tmp_path / 'slow.gguf'
    copy.write_bytes(slow_model.read_bytes())
    held.model = slow_model
    active = held.start(0, state='ACTIVE')
    active.wait_event('ready')
    active.wait_event('model_digest')
    held.model = copy
    other = held.start(1, state='STANDBY')
    other.wait_event('model_digest')
    wait_until(lambda: sleep(active).status == 200, PATIENCE * STRETCH, 'it hands over')
    other.wait_state('ACTIVE')


def test_a_request_that_was_let_in_stays_in_and_a_key_that_is_gone_lets_no_other_in(held: Held, slow_model,
                                                                                  tmp_path):
    held.model = slow_model
    old, new = tmp_path / 'old', tmp_path / 'new'
    old.write_text('first-key-of-two alice\n')
    new.write_text('other-key-of-two alice\n')
    active = held.start(0, '--api-key-file', str(old), state='ACTIVE')
    active.wait_event('ready')
    key = {'Authorization': 'Bearer first-key-of-two'}
    asked = {'prompt': 'Once', 'max_tokens': 800, 'seed': 6, 'ignore_eos': True}
    stream = active.open(key, **asked)
    stream.until('token', 5)
    other = held.start(1, '--api-key-file', str(new), state='STANDBY')
    active.kill()
    end = stream.finish()
    assert end.name == 'end' and end.data['resumed'] == 1
    assert other.call('POST', '/execute', {**asked, 'job_id': 'again'}, key).status == 401
    stream.close()
