"""The page at / over a raw socket; test_page_browser.py tries it in a browser."""
import gzip
import hashlib

from completion_worker import start
from worker_process import BINARY, Worker

HTML = (BINARY.parent / 'net' / 'page.html').read_bytes()


def ask(worker: Worker, method: str = 'GET', headers: dict = None):
    with worker.connect() as connection:
        connection.request(method, '/', headers=headers)
        return connection.read_response(head_only=method == 'HEAD')


def test_the_page_that_was_built_is_served(tiny):
    page = ask(tiny)
    assert page.status == 200 and page.body == HTML
    assert page.headers['content-type'] == 'text/html; charset=utf-8'
    assert page.headers['content-length'] == str(len(HTML))
    assert page.headers['cache-control'] == 'no-cache'
    assert page.headers['etag'] == f'"{hashlib.sha256(HTML).hexdigest()}"'
    assert page.headers['x-content-type-options'] == 'nosniff'
    assert page.headers['referrer-policy'] == 'no-referrer'
    policy = page.headers['content-security-policy']
    assert policy.startswith("default-src 'none'; connect-src 'self'; img-src data:; font-src data:; "
                             "script-src 'sha256-")
    assert 'unsafe' not in policy and '*' not in policy


def test_it_is_small_with_all_its_libraries():
    assert len(gzip.compress(HTML, 9)) <= 600 * 1024
    for part in (b'id="reader">', b'id="formula-sheet">'):
        assert len(HTML.split(part)[1].split(b'</script>')[0]) > 100_000, 'the libraries are here'


def test_head_and_a_second_request_get_no_body(tiny):
    page = ask(tiny)
    head = ask(tiny, 'HEAD')
    same = ('content-type', 'content-length', 'etag', 'content-security-policy', 'cache-control')
    assert head.status == 200
    assert {k: head.headers[k] for k in same} == {k: page.headers[k] for k in same}
    with tiny.connect() as connection:
        for _ in range(2):  # nothing may follow the head, or the second answer could not be read
            connection.request('GET', '/', headers={'If-None-Match': page.headers['etag']})
            known = connection.read_response()
            assert known.status == 304 and known.headers['etag'] == page.headers['etag']
        connection.request('GET', '/', headers={'If-None-Match': '"older"'})
        assert connection.read_response().body == HTML


def test_other_methods_are_refused(tiny):
    refused = ask(tiny, 'DELETE')
    assert refused.status == 405 and refused.headers['allow'] == 'GET, HEAD, OPTIONS'


def test_it_needs_no_key(tiny_model, tmp_path):
    keys = tmp_path / 'keys'
    keys.write_text('test-key\n')
    with start(tiny_model, tmp_path, '--api-key-file', str(keys)) as worker:
        assert ask(worker).body == HTML
        assert worker.get('/v1/models').status == 401


def test_it_can_be_left_out(tiny_model, tmp_path):
    with start(tiny_model, tmp_path, '--no-page') as worker:
        for method in ('GET', 'HEAD', 'POST'):
            assert ask(worker, method).status == 404
        assert worker.get('/health').status == 200
