"""Limits of another kind: the model file under the host backend's mapping is cut, rewritten, replaced. Jobs
end at once with an error, never with a wrong answer that looks right; the process never ends by SIGBUS."""
import os
import shutil
import time

from client import Closed, Connection, ask, chat_body, execute_body, request, status_of
from judge import ms, probe
from worker_process import STRETCH

WATCHED = 6.0  # seconds after the damage
NOTICED_WITHIN = 0.5  # from the damage to the last answer that looks right


def served_copy(arena, name: str):
    """A worker of the slow model on a file of its own."""
    path = arena.folder / f'copy-{name}.gguf'
    shutil.copy(arena.model('slow'), path)
    options = arena.options('main')
    options[1] = str(path)
    worker = arena.start(*options)
    worker.wait_event('ready')
    return path, worker


def ends_in_error(connection: Connection, checks) -> None:
    text = connection.drain(6.0 * STRETCH)
    checks.expect(b'event: error' in text, f'the stream ends with {text[-80:]!r}')
    checks.expect(b'event: end\n' not in text, 'the stream ends as if all were well')


def overwrite(path, begin: float, end: float) -> None:
    """Zeros where weights are: numbers as good as any, so that only the file can tell."""
    size = path.stat().st_size
    with path.open('r+b') as file:
        file.seek(int(size * begin))
        file.write(bytes(int(size * (end - begin))))


def truncate(path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def rewrite(path) -> None:
    overwrite(path, 0.3, 0.9)


def rewrite_quietly(path) -> None:
    """With its times as they were: only ctime tells."""
    times = path.stat()
    overwrite(path, 0.3, 0.9)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def rewrite_mapped(path) -> None:
    """By another mapping of the same file, which moves its times late."""
    import mmap
    with path.open('r+b') as file, mmap.mmap(file.fileno(), 0) as view:
        size = len(view)
        view[size // 2:size // 2 + size // 4] = bytes(size // 4)
        view.flush()


def grow_again(path) -> None:
    """Cut and written again to its length: every page is another one."""
    size = path.stat().st_size
    os.truncate(path, 4096)
    os.truncate(path, size)


def append(path) -> None:
    with path.open('ab') as file:
        file.write(b'x' * 5000)


DAMAGES = {'cut': truncate, 'rewritten': rewrite, 'rewritten with its times restored': rewrite_quietly,
           'rewritten through a mapping': rewrite_mapped, 'cut and grown again': grow_again,
           'grown': append}


def wrong_for(worker, good: bytes) -> float:
    """From now on: when the last answer was asked for that has other bytes and ends as if all were well."""
    at, last, number = time.monotonic(), 0.0, 0
    while time.monotonic() < at + WATCHED * STRETCH and worker.alive():
        begin, number = time.monotonic(), number + 1
        body = b''
        try:
            body = ask(worker.port, 'POST', '/execute', execute_body(job_id=f'after-{number}', max_tokens=5),
                       timeout=10.0).body
        except (Closed, OSError):
            pass  # refused, cut off or gone: all of them are honest
        if b'event: end\n' in body and texts(body) != texts(good):
            last = begin - at
        time.sleep(0.02)
    return last


def _one(name: str):
    damage = DAMAGES[name]

    def run(arena, checks) -> None:
        path, worker = served_copy(arena, name.replace(' ', '-'))
        with worker, Connection(worker.port, timeout=20.0) as connection:
            port = worker.port
            good = ask(port, 'POST', '/execute', execute_body(job_id='good', max_tokens=5)).body
            connection.send(request(port, 'POST', '/execute', execute_body(max_tokens=3000)))
            connection.read_head()
            time.sleep(0.3)
            damage(path)
            last = wrong_for(worker, good)
            if name != 'grown':
                ends_in_error(connection, checks)
            code = worker.process.poll()
            checks.expect(code in (None, 1), f'it ended with {code}')
            checks.in_time(last, NOTICED_WITHIN * STRETCH, 'the last wrong answer that ends well')
            checks.note(f'the last wrong answer after {ms(last)}')
            checks.note(f'then exit {code}' if code is not None else 'it stays')
    probe('files', f'the model is {name} while served')(run)


def texts(body: bytes) -> list:
    return [line for line in body.split(b'\n') if line.startswith(b'data: {"t"')]


for _name in DAMAGES:
    _one(_name)


def harmless(name: str, change):
    def run(arena, checks) -> None:
        path, worker = served_copy(arena, name.replace(' ', '-'))
        with worker:
            first = texts(ask(worker.port, 'POST', '/execute', execute_body(max_tokens=5)).body)
            change(path)
            time.sleep(0.5)
            second = ask(worker.port, 'POST', '/execute', execute_body(max_tokens=5))
            checks.expect(texts(second.body) == first and first != [], f'{second.status}, other bytes')
            checks.expect(status_of(worker.port, 'GET', '/health') == '200', '/health is not 200')
            got = status_of(worker.port, 'POST', '/v1/chat/completions', chat_body())
            checks.expect(got == '200', f'a chat: {got}')
    probe('files', f'the model is {name} while served')(run)


def replace(path) -> None:
    new = path.with_suffix('.new')
    new.write_bytes(b'something else')
    new.rename(path)


harmless('replaced by another file', replace)
harmless('removed', lambda path: path.unlink())
harmless('made unreadable', lambda path: path.chmod(0))
# Touched is no such case: a write through a mapping changes no more than that, as far as anybody can see.
