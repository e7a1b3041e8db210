"""How K and V are kept, end to end: what /health says, and the same bytes on repeat."""
import pytest

from http_client import text_of
from worker_process import BACKEND, Worker, run_to_exit

PROMPT = 'how long is a piece of string, and who has measured it'
# Heads of 64: 128 bytes of f16, two blocks of 34 in q8_0.
SHAPE = ('--embedding', '256', '--heads', '4', '--kv-heads', '2', '--context', '512')
POSITION_BYTES = {'f16': 128, 'bf16': 128, 'q8_0': 68, 'f32': 256}
LAYERS, KV_HEADS, CONTEXT, SLOTS = 2, 2, 512, 2
exact_cache = pytest.mark.skipif(BACKEND != 'host', reason='of the host alone: a cache in f32')


@pytest.fixture(scope='module')
def model(models):
    return models('kv-types', '--layers', str(LAYERS), *SHAPE)


def answers(worker, temperature: float) -> str:
    return text_of(worker.execute(prompt=PROMPT, max_tokens=40, temperature=temperature, ignore_eos=True))


@pytest.mark.parametrize('options', [(), ('--kv-type-k', 'q8_0'), ('--kv-type-v', 'q8_0'),
                                     ('--kv-type-k', 'q8_0', '--kv-type-v', 'q8_0'),
                                     ('--kv-type-k', 'bf16', '--kv-type-v', 'bf16'),
                                     pytest.param(('--kv-type-k', 'f32', '--kv-type-v', 'f32'),
                                                  marks=exact_cache)], ids=' '.join)
def test_memory_and_bytes_follow_the_types(model, options):
    asked = dict(zip(options[::2], options[1::2]))
    k, v = asked.get('--kv-type-k', 'f16'), asked.get('--kv-type-v', 'f16')
    expected = SLOTS * CONTEXT * LAYERS * KV_HEADS * (POSITION_BYTES[k] + POSITION_BYTES[v])
    seen = []
    for _ in range(2):  # a second process gives the same bytes
        with Worker('--model', model, '--slots', str(SLOTS), *options) as worker:
            loaded = worker.wait_event('model_load_complete')
            assert (loaded['kv_type_k'], loaded['kv_type_v']) == (k, v)
            worker.wait_event('ready')
            health = worker.get('/health').json()
            assert (health['kv_type_k'], health['kv_type_v']) == (k, v)
            assert health['kv_bytes'] == loaded['kv_bytes'] == expected
            for _ in range(2):
                seen.append((answers(worker, 0.0), answers(worker, 0.8)))
    assert all(s == seen[0] for s in seen), seen
    assert len(seen[0][0]) > 0


def test_types_by_environment(model):
    with Worker('--model', model, environment={'WORKER_ORCD_KV_TYPE_K': 'q8_0'}) as worker:
        worker.wait_event('ready')
        assert worker.get('/health').json()['kv_type_k'] == 'q8_0'


def test_a_smaller_type_fits_under_a_limit(models):
    """12 heads of 64 and 4,096 positions: 24 MiB in f16, 12.75 MiB in q8_0."""
    wide = models('kv-wide', '--layers', '2', '--embedding', '768', '--heads', '12', '--kv-heads', '12',
                  '--context', '4096')
    limit = ('--kv-cache-size-mb', '16')
    exit_code, refused = run_to_exit('--model', wide, *limit)
    error = refused.events('error')[0]
    assert exit_code == 2 and error['code'] == 'INSUFFICIENT_VRAM', error
    needed, limited = 24 << 20, 16 << 20
    if BACKEND == 'host':
        assert error['required_bytes'] == needed and error['available_bytes'] == limited
    else:  # the message alone has the numbers
        assert f' {needed} bytes ' in error['message'] and f' {limited}' in error['message']
    with Worker('--model', wide, *limit, '--kv-type-k', 'q8_0', '--kv-type-v', 'q8_0') as worker:
        worker.wait_event('ready')
        assert worker.get('/health').json()['kv_bytes'] == 51 << 18
