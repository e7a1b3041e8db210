"""Contexts beyond what a model was trained for, through requests: linear and YaRN. The factor, where none is
given, is the context over the original one."""
import json

import pytest

from worker_process import Worker

TRAINED, CONTEXT = 256, 1024
PROMPT = ' '.join(str(i * 37 % 101) for i in range(250))


@pytest.fixture(scope='module')
def ask(models):
    """ask(*options): choices with log probabilities, usage and events of a worker for one long prompt."""
    model = models('trained-256', '--context', str(TRAINED))

    def run(*options: str, prompt: str = PROMPT):
        with Worker('--model', model, *options) as worker:
            worker.wait_event('ready')
            body = {'prompt': prompt, 'max_tokens': 16, 'temperature': 0, 'logprobs': 3, 'ignore_eos': True}
            response = worker.call('POST', '/v1/completions', body)
            return response, [e['event'] for e in worker.events()]
    return run


def choices_of(response):
    assert response.status == 200, response.body
    return json.dumps(response.json()['choices'])


def test_beyond_the_trained_context_only_where_it_is_asked_for(ask):
    refused, _ = ask()
    assert refused.status == 400 and refused.error['code'] == 'context_length_exceeded'
    assert str(TRAINED) in refused.error['message']
    plain, events = ask('--context', str(CONTEXT))
    assert plain.status == 200 and 'context_beyond_training' in events


@pytest.mark.parametrize('scaling', ['linear', 'yarn'])
def test_a_prompt_of_several_times_the_trained_context(ask, scaling):
    extended, events = ask('--context', str(CONTEXT), '--rope-scaling', scaling)
    usage = extended.json()['usage']
    assert 2 * TRAINED < usage['prompt_tokens'] < CONTEXT and usage['completion_tokens'] == 16
    assert 'context_beyond_training' not in events
    assert choices_of(extended) != choices_of(ask('--context', str(CONTEXT))[0]), 'it has no effect'
    assert choices_of(extended) == choices_of(ask('--context', str(CONTEXT), '--rope-scaling', scaling)[0])


@pytest.mark.parametrize('scaling', ['linear', 'yarn'])
def test_the_factor_is_the_context_over_the_original_one(ask, scaling):
    asked = ('--context', str(CONTEXT), '--rope-scaling', scaling)
    default = choices_of(ask(*asked)[0])
    assert choices_of(ask(*asked, '--rope-freq-scale', str(TRAINED / CONTEXT))[0]) == default
    assert choices_of(ask(*asked, '--rope-freq-scale', '0.5')[0]) != default
    # Another original context is another factor; YaRN's ranges depend on it too.
    assert choices_of(ask(*asked, '--yarn-orig-ctx', '512')[0]) != default


def test_a_context_that_needs_no_extension_is_left_alone(ask):
    short = PROMPT[:60]
    plain = choices_of(ask(prompt=short)[0])
    for scaling in ('linear', 'yarn'):
        assert choices_of(ask('--rope-scaling', scaling, prompt=short)[0]) == plain


def test_yarn_and_linear_are_two_things(ask):
    both = [choices_of(ask('--context', str(CONTEXT), '--rope-scaling', s)[0]) for s in ('linear', 'yarn')]
    assert both[0] != both[1]
