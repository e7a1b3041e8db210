"""The Python of the Trillim SDK, unchanged, over our two programs: it makes the model files, serves, is asked
for three turns and finds a new process after a kill. tools/python_packages.sh trillim fetches its Python, and
none of its own programs."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

import pytest

from pipe_client import BUILD, environment
from ports import free_port
from sdk_model import END, IDS, rendered, write_model
from worker_process import BACKEND, NotInTime, PATIENCE, SANITIZED, wait_until

SDK = Path(os.environ.get('ORCD_TRILLIM', '/nonexistent'))
SEED = '54'  # with it the model ends its first three answers soon
SAMPLING = {'temperature': 1.0, 'top_k': 128, 'top_p': 1.0, 'repetition_penalty': 1.0}
SERVE = '''
from trillim import LLM, Server
Server(LLM(sys.argv[1], **more)).run(host='127.0.0.1', port=int(sys.argv[2]), log_level='warning')
'''
FIRST = '''
import sys
from trillim import cli
arguments, sys.argv = sys.argv, ['trillim', 'quantize', sys.argv[1], '--model', '--adapter', sys.argv[3]]
cli.main()
sys.argv, more = arguments, {}
''' + SERVE
LATER = '''
import sys
from trillim.quantize import quantize
quantize(sys.argv[1])
quantize(sys.argv[1], sys.argv[3])
sys.argv[1], more = 'Local/tiny-TRNQ', {'allow_hot_swap': True}
''' + SERVE
# The program with a copy of both its ends. It has the process id that the SDK knows; no copier keeps another
# of the SDK's pipes open after its end.
RECORDED = '''#!/bin/bash
exec {program} "$@" < <(tee {folder}/$$.in 2>/dev/null) > >(tee {folder}/$$.out 2>/dev/null)
'''

pytestmark = [pytest.mark.skipif(not SDK.is_dir(),
                                 reason='the SDK is not here: set ORCD_TRILLIM (tools/python_packages.sh)'),
              pytest.mark.skipif(SANITIZED, reason='the SDK waits for no sanitizer'),
              pytest.mark.skipif(BACKEND != 'host', reason='the seed is one of the host')]


class Server:
    """One SDK with our programs in place of its own, and its HTTP server."""

    def __init__(self, version: str, home: Path, eos: Sequence[int] = (IDS[END],), **variables: str):
        self.later = version != '0.1.5'
        self.eos = {IDS[END], *eos}
        self.records = home / 'records'
        self.model = home / ('source' if self.later else '.trillim/models') / 'tiny'
        self.adapter = adapter = home / 'adapter'
        self.records.mkdir()
        self.model.parent.mkdir(parents=True)
        write_model(self.model, adapter, eos)
        shutil.copytree(SDK / f'sdk-{version}', home / 'sdk')
        self._put_programs(home / 'sdk' / 'trillim' / '_bin')
        self.port = free_port()
        self.log = home / 'log'
        program = LATER if self.later else FIRST
        with self.log.open('wb') as log:
            self.process = subprocess.Popen(
                ['/usr/bin/python3', '-B', '-c', program, self.model, str(self.port), adapter], cwd=home,
                stdout=subprocess.DEVNULL, stderr=log,
                env={**environment({'WORKER_ORCD_SEED': SEED, **variables}), 'HOME': str(home),
                     'HF_HUB_OFFLINE': '1', 'PYTHONPATH': f'{home}/sdk:{SDK}',
                     'TOKENIZERS_PARALLELISM': 'false'})
        try:
            wait_until(self.answers, PATIENCE, 'the SDK serves', 0.05)
        except BaseException:  # nobody else knows of it yet
            self.end()
            raise

    def _put_programs(self, folder: Path) -> None:
        folder.mkdir()
        (folder / 'trillim-quantize').symlink_to(BUILD / 'trillim-quantize')
        name = 'trillim-inference' if self.later else 'inference'
        (folder / name).write_text(RECORDED.format(program=BUILD / name, folder=self.records))
        (folder / name).chmod(0o755)

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        try:
            return bool(json.loads(self.call('GET', '/v1/models'))['data'])
        except (OSError, http.client.HTTPException):  # not yet, or a 503 while it starts
            return False

    def call(self, method: str, path: str, body=None) -> bytes:
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body=json.dumps(body) if body else None,
                               headers={'Content-Type': 'application/json'})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise http.client.HTTPException(f'{answer.status}: {text.decode()}')
            return text
        finally:
            connection.close()

    def ask(self, messages: List[Dict[str, str]], stream: bool = False, **more) -> str:
        text = self.call('POST', '/v1/chat/completions',
                         {'messages': messages, 'stream': stream, **SAMPLING, **more})
        if not stream:
            return json.loads(text)['choices'][0]['message']['content']
        chunks = [json.loads(line[6:]) for line in text.decode().split('\n')
                  if line.startswith('data: ') and line != 'data: [DONE]']
        deltas = [chunk['choices'][0]['delta'].get('content') or '' for chunk in chunks]
        assert len([delta for delta in deltas if delta]) > 1, 'it came in pieces'
        return ''.join(deltas)

    def load(self, adapter: bool) -> None:
        """Another process of ours, for the same model."""
        if self.later:
            more = {'lora_dir': 'Local/adapter-TRNQ'} if adapter else {}
            self.call('POST', '/v1/models/swap', {'model_dir': 'Local/tiny-TRNQ', **more})
        else:
            more = {'adapter_dir': f'{self.adapter}-TRNQ'} if adapter else {}
            self.call('POST', '/v1/models/load', {'model_dir': str(self.model), **more})

    def pid(self) -> int:
        """Of the last process of ours that it started."""
        return int(max(self.records.glob('*.in'), key=lambda path: path.stat().st_mtime_ns).stem)

    def requests(self) -> Iterator[Tuple[int, List[int]]]:
        """What that process was sent: tokens to keep (-1 for all), and tokens."""
        given = (self.records / f'{self.pid()}.in').read_text().split('\n')[:-1]
        if self.later:
            given = given[int(given[0]) + 1:]  # the first block
        while given and not self.later:
            count = int(given[0])
            yield (0 if given[1] == '1' else -1), [int(given[i]) for i in range(8, 8 + count)]
            given = given[8 + count:]
        while given:
            values = dict(line.split('=', 1) for line in given[1:9])
            yield int(values['kv_position']), [int(t) for t in values['tokens'].split(',') if t]
            given = given[9:]

    def seen(self) -> Optional[List[int]]:
        """The context of that process, as what it was sent and what it answered make it; None while the
        records are not complete."""
        told = [int(line) for line in (self.records / f'{self.pid()}.out').read_text().split('\n')[:-1]]
        context: List[int] = []
        try:
            requests = list(self.requests())
        except (IndexError, KeyError):
            return None
        for kept, tokens in requests:
            end = next((i for i, token in enumerate(told) if token in self.eos), len(told))
            if end + 1 >= len(told):
                return None
            context = (context[:kept] if kept >= 0 else context) + tokens + told[:end + 1]
            context = context[:told[end + 1]]
            told = told[end + 2:]
        return None if told else context

    def must_have_seen(self, tokens: List[int]) -> None:
        self.becomes(self.seen, tokens)

    def must_have_kept(self, kept: List[int]) -> None:
        def told() -> Optional[List[int]]:
            try:
                return [count for count, _ in self.requests()]
            except (IndexError, KeyError):
                return None
        self.becomes(told, kept)

    @staticmethod
    def becomes(recorded, expected) -> None:
        """An answer is here before the copiers have written the records of it."""
        with contextlib.suppress(NotInTime):  # the assertion says what is there instead
            wait_until(lambda: recorded() == expected, PATIENCE, 'the records are complete')
        assert recorded() == expected

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@pytest.fixture(params=['0.1.5', '0.12.2'])
def sdk(request, tmp_path):
    server = Server(request.param, tmp_path)
    yield server
    server.end()


def talk(sdk: Server) -> List[Dict[str, str]]:
    """Three turns; after each the context is the tokenized template."""
    messages: List[Dict[str, str]] = []
    for text, stream in ('hello', False), ('and you?', True), ('why', False):
        messages.append({'role': 'user', 'content': text})
        messages.append({'role': 'assistant', 'content': sdk.ask(messages, stream)})
        sdk.must_have_seen(rendered(messages))
    return messages


def talk_after_a_kill(sdk: Server) -> List[Dict[str, str]]:
    """The later SDK finds out by a request that fails, and starts another process for the next one."""
    def talked() -> Optional[List[Dict[str, str]]]:
        try:
            return talk(sdk)
        except (OSError, http.client.HTTPException):
            assert sdk.later
            return None
    return wait_until(talked, PATIENCE, 'it talks again', 0.05)


def test_three_turns_a_limit_and_a_kill(sdk):
    first = talk(sdk)
    assert all(message['content'] for message in first)
    limited = sdk.ask([{'role': 'user', 'content': 'hello'}], max_tokens=5)
    assert len(limited) == 4, 'the fifth line is the end that the SDK waits for'
    sdk.must_have_seen(rendered([{'role': 'user', 'content': 'hello'},
                                 {'role': 'assistant', 'content': limited}]))
    killed = sdk.pid()
    os.kill(killed, signal.SIGKILL)
    if not sdk.later:
        sdk.load(adapter=False)
    assert talk_after_a_kill(sdk) == first, 'the same seed, and the same answers'
    assert sdk.pid() != killed
    hello = [{'role': 'user', 'content': 'hello'}]
    sdk.load(adapter=True)
    adapted = sdk.ask(hello, max_tokens=20)
    sdk.load(adapter=False)
    plain = sdk.ask(hello, max_tokens=20)
    assert plain == first[1]['content'][:19] != adapted, 'the same seed, and an adapter between them'


@pytest.mark.parametrize('eos', [[IDS[END]], [127, IDS[END]]], ids=['one end', 'another end before it'])
@pytest.mark.parametrize('version', ['0.1.5', '0.12.2'])
def test_turns_after_a_limit_are_those_of_a_fresh_process(version, eos, tmp_path):
    """The first SDK sends only what follows the template's end of the answer, whatever ended that."""
    server = Server(version, tmp_path, eos)
    try:
        messages: List[Dict[str, str]] = []
        turns = [('hello', 5), ('and you?', 2), ('why', 20), ('so', 9)]
        if not server.later:  # the later one refuses messages of nothing
            turns.insert(2, ('no', 1))
        for number, (text, limit) in enumerate(turns):
            messages.append({'role': 'user', 'content': text})
            answer = server.ask(messages, stream=number == 2 and limit > 2, max_tokens=limit, temperature=0)
            assert len(answer) == limit - 1, 'the model ended none of them'
            messages.append({'role': 'assistant', 'content': answer})
            server.must_have_seen(rendered(messages))
        for number, (_, limit) in enumerate(turns):
            server.load(adapter=False)
            asked, answer = messages[:2 * number + 1], messages[2 * number + 1]
            assert server.ask(asked, max_tokens=limit, temperature=0) == answer['content']
            server.must_have_seen(rendered([*asked, answer]))
    finally:
        server.end()


