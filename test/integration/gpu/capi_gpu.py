#!/usr/bin/env python3
"""What the C API does on a GPU: functions that test_capi.py runs where ORCD_GPU=1, and a program for a host
without pytest:

    ORCD_BUILD_DIR=build/release [ORCD_DEMO_MODEL=FILE] python3 test/integration/gpu/capi_gpu.py
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from capi_client import (INFERENCE_FAILED, INVALID_ARGUMENT, INVALID_DEVICE, MODEL_LOAD_FAILED, Library,
                         failure_of, library_path)

PROJECT = Path(__file__).resolve().parents[3]
# Difference of two logits.
CLOSE_CALL = 0.5
PROMPT = 'Write a haiku about GPU computing'
FAMILIES = {
    'llama': (),
    'qwen2': ('--family', 'qwen2', '--tied', '--type', 'Q8_0'),
    'phi3': ('--family', 'phi3', '--fused-qkv', '--sentencepiece'),
    'gpt-oss': ('--family', 'gpt-oss', '--experts', '4', '--experts-used', '2', '--window', '64', '--biases',
                '--expert-type', 'MXFP4'),
}


def write_model(folder: Path, name: str) -> Path:
    path = folder / f'{name}.gguf'
    tool = library_path().parent / 'write_tiny_model'
    command = [str(tool), '--out', str(path), '--context', '512', *FAMILIES[name]]
    subprocess.run(command, check=True, timeout=60)
    return path


def check_devices(library, folder):
    count = library.cuda_get_device_count()
    assert count >= 1
    context = library.init(0)
    library.cuda_destroy(context)
    for index in (count, 1000, -1, -2**31, 2**31 - 1):
        failure = failure_of(library.init, index)
        assert failure.code == INVALID_DEVICE, failure


def check_every_family(library, folder):
    context = library.init(0)
    assert library.cuda_get_process_vram_usage(context) == 0
    for name in FAMILIES:
        model, used = library.load(context, write_model(folder, name))
        assert library.cuda_model_get_vram_usage(model) == used > 0
        assert library.resident(model) and library.cuda_get_vram_usage(model) == used
        assert library.cuda_get_process_vram_usage(context) >= used - (64 << 20)
        for temperature in (0.0, 0.9):
            first = library.pieces(model, PROMPT, max_tokens=32, temperature=temperature, seed=7)
            again = library.pieces(model, PROMPT, max_tokens=32, temperature=temperature, seed=7)
            assert first == again, (name, temperature)
            indices = [index for _, index in first]
            assert indices == sorted(indices) and all(0 <= i < 32 for i in indices)
        library.cuda_unload_model(model)
        assert library.cuda_get_process_vram_usage(context) == 0, name
    library.cuda_destroy(context)


def check_bad_models(library, folder):
    context = library.init(0)
    rubbish = folder / 'rubbish.gguf'
    rubbish.write_bytes(b'GGUF' + b'\x00' * 100)
    whole = write_model(folder, 'llama').read_bytes()
    cut = folder / 'cut.gguf'
    cut.write_bytes(whole[:len(whole) // 2])
    for path in (folder, folder / 'nowhere.gguf', rubbish, cut):
        failure = failure_of(library.load, context, path)
        assert failure.code == MODEL_LOAD_FAILED, failure
    for path in (None, '', 'x' * 4097):
        assert failure_of(library.load, context, path).code == INVALID_ARGUMENT
    assert failure_of(library.load, None, write_model(folder, 'llama')).code == INVALID_ARGUMENT
    assert library.cuda_get_process_vram_usage(context) == 0
    library.cuda_destroy(context)


def check_bad_requests(library, folder):
    context = library.init(0)
    model, _ = library.load(context, write_model(folder, 'llama'))
    good = library.pieces(model, PROMPT)
    for bad in ({'max_tokens': 0}, {'max_tokens': -5}, {'max_tokens': 2**31 - 1}, {'temperature': -1.0},
                {'temperature': 2.5}, {'temperature': float('nan')}, {'temperature': float('inf')}):
        failure = failure_of(library.start, model, PROMPT, **bad)
        assert failure.code == INVALID_ARGUMENT, (bad, failure)
    assert failure_of(library.start, model, '').code == INVALID_ARGUMENT
    assert failure_of(library.start, model, None).code == INVALID_ARGUMENT
    assert failure_of(library.start, model, 'word ' * 2000).code == INVALID_ARGUMENT
    run = library.start(model, PROMPT, max_tokens=64)
    assert failure_of(library.start, model, PROMPT).code == INFERENCE_FAILED, 'one at a time'
    library.cuda_inference_free(run)
    assert library.pieces(model, PROMPT) == good
    library.cuda_unload_model(model)
    library.cuda_destroy(context)


def check_ends_in_any_order(library, folder):
    context = library.init(0)
    model, _ = library.load(context, write_model(folder, 'llama'))
    run = library.start(model, PROMPT, max_tokens=400)
    library.cuda_destroy(context)
    assert library.next(run) is not None
    library.cuda_unload_model(model)
    try:
        while library.next(run) is not None:
            pass
    except Exception as failure:  # what was computed before the unloading, then the error
        assert getattr(failure, 'code', None) == INFERENCE_FAILED, failure
    library.cuda_inference_free(run)
    context = library.init(0)
    assert library.cuda_get_process_vram_usage(context) == 0
    library.cuda_destroy(context)


def check_any_thread(library, folder):
    """Loaded on one thread, used and unloaded on others; two models side by side."""
    box = {}

    def on_a_thread(function):
        thread = threading.Thread(target=lambda: box.update(value=function()))
        thread.start()
        thread.join(120)
        assert not thread.is_alive()
        return box.pop('value')

    context = library.init(0)
    one, _ = on_a_thread(lambda: library.load(context, write_model(folder, 'llama')))
    two, _ = library.load(context, write_model(folder, 'qwen2'))
    alone = library.pieces(one, PROMPT), library.pieces(two, PROMPT)
    assert on_a_thread(lambda: library.pieces(one, PROMPT)) == alone[0]
    results = {}
    threads = [threading.Thread(target=lambda m=m: results.update({m: library.pieces(m, PROMPT)}))
               for m in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert (results[one], results[two]) == alone
    on_a_thread(lambda: library.cuda_unload_model(one))
    assert library.pieces(two, PROMPT) == alone[1]
    library.cuda_unload_model(two)
    library.cuda_destroy(context)


def check_demo_model(library, folder):
    """The independent oracle's greedy text, where the demo model is here."""
    path = os.environ.get('ORCD_DEMO_MODEL', '')
    if not path:
        print('check_demo_model SKIPPED: ORCD_DEMO_MODEL is not set')
        return
    context = library.init(0)
    model, used = library.load(context, path)
    assert used > 90 << 20
    golden = json.loads((PROJECT / 'test' / 'data' / 'golden' / 'smollm2-greedy.json').read_text())
    compared = 0
    for case in golden['cases']:
        # Until the oracle's two best tokens are so close that rounding may decide.
        sure = next((i for i, gap in enumerate(case['gap']) if gap < CLOSE_CALL), len(case['gap']))
        if sure == 0:
            continue
        text = ''.join(t for t, _ in library.pieces(model, case['text'], max_tokens=sure))
        assert case['answer'].startswith(text.rstrip('\ufffd')), (case['name'], sure, text)
        compared += sure
    assert compared > 50, compared
    library.cuda_unload_model(model)
    library.cuda_destroy(context)


CHECKS = [check_devices, check_every_family, check_bad_models, check_bad_requests, check_ends_in_any_order,
          check_any_thread, check_demo_model]


def main() -> int:
    library = Library()
    with tempfile.TemporaryDirectory() as folder:
        for check in CHECKS:
            check(library, Path(folder))
            print(f'{check.__name__}: passed', flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
