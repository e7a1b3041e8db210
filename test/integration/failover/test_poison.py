"""A request that ends its engine each time is found out and ended; those that ran beside it are not."""
import threading
from typing import List

from engines import ask
from holders import settle
from http_client import Stream
from worker_process import PATIENCE, STRETCH, wait_until

SLOTS = ('--slots', '4', '--holder', 'require')
INNOCENT = {'prompt': 'Once', 'max_tokens': 50, 'temperature': 0.7}
# So long that it is not over before the third death, however late that comes.
POISON = {'prompt': 'One day', 'max_tokens': 1500, 'temperature': 0.7, 'seed': 99, 'job_id': 'poison',
          'ignore_eos': True}


class Reader:
    """Reads one stream in a thread; `on_token` is called with each of its tokens' indices."""

    def __init__(self, engine, on_token=lambda index: None, **body):
        self.events: List = []
        self.stream = engine.open(**body)
        self.on_token = on_token
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        for event in self.stream:
            self.events.append(event)
            if event.name == 'token':
                self.on_token(event.data['i'])

    def text(self) -> str:
        return ''.join(e.data['t'] for e in list(self.events) if e.name == 'token')

    def end(self):
        self.thread.join(PATIENCE * STRETCH)
        assert not self.thread.is_alive()
        return self.events[-1]


class Trio:
    """One engine that serves and two that stand by, and a way to kill whichever serves."""

    def __init__(self, held, *options: str):
        self.held, self.options = held, options
        self.engines = {0: held.start(0, *options, state='ACTIVE')}
        self.engines[0].wait_event('ready')
        for number in (1, 2):
            self.engines[number] = held.start(number, *options, state='STANDBY')

    def serving(self):
        return self.engines[ask(self.held.port, '/health').json()['engine_id']]

    def kill(self) -> None:
        victim = self.serving()
        settle(self.held.port)
        victim.kill()
        del self.engines[victim.number]

    def begin_again(self):
        self.engines[0] = self.held.start(0, *self.options, state='ACTIVE')
        return self.engines[0]


def test_poison_is_ended_and_the_innocent_are_not(held, slow_model):
    """A token of the poison after each takeover kills: the test does what the request would. The tenth, since
    the first ones may be of the engine before."""
    held.model = slow_model
    trio = Trio(held, *SLOTS)
    first = trio.engines[0]
    alone = [''.join(e.data['t'] for e in first.execute(seed=seed, **INNOCENT) if e.name == 'token')
             for seed in (1, 2, 3)]
    deaths: List[int] = []

    def bite(index: int) -> None:
        if index >= 10 * (len(deaths) + 1) and len(deaths) < 3:
            # What a GPU's engine had sent before it died can be more than ten tokens.
            engine = trio.serving()
            engine.wait_event('execute_start', job_id='poison')
            # On the third engine the poison runs alone, possibly after the others and their 50 steps.
            steps = (8, 8, 80)[len(deaths)]
            wait_until(lambda: engine.metric('worker_steps_total') >= steps, PATIENCE, 'it runs there')
            deaths.append(index)
            trio.kill()

    innocent = [Reader(first, seed=seed, **INNOCENT) for seed in (1, 2, 3)]
    wait_until(lambda: all(len(one.events) > 3 for one in innocent), PATIENCE, 'they run')
    poison = Reader(first, bite, **POISON)
    wait_until(lambda: not trio.engines, PATIENCE * STRETCH, 'it has ended three engines')
    last = trio.begin_again()
    end = poison.end()
    assert end.name == 'error' and end.data['code'] == 'ENGINE_LOST' and not end.data['retriable'], end
    for one, text in zip(innocent, alone):
        assert one.end().name == 'end', one.events[-1]
        assert one.text() == text
    assert last.metric('orcd_failover_conflicts_total') == 0


def test_requests_that_only_waited_are_not_suspected(held, slow_model):
    """One slot: a queued request sees two deaths that it has no part in, and then goes before the one that
    ran, which the third death gives away."""
    held.model = slow_model
    trio = Trio(held, '--slots', '1', '--holder', 'require')
    first = trio.engines[0]
    short = {'prompt': 'Once', 'max_tokens': 10, 'seed': 3}
    alone = ''.join(e.data['t'] for e in first.execute(**short) if e.name == 'token')
    running = Reader(first, **POISON)
    wait_until(lambda: len(running.events) > 3, PATIENCE, 'it runs')
    connection = first.send_execute(**short)  # whose answer has not begun
    wait_until(lambda: first.waiting() == 1, PATIENCE, 'it waits')
    for _ in range(3):
        trio.serving()
        told = len(running.events)
        # More than the dead engine may have left in a socket.
        wait_until(lambda: len(running.events) > told + 9, PATIENCE * STRETCH, 'the first one goes on')
        trio.kill()
    trio.begin_again()
    assert running.end().data['code'] == 'ENGINE_LOST'
    events = Stream(connection).rest()
    assert events[-1].name == 'end'
    assert ''.join(e.data['t'] for e in events if e.name == 'token') == alone
    # How many it saw depends on which of the two was read again first.
    assert 1 <= events[-1].data['resumed'] <= 2
