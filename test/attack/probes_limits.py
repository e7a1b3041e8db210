"""Shortages: whatever is scarce, the worker serves, or refuses a request, or exits 1 with a sentence. It
never aborts, never spins and never ends without a word."""
import os
import subprocess
import time

from client import execute_body, health, status_of
from crowd import Crowd, worker_cpu
from judge import ms, probe
from loads import drop, open_socket, total
from probes_signals import free_port, wait_live
from probes_sockets import idle_flood
from worker_process import SANITIZED, SANITIZER, STRETCH, cannot_be_mapped

NOBODY = 61_234  # a user that nothing else runs as
LOADER = 127  # the dynamic loader's exit code, whose words vary; the worker has none of that value
SENTENCE = ('"event":"start_failed"', '"level":"error"', '"level":"critical"', 'worker-orcd:')


def outcome(arena, prefix, seconds: float = 10.0) -> tuple:
    """('serves' or an exit code, the log): whether it came to serve one job under that shortage."""
    port = free_port()
    worker = arena.start(*arena.options('tiny'), prefix=prefix, port=str(port))
    try:
        deadline = time.monotonic() + seconds * STRETCH
        while worker.alive() and time.monotonic() < deadline:
            if status_of(port, 'POST', '/execute', execute_body(max_tokens=2), timeout=5.0) == '200':
                return 'serves', worker.lines
            time.sleep(0.05)
        code = worker.process.poll()
        return ('serves nothing and stays' if code is None else code), worker.lines
    finally:
        if worker.alive():
            worker.process.terminate()
            try:
                worker.process.wait(10 * STRETCH)
            except subprocess.TimeoutExpired:
                worker.process.kill()
        worker.end()


def judge(what: str, found: tuple, checks) -> str:
    result, lines = found
    if result == 'serves':
        return 'serves'
    said = any(mark in line for line in lines for mark in SENTENCE)
    last = (lines or ['no word'])[-1][:160]
    if result == LOADER and 'failed to execute' not in last:
        return '127 of the loader'
    checks.expect(result == 1, f'{what}: {result}, {last}')
    checks.expect(said or result != 1, f'{what}: exit 1 without a sentence: {last}')
    return str(result)


def sweep(kind_of_limit: str, values, option: str, user: bool = False):
    def run(arena, checks) -> None:
        results = {}
        for value in values:
            prefix = ['prlimit', f'--{option}={value}']
            if user:
                prefix = ['setpriv', f'--reuid={NOBODY}', '--clear-groups', '--', *prefix]
            found = outcome(arena, prefix)
            if option == 'as' and not found[1] and cannot_be_mapped(found[0], value):
                arena.excuse_last()
                results[value] = 'too large to map'
                continue
            results[value] = judge(f'{option} {value}', found, checks)
        checks.expect('serves' in results.values(), 'it serves with none of them')
        checks.note(', '.join(f'{k}: {v}' for k, v in results.items()))
    probe('limits', kind_of_limit)(run)


if not SANITIZED:  # whose address space and threads are other than the worker's
    sweep('ulimit -v', [m * 2**20 for m in (24, 32, 48, 64, 96, 128, 160, 200, 260, 400, 1000, 4000)], 'as')
    sweep('ulimit -d', [m * 2**20 for m in (1, 4, 8, 16, 24, 32, 48, 64, 100, 400)], 'data')
    sweep('ulimit -s', [64 * 2**10, 256 * 2**10, 2**20, 8 * 2**20, 2**30], 'stack')
    sweep('ulimit -n', [3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32, 48, 64], 'nofile')
    if os.geteuid() == 0:
        sweep('ulimit -u', [1, 2, 3, 4, 5, 6, 7, 8, 12, 64], 'nproc', user=True)


@probe('limits', 'ulimit -l of nothing')
def locked(arena, checks) -> None:
    judge('memlock 0', outcome(arena, ['prlimit', '--memlock=0']), checks)