def test_the_later_sdk_after_a_reader_that_goes_away(tmp_path):
    """It ends the process in the middle of the answer, and the next one gets the whole talk."""
    server = Server('0.12.2', tmp_path)
    try:
        messages = [{'role': 'user', 'content': 'hello'}]
        messages.append({'role': 'assistant', 'content': server.ask(messages, max_tokens=5, temperature=0)})
        messages.append({'role': 'user', 'content': 'and you?'})
        asked = {'messages': messages, **SAMPLING, 'temperature': 0}
        connection = http.client.HTTPConnection('127.0.0.1', server.port, timeout=PATIENCE)
        with contextlib.closing(connection) as gone:
            gone.request('POST', '/v1/chat/completions', json.dumps({**asked, 'stream': True}),
                         {'Content-Type': 'application/json'})
            gone.getresponse().readline()

        def answered() -> Optional[str]:
            try:
                return server.ask(messages, max_tokens=9, temperature=0)
            except http.client.HTTPException:  # it has not noticed yet
                return None
        answer = wait_until(answered, PATIENCE, 'it answers again', 0.05)
        server.must_have_seen(rendered([*messages, {'role': 'assistant', 'content': answer}]))
        server.load(adapter=False)
        assert server.ask(messages, max_tokens=9, temperature=0) == answer
    finally:
        server.end()


