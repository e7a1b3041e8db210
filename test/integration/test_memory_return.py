"""Memory that a flood of uploads took is given back, whatever lies beside it in the heap."""
import pytest

from worker_process import PATIENCE, SANITIZED, Worker, wait_until

MIB = 1 << 20
CROWD = 60
BODY = 4 * MIB  # more than glibc maps by itself once such blocks have been freed

pytestmark = pytest.mark.skipif(SANITIZED, reason='a sanitizer keeps what is freed')


def flood(worker, kept):
    """Uploads that are all but complete, and between them clients that stay."""
    crowd = []
    for number in range(CROWD):
        connection = worker.connect()
        connection.send(b'POST /execute HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n'
                        b'Content-Length: %d\r\n\r\n{"prompt":"' % BODY + b'a' * (BODY - 100))
        crowd.append(connection)
        if number % 10 == 9:
            kept.append(worker.connect())
            kept[-1].request('GET', '/live')
            assert kept[-1].read_response().status == 200
    return crowd


def test_memory_is_given_back_after_each_flood(tiny_model):
    with Worker('--model', tiny_model, '--max-body-bytes', str(BODY)) as worker:
        worker.wait_event('ready')
        before = worker.memory()['VmRSS']
        kept = []
        for _ in range(3):
            crowd = flood(worker, kept)
            held = CROWD * BODY
            wait_until(lambda: worker.memory()['VmRSS'] > before + 0.7 * held, PATIENCE,
                       'the bodies are held')
            for connection in crowd:
                connection.close()
            wait_until(lambda: worker.memory()['VmRSS'] < before + 0.15 * held, PATIENCE,
                       'their memory is given back')
