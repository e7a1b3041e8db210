"""Each signal of the table in docs/operations.md, at each program that can get it."""
import re
import signal
from typing import Callable, Dict, List

import pytest

from engines import status
from worker_process import PATIENCE, PROJECT, STRETCH, Worker, wait_until

PROGRAMS = ('a worker alone', 'the engine that stands by', 'the engine that serves', 'the holder')


class Scene:
    """The program that gets the signal, and the engines that see what comes of it."""

    def __init__(self, program: str, worker: Worker, engines: List[Worker], port: int):
        self.program, self.told, self.engines, self.port = program, worker, engines, port

    def serves(self) -> bool:
        """Whoever of them is left."""
        return status(self.port, '/ready') == 200


def ends(scene: Scene) -> None:
    assert scene.told.wait_exit(30) == 0
    if scene.program != PROGRAMS[0]:
        wait_until(scene.serves, PATIENCE * STRETCH, 'the others serve')


def reads_again(scene: Scene) -> None:
    for one in scene.engines:
        one.wait_event('reloaded')


def another_serves(scene: Scene) -> None:
    active, standby = scene.engines
    standby.wait_state('ACTIVE')
    active.wait_state('STANDBY')


def is_refused(scene: Scene) -> None:
    scene.told.wait_event('hand_over_refused')


def nothing(scene: Scene) -> None:
    assert scene.serves() and scene.told.alive()
    for one in scene.engines:
        assert one.alive() and not one.events('reloaded') and not one.events('hand_over_refused')


TABLE: Dict[str, List[Callable[[Scene], None]]] = {
    'SIGTERM': [ends] * 4,
    'SIGINT': [ends] * 4,
    'SIGHUP': [reads_again] * 4,
    'SIGUSR2': [is_refused, is_refused, another_serves, another_serves],
    'SIGUSR1, SIGALRM, SIGPIPE, SIGXFSZ': [nothing] * 4,
}


@pytest.fixture
def scene(request, tiny_model):
    program = request.param
    if program == PROGRAMS[0]:
        with Worker('--model', tiny_model) as alone:
            yield Scene(program, alone, [alone], alone.port)
        return
    held = request.getfixturevalue('held')
    active, standby = held.pair()
    wait_until(lambda: status(held.port, '/ready') == 200, PATIENCE * STRETCH, 'it serves')
    told = {PROGRAMS[1]: standby, PROGRAMS[2]: active, PROGRAMS[3]: held.holder}[program]
    yield Scene(program, told, [active, standby], held.port)


@pytest.mark.parametrize('scene', PROGRAMS, indirect=True)
@pytest.mark.parametrize('names', TABLE)
def test_a_signal_does_what_the_table_says(scene, names):
    for name in names.split(', '):
        scene.told.process.send_signal(getattr(signal, name))
        TABLE[names][PROGRAMS.index(scene.program)](scene)


def test_the_table_of_the_documents_is_the_one_that_is_tried():
    text = (PROJECT / 'docs' / 'operations.md').read_text()
    section = re.search(r'^## Signals\n(.*?)^## ', text, re.M | re.S).group(1)
    named = [set(re.findall(r'SIG[A-Z0-9]+', row.split('|')[1])) for row in section.splitlines()
             if row.startswith('| SIG')]
    assert set().union(*named) == {name for names in TABLE for name in names.split(', ')}