@probe('limits', 'descriptors end while it serves')
def descriptors(arena, checks) -> None:
    """Sixty descriptors, three hundred that connect: others wait their turn, /live answers, nothing spins."""
    with arena.start(*arena.options('tiny'), prefix=['prlimit', '--nofile=64:64']) as worker:
        port = worker.port
        status_of(port, 'GET', '/live')
        with Crowd(idle_flood, port, 150, count=2) as crowd:
            time.sleep(2.5)
            begin, at = worker_cpu(worker.pid), time.monotonic()
            took, answers = [], []
            for _ in range(8):
                start = time.monotonic()
                answers.append(status_of(port, 'GET', '/live', timeout=5.0))
                took.append(time.monotonic() - start)
            time.sleep(max(0.0, 1.0 - (time.monotonic() - at)))
            busy = (worker_cpu(worker.pid) - begin) / (time.monotonic() - at)
            checks.note(total(crowd.finish(10.0)))
        checks.expect(set(answers) == {'200'}, f'/live: {sorted(set(answers))}, slowest {ms(max(took))}')
        checks.in_time(max(took), 1.0 * STRETCH, '/live')
        checks.expect(busy < 0.5 or SANITIZED, f'{busy:.0%} of a core while nobody asks')
        time.sleep(0.5)
        got = status_of(port, 'POST', '/execute', execute_body(max_tokens=2))
        checks.expect(got == '200', f'a job afterwards: {got}')


@probe('limits', 'descriptors are taken away while it serves')
def descriptors_taken(arena, checks) -> None:
    if SANITIZER == 'address':
        checks.note('not tried: this sanitizer looks at objects through a pipe, and ends where it gets none')
        return
    with arena.start(*arena.options('tiny')) as worker:
        port = worker.port
        status_of(port, 'GET', '/live')
        import resource
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (worker.descriptors(), 4096))
        begin, at = worker_cpu(worker.pid), time.monotonic()
        held = [open_socket(port) for _ in range(20)]
        time.sleep(1.5)
        busy = (worker_cpu(worker.pid) - begin) / (time.monotonic() - at)
        checks.expect(worker.alive(), f'it ended with {worker.process.poll()}: {worker.lines[-1:]}')
        checks.expect(busy < 0.5 or SANITIZED, f'{busy:.0%} of a core')
        drop(held)
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (1024, 4096))
        time.sleep(0.5)
        checks.expect(status_of(port, 'GET', '/health') == '200', 'no /health when they are back')


