"""Kills, full disks, little memory, shards that change: trillim-quantize leaves whole files or none."""
import json
import os
import pty
import random
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest

from quantizer import PROGRAM, refused, run, small_llama
from safetensors_files import read_gguf
from worker_process import PATIENCE, SANITIZED, wait_until


@pytest.fixture(scope='module')
def large(tmp_path_factory):
    """A model whose matrices have 96 MiB; what is not written of them is a hole, and zero."""
    folder = tmp_path_factory.mktemp('large') / 'model'
    hidden, ffn, vocabulary = 1024, 8192, 1024
    stored = small_llama(folder, 128, 256)
    shapes = {'embed_tokens': [vocabulary, hidden], 'lm_head': [vocabulary, hidden], 'o_proj': [hidden, 1024],
              'q_proj.weight': [1024, hidden], 'k_proj.weight': [512, hidden], 'v_proj.weight': [512, hidden],
              'gate_proj': [ffn, hidden], 'up_proj': [ffn, hidden], 'down_proj': [hidden, ffn]}
    header, at = {}, 0
    for name in stored:
        if 'rotary' in name or 'bias' in name:
            continue
        shape = next((shape for part, shape in shapes.items() if part in name), [hidden])
        size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(folder / 'model.safetensors', 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        file.truncate(8 + len(text) + at)
        # Some pieces of a matrix that is converted in several.
        begin = next(h['data_offsets'][0] for name, h in header.items() if 'gate_proj' in name)
        file.seek(8 + len(text) + begin)
        draws = random.Random(1).randbytes(3 << 19)
        file.write(bytes(byte for low in draws for byte in (low, 0x3c + low % 2 * 0x80)))
    config = json.loads((folder / 'config.json').read_text())
    config.update(hidden_size=hidden, intermediate_size=ffn, num_attention_heads=16,
                  num_key_value_heads=8, head_dim=64)
    (folder / 'config.json').write_text(json.dumps(config))
    return folder


def test_a_kill_leaves_no_half_file(large, tmp_path):
    out, temporary = tmp_path / 'out.gguf', tmp_path / 'out.gguf.tmp'
    killed = 0
    for _ in range(5):
        temporary.unlink(missing_ok=True)
        with subprocess.Popen([PROGRAM, large, '--out', out]) as process:
            wait_until(lambda: temporary.exists() or process.poll() is not None, PATIENCE, 'begun', 0.0002)
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        assert not out.exists() or process.returncode == 0
        out.unlink(missing_ok=True)
    assert killed > 0
    temporary.write_bytes(b'what a killed one left')
    assert run(large, '--out', out).returncode == 0
    whole = out.read_bytes()
    assert not temporary.exists() and read_gguf(whole)
    with subprocess.Popen([PROGRAM, large, '--out', out]) as process:
        wait_until(lambda: temporary.exists() or process.poll() is not None, PATIENCE, 'it begins', 0.0002)
        process.send_signal(signal.SIGKILL)
    assert out.read_bytes() == whole, 'the file of before is there until the new one is whole'


def test_a_shard_that_is_written_to_meanwhile(large, tmp_path):
    shutil.copytree(large, tmp_path / 'model')
    out, temporary = tmp_path / 'out.gguf', tmp_path / 'out.gguf.tmp'
    for _ in range(20):
        with subprocess.Popen([PROGRAM, tmp_path / 'model', '--out', out], stderr=subprocess.PIPE) as process:
            wait_until(lambda: temporary.exists() or process.poll() is not None, PATIENCE, 'begun', 0.0002)
            process.send_signal(signal.SIGSTOP)
            with open(tmp_path / 'model' / 'model.safetensors', 'r+b') as file:
                file.seek(-2, os.SEEK_END)
                file.write(b'\x80\x3f')
            process.send_signal(signal.SIGCONT)
            text = process.stderr.read().decode()
        if process.returncode == 0:
            out.unlink()
        else:
            assert process.returncode == 1 and 'written to' in text, text
            assert not out.exists() and not temporary.exists()
            return
    raise AssertionError('it was never stopped before its end')


@pytest.mark.skipif(SANITIZED, reason='a sanitizer has an allocator of its own')
def test_memory_does_not_grow_with_the_model(large, tmp_path):
    """All writable memory of its own, stacks and heap, within 64 MiB; the model's matrices have more."""
    limit = 64 << 20
    done = run(large, '--out', tmp_path / 'out.gguf',
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
    assert (done.returncode, done.stderr) == (0, b'')


def test_a_file_that_may_not_be_so_large(large, tmp_path):
    refused(1, 'out.gguf.tmp', 'File too large', done=run(
        large, '--out', tmp_path / 'out.gguf',
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))))
    assert list(tmp_path.iterdir()) == []


# Mounts a small file system over a folder, runs the command and shows what the folder has then.
ON_A_SMALL_DISK = """mount -t tmpfs -o size=$1 small "$2" && cd "$2" && shift 2 && "$@"
code=$?; ls -A; exit $code"""


def on_a_small_disk(size: str, folder, *words):
    """In a mount name space of its own, which root has, and others where the system lets them."""
    whose = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
    return subprocess.run(['unshare', '--mount', *whose, 'bash', '-c', ON_A_SMALL_DISK, 'bash', size, folder,
                           *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=PATIENCE)


def test_a_disk_that_is_full(large, tmp_path):
    """Where it is when half of the file is written."""
    if on_a_small_disk('64k', tmp_path, 'true').returncode != 0:
        pytest.skip('no file system can be mounted here')
    done = on_a_small_disk('4m', tmp_path, PROGRAM, large, '--out', 'out.gguf')
    # Standard output, which is empty, has what is left in the folder.
    refused(1, 'out.gguf.tmp', 'cannot be written: No space left on device', done=done)
    done = on_a_small_disk('4m', tmp_path, PROGRAM, large, '--out', '.')
    refused(1, 'qmodel.tensors.tmp', 'No space left on device', done=done)
    assert on_a_small_disk('64m', tmp_path, PROGRAM, large, '--out', 'out.gguf').stdout == b'out.gguf\n'


def test_progress_is_for_terminals(large, tmp_path):
    ours, theirs = pty.openpty()
    with subprocess.Popen([PROGRAM, large, '--out', tmp_path / 'out.gguf'], stderr=theirs) as process:
        assert process.wait(PATIENCE) == 0
    os.close(theirs)
    shown = b''
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other end is closed, and all is read
            break
    os.close(ours)
    assert b' %' in shown and shown.endswith(b'\r') and b'100 %' in shown
    assert run(large, '--out', tmp_path / 'out.gguf').stderr == b''


def test_two_threads_or_one_give_the_same_file(large, tmp_path):
    for name, cpus in ('two', os.sched_getaffinity(0)), ('one', {min(os.sched_getaffinity(0))}):
        assert run(large, '--out', tmp_path / f'{name}.gguf',
                   preexec_fn=lambda cpus=cpus: os.sched_setaffinity(0, cpus)).returncode == 0
    assert (tmp_path / 'two.gguf').read_bytes() == (tmp_path / 'one.gguf').read_bytes()
