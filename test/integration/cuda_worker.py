"""What the tests of the CUDA backend share."""
import os
from typing import List

import pytest

import gpu_memory
from worker_process import BUILD, Worker, run_to_exit

ON_GPU = os.environ.get('ORCD_GPU', '') == '1'
needs_gpu = pytest.mark.skipif(not ON_GPU, reason='ORCD_GPU=1 says that there is a GPU')

FAILURE = 1
HAIKU = 'Write a haiku about GPU computing'
FAMILIES = {
    'llama': ('--context', '512'),
    'llama-tied-q8': ('--context', '512', '--tied', '--type', 'Q8_0'),
    'qwen2': ('--family', 'qwen2', '--context', '512', '--tied'),
    'phi3': ('--family', 'phi3', '--context', '512', '--fused-qkv', '--sentencepiece'),
    'gpt-oss': ('--family', 'gpt-oss', '--context', '512', '--experts', '4', '--experts-used', '2',
                '--window', '64', '--biases'),
}


def cuda_worker(model, *options: str, **more) -> Worker:
    return Worker('--model', model, '--backend', 'cuda', *options, backend=False, **more)


def serious(worker: Worker) -> List[dict]:
    return [e for e in worker.events() if e['level'] in ('error', 'critical')]


def refuse(model, *options: str, timeout: float = 60.0, exit_code: int = FAILURE, **more) -> dict:
    """Starts what must not start: exactly one error, and no VRAM in use that was not before."""
    before = gpu_memory.used() if ON_GPU else 0
    code, worker = run_to_exit('--model', model, '--backend', 'cuda', *options, timeout=timeout,
                               backend=False, **more)
    errors = serious(worker)
    assert code == exit_code and len(errors) == 1 and not worker.events('ready'), worker.lines
    if ON_GPU:
        gpu_memory.wait_for(before)
    return errors[0]


def tokens_of(events) -> list:
    """What a stream says, without times and job ids."""
    return [(e.name, e.data.get('t'), e.data.get('i')) for e in events if e.name in ('token', 'error')]


def fault(kind: str, when=None) -> dict:
    """The environment of a worker whose GPU fails: test/gpu/injected_fault.cu."""
    return {'LD_PRELOAD': str(BUILD / 'gpu_fault.so'), 'GPU_FAULT': kind,
            **({} if when is None else {'GPU_FAULT_WHEN': str(when)})}
