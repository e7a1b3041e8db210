"""The requests of llama-server's own test suite and of vLLM's clients, each with the shape that they want
of the answer. A case with a reason is one that this project answers otherwise on purpose: it must not fit, or
the reason is out of date."""

import json

import pytest

from llama_server_cases import CASES
from shapes import Case, faults
from vllm_cases import VLLM

SHARE_MIN = 0.85
LENGTHS = ('max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n_predict')
OWN_LENGTH = {'/completion': 'n_predict', '/infill': 'n_predict', '/responses': 'max_output_tokens'}


def objects_of(body: bytes) -> list:
    """What the data lines of an event stream hold."""
    lines = [line[5:].strip() for line in body.decode().split('\n') if line.startswith('data:')]
    return [json.loads(line) for line in lines if line != '[DONE]']


def bounded(case: Case):
    """A request that draws tokens has a seed, or now and then an answer would end before its length; and a
    length, or it would go on to the end of the context."""
    draws = case.path.endswith(('/completions', '/completion', '/infill', '/responses'))
    if not (draws and isinstance(case.body, dict)):
        return case.body
    if not any(name in case.body for name in LENGTHS):
        return {'seed': 2, OWN_LENGTH.get(case.path, 'max_tokens'): 16, **case.body}
    return {'seed': 2, **case.body}


def found_wrong(case: Case, worker) -> list:
    answer = worker.call(case.method, case.path, bounded(case), dict(case.headers))
    if answer.status not in case.status:
        return [f'status {answer.status}: {answer.body[:300]!r}']
    if case.stream:
        objects = objects_of(answer.body)
        wrong = [f for one in objects for f in faults(one, case.each)]
        return wrong + faults(objects[0], case.first) + faults(objects[-1], case.expect)
    return faults(json.loads(answer.body), case.expect) if case.expect else []


@pytest.mark.parametrize('case', [*CASES, *VLLM], ids=str)
def test_a_request_of_a_known_suite(workers, case):
    wrong = found_wrong(case, workers[case.worker])
    if case.reason:
        assert wrong, f'this fits now; its reason is out of date: {case.reason}'
    else:
        assert wrong == []


@pytest.mark.parametrize('cases', [CASES, VLLM], ids=['llama-server', 'vllm'])
def test_most_of_a_suite_is_served(cases):
    served = sum(1 for case in cases if not case.reason) / len(cases)
    for case in cases:
        if case.reason:
            print(f'{case}: {case.reason}')
    assert served >= SHARE_MIN, f'{served:.0%}'
