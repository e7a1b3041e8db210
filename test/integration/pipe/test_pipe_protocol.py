"""What the token pipe answers: turns, limits, seeds, and how it ends."""
import array
import fcntl
import subprocess
import termios
import time

import pytest

from pauses import pause
from pipe_client import DEFAULTS, GREEDY, PROGRAM, Pipe, environment, keeping, lines, run, words_of
from worker_process import PATIENCE, STRETCH, Worker, fastest, wait_until

F_SETPIPE_SZ = 1031  # Python 3.9 has no name for it
PROMPT = list(range(40, 60))
END = 302


def held(pipe) -> int:
    """The bytes that wait in it."""
    count = array.array('i', [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_turns_hold_what_was_said_before(tiny, config, pipe):
    """Three turns, and each answer is what a process gives that gets all of it at once."""
    said, sampling = [], (0, 0, 1, 1.3, 64)  # the penalty sees cached tokens, too
    for turn in range(3):
        more = [token + turn for token in PROMPT[:7 + turn]]
        given = pipe.ask(more, reset=int(turn == 0), sampling=sampling, limit=6)
        said += more
        assert len(given.tokens) == 6 and given.tokens[-1] == END
        assert given.kv == len(said) + 6, 'the end that stands for the limit is part of the context'
        with Pipe(tiny, config) as fresh:
            assert fresh.ask(said, sampling=sampling, limit=6) == given
        said += given.tokens
    pipe.send('0\n')
    assert pipe.ended() == 0


def test_the_tokens_are_the_worker_s(tiny, config, pipe):
    given = pipe.ask(PROMPT, limit=7)
    with Worker('--model', tiny) as worker:
        worker.wait_event('ready')
        told = worker.call('POST', '/completion', {'prompt': PROMPT, 'n_predict': 6, 'temperature': 0,
                                           'return_tokens': True, 'repeat_penalty': 1.0}).json()
    assert told['tokens'] == given.tokens[:-1]


def test_an_end_that_the_model_chose_is_counted(tiny, config, pipe):
    chosen = pipe.ask(PROMPT, limit=9).tokens[4]
    before = pipe.ask(PROMPT, limit=9).tokens[:4]
    assert chosen not in before
    two = {**config, 'eos': [END, chosen]}
    with Pipe(tiny, two) as ends:
        # Also where the limit is just there.
        for limit in 0, 5, 50:
            assert ends.ask(PROMPT, limit=limit) == (before + [chosen], len(PROMPT) + 5)
        assert ends.ask(PROMPT, limit=4).tokens == before[:3] + [END], 'the first id stands for a limit'
        for more, stands in ([END, 5], END), ([chosen, 5], chosen), ([END, chosen, 5], chosen):
            given = ends.ask(PROMPT + more, limit=1)
            assert given == ([stands], len(PROMPT + more) + 1), 'or the one that ended the last turn'
        ends.ask(PROMPT)
        more = ends.ask([7, 8], reset=0, limit=2)
        with Pipe(tiny, two) as whole:
            assert whole.ask(PROMPT + before + [chosen, 7, 8], limit=2) == more


def test_the_literal_text_has_no_end_for_a_limit(tiny, config):
    with Pipe(tiny, config, env={'WORKER_ORCD_PIPE_LIMIT': 'literal'}) as pipe:
        pipe.send(lines(PROMPT, limit=3))
        numbers = [pipe.number() for _ in range(4)]
        assert END not in numbers and numbers[-1] == len(PROMPT) + 3
        pipe.send(lines([5] * 300, reset=0))
        assert pipe.number() == len(PROMPT) + 3


def test_a_full_context_and_what_does_not_fit(pipe):
    full = pipe.ask(PROMPT)
    assert full.tokens[-1] == END and full.kv == 256 and len(full.tokens) == 256 - len(PROMPT) + 1
    for _ in range(2):
        assert pipe.ask([1], reset=0) == ([END], 0), 'the talk is over'
    assert pipe.ask([1] * 257) == ([END], 0) == pipe.ask([1], reset=0)
    assert pipe.ask([1] * 256) == ([END], 256)
    assert pipe.ask([1] * 255, limit=50).kv == 256
    assert pipe.ask(PROMPT, limit=1) == ([END], len(PROMPT) + 1)


def test_nothing_of_another_conversation_is_behind_what_did_not_fit(tiny, config):
    """The SDK takes what it sent, up to kv_position, for the context, and sends what follows that."""
    sent = [200 + token % 90 for token in range(300)]
    with Pipe(tiny, config, blocks=True) as pipe:
        def ask(*arguments, **more):
            pipe.send(keeping(*arguments, **more))
            return pipe.answer()
        assert ask(0, PROMPT * 5, limit=1).kv == 101
        kept = ask(0, sent, limit=8)
        assert kept == ([END], 0)
        assert ask(kept.kv, sent[kept.kv:200], limit=8) == ask(0, sent[:200], limit=8)
        assert ask(50, sent, limit=8) == ([END], 50), 'a part that was kept stays'
        assert ask(50, PROMPT, limit=8) == ask(0, sent[:50] + PROMPT, limit=8)


def test_values_beyond_the_sampler_s_do_not_end_it(pipe):
    """What the SDK's HTTP server lets through of one client."""
    usual = pipe.ask(PROMPT, limit=6)
    for sampling in ((0, 3_000_000_000, 1, 0, 64), (0, '9' * 300, 1, 'nan', 3_000_000_000),
                     (1e-300, 0, 1, 1, 0), ('nan', 0, 1, 1, 0)):
        assert pipe.ask(PROMPT, sampling=sampling, limit=6) == usual
    for temperature, penalty in ('inf', 1001), (1e7, 'inf'), (0.6, 1e-300):
        assert len(pipe.ask(PROMPT, sampling=(temperature, 50, 0.9, penalty, 64), limit=6).tokens) <= 6
    assert pipe.ask(PROMPT, limit=3_000_000_000).kv == 256


def test_a_seed_repeats_and_none_does_not(tiny, config):
    def three(env):
        with Pipe(tiny, config, env=env) as pipe:
            return [pipe.ask(PROMPT, sampling=DEFAULTS, limit=20) for _ in range(3)]
    seeded = three({'WORKER_ORCD_SEED': '11'})
    assert seeded == three({'WORKER_ORCD_SEED': '11'})
    assert seeded[0] != seeded[1] != seeded[2], 'asked again, it answers otherwise'
    assert seeded[1] == three({'WORKER_ORCD_SEED': '12'})[0], 'the request number is added'
    free = three({})
    assert free != seeded and free[0] != free[1]


def test_the_later_protocol_rewinds(tiny, config):
    with Pipe(tiny, config, blocks=True) as pipe:
        def ask(*arguments, **more):
            pipe.send(keeping(*arguments, **more))
            return pipe.answer()
        first = ask(0, PROMPT, limit=6)
        assert first.kv == len(PROMPT) + 6
        assert ask(len(PROMPT), [], limit=6) == first, 'sampled after the last token that is kept'
        context = PROMPT[:10] + [9, 8]
        assert ask(10, [9, 8], limit=6) == ask(0, context, limit=6)
        pipe.send('0\n')
        assert pipe.ended() == 0


@pytest.mark.parametrize('given', [b'', b'0\n', b'0'])
def test_no_first_block_is_no_request(tiny, given):
    done = run(tiny, input=given)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')


def test_requests_sent_early_wait_their_turn(tiny, config):
    requests = [lines(PROMPT[:n], limit=n) for n in (3, 5, 8)]
    with Pipe(tiny, config) as pipe:
        alone = []
        for request in requests:
            pipe.send(request)
            alone.append(pipe.answer())
    expected = b''.join(b'%d\n' % number for one in alone for number in (*one.tokens, one.kv))
    for end in '0\n', '0', '':  # the last answers are written before the end counts
        done = run(tiny, *words_of(config), input=(''.join(requests) + end).encode())
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, b'')


@pytest.mark.parametrize('how', ['0', 'end of file'])
def test_it_ends_at_once(tiny, config, how):
    def attempt() -> float:
        with Pipe(tiny, config) as pipe:
            pipe.ask(PROMPT, limit=2)
            begin = time.monotonic()
            if how == '0':
                pipe.send('0\n')
            else:
                pipe.process.stdin.close()
            assert pipe.ended() == 0
            return time.monotonic() - begin
    fastest(attempt, 0.1 * STRETCH)


def test_a_reader_that_takes_its_time_gets_every_line(folder, tiny, config):
    """More lines than a pipe holds: the process computes, and nothing is lost."""
    limit = 4_000
    big = folder('long', '--context', '32768', '--layers', '1', '--embedding', '32', '--ffn', '32')
    with subprocess.Popen([PROGRAM, big, *words_of({**config, 'hidden_dim': 128, 'intermediate_dim': 128,
                                                    'num_layers': 1, 'head_dim': 8,
                                                    'max_position_embeddings': 32768})],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment()) as process:
        room = fcntl.fcntl(process.stdout, F_SETPIPE_SZ, 8192)
        process.stdin.write((lines([1, 2], limit=limit) + '0\n').encode())
        process.stdin.flush()
        # It takes no more once its last page is begun.
        wait_until(lambda: held(process.stdout) > room // 2 - 8, PATIENCE * STRETCH, 'the pipe is full')
        pause(0.1, 'what is computed meanwhile is kept')
        out, err = process.communicate(timeout=PATIENCE * STRETCH)
    numbers = [int(line) for line in out.split(b'\n')[:-1]]
    assert process.returncode == 0 and err == b''
    assert len(out) > room, 'the answer is longer than the pipe'
    assert numbers[-2:] == [END, 2 + len(numbers) - 1] and END not in numbers[:-2]


def test_nothing_is_said_in_normal_work_whatever_the_environment(tiny, config):
    with Pipe(tiny, config, env={'WORKER_ORCD_LOG_LEVEL': 'debug', 'WORKER_ORCD_NO_SUCH': 'x',
                                 'WORKER_ORCD_PORT': 'tcp://10.0.0.7:8080'}) as pipe:
        pipe.ask(PROMPT, sampling=GREEDY, limit=3)
        pipe.send('0\n')
        assert pipe.ended() == 0
