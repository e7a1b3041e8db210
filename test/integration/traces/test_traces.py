"""Spans of requests, sent to a collector in OTLP; a collector that is away, hangs or lies is no outage."""
import json
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / 'failover'))

from collector import Collector, check_schema  # noqa: E402
from holders import Held  # noqa: E402
from http_client import Connection, Stream  # noqa: E402
from pauses import pause  # noqa: E402
from ports import free_port  # noqa: E402
from worker_process import (PATIENCE, STRETCH, Worker, request_body, run_to_exit,  # noqa: E402
                            wait_until)

TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
PARENT = '00f067aa0ba902b7'
CALLER = {'traceparent': f'00-{TRACE}-{PARENT}-01'}


@pytest.fixture(scope='module')
def bodies():
    """All that the workers sent, read by the published schema at the end: its reader takes long to start."""
    sent = []
    yield sent
    assert sent
    check_schema(sent)


@pytest.fixture
def collector(bodies):
    collectors = []

    def start(*answers, port: int = 0) -> Collector:
        collectors.append(Collector(*answers, port=port))
        return collectors[-1]
    yield start
    for one in collectors:
        one.close()
    for one in collectors:
        bodies.extend(one.bodies)


@pytest.fixture
def start(tiny_model, started):
    def one(url: str, *options: str, model=None, **more) -> Worker:
        endpoint = ('--otlp-endpoint', url) if url else ()
        return started('--model', model or tiny_model, *endpoint, *options, **more)
    return one


def server_of(spans):
    server, = [span for span in spans if span.kind == 2]
    return server


def by_name(spans, name: str):
    return [span for span in spans if span.name == name]


def complete(worker, headers=None, **body):
    request = {'prompt': 'Once', 'max_tokens': 5, 'temperature': 0, **body}
    return worker.call('POST', '/v1/completions', request, headers)


def test_a_stream(collector, start):
    sink = collector()
    worker = start(sink.url)
    before = time.time_ns()
    events = worker.execute({**CALLER, 'tracestate': 'a=1,b=2', 'X-Request-Id': 'mine'}, job_id='job-7',
                            max_tokens=4, ignore_eos=True)
    spans = sink.wait()
    server = server_of(spans)
    assert (server.name, server.trace, server.parent) == ('POST /execute', TRACE, PARENT)
    assert server.raw['traceState'] == 'a=1,b=2' and not server.failed
    assert before - 10**9 < server.begin <= server.end < time.time_ns() + 10**9
    about = server.attributes
    assert about['http.request.method'] == 'POST' and about['http.response.status_code'] == 200
    assert about['gen_ai.operation.name'] == 'text_completion' and about['gen_ai.request.model']
    assert about['gen_ai.usage.output_tokens'] == 4 and about['gen_ai.usage.input_tokens'] > 0
    assert about['gen_ai.response.finish_reasons'] == ['length']
    assert about['orcd.request.id'] == 'mine' and about['orcd.job.id'] == 'job-7'
    assert 'error.type' not in about
    phases = [by_name(spans, name)[0] for name in ('queue', 'prefill', 'decode')]
    assert len(spans) == 4 and len({span.id for span in spans}) == 4
    assert all(s.parent == server.id and s.trace == TRACE and s.kind == 1 for s in phases)
    assert server.begin <= phases[0].begin and phases[-1].end <= server.end
    assert phases[0].end == phases[1].begin and phases[1].end == phases[2].begin
    assert sink.paths == ['/v1/traces']
    assert sink.resource()['service.name'] == 'worker-orcd' and sink.resource()['service.instance.id']
    wait_until(lambda: worker.metric('orcd_trace_spans_exported_total') == 4, PATIENCE, 'it is counted', 0.02)
    # The trace changes no byte of the answer.
    again = worker.execute(job_id='job-7', max_tokens=4, ignore_eos=True)
    tokens = [[e.raw for e in run if e.name == 'token'] for run in (events, again)]
    assert tokens[0] == tokens[1] and tokens[0]


def test_whole_answers_choices_and_refusals(collector, start):
    sink = collector()
    worker = start(sink.url, '--slots', '2')
    assert complete(worker).status == 200
    assert complete(worker, n=2, headers=CALLER).status == 200
    assert complete(worker, max_tokens='many').status == 400
    assert worker.get('/v1/no-such/path-with-words').status == 404
    for path in ('/health', '/live', '/ready', '/metrics'):
        worker.get(path)
    servers = {span.id: span for span in sink.wait(4) if span.kind == 2}
    spans = sink.spans()
    one, two, bad, lost = servers.values()
    assert one.parent is None and one.trace != TRACE and one.attributes['gen_ai.usage.output_tokens'] <= 5
    assert [s.name for s in spans if s.parent == one.id] == ['queue', 'prefill', 'decode']
    jobs = {s.attributes['orcd.job.id'] for s in spans if s.parent == two.id}
    assert len(jobs) == 2 and len([s for s in spans if s.parent == two.id]) == 6
    assert two.attributes['gen_ai.request.choice.count'] == 2
    assert len(two.attributes['gen_ai.response.finish_reasons']) == 2
    assert bad.attributes['http.response.status_code'] == 400
    assert bad.attributes['error.type'] == 'INVALID_REQUEST'
    assert not bad.failed and not [s for s in spans if s.parent == bad.id]
    assert lost.name == 'GET' and lost.attributes['error.type'] == 'NOT_FOUND'
    assert len(servers) == 4, 'probes have no spans'