@probe('limits', 'memory ends while it serves')
def memory_taken(arena, checks) -> None:
    """Address space is taken away from a running worker, then big bodies come: each is refused or served."""
    if SANITIZED:
        return
    with arena.start(*arena.options('tiny')) as worker:
        port = worker.port
        status_of(port, 'POST', '/execute', execute_body())
        import resource
        size = worker.memory()['VmSize']
        for room in (64, 16, 4, 1, 0):
            resource.prlimit(worker.pid, resource.RLIMIT_AS, (size + room * 2**20, resource.RLIM_INFINITY))
            for path, body in (('/tokenize', {'content': 'word ' * 190_000}),
                               ('/v1/chat/completions', b'{"a":[' + b'[],' * 300_000 + b'[]]}'),
                               ('/detokenize', {'tokens': [7] * 200_000}),
                               ('/v1/chat/completions', {'messages': [{'role': 'user', 'content': 'a'}],
                                'max_tokens': 2, 'response_format': {'type': 'json_schema', 'json_schema': {
                                    'name':
                                        'x', 'schema': {'type': 'string', 'pattern': '^[ab]*a[ab]{12}$'}}}})):
                status_of(port, 'POST', path, body, timeout=10.0)
                if not checks.expect(worker.alive(), f'{room} MiB left, {path}: it ended with '
                                                     f'{worker.process.poll()}'):
                    return
        resource.prlimit(worker.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        got = status_of(port, 'POST', '/execute', execute_body())
        worker.terminate()
        code = worker.wait_exit(10)
        # A shortage in a place where nobody can say what is lost ends the worker in order, and it says so.
        said = any('Out of memory' in line for line in worker.lines)
        checks.expect((got, code) == ('200', 0) or (code == 1 and said), f'{got}, exit {code}')


@probe('limits', 'memory ends between SIGTERM and the end')
def memory_at_stop(arena, checks) -> None:
    if SANITIZED:
        return
    with arena.start(*arena.options('tiny')) as worker:
        port = worker.port
        status_of(port, 'POST', '/execute', execute_body())
        import resource
        resource.prlimit(worker.pid, resource.RLIMIT_AS, (worker.memory()['VmSize'], resource.RLIM_INFINITY))
        worker.terminate()
        code = worker.wait_exit(10)
        checks.expect(code in (0, 1), f'exit {code}')
        checks.note(f'exit {code}')


@probe('limits', 'threads end while it serves')
def threads_taken(arena, checks) -> None:
    """With just as many threads as it takes to serve: none is left for background tasks."""
    if SANITIZED or os.geteuid() != 0:
        return
    from probes_schemas import ask_for
    for count in range(1, 13):
        prefix = ['setpriv', f'--reuid={NOBODY + count}', '--clear-groups', '--',
                  'prlimit', f'--nproc={count}']
        port = free_port()
        with arena.start(*arena.options('tiny'), prefix=prefix, port=str(port)) as worker:
            deadline = time.monotonic() + 3.0
            while worker.alive() and time.monotonic() < deadline:
                if status_of(port, 'GET', '/ready') == '200':
                    break
                time.sleep(0.02)
            if not worker.alive():
                continue
            got = [status_of(port, 'POST', '/v1/chat/completions', ask_for({'type': 'object'}), timeout=5.0),
                   status_of(port, 'POST', '/tokenize', {'content': 'word ' * 190_000}, timeout=5.0),
                   status_of(port, 'POST', '/execute', execute_body())]
            checks.note(f'{count} threads: {got}')
            checks.expect(set(got) <= {'200', '400', '429', '500', '503'}, f'{count}: {got}')
            if checks.expect(worker.alive(), f'{count}: it ended with {worker.process.poll()}'):
                worker.terminate()
                checks.expect((code := worker.wait_exit(10)) in (0, 1), f'{count}: exit {code} at SIGTERM')


def closed_streams(arena, checks, redirect: str) -> None:
    """A descriptor below 3 that is free becomes a socket's: a log line would be sent to a client."""
    import worker_process
    port = free_port()
    command = ' '.join([f'exec {worker_process.BINARY} --backend host --port {port}', *arena.options('tiny'),
                        '--log-level debug', redirect])
    process = subprocess.Popen(['sh', '-c', command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        wait_live(process, port)
        if process.poll() is not None:
            checks.expect(process.returncode == 1, f'exit {process.returncode}')
            return
        held = [open_socket(port) for _ in range(8)]
        for number in range(5):
            got = status_of(port, 'POST', '/execute', execute_body(job_id=f'log-{number}', max_tokens=2))
            checks.expect(got == '200', f'a job: {got}')
        for s in held:
            s.setblocking(False)
            try:
                checks.expect(not (data := s.recv(1000)), f'a client got {data[:60]!r}')
            except BlockingIOError:
                pass
        drop(held)
        checks.expect(health(port)['status'] == 'healthy', 'not healthy')
        process.terminate()
        try:
            checks.expect((code := process.wait(10 * STRETCH)) == 0, f'exit {code}')
        except subprocess.TimeoutExpired:
            checks.expect(False, 'SIGTERM does not end it')
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


REDIRECTS = {'standard error closed': '2>&-', 'all three closed': '0<&- 1>&- 2>&-', 'a log on a full device':
             '2>/dev/full', 'standard input closed': '0<&-'}


def _redirect(name: str):
    def run(arena, checks) -> None:
        closed_streams(arena, checks, REDIRECTS[name])
    probe('limits', name)(run)


for _name in REDIRECTS:
    _redirect(_name)
