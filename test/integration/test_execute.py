"""What a stream holds: order, fields, ids, determinism, stop strings, limits, sampling parameters.
Sources: M0-W-1030, 1032, 1300, 1310..1312, WORK-3050..3052, 3062; the design's wire section."""
import json
import re
import time

import pytest

from http_client import Connection, Stream, check_stream, text_of
from worker_process import BACKEND, PATIENCE, SANITIZED, STRETCH, Worker, request_body, wait_until


def test_order_and_fields(tiny):
    events = tiny.execute(job_id='order', max_tokens=12, ignore_eos=True)
    started, end = events[0], events[-1]
    assert started.name == 'started' and end.name == 'end'
    assert started.data['job_id'] == 'order'
    assert started.data['model'] == 'tiny'
    assert started.data['seed'] == 42
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z', started.data['started_at'])
    assert end.data['tokens_out'] == 12
    assert end.data['finish_reason'] == 'length'
    assert {e.name for e in events[1:-1]} <= {'token', 'metrics'}


def test_metrics_event_on_request(tiny):
    assert not [e for e in tiny.execute(max_tokens=5) if e.name == 'metrics']
    events = tiny.execute(max_tokens=5, ignore_eos=True, metrics=True)
    assert [e.name for e in events][-2:] == ['metrics', 'end']
    snapshot = events[-2].data
    assert snapshot['tokens_out'] == 5 and snapshot['tokens_in'] == events[-1].data['tokens_in'] > 0
    assert snapshot['first_token_ms'] >= snapshot['prefill_ms'] > 0


def test_response_head(tiny):
    stream = tiny.open(max_tokens=2)
    headers = stream.response.headers
    assert headers['content-type'].split(';')[0] == 'text/event-stream'
    assert 'no-cache' in headers['cache-control'] or 'no-store' in headers['cache-control']
    assert headers['x-accel-buffering'] == 'no'
    stream.rest()
    stream.close()


def test_connection_is_reused_after_a_stream(tiny):
    with tiny.connect() as connection:
        for _ in range(3):
            connection.request('POST', '/execute', json.dumps(request_body(max_tokens=3)).encode())
            stream = Stream(connection)
            stream.finish()
        connection.request('GET', '/health')
        assert connection.read_response().status == 200


def test_http_1_0_client_gets_the_stream_and_a_close(tiny):
    body = json.dumps(request_body(max_tokens=3)).encode()
    with tiny.connect() as connection:
        connection.send(b'POST /execute HTTP/1.0\r\nContent-Type: application/json\r\n'
                        b'Content-Length: %d\r\n\r\n' % len(body) + body)
        answer = connection.drain(PATIENCE)  # it ends with the connection
    head, _, text = answer.partition(b'\r\n\r\n')
    assert head.split(b' ')[1] == b'200', head
    assert b'transfer-encoding' not in head.lower(), 'HTTP/1.0 knows no chunks'
    assert text.count(b'event: end') == 1


def test_same_seed_same_bytes(tiny):
    bodies = dict(prompt='The quick brown fox', max_tokens=60, temperature=1.3, seed=7)
    first, second = tiny.execute(**bodies), tiny.execute(**bodies)
    assert text_of(first) == text_of(second) != ''
    assert [(e.data['t'], e.data['i']) for e in first if e.name == 'token'] == \
           [(e.data['t'], e.data['i']) for e in second if e.name == 'token']


def test_different_seeds_differ(tiny):
    texts = {text_of(tiny.execute(prompt='The quick brown fox', max_tokens=40, temperature=1.0, seed=s))
             for s in range(8)}
    assert len(texts) == 8


@pytest.mark.parametrize('seed', [0, 1, 2**31, 2**63 - 1, 2**63, 2**64 - 1])
def test_every_uint64_is_a_seed(tiny, seed):
    events = tiny.execute(seed=seed, temperature=1.0, max_tokens=4)
    assert events[0].data['seed'] == seed