def test_a_cancelled_job(collector, start, slow_model):
    sink = collector()
    worker = start(sink.url, model=slow_model)
    stream = worker.open(job_id='long', max_tokens=2000, ignore_eos=True)
    stream.until('token')
    assert worker.cancel('long').status in (200, 202)
    stream.rest()
    stream.close()
    spans = sink.wait(2)
    server, = by_name(spans, 'POST /execute')
    assert server.attributes['error.type'] == 'CANCELLED'
    assert server.attributes['http.response.status_code'] == 200
    decode, = by_name(spans, 'decode')
    assert decode.attributes['error.type'] == 'CANCELLED' and decode.parent == server.id


def test_an_embedding(collector, start, models):
    sink = collector()
    model = models('bert-1', '--family', 'bert', '--context', '1024', '--pooling', '1')
    worker = start(sink.url, model=model)
    assert worker.call('POST', '/v1/embeddings', {'input': ['a', 'b']}).status == 200
    spans = sink.wait()
    about = server_of(spans).attributes
    assert about['gen_ai.operation.name'] == 'embeddings' and about['gen_ai.usage.input_tokens'] > 0
    assert 'gen_ai.usage.output_tokens' not in about and 'gen_ai.response.finish_reasons' not in about
    assert [span.name for span in spans if span.kind == 1] == ['queue', 'prefill']


def test_nothing_secret_is_sent(collector, start, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('key-that-is-secret tenant\n')
    keys.chmod(0o600)
    sink = collector()
    worker = start(sink.url, '--api-key-file', str(keys))
    sent = {'Authorization': 'Bearer key-that-is-secret', 'User-Agent': 'agent-words', **CALLER}
    answer = complete(worker, sent, prompt='prompt-words here', user='user-words')
    assert answer.status == 200
    assert complete(worker, {'Authorization': 'Bearer wrong-secret'}).status == 401
    worker.call('GET', '/v1/models/model-words?query-words', None, sent)
    sink.wait(3)
    text = b''.join(sink.bodies).decode()
    made = answer.json()['choices'][0]['text']
    assert len(made) > 3 and json.dumps(made)[1:-1] not in text
    for words in ('secret', 'prompt-words', 'user-words', 'agent-words', 'model-words', 'query-words'):
        assert words not in text, words


def test_sampling(collector, start):
    sink = collector()
    worker = start(sink.url, '--trace-ratio', '0')
    complete(worker)
    complete(worker, {'traceparent': f'00-{TRACE}-{PARENT}-00'})
    complete(worker, {'traceparent': f'00-{TRACE.upper()}-{PARENT}-01'})  # none
    complete(worker, CALLER)
    assert [s.trace for s in sink.wait()] == [TRACE] * 4
    assert worker.metric('orcd_trace_spans_queued') == 0
    assert worker.metric('orcd_trace_spans_dropped_total') == 0


def test_the_variables_of_opentelemetry(collector, start):
    sink = collector()
    named = {'OTEL_EXPORTER_OTLP_ENDPOINT': sink.url + '/base', 'OTEL_SERVICE_NAME': 'mine',
             'OTEL_RESOURCE_ATTRIBUTES': 'service.name=other,deployment.environment.name=test%20it',
             'OTEL_TRACES_SAMPLER': 'always_on', 'OTEL_EXPORTER_OTLP_HEADERS': 'key=hush'}
    worker = start('', environment=named)
    complete(worker, {'traceparent': f'00-{TRACE}-{PARENT}-00'})
    sink.wait()
    assert sink.paths == ['/base/v1/traces']
    about = sink.resource()
    assert about['service.name'] == 'mine' and about['deployment.environment.name'] == 'test it'
    ignored = [event['message'] for event in worker.events('option_ignored')]
    assert len(ignored) == 1 and 'OTEL_EXPORTER_OTLP_HEADERS' in ignored[0] and 'hush' not in ignored[0]
    off = start('', environment={**named, 'OTEL_SDK_DISABLED': 'true'})
    assert 'orcd_trace' not in off.get('/metrics').body.decode()


@pytest.mark.parametrize('earlier', [0, 1])
def test_what_is_left_is_sent_when_the_worker_ends(collector, start, earlier):
    """Also where something was sent before, longer ago than the time that the farewell has."""
    sink = collector()
    worker = start(sink.url)
    for _ in range(earlier):
        complete(worker)
        sink.wait()
        pause(2.1, 'longer than the 2 s of the farewell')
    complete(worker)
    worker.terminate()
    assert worker.wait_exit(30) == 0
    assert len(sink.spans()) == 4 * (earlier + 1)
    assert not worker.events('traces_failing')


def test_a_busy_collector_is_asked_again_and_a_broken_one_is_not(collector, start):
    sink = collector((429, {'Retry-After': '1'}, b''), (500, {}, b''), (200, {}, b'{}'))
    worker = start(sink.url)
    complete(worker, CALLER)
    wait_until(lambda: len(sink.bodies) == 2, PATIENCE, 'sent twice', 0.02)
    assert sink.bodies[0] == sink.bodies[1]
    wait_until(lambda: worker.metric('orcd_trace_spans_dropped_total') == 4, PATIENCE, 'given up', 0.02)
    complete(worker)
    assert server_of(sink.wait()).trace != TRACE
    assert worker.metric('orcd_trace_export_failures_total') == 2
    worker.wait_event('traces_recovered')
    assert len(worker.events('traces_failing')) == 1


def test_a_collector_that_talks_nonsense_and_leaves_out_spans(collector, start):
    partly = b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}'
    sink = collector(b'nonsense\r\n\r\n', (200, {}, partly))
    worker = start(sink.url)
    complete(worker)
    wait_until(lambda: worker.metric('orcd_trace_spans_dropped_total') == 3, PATIENCE, 'counted', 0.02)
    assert worker.metric('orcd_trace_spans_exported_total') == 1


