"""The C API on the CPU, with the example in C: the whole way of a program that embeds the library, where no
GPU is."""
import os
import subprocess

import pytest

from worker_process import BUILD, CUDA, Worker

EXAMPLE = BUILD / 'worker_cuda_example'
PROMPT = 'the quick brown fox'
pytestmark = pytest.mark.skipif(not (CUDA or (BUILD / 'libworker_cuda.so').exists()),
                                reason='this build has no CUDA backend, so no C API')


def run(*words) -> subprocess.CompletedProcess:
    return subprocess.run([str(EXAMPLE), '--host', *map(str, words)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, env={**os.environ, 'CUDA_VISIBLE_DEVICES': ''})


def test_the_example_writes_what_the_worker_streams(models):
    model = models('capi', '--context', '512')
    with Worker('--model', model, '--backend', 'host', backend=False) as worker:
        worker.wait_event('ready')
        for limit in 1, 32:
            asked = dict(prompt=PROMPT, max_tokens=limit, temperature=0, seed=1)
            streamed = ''.join(e.data['t'] for e in worker.execute(**asked) if e.name == 'token')
            done = run(model, PROMPT, limit)
            assert (done.returncode, done.stdout.decode()) == (0, streamed + '\n'), done.stderr
            assert done.stderr.splitlines()[0] == b'0 GPU(s)'
            assert done.stderr.endswith(b" bytes of the host's memory\n"), done.stderr


def test_what_is_wrong_is_said(tmp_path, tiny_model):
    missing = run(tmp_path / 'none.gguf', PROMPT)
    assert missing.returncode == 1 and b'loading the model: error 4: ' in missing.stderr
    refused = run(tiny_model, PROMPT, 0)
    assert refused.returncode == 1 and b'starting: error 8: max_tokens is 0' in refused.stderr
    for words in (), (tiny_model,):
        wrong = run(*words)
        assert wrong.returncode == 2 and b'[--host] MODEL.gguf PROMPT' in wrong.stderr
