"""Too few threads or descriptors, too little memory: a sentence and exit code 1, or fewer connections."""
import os
import resource
import shutil
import subprocess

import pytest

from failing_worker import BODY, ask, judge, run_once, text_of, wait_for
from ports import free_port
from worker_process import BACKEND, BINARY, PATIENCE, SANITIZED, Worker, cannot_be_mapped, wait_until

MIB = 1 << 20
BODY_TO_COME = (b'POST /cancel HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                b'Content-Length: 9\r\n\r\n{')


def limited(name: str, soft: int, hard: int = -1) -> list:
    """prlimit as a prefix of a command."""
    tool = shutil.which('prlimit')
    assert tool, 'util-linux is needed'
    return [tool, f'--{name}={soft}:{soft if hard < 0 else hard}']


# --- descriptors -------------------------------------------------------------------------------------------

def test_soft_limit_of_descriptors_is_raised(tiny_model):
    limit = limited('nofile', 64, 4096)
    with Worker('--model', tiny_model, '--max-connections', '500', prefix=limit) as worker:
        worker.wait_event('ready')
        assert not worker.events('connections_limited')
        soft, hard = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
        assert 500 < soft < 700 and hard == 4096
        open_now = [worker.connect() for _ in range(200)]
        assert worker.get('/health').status == 200
        for connection in open_now:
            connection.close()


def test_connections_are_limited_to_what_fits(tiny_model):
    most = 100 if BACKEND == 'host' else 170  # room for 96 of a GPU's driver is kept until it is up
    with Worker('--model', tiny_model, prefix=limited('nofile', most)) as worker:
        worker.wait_event('ready')
        said = worker.events('connections_limited', level='warning')[-1]
        assert said['max_connections'] == 1024 and 16 <= said['connections'] < most - 32
        crowd = [worker.connect() for _ in range(150)]
        for connection in crowd:
            connection.send(BODY_TO_COME)
        wait_until(lambda: refused(worker), PATIENCE, 'the rest is refused')
        assert worker.descriptors() < most
        assert worker.get('/health').status == 200, 'a probe is answered all the same'
        for connection in crowd:
            connection.close()
        wait_until(lambda: worker.get('/v1/models').status == 200, PATIENCE, 'all is well again')
        assert worker.execute(max_tokens=4)[-1].name == 'end'


def refused(worker) -> bool:
    """A client beyond the limit is told so, or waits; it does not take the worker's last descriptor."""
    try:
        return worker.get('/v1/models').status == 503
    except (OSError, AssertionError):
        return False


# The undefined-behaviour sanitizer asks through a pipe what an address holds.
@pytest.mark.parametrize('limit', [*([] if SANITIZED else [5, 8]), 12, 16, 24, 40, 56])
def test_too_few_descriptors_to_serve(tiny_model, limit):
    with Worker('--model', tiny_model, log_format='console', prefix=limited('nofile', limit)) as worker:
        assert worker.wait_exit(PATIENCE) == 1
        text = '\n'.join(worker.lines)
        assert 'escriptor' in text or 'open files' in text or 'shared librar' in text, text


@pytest.mark.parametrize('closed', ['2>&-', '0<&- 1>&- 2>&-', '1>&-'])
def test_standard_streams_that_are_closed(tiny_model, closed):
    """Nothing else gets their numbers, or the log would be written into a client's connection."""
    port = free_port()
    command = f'exec {BINARY} --backend host --model {tiny_model} --port {port} {closed}'
    process = subprocess.Popen(['sh', '-c', command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        assert wait_for(process, port)
        links = [os.readlink(f'/proc/{process.pid}/fd/{number}') for number in range(3)]
        assert links == ['/dev/null'] * 3, links
        assert text_of(ask(port, 'POST', '/execute', BODY)) is not None
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


# --- threads -----------------------------------------------------------------------------------------------

def unprivileged() -> list:
    """Root's processes are not counted: the worker runs as a user who has no other ones."""
    if os.geteuid() != 0:
        pytest.skip('a limit on the threads of this user would count those of the whole session')
    return [shutil.which('setpriv'), '--reuid=54321', '--regid=54321', '--clear-groups', '--']


@pytest.mark.skipif(SANITIZED, reason='a sanitizer has threads of its own')
def test_too_few_threads(tiny_model, tmp_path_factory):
    """From one thread to all that are needed: each fails with a sentence until one serves."""
    model = tiny_model
    for folder in (model, *list(model.parents)[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    user = unprivileged()
    codes = []
    for threads in range(1, 14):
        outcome = run_once(model, {}, prefix=[*limited('nproc', threads), *user])
        assert not judge(outcome, outcome.texts[0] if outcome.texts else ''), (threads, outcome)
        codes.append(outcome.code)
    assert codes[0] == 1 and codes[-1] == 0 and codes == sorted(codes, reverse=True), codes


# --- memory ------------------------------------------------------------------------------------------------

@pytest.mark.skipif(SANITIZED, reason='a sanitizer reserves terabytes of addresses')
def test_too_little_address_space(tiny_model):
    """From too little to load the libraries to enough."""
    codes = []
    for mib in (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 128, 160, 192, 256, 384, 512, 1024):
        outcome = run_once(tiny_model, {}, prefix=limited('as', mib * MIB))
        too_large = cannot_be_mapped(outcome.code, mib * MIB) and not outcome.log
        if too_large or outcome.code == 127 or any(
                'shared librar' in line or 'ld.so' in line for line in outcome.log):
            codes.append(127)  # the system did not get as far as main()
            continue
        wrong = judge(outcome, next((t for t in outcome.texts if t is not None), ''))
        assert not wrong, (mib, wrong, outcome)
        codes.append(outcome.code)
    assert codes[-1] == 0 and 1 in codes, codes


@pytest.mark.skipif(SANITIZED, reason='a sanitizer takes addresses of its own')
def test_no_memory_before_main_is_a_sentence():
    """From where the loader has what it needs, in small steps: what comes before main() needs memory, too."""
    def run(addresses: int) -> subprocess.CompletedProcess:
        command = [*limited('as', addresses), str(BINARY), '--version']
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def not_loaded(addresses: int) -> bool:
        done = run(addresses)
        return done.returncode == 127 or cannot_be_mapped(done.returncode, addresses)

    least, enough = MIB, 512 * MIB
    while enough - least > 16 * 1024:
        half = (least + enough) // 2
        least, enough = (half, enough) if not_loaded(half) else (least, half)
    codes = set()
    for addresses in range(enough, enough + 2 * MIB, 32 * 1024):
        done = run(addresses)
        codes.add(done.returncode)
        assert done.returncode in (1, 127), (addresses, done)  # the loader's needs are not one number
        assert done.stderr.startswith(('worker-orcd: ', f'{BINARY}: ')), (addresses, done)
    assert 1 in codes
