"""What the token pipe refuses: always one line that names field, value and limit, never a hang."""
import os
import re
import subprocess
import threading

import pytest

from pipe_client import PROGRAM, Pipe, environment, first_block, keeping, lines, run, words_of
from worker_process import PATIENCE, PROJECT

COUNT = '; it must be a whole number from 0 to 2147483647'


def refused(done, code: int, text: str) -> None:
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == b''
    assert done.stderr.decode() == f'inference: {text}\n'


@pytest.mark.parametrize('given, why', [
    (b'x\n', "num_tokens is 'x'" + COUNT),
    (b'-1\n', "num_tokens is '-1'" + COUNT),
    (b'2\r\n', "num_tokens is '2\\x0d'" + COUNT),
    (b'99999999999\n', "num_tokens is '99999999999'" + COUNT),
    (b'2\n1\n-1\n', "temperature is '-1'; it must be a number that is not negative"),
    (lines([1, 304]).encode(), "token 2 of 2 is '304'; it must be a whole number from 0 to 303"),
    (lines([1, 2, 3]).encode()[:-2], 'standard input ended before token 3 of 3'),
    (b'2\n1\n0.6\n', 'standard input ended before top_k'),
    (b'7' * 5000, 'the line of num_tokens has more than 4400 bytes, the limit'),
])
def test_wrong_lines(tiny, config, given, why):
    refused(run(tiny, *words_of(config), input=given), 2, why)


@pytest.mark.parametrize('given, why', [
    (keeping(1, [2]), 'kv_position is 1; it must be at most 0, the tokens that there are'),
    (keeping(0, []), 'tokens is empty and kv_position 0; there must be a token to go on from'),
    (keeping(0, [1, 999]), "tokens is '999'; it must be a whole number from 0 to 303"),
    ('1\nkv_position=0\n', 'tokens is missing in a block'),
    (keeping(0, [1])[:-2], "max_tokens is ''; it must be a whole number that is not negative"),
])
def test_wrong_blocks(tiny, config, given, why):
    refused(run(tiny, input=(first_block(config) + given).encode()), 2, why)


def test_a_line_of_a_gigabyte_is_refused_at_its_limit(tiny, config):
    """Whoever writes it finds the pipe closed long before the end of it."""
    for head, blocks in (b'', False), (b'8\ntokens=', True):
        with Pipe(tiny, config, blocks=blocks) as pipe:
            written = 0
            try:
                pipe.process.stdin.write(head)
                while written < 1 << 30:
                    written += pipe.process.stdin.write(b'1' * (1 << 20))
            except BrokenPipeError:
                pass
            assert written < 64 << 20
            assert 'bytes, the limit' in pipe.refusal()
            assert pipe.process.returncode == 2


def test_arguments_and_the_environment(tiny, config):
    refused(run(), 2, 'model_dir is missing; --help says more')
    refused(run(tiny, 'more'), 2, "there is the unexpected argument 'more'")
    refused(run(tiny, '--config', '1'), 2, '--config has 1 values; it must have 18 and the EOS ids')
    words = words_of({**config, 'eos': [304]})
    refused(run(tiny, *words), 2, "eos_token_id is '304'; it must be a whole number from 0 to 303")
    refused(run(tiny, *words_of(config), env={'WORKER_ORCD_SEED': 'x'}), 2,
            "WORKER_ORCD_SEED is 'x'; it must be a whole number from 0 to 18446744073709551615")
    done = run(tiny, *words_of(config), env={'WORKER_ORCD_BACKEND': 'tpu'})
    assert done.returncode == 2 and done.stderr.count(b'\n') == 1
    help_, version = run('--help'), run('--version')
    assert help_.returncode == version.returncode == 0 and b'MODEL_DIR' in help_.stdout


def test_the_document_names_the_values_in_their_order(tiny, config):
    text = (PROJECT / 'docs' / 'pipe.md').read_text()
    named = re.findall(r'^\| (\d+) \| `(\w+)` \| [^|]+ \| [^|]+ \|$', text, re.M)
    assert [int(number) for number, _ in named] == list(range(1, 19))
    for number, name in named:
        words = words_of(config)
        words[int(number)] = 'x'  # behind --config
        done = run(tiny, *words)
        assert done.returncode == 2 and done.stderr.startswith(f"inference: {name} is 'x'; ".encode())


def test_a_reader_that_has_gone(tiny, config):
    gone = 'standard output is closed; it must be open until the last answer'
    command = [PROGRAM, tiny, *words_of(config)]
    for early in '', lines([1, 2]):  # while it waits for a request, and in the midst of an answer
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment())
        process.stdin.write((lines([5], limit=1) + early).encode())
        process.stdin.flush()
        assert process.stdout.readline() == b'302\n' and process.stdout.readline() == b'2\n'
        process.stdout.close()
        assert process.wait(PATIENCE) == 2
        assert process.stderr.read().decode() == f'inference: {gone}\n'
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(),
                               preexec_fn=lambda: os.close(1))
    assert process.wait(PATIENCE) == 2
    assert process.stderr.read() == b'inference: standard output is closed; it must be open\n'


def test_a_full_standard_error_does_not_hold_its_end(tiny, config):
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b'x' * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write, True)
    process = subprocess.Popen([PROGRAM, tiny, *words_of(config)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=write, env=environment())
    ended = threading.Timer(PATIENCE, process.kill)
    ended.start()
    process.stdin.write(b'x\n')
    process.stdin.flush()
    assert process.wait() == 2
    ended.cancel()
    os.close(read)
    os.close(write)