def test_the_first_sdk_after_a_prompt_that_does_not_fit(tmp_path):
    """It knows nothing of WORKER_ORCD_CONTEXT. The turn is answered with nothing, and so is the next one of
    the same talk, as by a new process, which gets all of it."""
    server = Server('0.1.5', tmp_path, WORKER_ORCD_CONTEXT='128')
    try:
        messages = [{'role': 'user', 'content': 'hello'}]
        first = server.ask(messages, max_tokens=5)
        messages.append({'role': 'assistant', 'content': first})
        before = rendered(messages)
        server.must_have_seen(before)
        messages.append({'role': 'user', 'content': 'x' * 120})
        assert server.ask(messages, max_tokens=5) == ''
        server.must_have_seen([])
        messages += [{'role': 'assistant', 'content': ''}, {'role': 'user', 'content': 'why'}]
        assert server.ask(messages, max_tokens=5) == ''
        server.must_have_kept([0, -1, -1])
        server.load(adapter=False)
        assert server.ask(messages, max_tokens=5) == ''
        server.must_have_kept([0])
        # Another talk begins with all of it.
        other = [{'role': 'user', 'content': 'hello'}]
        answer = server.ask(other, max_tokens=5)
        server.must_have_seen(rendered([*other, {'role': 'assistant', 'content': answer}]))
    finally:
        server.end()
