"""The shared library of the C API: what it exports and needs, what it says without a GPU (in a process of
its own, so that a crash is a failure and not the end of the tests), and with ORCD_GPU=1 what it computes.
Sources: M0-W-1052, M0-W-1501, section 17.3 of the M0 specification."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import capi_client
import capi_gpu
from cuda_worker import needs_gpu
from worker_process import BUILD, CUDA, PROJECT, Worker

LIBRARY = BUILD / 'libworker_cuda.so'
EXAMPLE = BUILD / 'worker_cuda_example'
HEADER = PROJECT / 'gpu' / 'include' / 'worker_cuda.h'
pytestmark = pytest.mark.skipif(not CUDA, reason='this build has no CUDA backend, so no C API')
REQUIRED = {
    'cuda_init', 'cuda_destroy', 'cuda_get_device_count', 'cuda_load_model', 'cuda_unload_model',
    'cuda_model_get_vram_usage', 'cuda_inference_start', 'cuda_inference_next_token', 'cuda_inference_free',
    'cuda_check_vram_residency', 'cuda_get_vram_usage', 'cuda_get_process_vram_usage'}


def output_of(*command) -> str:
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=True, timeout=60)
    return done.stdout.decode()


def without_gpu(code: str) -> None:
    """Runs Python code with `library` in a process that has no GPU."""
    prelude = 'from capi_client import *\nlibrary = Library()\n'
    environment = {**os.environ, 'CUDA_VISIBLE_DEVICES': '', 'ORCD_BUILD_DIR': str(BUILD)}
    done = subprocess.run([sys.executable, '-B', '-c', prelude + code], cwd=Path(__file__).parent,
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    assert done.returncode == 0, f'exit {done.returncode}: {done.stdout.decode()}'


# --- without a GPU -----------------------------------------------------------------------------


def test_the_twelve_functions_and_the_message_are_all_that_is_visible():
    lines = output_of('nm', '--dynamic', '--defined-only', LIBRARY).splitlines()
    visible = {line.split()[-1] for line in lines if line.split()[-2] != 'A'}
    assert visible == REQUIRED | {'cuda_error_message'} == set(capi_client.FUNCTIONS)


def test_the_header_declares_what_the_library_exports():
    declared = set(re.findall(r'^WORKER_CUDA_API [^;]*?\b(cuda_\w+)\(', HEADER.read_text(), re.M))
    assert declared == set(capi_client.FUNCTIONS)


def test_it_needs_neither_a_driver_nor_a_toolkit_nor_a_c_plus_plus_runtime():
    needed = re.findall(r'\(NEEDED\).*\[(.*)\]', output_of('readelf', '--dynamic', LIBRARY))
    assert needed and not [n for n in needed if re.search(r'cuda|nv|stdc\+\+|boost', n)], needed


def test_no_gpu_is_zero_devices_and_an_error_at_once():
    without_gpu('''
import time
started = time.monotonic()
assert library.cuda_get_device_count() == 0
failure = failure_of(library.init, 0)
assert failure.code == DEVICE_NOT_FOUND, failure
assert 'no GPU' in failure.message, failure.message
assert time.monotonic() - started < 10
assert library.message(DEVICE_NOT_FOUND) == failure.message
assert not library.cuda_init(0, None)
''')


def test_a_negative_device_is_an_error():
    without_gpu('''
for index in (-1, -2**31):
    failure = failure_of(library.init, index)
    assert failure.code == INVALID_DEVICE and str(index) in failure.message, failure
''')


def test_null_is_an_error_or_nothing_and_never_a_crash(tiny_model):
    without_gpu(f'''
for function in (lambda: library.load(None, {str(tiny_model)!r}), lambda: library.load(None, None),
                 lambda: library.start(None, 'x'), lambda: library.start(None, None),
                 lambda: library.next(None), lambda: library.resident(None)):
    failure = failure_of(function)
    assert failure.code == INVALID_ARGUMENT and 'is NULL' in failure.message, failure
assert not library.cuda_load_model(None, None, None, None)
assert not library.cuda_inference_start(None, None, 0, 0.0, 0, None)
assert not library.cuda_inference_next_token(None, None, None, None)
assert not library.cuda_check_vram_residency(None, None)
library.cuda_destroy(None)
library.cuda_unload_model(None)
library.cuda_inference_free(None)
for query in (library.cuda_model_get_vram_usage, library.cuda_get_vram_usage,
              library.cuda_get_process_vram_usage):
    assert query(None) == 0
''')


def test_every_code_has_a_sentence_and_a_thread_has_its_own():
    without_gpu('''
import threading
codes = [SUCCESS, DEVICE_NOT_FOUND, OUT_OF_MEMORY, INVALID_DEVICE, MODEL_LOAD_FAILED, INFERENCE_FAILED,
         VRAM_RESIDENCY_FAILED, KERNEL_LAUNCH_FAILED, INVALID_ARGUMENT, UNKNOWN, 1234, -1]
assert len({library.message(code) for code in codes}) >= 11
failure = failure_of(library.init, -7)
seen = []
thread = threading.Thread(target=lambda: seen.append(library.message(INVALID_DEVICE)))
thread.start()
thread.join()
assert '-7' in library.message(INVALID_DEVICE) and '-7' not in seen[0], seen
''')


def test_the_example_in_c_says_why_it_cannot_run(tiny_model):
    done = subprocess.run([str(EXAMPLE), str(tiny_model), 'hello'], timeout=60, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, 'CUDA_VISIBLE_DEVICES': ''})
    assert done.returncode == 1 and done.stdout == b''
    assert b'0 GPU(s)' in done.stderr and b'error 1: no GPU' in done.stderr, done.stderr
    assert subprocess.run([str(EXAMPLE)], timeout=60, stderr=subprocess.DEVNULL).returncode == 2


# --- with a GPU --------------------------------------------------------------------------------


@needs_gpu
@pytest.mark.parametrize('check', capi_gpu.CHECKS, ids=lambda check: check.__name__)
def test_on_a_gpu(check, tmp_path):
    os.environ['ORCD_BUILD_DIR'] = str(BUILD)
    check(capi_client.Library(), tmp_path)


@needs_gpu
@pytest.mark.parametrize('which', ['generated', 'demo'])
def test_the_example_writes_what_the_worker_streams(request, models, which):
    model = request.getfixturevalue('demo_model') if which == 'demo' else models('capi', '--context', '512')
    ask = dict(prompt=capi_gpu.PROMPT, max_tokens=32, temperature=0, seed=1)
    with Worker('--model', model, '--backend', 'cuda', backend=False) as worker:
        worker.wait_event('ready')
        streamed = ''.join(e.data['t'] for e in worker.execute(**ask) if e.name == 'token')
    assert output_of(EXAMPLE, model, capi_gpu.PROMPT, 32) == streamed + '\n'
