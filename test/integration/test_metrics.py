"""The scrape: parses, passes promtool, counts what was done, never runs backwards.
Sources: M0-W-1350, WORK-3081, the wire conventions (d)."""
import os
import re
import shutil
import subprocess

import pytest

from worker_process import BACKEND, PATIENCE, Worker, wait_until

PROMTOOL = os.environ.get('ORCD_PROMTOOL') or shutil.which('promtool')
SAMPLE = re.compile(r'[a-zA-Z_:][\w:]*(\{(\w+="(\\.|[^"\\])*",?)*\})? (-?[\d.eE+-]+|NaN|\+Inf)')

NAMES = [
    'worker_vram_bytes', 'worker_requests_total', 'worker_tokens_in_total',
    'worker_tokens_generated_total', 'worker_uptime_seconds', 'worker_requests_waiting',
    'worker_requests_running', 'worker_info', 'worker_state', 'worker_resident',
    'worker_disconnects_total', 'worker_cancel_to_idle_seconds', 'worker_gpu_step_age_seconds',
    'worker_inference_duration_seconds', 'worker_time_to_first_token_seconds',
    'worker_inter_token_latency_seconds', 'worker_kv_cache_usage_ratio', 'worker_kv_block_tokens',
    'worker_kv_blocks', 'worker_active_experts', 'worker_health', 'worker_startup_seconds',
    'worker_model_load_seconds', 'worker_model_load_bytes',
]


@pytest.fixture
def worker(slow_model):
    with Worker('--model', slow_model) as running:
        running.wait_event('ready')
        yield running


def exercise(worker) -> None:
    worker.execute(max_tokens=10, ignore_eos=True)
    worker.execute(max_tokens=5, ignore_eos=True)
    worker.open(max_tokens=0).close()
    stream = worker.open(job_id='cancelled', max_tokens=2000, ignore_eos=True)
    stream.until('token')
    worker.cancel('cancelled')
    assert stream.finish().name == 'error'
    stream.close()
    worker.wait_idle()


def test_text_format(worker):
    exercise(worker)
    answer = worker.get('/metrics')
    assert answer.headers['content-type'].startswith('text/plain; version=0.0.4')
    text = answer.body.decode()
    assert text.endswith('\n')
    families, typed = set(), {}
    for line in text.splitlines():
        if line.startswith('# TYPE '):
            _, _, name, kind = line.split(' ')
            assert name not in typed, f'{name} twice'
            typed[name] = kind
        elif line.startswith('# HELP '):
            families.add(line.split(' ')[2])
        else:
            assert SAMPLE.fullmatch(line), line
    assert families == set(typed)
    for name in NAMES:
        assert name in typed, name


def test_promtool(worker):
    if not PROMTOOL:
        pytest.skip('promtool is not here (tools/promtool.sh)')
    exercise(worker)
    checked = subprocess.run([PROMTOOL, 'check', 'metrics'], input=worker.get('/metrics').body,
                             capture_output=True, timeout=30)
    assert checked.returncode == 0, (checked.stdout + checked.stderr).decode()


def test_counts_are_what_was_done(worker):
    begin = worker.metrics()
    exercise(worker)
    assert worker.metric('worker_requests_total', outcome='completed') == 2
    assert worker.metric('worker_requests_total', outcome='refused') == 1
    assert worker.metric('worker_requests_total', outcome='cancelled') == 1
    assert worker.metric('worker_tokens_generated_total') > 15
    assert worker.metric('worker_tokens_in_total') > 0
    assert worker.metric('worker_inference_duration_seconds_count') == 3
    for series, value in begin.items():
        if series.split('{')[0].endswith(('_total', '_count', '_bucket')):
            assert worker.metrics().get(series, 0) >= value, series