def test_a_refusal_counts_though_its_body_is_cut_off(collector, start):
    """And the log does not say the path, by which some collectors know their senders."""
    sink = collector(b'HTTP/1.1 400 No\r\nContent-Length: 99\r\n\r\ncut', (200, {}, b'{}'))
    worker = start(f'{sink.url}/secret')
    complete(worker)
    failing = worker.wait_event('traces_failing')['message']
    assert 'HTTP status 400' in failing and sink.url in failing
    assert 'secret' not in '\n'.join(worker.lines)
    assert len(sink.bodies) == 1 and sink.paths == ['/secret/v1/traces']
    assert worker.metric('orcd_trace_spans_dropped_total') == 4


def test_a_collector_that_hangs(collector, start):
    sink = collector(None)
    worker = start(sink.url)
    complete(worker)
    wait_until(lambda: sink.bodies, PATIENCE, 'it is asked', 0.02)
    # More spans than the queue holds: 31 for each request.
    for _ in range(70):
        assert complete(worker, max_tokens=1, n=10).status == 200
    assert 0 < worker.metric('orcd_trace_spans_queued') <= 2048
    assert worker.metric('orcd_trace_spans_dropped_total') > 0 and worker.alive()
    began = time.monotonic()
    worker.terminate()
    assert worker.wait_exit(30) == 0
    assert time.monotonic() - began < 15 * STRETCH


def test_a_collector_that_is_gone_and_back(collector, start):
    first = collector(port=free_port())
    worker = start(first.url)
    complete(worker)
    first.wait()
    first.close()
    complete(worker, CALLER)
    worker.wait_event('traces_failing')
    assert complete(worker).status == 200
    second = collector(port=first.port)
    assert TRACE in {span.trace for span in second.wait()}
    worker.wait_event('traces_recovered')


def test_a_trace_goes_on_with_the_next_engine(collector, slow_model, tmp_path):
    sink = collector()
    with Held(slow_model, tmp_path) as engines:
        engines.start_holder()
        active, _ = engines.pair('--otlp-endpoint', sink.url)
        connection = Connection(engines.port)
        body = json.dumps(request_body(max_tokens=1000, ignore_eos=True)).encode()
        connection.request('POST', '/execute', body, CALLER)
        stream = Stream(connection)
        stream.until('token')
        killed = time.time_ns()
        active.kill()
        assert stream.rest()[-1].name == 'end'
        connection.close()
        spans = sink.wait()
        assert server_of(spans).trace == TRACE and server_of(spans).begin < killed < server_of(spans).end
        decode, = by_name(spans, 'decode')
        assert decode.attributes['orcd.resumed'] == 1 and decode.parent == server_of(spans).id


def test_wrong_options_are_refused(tiny_model):
    for options in (('--otlp-endpoint', 'grpc://h:4317'), ('--otlp-endpoint', 'http://u:p@h'),
                    ('--trace-ratio', '1.5'), ('--trace-ratio', 'nan')):
        code, worker = run_to_exit('--model', str(tiny_model), *options)
        assert code != 0 and options[0] in '\n'.join(worker.lines), options