def test_missing_seed_is_returned_and_replays(tiny):
    first = tiny.execute(seed=None, temperature=1.0, max_tokens=40, ignore_eos=True)
    other = tiny.execute(seed=None, temperature=1.0, max_tokens=40, ignore_eos=True)
    assert first[0].data['seed'] != other[0].data['seed']
    again = tiny.execute(seed=first[0].data['seed'], temperature=1.0, max_tokens=40, ignore_eos=True)
    assert text_of(again) == text_of(first)
    assert text_of(other) != text_of(first)


def test_temperature_zero_ignores_the_seed(tiny):
    texts = {text_of(tiny.execute(temperature=0, seed=s, max_tokens=40)) for s in (1, 2, 3)}
    assert len(texts) == 1


def test_max_tokens(tiny):
    for count in (1, 2, 17):
        end = tiny.execute(max_tokens=count, ignore_eos=True)[-1]
        assert (end.data['tokens_out'], end.data['finish_reason']) == (count, 'length')


def test_shorter_is_a_prefix_of_longer(tiny):
    long = text_of(tiny.execute(max_tokens=50, ignore_eos=True))
    short = text_of(tiny.execute(max_tokens=20, ignore_eos=True)).rstrip('\ufffd')
    assert short and long.startswith(short)


def test_stop_strings_are_never_emitted(tiny):
    plain = text_of(tiny.execute(max_tokens=80, ignore_eos=True))
    assert len(plain) > 20
    for begin in range(3, 18, 3):
        stop = plain[begin:begin + 4]
        if '\ufffd' in stop:
            continue
        events = tiny.execute(max_tokens=80, ignore_eos=True, stop=[stop])
        assert events[-1].data['finish_reason'] == 'stop'
        assert text_of(events) == plain[:plain.index(stop)]


def test_stop_may_be_one_string_or_several(tiny):
    plain = text_of(tiny.execute(max_tokens=60, ignore_eos=True))
    late, early = plain[20:24], plain[6:10]
    assert text_of(tiny.execute(max_tokens=60, ignore_eos=True, stop=early)) == plain[:plain.index(early)]
    both = tiny.execute(max_tokens=60, ignore_eos=True, stop=[late, early, 'never seen', 'nor this'])
    assert text_of(both) == plain[:min(plain.index(early), plain.index(late))]


def test_a_stop_string_that_never_comes_holds_nothing_back(tiny):
    plain = text_of(tiny.execute(max_tokens=30, ignore_eos=True))
    almost = plain[-3:] + 'q never'
    assert text_of(tiny.execute(max_tokens=30, ignore_eos=True, stop=[almost])) == plain


def test_every_event_is_valid_utf8(tiny):
    # The model is noise, so its bytes are often no UTF-8 at all; the client's parser is strict.
    replaced = 0
    for seed in range(20):
        events = tiny.execute(temperature=2.0, seed=seed, max_tokens=60, ignore_eos=True)
        replaced += text_of(events).count('\ufffd')
    assert replaced > 0, 'the model made no invalid bytes: this test shows nothing'


def test_penalties_have_an_effect(tiny):
    plain = text_of(tiny.execute(max_tokens=60, ignore_eos=True))
    for penalty in ({'repetition_penalty': 1.5}, {'presence_penalty': 1.5}, {'frequency_penalty': 1.5}):
        assert text_of(tiny.execute(max_tokens=60, ignore_eos=True, **penalty)) != plain, penalty
    neutral = dict(repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0)
    assert text_of(tiny.execute(max_tokens=60, ignore_eos=True, **neutral)) == plain


def test_narrow_sampling_is_greedy(tiny):
    greedy = text_of(tiny.execute(temperature=0, max_tokens=30, ignore_eos=True))
    for narrow in ({'top_k': 1}, {'top_p': 1e-6}, {'min_p': 1.0}):
        sampled = tiny.execute(temperature=1.0, max_tokens=30, ignore_eos=True, **narrow)
        assert text_of(sampled) == greedy, narrow


