"""Pages of another origin in Chromium: what a browser lets them send changes nothing on the worker, and
what they may read of it is nothing; a name that leads here by DNS rebinding makes no page the worker's own.
Skipped by name without playwright or Chromium, as the tests in page/."""
import http.server
import json
import threading
from typing import Iterator, List

import pytest

from browser import REBOUND
from worker_process import PATIENCE, Worker, wait_until

JSON = {'Content-Type': 'application/json'}
JOB = {'job_id': 'from-a-page', 'prompt': 'a', 'max_tokens': 1}


class Page(http.server.BaseHTTPRequestHandler):
    """An empty page of another origin."""

    def do_GET(self) -> None:
        body = b'<!doctype html><title>elsewhere</title><p>elsewhere'
        self.send_response(200)
        self.send_header('Content-Type', 'text/html')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope='module')
def elsewhere() -> Iterator[int]:
    """The port of a server of pages that is not the worker."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join(PATIENCE)


@pytest.fixture
def worker(tiny_model) -> Iterator[Worker]:
    """One for each test: what is tried may end it."""
    with Worker('--model', tiny_model) as running:
        running.wait_event('ready')
        yield running


@pytest.fixture(params=['127.0.0.1', 'evil.example', 'localhost'])
def page(request, chromium, elsewhere):
    """A page of another port of this host, of another site, and of this host by its other name."""
    context = chromium.new_context()
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE * 1000)
    opened.goto(f'http://{request.param}:{elsewhere}/')
    yield opened
    context.close()


def unharmed(worker: Worker) -> None:
    """It serves, drains nothing, and has run no job but one of ours."""
    assert worker.execute(job_id='ours', max_tokens=1)[-1].name == 'end', 'the worker drains'
    worker.wait_event('execute_end', job_id='ours')  # what was said before has been read, too
    assert worker.alive(), f'the worker ended with {worker.process.poll()}'
    assert worker.events('shutdown') == [], 'the worker drains'
    assert [job['job_id'] for job in worker.events('execute_start')] == ['ours'], 'a job ran'


SUBMIT = '''([url, type, name, value]) => new Promise(resolve => {
    const frame = document.createElement('iframe'), form = document.createElement('form');
    frame.name = 'target';
    frame.addEventListener('load', () => resolve());
    document.body.append(frame, form);
    Object.assign(form, {method: 'POST', action: url, enctype: type, target: 'target'});
    if (name) {
        const field = document.createElement('input');
        Object.assign(field, {type: 'hidden', name, value});
        form.append(field);
    }
    form.submit();
    setTimeout(resolve, 3000);
})'''

FETCH = '''async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        return {type: answer.type, status: answer.status, text: await answer.text()};
    } catch (failure) {
        return {type: 'failed', status: 0, text: ''};
    }
}'''


def address(worker: Worker, path: str, host: str = '127.0.0.1') -> str:
    return f'http://{host}:{worker.port}{path}'


def fetch(page, url: str, **options) -> dict:
    return page.evaluate(FETCH, [url, options])


def test_a_form_without_fields_does_not_end_the_worker(page, worker):
    page.evaluate(SUBMIT, [address(worker, '/shutdown'), 'application/x-www-form-urlencoded', '', ''])
    unharmed(worker)


def test_a_form_of_text_is_no_json(page, worker):
    """The oldest trick: a text/plain form whose one field, name=value, reads as JSON."""
    for path, begin in (('/execute', '{"prompt": "a", "max_tokens": 1, "job_id": "'),
                        ('/v1/completions', '{"prompt": "a", "max_tokens": 1, "user": "'),
                        ('/cancel', '{"job_id": "')):
        page.evaluate(SUBMIT, [address(worker, path), 'text/plain', begin, '"}'])
    unharmed(worker)


@pytest.mark.parametrize('mode', ['no-cors', 'cors'])
def test_a_fetch_posts_nothing(page, worker, mode):
    simple = {'method': 'POST', 'mode': mode, 'body': json.dumps(JOB),
              'headers': {'Content-Type': 'text/plain'}}
    honest = {**simple, 'headers': JSON}
    execute = address(worker, '/execute')
    answers = [fetch(page, execute, **simple), fetch(page, execute, **honest),
               fetch(page, address(worker, '/shutdown'), method='POST', mode=mode),
               fetch(page, address(worker, '/cancel'), **simple)]
    assert all(answer['text'] == '' for answer in answers), 'an answer was read'
    unharmed(worker)


def test_a_beacon_posts_nothing(page, worker):
    page.evaluate('url => navigator.sendBeacon(url)', address(worker, '/shutdown'))
    page.evaluate('([url, body]) => navigator.sendBeacon(url, body)',
                  [address(worker, '/execute'), json.dumps(JOB)])
    wait_until(lambda: worker.metric('worker_http_responses_total', status='403') == 2, PATIENCE,
               'both are refused')
    unharmed(worker)


def test_images_scripts_and_styles_read_nothing(page, worker):
    page.evaluate('''urls => Promise.all(urls.flatMap(url => ['img', 'script', 'link'].map(kind =>
        new Promise(resolve => {
            const element = document.createElement(kind);
            element.onload = element.onerror = () => resolve();
            if (kind === 'link') Object.assign(element, {rel: 'stylesheet', href: url});
            else element.src = url;
            document.head.append(element);
            setTimeout(resolve, 3000);
        }))))''', [address(worker, path) for path in ('/health', '/v1/models', '/shutdown', '/metrics')])
    for path in ('/health', '/v1/models', '/metrics', '/'):
        assert fetch(page, address(worker, path))['text'] == '', f'{path} was read'
    unharmed(worker)


def test_the_page_cannot_be_framed_into_use(page, worker):
    """A foreign page may show a frame, but sees nothing in it."""
    seen = page.evaluate('''url => new Promise(resolve => {
        const frame = document.createElement('iframe');
        frame.onload = () => {
            try { resolve(frame.contentDocument ? frame.contentDocument.body.innerText : ''); }
            catch (failure) { resolve(''); }
        };
        frame.src = url;
        document.body.append(frame);
        setTimeout(() => resolve(''), 3000);
    })''', address(worker, '/'))
    assert seen == ''
    unharmed(worker)


def test_a_navigation_to_shutdown_is_none(page, worker):
    page.goto(address(worker, '/shutdown'))
    unharmed(worker)


def test_a_name_that_was_rebound_reads_and_sends_nothing(chromium, worker):
    """For the browser the worker is then of the page's own origin, so that only its Host tells."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(address(worker, '/live', REBOUND))  # whatever it shows, a script in it would be of this origin
    identity = worker.events('ready')[0]['worker_id']
    secrets: List[str] = [identity, 'worker_info', 'quant_kind', 'context_tokens']
    posts = {'/execute': json.dumps(JOB), '/shutdown': None, '/v1/completions': json.dumps({'prompt': 'a'}),
             '/tokenize': json.dumps({'content': 'a'})}
    answers = [fetch(page, path) for path in ('/health', '/v1/models', '/metrics', '/', '/ready', '/live')]
    answers += [fetch(page, path, method='POST', headers=JSON, **({'body': body} if body else {}))
                for path, body in posts.items()]
    context.close()
    read = [word for word in secrets if any(word in answer['text'] for answer in answers)]
    assert read == [], 'a page of a rebound name read the state of the worker'
    assert {answer['status'] for answer in answers} == {403}, [answer['status'] for answer in answers]
    unharmed(worker)


@pytest.mark.parametrize('host', ['127.0.0.1', 'localhost', 'app.localhost'])
def test_the_page_of_the_worker_itself_works(chromium, worker, host):
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    problems: List[str] = []
    page.on('pageerror', lambda e: problems.append(str(e)))
    page.goto(address(worker, '/', host))
    assert fetch(page, '/health')['status'] == 200
    body = json.dumps({'prompt': 'a', 'max_tokens': 2, 'ignore_eos': True})
    answer = fetch(page, '/v1/completions', method='POST', headers=JSON, body=body)
    assert answer['status'] == 200, answer
    wait_until(lambda: worker.events('execute_end'), PATIENCE, 'the job ran')
    assert problems == []
    context.close()
