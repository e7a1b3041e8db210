"""What the worker says, and what it leaves behind, when a model or the GPU is not as it should be: one error
with the numbers, the exit code of its kind, and no VRAM in use afterwards, which is measured from outside.
Sources: M0-W-1010, 1012, 1021, 1500, 1501."""
import re
import struct

import pytest

import gguf_edit
import gpu_memory
from cuda_worker import FAMILIES, HAIKU, cuda_worker, fault, needs_gpu, refuse, serious
from pauses import pause
from worker_process import CUDA, PATIENCE, wait_until

pytestmark = [pytest.mark.skipif(not CUDA, reason='this build has no CUDA backend'), needs_gpu]

CUDA_FAULT, DEVICE_LOST = 3, 4


@pytest.fixture(scope='module')
def image(models) -> bytes:
    return models('faults-q8', '--type', 'Q8_0').read_bytes()


# --- what must not start -----------------------------------------------------------------------


def test_a_gpu_that_is_not_there_is_refused_with_the_list(tiny_model):
    error = refuse(tiny_model, '--gpu-device', '1000')
    assert error['code'] == 'WORKER_START_FAILED'
    assert 'no GPU 1000' in error['message'] and 'GPU-' in error['message'], error
    uuid = 'GPU-ffffffff-ffff-ffff-ffff-ffffffffffff'
    assert uuid in refuse(tiny_model, '--gpu-device', uuid)['message']


def test_a_plan_over_the_vram_is_refused_with_the_numbers(models):
    wide = models('cuda-wide', '--layers', '6', '--embedding', '512', '--heads', '8', '--kv-heads', '8',
                  '--ffn', '512', '--context', '1048576', '--type', 'Q8_0')
    check_numbers(refuse(wide, '--slots', '256'))


def check_numbers(error: dict) -> None:
    """Required and available bytes, by class."""
    assert error['code'] == 'INSUFFICIENT_VRAM', error
    found = re.search(r'needs (\d+) bytes of VRAM \(weights (\d+), KV cache (\d+), workspace (\d+), '
                      r'logits (\d+), .*available are (\d+) of (\d+) on GPU .*GPU-', error['message'])
    assert found, error['message']
    required, *classes, available, total = (int(n) for n in found.groups())
    assert required >= sum(classes) and available < required and available <= total, error['message']


def test_a_scale_that_is_nan_is_found_with_verify(image, broken):
    # 64 columns are 2 blocks of 34 bytes a row: row 5, block 1.
    path = broken(gguf_edit.with_tensor_bytes(image, b'blk.1.attn_output.weight', (5 * 2 + 1) * 34,
                                              struct.pack('<H', 0x7e00)))
    error = refuse(path, '--verify')
    assert error['code'] == 'MODEL_LOAD_FAILED'
    for word in ('blk.1.attn_output.weight', 'row 5, block 1', 'd is NaN'):
        assert word in error['message'], error


def test_a_sound_model_passes_with_verify(tiny_model):
    with gpu_memory.back_to_baseline(), cuda_worker(tiny_model, '--verify') as worker:
        worker.wait_event('ready')
        assert worker.events('weights_verified')[0]['tensors'] > 0


def test_a_tensor_type_that_is_not_supported(image, broken):
    error = refuse(broken(gguf_edit.with_tensor_type(image, 31)))
    assert error['code'] == 'MODEL_LOAD_FAILED' and '31' in error['message'], error


def test_a_family_that_is_not_supported(image, broken):
    error = refuse(broken(gguf_edit.with_architecture(image, b'mamba')))
    assert error['code'] == 'MODEL_LOAD_FAILED' and 'mamba' in error['message'], error


def test_a_file_that_was_cut(image, broken):
    error = refuse(broken(image[:len(image) // 2]))
    assert error['code'] == 'MODEL_LOAD_FAILED' and re.search(r'\d', error['message']), error


# --- a GPU that fails --------------------------------------------------------------------------


@pytest.mark.parametrize('allocation', [1, 2, 3])
def test_memory_that_is_gone_between_plan_and_allocation(tiny_model, allocation):
    """The weights, the KV cache or the workspace: what was allocated before goes back."""
    error = refuse(tiny_model, environment=fault(f'oom:{allocation}'))
    assert error['code'] == 'INSUFFICIENT_VRAM', error
    assert re.search(r'cuMemCreate of \d+ bytes: out of memory', error['message']), error


@pytest.mark.parametrize('kind, exit_code, words', [
    ('lost', DEVICE_LOST, ('ECC',)), ('wild', CUDA_FAULT, ('cuda',))])
def test_a_gpu_that_fails_while_it_serves(models, tmp_path, kind, exit_code, words):
    when = tmp_path / 'now'
    model = models('cuda-llama', *FAMILIES['llama'])
    with gpu_memory.back_to_baseline():
        with cuda_worker(model, '--slots', '4', environment=fault(kind, when)) as worker:
            worker.wait_event('ready')
            streams = [worker.open(prompt=HAIKU + ' ' * i, max_tokens=400, ignore_eos=True) for i in range(3)]
            for stream in streams:
                stream.until('token')
            when.touch()
            ends = [stream.finish() for stream in streams]
            assert worker.wait_exit(PATIENCE) == exit_code, worker.lines
        assert all(end.name == 'error' and end.data['code'] == 'CUDA_ERROR' for end in ends), ends
        (told,) = [e for e in serious(worker) if e['level'] == 'critical']
        assert told['code'] == 'CUDA_ERROR', told
        assert all(word in told['message'] for word in words), told
        print(f'{kind}: exit {exit_code}: {told["message"]}')


def test_memory_that_left_vram_makes_the_worker_unhealthy_and_it_says_so(tiny_model, tmp_path):
    when = tmp_path / 'now'
    with gpu_memory.back_to_baseline():
        with cuda_worker(tiny_model, '--residency-check-sec', '1',
                         environment=fault('host', when)) as worker:
            worker.wait_event('ready')
            pause(1.2, 'a check, one each second')
            assert worker.get('/health').json()['resident'] is True
            when.touch()
            told = worker.wait_event('not_resident', timeout=10)
            assert told['level'] == 'critical' and told['failures'] == 3, told
            assert all(word in told['message'] for word in ('weights (', 'KV cache (', 'workspace (')), told
            health = worker.get('/health').json()
            assert health['resident'] is False and health['status'] == 'unhealthy', health
            assert worker.metric('worker_resident') == 0
            pause(1.2, 'a check, one each second')
            assert len(serious(worker)) == 1, 'one event is enough'
            worker.terminate()
            wait_until(lambda: not worker.alive(), PATIENCE, 'the worker ends')