def test_exact_token_counts(worker):
    ends = [worker.execute(max_tokens=n, ignore_eos=True, prompt='abc ' * n)[-1].data for n in (1, 4, 9)]
    assert worker.metric('worker_tokens_generated_total') == sum(e['tokens_out'] for e in ends) == 14
    assert worker.metric('worker_tokens_in_total') == sum(e['tokens_in'] for e in ends)
    assert worker.metric('worker_time_to_first_token_seconds_count') == 3
    assert worker.metric('worker_inter_token_latency_seconds_count') == (1 + 4 + 9) - 3


def test_histograms_are_cumulative(worker):
    exercise(worker)
    series = worker.metrics()
    names = {s.split('_bucket{')[0] for s in series if '_bucket{' in s}
    assert len(names) >= 5
    for name in names:
        buckets = [(re.search(r'le="([^"]+)"', s).group(1), v) for s, v in series.items()
                   if s.startswith(name + '_bucket{')]
        buckets.sort(key=lambda b: float(b[0]))
        values = [v for _, v in buckets]
        assert values == sorted(values) and buckets[-1][0] == '+Inf', name
        assert values[-1] == series[name + '_count'], name


def test_state_is_one_hot(worker):
    assert worker.metric('worker_state') == 1
    assert worker.metric('worker_state', state='ready') == 1
    assert worker.metric('worker_health') == 1
    assert worker.metric('worker_health', status='healthy') == 1


def test_what_the_start_took(worker):
    ready, loaded = worker.wait_event('ready'), worker.wait_event('model_load_complete')
    assert abs(worker.metric('worker_startup_seconds') * 1000 - ready['start_ms']) < 50
    assert 0 < worker.metric('worker_model_load_seconds') <= worker.metric('worker_startup_seconds')
    tensors, planned = worker.metric('worker_model_load_bytes'), loaded['weights_bytes']
    if BACKEND == 'host':
        assert tensors == planned
    else:  # there is room between tensors, too
        assert 0.9 * planned < tensors <= planned


def test_no_text_of_a_client_in_labels(worker):
    worker.execute(job_id='label-canary', prompt='label-canary', max_tokens=1)
    worker.call('GET', '/label-canary')
    assert b'label-canary' not in worker.get('/metrics').body


def test_the_requirements_name_in_milliseconds(worker):
    worker.execute(max_tokens=1)
    """Left out unless asked for: promtool refuses the unit in a name."""
    assert b'worker_inference_duration_ms' not in worker.get('/metrics').body
    text = worker.get('/metrics?units=ms').body
    assert b'worker_inference_duration_ms_bucket' in text
    assert b'worker_inference_duration_ms_count 1\n' in text


def test_kv_cache_usage(slow):
    stream = slow.open(max_tokens=3000, ignore_eos=True)
    stream.until('token', 50)
    used = slow.metric('worker_kv_cache_usage_ratio') * 8192
    assert 50 <= used <= 3200 and used == int(used), used
    assert slow.metric('worker_kv_blocks') == 8192 / slow.metric('worker_kv_block_tokens')
    stream.close()
    wait_until(lambda: slow.metric('worker_kv_cache_usage_ratio') == 0, PATIENCE, 'the cache is free again')


def test_names_for_a_gateway(worker, tiny_model):
    assert b'vllm:' not in worker.get('/metrics').body
    with Worker('--model', tiny_model, '--metrics-compat', 'vllm', '--slots', '2') as other:
        other.wait_event('ready')
        text = other.get('/metrics').body.decode()
        for line in ('vllm:num_requests_waiting 0', 'vllm:num_requests_running 0',
                     'vllm:kv_cache_usage_perc 0',
                     'vllm:cache_config_info{block_size="256",num_gpu_blocks="8"} 1'):
            assert line + '\n' in text, line


def test_disconnects_by_phase(slow):
    before = slow.metric('worker_disconnects_total', phase='decode')
    stream = slow.open(max_tokens=3000, ignore_eos=True)
    stream.until('token', 2)
    stream.close()
    wait_until(lambda: slow.metric('worker_disconnects_total', phase='decode') == before + 1,
               PATIENCE, 'counted')