def test_parse_special(tiny):
    """With it (the default) <|im_start|> in the prompt is one control token; without, it is text."""
    def tokens_in(**body):
        return tiny.execute(prompt='<|im_start|>hello', max_tokens=1, **body)[-1].data['tokens_in']
    assert tokens_in() == tokens_in(parse_special=True)
    assert tokens_in(parse_special=False) > tokens_in(parse_special=True)


def test_request_id_is_echoed(tiny):
    events = tiny.open(headers={'X-Request-Id': 'abc-123.Z_9'}, max_tokens=1)
    assert events.response.headers['x-request-id'] == 'abc-123.Z_9'
    events.rest()
    events.close()
    assert tiny.call('GET', '/health', headers={'x-request-id': 'seen'}).headers['x-request-id'] == 'seen'
    refused = tiny.call('POST', '/execute', b'{', headers={'x-request-id': 'seen'})
    assert refused.status == 400 and refused.headers['x-request-id'] == 'seen'


def test_hostile_request_id_is_not_echoed(tiny):
    for hostile in ('a' * 129, 'a b', '<script>', 'a"b', 'a,b\\n'):
        answer = tiny.call('GET', '/health', headers={'x-request-id': hostile})
        assert answer.headers.get('x-request-id') != hostile, hostile


def test_health_fields(tiny):
    answer = tiny.get('/health')
    assert answer.status == 200
    body = answer.json()
    assert body['status'] == 'healthy' and body['state'] == 'ready' and body['model'] == 'tiny'
    on_gpu = BACKEND == 'cuda'
    assert body['backend'] == BACKEND and body['resident'] is on_gpu and (body['vram_bytes'] > 0) is on_gpu
    assert body['uptime_seconds'] >= 0 and body['quant_kind']
    assert body['last_step_age_ms'] is None or body['last_step_age_ms'] >= 0


def test_busy_is_ready(slow):
    stream = slow.open(max_tokens=2000, ignore_eos=True)
    stream.until('token')
    assert slow.get('/health').json()['state'] == 'busy'
    assert slow.get('/ready').status == 200
    stream.close()
    slow.wait_idle()
    assert slow.get('/health').json()['state'] == 'ready'


def test_head_and_probes(tiny):
    assert tiny.get('/live').status == 200
    assert tiny.get('/ready').status == 200
    with Connection(tiny.port) as connection:
        connection.request('HEAD', '/health')
        assert connection.read_response(head_only=True).status in (200, 405)


def test_the_real_model_answers_and_repeats_itself(demo):
    prompt = '<|im_start|>user\nWrite a haiku about GPU computing<|im_end|>\n<|im_start|>assistant\n'
    body = dict(prompt=prompt, max_tokens=16 if SANITIZED else 50, temperature=0.7, seed=42)
    first, second = demo.execute(**body), demo.execute(**body)
    assert text_of(first) == text_of(second)
    assert len(text_of(first).split()) > 5 and '\ufffd' not in text_of(first)
    assert '<|im_end|>' not in text_of(first)


def test_keep_alive_comment_while_waiting(slow_model):
    """A comment after 15 s of silence, also for a job that only waits; none before."""
    with Worker('--model', slow_model, '--max-tokens-out', '8000') as worker:
        ahead = [worker.open(max_tokens=7900, ignore_eos=True)]
        ahead[0].until('token')
        others = [worker.send_execute(max_tokens=7900, ignore_eos=True) for _ in range(2)]
        wait_until(lambda: worker.waiting() == 2, PATIENCE, 'two jobs wait')
        begin = time.monotonic()
        waiting = worker.send_execute(job_id='patient', max_tokens=1)
        waiting.read_head()
        first = next(waiting.chunks())
        took = time.monotonic() - begin
        assert first.startswith(b':') and first.endswith(b'\n\n'), first
        assert 14 < took < 17 + STRETCH, took
        assert worker.cancel('patient').status == 202
        assert b'"CANCELLED"' in next(waiting.chunks())
        for connection in [ahead[0].connection, waiting, *others]:
            connection.close()
