"""BitNet models end to end: the same bytes on repeat and with any number of threads; and what is refused."""
import struct

import pytest

from http_client import text_of
from worker_process import Worker, run_to_exit

PROMPT = 'how long is a piece of string, and who has measured it'
SHAPE = ('--embedding', '256', '--ffn', '256', '--layers', '2', '--context', '512', '--embedding-type', 'F16')


@pytest.fixture(scope='module')
def model(models):
    return models('bitnet', '--family', 'bitnet-b1.58', '--type', 'I2_S', *SHAPE)


def answer(worker) -> str:
    return text_of(worker.execute(prompt=PROMPT, max_tokens=24, temperature=0.7, seed=3, ignore_eos=True))


@pytest.mark.parametrize('kind', ['I2_S', 'TQ1_0', 'TQ2_0'])
def test_every_type_answers_the_same_twice(models, kind):
    path = models(f'bitnet-{kind}', '--family', 'bitnet', '--weight-scales', '--type', kind, *SHAPE)
    seen = []
    for threads in '1', '2':
        with Worker('--model', path, '--slots', '2', '--ffn-activation', 'relu2', '--threads',
                    threads) as worker:
            worker.wait_event('ready')
            seen += [answer(worker), answer(worker)]
    assert seen[0] and len(set(seen)) == 1, seen


def test_the_activation_matters(model):
    seen = set()
    for option in ('silu', 'relu2'):
        with Worker('--model', model, '--ffn-activation', option) as worker:
            worker.wait_event('ready')
            seen.add(answer(worker))
    assert len(seen) == 2


def test_a_code_that_is_none_stops_the_start(model, tmp_path):
    image = bytearray(model.read_bytes())
    at = len(image) - 200  # within the codes of the last matrix, which its scale and padding follow
    image[at] |= 0x03
    bad = tmp_path / 'bad.gguf'
    bad.write_bytes(image)
    code, worker = run_to_exit('--model', bad)
    error = worker.events('error')[0]
    assert code == 1 and error['code'] == 'MODEL_LOAD_FAILED'
    assert f'at offset {at} of its file, has the code 3' in error['message'], error
    assert 'blk.1.ffn_down.weight' in error['message']


def test_a_scale_that_is_not_finite_stops_the_start(model, tmp_path):
    image = bytearray(model.read_bytes())
    image[len(image) - 32:len(image) - 28] = struct.pack('<f', float('nan'))
    bad = tmp_path / 'nan.gguf'
    bad.write_bytes(image)
    code, worker = run_to_exit('--model', bad)
    error = worker.events('error')[0]
    assert code == 1, error
    assert "'blk.1.ffn_down.weight' (I2_S) has a scale that is not finite" in error['message'], error
