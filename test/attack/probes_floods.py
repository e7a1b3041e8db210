"""Sockets that are busy: floods that cost the io thread, beside the canary."""
import time

import cases_raw
from canary import under
from client import execute_body, request, status_of
from crowd import Crowd
from judge import probe
from loads import dribble, hammer, sequence, silent, storm, total, upload
from worker_process import SANITIZED

LOAD_SECONDS = 0.8 if SANITIZED else 1.6  # its pace is judged only without a sanitizer


def flood(name: str, function, make_arguments, count: int = 8, kind: str = 'sockets', worker: str = 'main'):
    """`count` processes of function(stop, port, *make_arguments(port)) beside the canary."""
    def run(arena, checks) -> None:
        port = arena.port(worker)

        def attack(found) -> None:
            with Crowd(function, port, *make_arguments(port), count=count) as crowd:
                time.sleep(LOAD_SECONDS)
                found.note(total(crowd.finish(30.0)))
        under(arena, worker, attack, checks)
    probe(kind, name)(run)


def one_byte_chunks(length: int) -> bytes:
    return cases_raw.post(cases_raw.CHUNKED, body=b'1\r\n \r\n' * length + b'0\r\n\r\n')


flood('8 clients of /health', hammer, lambda port: (request(port, 'GET', '/health'),))
flood('8 clients of /metrics', hammer, lambda port: (request(port, 'GET', '/metrics'),))
flood('8 clients that pipeline /metrics and read nothing', silent,
      lambda port: (request(port, 'GET', '/metrics') * 50, 20, 4))
flood('8 clients that pipeline /live without end', silent,
      lambda port: (request(port, 'GET', '/live') * 1000, 100, 1))
flood('8 clients with bodies in chunks of one byte', hammer, lambda port: (one_byte_chunks(100_000),))
flood('8 clients with a head of 16 KiB, a byte a packet', dribble,
      lambda port: (cases_raw.get(b'/live', b'X: ' + b'a' * 15_000), 1), count=8)
flood('8 clients that reset as soon as they are there', storm, lambda port: (request(port, 'GET', '/live'),))
flood('8 clients that begin a stream and are gone', storm,
      lambda port: (request(port, 'POST', '/execute', execute_body(job_id='gone')),))
flood('8 clients of 404, 405, 400 and 413', sequence, lambda port: ([
    request(port, 'GET', '/nowhere'), request(port, 'POST', '/health', {}), b'\x00' * 64 + b'\r\n\r\n',
    request(port, 'POST', '/execute', b'').replace(b'Content-Length: 0', b'Content-Length: 99999999')], 1))


@probe('sockets', '700 held uploads of a megabyte each')
def uploads(arena, checks) -> None:
    """Judged here: probes, canary, and what memory stands at its peak. That it is given back: at the end."""
    worker = arena.get('main')
    length = 1_000_000
    head = request(worker.port, 'POST', '/execute', b'').replace(b'Content-Length: 0',
                                                                 b'Content-Length: %d' % length)
    before = worker.memory()['VmRSS']

    def attack(found) -> None:
        with Crowd(upload, worker.port, 350, length, head, count=2) as crowd:
            time.sleep(LOAD_SECONDS + 2)
            peak = worker.memory()['VmRSS']
            honest = status_of(worker.port, 'POST', '/tokenize', {'content': 'a'})
            found.note(f'{total(crowd.finish(30.0))}; {(peak - before) >> 20} MiB more while held')
        found.expect(honest == '200', f'an honest body beside them: {honest}')
        deadline = time.monotonic() + 5
        while worker.memory()['VmRSS'] > before + 2**26 and time.monotonic() < deadline:
            time.sleep(0.1)
        kept = (worker.memory()['VmRSS'] - before) >> 20
        found.expect(kept < 64 or not arena.timed, f'{kept} MiB are kept 5 s after they are gone')
    under(arena, 'main', attack, checks)
