"""Host backend: a model file that is written to or cut while it is served ends jobs with an error."""
import os
import shutil
import time

import pytest

from pauses import pause
from worker_process import BACKEND, PATIENCE, STRETCH, Worker, wait_until

LONG = dict(max_tokens=2000, ignore_eos=True)
reads_the_file = pytest.mark.skipif(BACKEND != 'host', reason='a GPU has a copy of the file')


@pytest.fixture
def served(slow_model, tmp_path):
    path = tmp_path / 'model.gguf'
    shutil.copyfile(slow_model, path)
    with Worker('--model', path, '--max-tokens-out', '4000') as worker:
        worker.wait_event('ready')
        yield worker, path


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path):
    with open(path, 'r+b') as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(4096))


def overwrite_and_set_back(path):
    before = path.stat()
    overwrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def cut_and_grow(path):
    before = path.stat()
    os.truncate(path, 4096)
    os.truncate(path, before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@reads_the_file
@pytest.mark.parametrize('damage', [truncate, overwrite, overwrite_and_set_back, cut_and_grow])
def test_damage_ends_jobs_and_the_worker(served, damage):
    worker, path = served
    sound = ''.join(e.data['t'] for e in worker.execute(**{**LONG, 'max_tokens': 500}) if e.name == 'token')
    running = worker.open(**LONG)
    running.until('token')
    damage(path)
    damaged_at = time.monotonic()
    last = running.finish()
    assert last.name == 'error', 'no answer ends well after the damage'
    assert last.data['code'] == 'INTERNAL' and last.data['retriable'] is True
    told = ''.join(e.data['t'] for e in running.seen if e.name == 'token')
    assert told and sound.startswith(told[:len(sound)]), 'no token of a damaged model was sent'
    assert str(path) not in last.data['message'], 'what the file is called is no business of a client'
    assert time.monotonic() - damaged_at < 2 * STRETCH, 'at the next step'
    assert worker.wait_exit(10) == 1
    assert worker.events('error', level='critical')


@reads_the_file
@pytest.mark.parametrize('damage', [overwrite_and_set_back, truncate])
def test_damage_between_jobs(served, damage):
    worker, path = served
    assert worker.execute(max_tokens=4)[-1].name == 'end'
    damage(path)
    try:
        stream = worker.open(max_tokens=4)
        if stream.response.status == 200:
            assert stream.finish().name == 'error'
    except OSError:
        pass  # it noticed by itself, and was gone
    assert worker.wait_exit(PATIENCE) == 1


@reads_the_file
def test_an_idle_worker_notices(served):
    worker, path = served
    overwrite_and_set_back(path)
    assert worker.wait_exit(PATIENCE) == 1
    assert worker.events('error', level='critical')


def replace(path, slow_model, _):
    fresh = path.with_suffix('.new')
    shutil.copyfile(slow_model, fresh)
    os.rename(fresh, path)


def move_away(path, slow_model, _):
    os.rename(path, path.with_suffix('.old'))
    shutil.copyfile(slow_model, path)


def change_mode_and_name(path, _, worker):
    path.chmod(0o600)
    os.link(path, path.with_suffix('.link'))
    # A name that comes and goes between two looks leaves a change that nothing explains. Each step looks.
    steps = worker.metric('worker_steps_total')
    wait_until(lambda: worker.metric('worker_steps_total') > steps + 1, PATIENCE, 'it has looked')
    path.unlink()


@pytest.mark.parametrize('change', [replace, move_away, change_mode_and_name])
def test_a_file_that_keeps_its_bytes_is_served_on(served, change, slow_model):
    worker, path = served
    text = [e.data['t'] for e in worker.execute(max_tokens=16) if e.name == 'token']
    running = worker.open(max_tokens=1000, ignore_eos=True)
    running.until('token')
    change(path, slow_model, worker)
    assert running.finish().name == 'end'
    running.close()
    pause(1.3, 'an idle worker looks each second')
    assert [e.data['t'] for e in worker.execute(max_tokens=16) if e.name == 'token'] == text
