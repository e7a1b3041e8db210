"""The log: every line is one JSON object with the required events and fields, and none holds a prompt,
generated text or a secret. Sources: M0-W-1621, 1900, 1902, WORK-3080, 3122."""
import hashlib
import json
import os
import re
import subprocess

import pytest

from http_client import Connection, Stream, text_of
from worker_process import BINARY, PATIENCE, START_TIMEOUT, Worker, request_body, run_to_exit, wait_until

CANARY = 'Canary8fe1'
SECRET = 'Bearer sk-Canary77aa'


@pytest.fixture(scope='module')
def busy_log(tiny_model):
    """One worker's whole life: (events, raw lines, emitted texts)."""
    texts = []
    with Worker('--model', tiny_model, '--log-level', 'debug') as worker:
        worker.wait_event('ready')
        headers = {'Authorization': SECRET, 'Cookie': f'id={CANARY}', 'x-request-id': 'trace-1'}
        texts.append(text_of(worker.execute(headers, job_id='log-job', prompt=f'My sécret is {CANARY}.',
                                            max_tokens=60, ignore_eos=True, stop=[f'{CANARY}stop'])))
        for seed in range(4):
            texts.append(text_of(worker.execute(prompt=CANARY * 3, max_tokens=60, seed=seed, temperature=1.0,
                                                ignore_eos=True)))
        for body in ('{"job_id":"a","prompt":"%s', '{"job_id":"a","prompt":["%s"]}'):
            body = (body % CANARY).encode()
            worker.call('POST', '/execute', body, headers)
        worker.open(prompt=CANARY * 1000, max_tokens=5).close()
        worker.call('GET', f'/{CANARY}?prompt={CANARY}')
        stream = worker.open(prompt=CANARY, max_tokens=900, ignore_eos=True)
        stream.close()
        worker.wait_idle()
        worker.terminate()
        assert worker.wait_exit(10) == 0
        return worker.events(), list(worker.lines), texts


def test_every_line_is_json(busy_log):
    events, lines, _ = busy_log
    assert len(events) == len([line for line in lines if line])
    for event in events:
        assert set(event) >= {'ts', 'level', 'event', 'message', 'worker_id'}, event
        assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', event['ts'])
        assert event['level'] in ('debug', 'info', 'warning', 'error', 'critical')
        assert re.fullmatch(r'[a-z][a-z0-9_]*', event['event'])


def test_context_of_every_line(busy_log):
    events, _, _ = busy_log
    assert len({e['worker_id'] for e in events}) == 1
    for event in events:
        assert 'model_ref' in event and 'gpu_device' in event, event


def test_life_in_order(busy_log):
    events, _, _ = busy_log
    names = [e['event'] for e in events]
    order = ['startup', 'model_load_start', 'model_load_progress', 'model_load_complete', 'ready',
             'execute_start', 'execute_end', 'shutdown']
    assert [n for n in order if n in names] == order, names
    firsts = [names.index(n) for n in order]
    assert firsts == sorted(firsts), list(zip(order, firsts))


def test_load_progress(busy_log):
    events, _, _ = busy_log
    assert [e['percent'] for e in events if e['event'] == 'model_load_progress'] == [0, 25, 50, 75, 100]


def test_execute_events(busy_log):
    events, _, _ = busy_log
    start = next(e for e in events if e['event'] == 'execute_start' and e['job_id'] == 'log-job')
    end = next(e for e in events if e['event'] == 'execute_end' and e['job_id'] == 'log-job')
    prompt = f'My sécret is {CANARY}.'
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    assert digest in str(start.values()), 'the prompt is told by its SHA-256'
    assert start['prompt_chars'] == len(prompt), 'and by its length in characters'
    assert end['tokens_out'] == 60 and end['tokens_in'] > 0 and end['decode_time_ms'] >= 0
    assert end['first_token_ms'] > 0
    assert 'trace-1' in str(start.values()), 'the request id ties the log to the client'
    starts = [e['job_id'] for e in events if e['event'] == 'execute_start']
    ends = [e['job_id'] for e in events if e['event'] == 'execute_end']
    assert sorted(starts) == sorted(ends), 'each start has its end'


def test_ready_names_the_port(busy_log):
    events, _, _ = busy_log
    ready = next(e for e in events if e['event'] == 'ready')
    assert 1024 <= ready['port'] <= 65535 and 'vram_bytes' in ready


def test_no_prompt_token_or_secret(busy_log):
    _, lines, texts = busy_log
    log = '\n'.join(lines)
    assert CANARY not in log and 'sk-Canary77aa' not in log and 'Bearer' not in log
    checked = 0
    for text in texts:
        for begin in range(0, len(text) - 8, 4):
            piece = text[begin:begin + 8]
            if len(set(piece)) > 4:
                checked += 1
                assert piece not in log
    assert checked > 20


def test_console_format(tiny_model):
    with Worker('--model', tiny_model, log_format='console') as worker:
        wait_until(lambda: any('Serving' in line for line in list(worker.lines)), START_TIMEOUT, 'it serves')
        worker.terminate()
        assert worker.wait_exit(10) == 0
        text = '\n'.join(worker.lines)
    assert not text.startswith('{') and '\x1b' not in text, text[:400]
    assert 'tiny' in text and 'port' in text


def test_log_level(tiny_model, tmp_path):
    exit_code, worker = run_to_exit('--model', tmp_path / 'none.gguf', '--log-level', 'error')
    assert exit_code == 1 and [e['level'] for e in worker.events()] == ['error']


def test_a_log_that_nobody_reads_stalls_nothing(tiny_model):
    """The log goes to a pipe whose reader stops to read: the worker serves on."""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [str(BINARY), '--backend', 'host', '--model', str(tiny_model), '--port', '0', '--log-format', 'json',
         '--log-level', 'debug'], stderr=writer, stdin=subprocess.DEVNULL)
    os.close(writer)
    try:
        with os.fdopen(os.dup(reader), encoding='utf-8') as log:
            ready = next(event for event in map(json.loads, log) if event['event'] == 'ready')
        body = request_body(max_tokens=1)
        for number in range(400):
            with Connection(ready['port']) as connection:
                connection.request('POST', '/execute', json.dumps(body).encode())
                assert Stream(connection).finish().name == 'end', number
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(reader)
