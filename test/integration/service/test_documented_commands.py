"""Every command of README.md, run as it stands there, in a folder as tools/demo.sh leaves it; and every
command of docs/operations.md, in which paths, ports and models are replaced by this test's. What is answered
is compared in shape. A command that is not known here fails."""
import fnmatch
import json
import os
import re
import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from worker_process import BUILD, PROJECT, SANITIZED, Worker

VERSION = (BUILD / 'version.txt').read_text().strip()
DEMO_MODEL = 'models/SmolLM2-135M-Instruct.Q4_1.gguf'
once_is_enough = pytest.mark.skipif(SANITIZED, reason='about documents: once is enough')


def blocks(name):
    """The blocks of a document: their language, and their text."""
    return re.findall(r'^```(\w*)\n(.*?)^```$', (PROJECT / name).read_text(), re.M | re.S)


def commands(name):
    """The lines of blocks without a language; of a transcript, what is behind its first prompt."""
    for language, text in blocks(name):
        if language:
            continue
        if text.startswith('$ '):
            yield text[2:text.index('\nevent: ')]
            continue
        for line in text.splitlines():
            command = re.sub(r'\s+# .*$', '', line).strip()
            if command:
                yield command


def run(command, folder=None, expected=0, **environment):
    path = f'{BUILD}:{os.environ["PATH"]}'
    done = subprocess.run(['bash', '-c', command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=300, cwd=folder, env={**os.environ, 'PATH': path, **environment})
    assert done.returncode == expected, (command, done.stdout.decode()[-800:], done.stderr.decode()[-800:])
    return done.stdout.decode()


def serve(command, folder):
    """A server by a command as it stands, but for its port, which the environment says."""
    return Worker('-c', f'exec {command}', binary=Path('/bin/bash'), backend=False, port='', log_format='',
                  environment={'WORKER_ORCD_PORT': '0'}, directory=folder)


def keys_of(stream):
    """The fields of each kind of event."""
    found = {}
    for event, data in re.findall(r'^event: (\w+)\n(?:id: \d+\n)?data: (\{.*\})$', stream, re.M):
        found.setdefault(event, set(json.loads(data)))
    return found


def same_events(text):
    """The README's stream has the events and fields of a real one."""
    transcript = next(block for _, block in blocks('README.md') if block.startswith('$ '))
    documented = keys_of(transcript)
    assert set(documented) == {'started', 'token', 'end'} and keys_of(text) == documented


class Runner:
    """Knows each form of command, and what its answer looks like."""

    def __init__(self, worker, model, folder):
        self.worker, self.model, self.folder = worker, model, folder
        files = [text for language, text in blocks('docs/operations.md') if language == 'json']
        (folder / 'chat.json').write_text(files[0])
        (folder / 'tools.json').write_text(files[1])

    def script(self, command):
        """Run by CI as stages of tools/test.sh; here only that they are there and whole."""
        path = PROJECT / command.split()[0]
        assert os.access(path, os.X_OK)
        subprocess.run(['bash', '-n', path], check=True, timeout=60)

    def front(self, command):
        """test/integration/fronts runs nginx, HAProxy and the router with these files and this command."""
        copied = re.fullmatch(r'cp /usr/share/worker-orcd/(\S+) \S+', command)
        if copied:
            assert (PROJECT / 'etc' / copied[1]).exists()
        else:
            assert command == 'nginx -t' or command.startswith(('haproxy -c -f ', 'vllm-router --'))

    def package(self, command):
        """tools/package_check.sh installs it."""
        assert fnmatch.fnmatch(f'./worker-orcd_{VERSION}_amd64.deb', command.split()[-1])

    def configuration(self, command):
        line, path = re.fullmatch(r"echo '(.+)' >>(\S+)", command).groups()
        conffiles = (PROJECT / 'etc' / 'package' / 'conffiles').read_text().split()
        assert path in conffiles
        (self.folder / 'written.conf').write_text(line.replace(line.split(' = ')[1], str(self.model)) + '\n')
        with Worker('--config', self.folder / 'written.conf') as worker:
            worker.wait_event('ready')

    def unit(self, command):
        """No service manager runs here: that the units exist, and that the words are ones it knows."""
        words = shlex.split(command)
        assert words[0] in ('systemctl', 'journalctl')
        units = [word for word in words if re.search(r'\.(service|socket)$', word)]
        assert units
        for unit in units:
            if unit not in ('nginx.service', 'haproxy.service'):
                assert (BUILD / 'etc' / re.sub(r'@\w+\.', '@.', unit)).exists(), unit
        verbs = ('enable', 'reload', 'restart', 'status', 'start', 'stop')
        assert words[0] == 'journalctl' or words[1] in verbs

    def version(self, command):
        assert run(command).startswith(f'worker-orcd {VERSION}\nbackends: ')

    def serve(self, command):
        words = shlex.split(command)
        assert words[0].endswith('/worker-orcd') and words[words.index('--model') + 1].endswith('.gguf')
        words[words.index('--model') + 1] = str(self.model)
        words = [word for word in words[1:] if word not in ('--backend', 'host')]
        with Worker(*words) as worker:
            worker.wait_event('ready')

    def inspect(self, command):
        here = re.sub(r'\bFILE\b', str(self.model), command)
        if ' --gpu ' in command and not os.path.exists('/dev/nvidiactl'):
            here = f'{here} 2>&1'
            assert 'the memory of a GPU is not known' in run(here, self.folder, expected=1)
            return
        text = run(here, self.folder)
        shapes = {'info': r'architecture +\w+', 'tokenize': r'^\d+( \d+)*$', 'detokenize': r'^.*$',
                  'chat': r'weather', 'plan': r'(?s)weights +[\d,]+ bytes.*kv .*total ',
                  'doctor': r'^loads +yes'}
        assert re.search(shapes[command.split()[1]], text, re.M), text

    def ask(self, command):
        text = run(command.replace(':8080/', f':{self.worker.port}/'))
        if '/health' in command:
            assert json.loads(text)['status'] == 'healthy'
        elif '/ready' in command:
            assert json.loads(text), text
        elif '/metrics' in command:
            assert re.search(r'^worker_health\{', text, re.M)
        else:
            assert '/execute' in command
            same_events(text)

    def stop(self, command):
        text = run(command.replace(':8080/', f':{self.worker.port}/'))
        assert self.worker.wait_exit(30) == 0, text


FORMS = (('tools/', 'script'), ('cp /usr/', 'front'), ('nginx ', 'front'), ('haproxy ', 'front'),
         ('vllm-router ', 'front'), ('apt-get install', 'package'), ("echo '", 'configuration'),
         ('systemctl ', 'unit'), ('journalctl ', 'unit'), ('worker-orcd --version', 'version'),
         ('build/release/worker-orcd ', 'serve'), ('worker-orcd-inspect ', 'inspect'),
         ('curl -s -X POST http://127.0.0.1:8080/shutdown', 'stop'), ('curl ', 'ask'))


@once_is_enough
def test_every_command_does_what_is_said(models, tmp_path):
    document = 'docs/operations.md'
    model = models('tiny', '--context', '1024')
    with Worker('--model', model) as worker:
        worker.wait_event('ready')
        runner = Runner(worker, model, tmp_path)
        done = []
        # What stops the worker comes last.
        for command in sorted(commands(document), key=lambda command: '/shutdown' in command):
            method = next((method for start, method in FORMS if command.startswith(start)), None)
            assert method, f'{document} has a command that this test does not know: {command}'
            getattr(runner, method)(command)
            done.append(command)
        assert len(done) >= 3


@pytest.fixture
def after_demo(models, tmp_path):
    """The folder that tools/demo.sh leaves, and whether its model is the real one."""
    real = os.environ.get('ORCD_DEMO_MODEL', '')
    for name, target in (('tools', PROJECT / 'tools'), ('build/demo', BUILD),
                         (DEMO_MODEL, Path(real or models('tiny', '--context', '1024')))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(target)
    return tmp_path, bool(real)


@once_is_enough
def test_the_readmes_commands_work_as_they_stand(after_demo):
    folder, real = after_demo
    done = []
    with ExitStack() as servers:
        for command in commands('README.md'):
            done.append(command.split()[0])
            if command.startswith('tools/'):  # the demo is below; tools/test.sh runs this test
                assert os.access(folder / command.split()[0], os.X_OK)
            elif command.startswith('build/demo/worker-orcd '):
                server = servers.enter_context(serve(command, folder))
                # curl reads this first, so that its command can stand as it is.
                (folder / '.curlrc').write_text(f'connect-to = "127.0.0.1:8080:127.0.0.1:{server.port}"\n')
            else:
                assert command.startswith('curl '), f'a command that this test does not know: {command}'
                text = run(command, folder, CURL_HOME=str(folder))
                same_events(text)
                assert not real or '"tokens_out":7,' in text
    assert done == ['tools/demo.sh', 'tools/test.sh', 'build/demo/worker-orcd', 'curl']


@once_is_enough
@pytest.mark.parametrize('backend', ['', 'host'])
def test_the_demo_ends_with_a_command_that_serves_a_page(demo_model, backend):
    """As it is, but for what it installs and builds."""
    text = run(f'{PROJECT}/tools/demo.sh {BUILD}', ORCD_BACKEND=backend)
    starting = fr'^== starting .* --backend {backend} .*\(ORCD_BACKEND is {backend}\)$'
    assert not backend or re.search(starting, text, re.M)
    assert 'Write a haiku about GPU computing' in text and 'worker exited with 0' in text
    ending = re.search(r'a page to chat from at http://127\.0\.0\.1:8080(/\S*) :\n(.*)\n\Z', text)
    page, command = ending.groups()
    with serve(command, PROJECT) as server:
        answer = server.get(page)
        assert answer.status == 200 and b'<html' in answer.body


@once_is_enough
@pytest.mark.parametrize('demo', ['demo.sh', 'failover-demo.sh'])
def test_a_demo_refuses_a_backend_that_there_is_not(demo):
    done = subprocess.run([PROJECT / 'tools' / demo], env={**os.environ, 'ORCD_BACKEND': 'tpu'}, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, b'')
    assert done.stderr == b"ORCD_BACKEND is 'tpu'; it must be host or cuda\n"


CHOICES = (('', 'no NVIDIA GPU'), ('8.9', 'compute capability 8.9'), ('9.0', ''))


@once_is_enough
@pytest.mark.parametrize('capability, reason', CHOICES)
def test_the_demo_says_why_it_builds_without_cuda(capability, reason, tmp_path):
    """A driver's tool and a compiler that stand for those of a machine."""
    for name, answer in (('nvidia-smi', capability), ('nvcc', '')):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{answer}"\n')
        (tmp_path / name).chmod(0o755)
    demo = (PROJECT / 'tools' / 'demo.sh').read_text()
    function = re.search(r'^why_without_cuda\(\) \{.*?^\}', demo, re.M | re.S)
    said = run(f'PATH={tmp_path}:$PATH\n{function[0]}\nwhy_without_cuda')
    assert (reason in said) if reason else not said


@once_is_enough
def test_every_exit_code_and_error_code_is_in_the_tables():
    text = (PROJECT / 'docs' / 'operations.md').read_text()
    codes = re.findall(r'^  \w+ = (\d+),', (PROJECT / 'app' / 'process' / 'exit_code.hpp').read_text(), re.M)
    rows = ' '.join(row.split('|')[1] for row in text.splitlines() if re.match(r'\| [\dA-Z]', row))
    assert len(codes) >= 8 and all(re.search(rf'\b{code}\b', rows) for code in codes), rows
    names = set(re.findall(r'return "([A-Z_]+)";', (PROJECT / 'engine' / 'base' / 'error.cpp').read_text()))
    assert len(names) >= 19 and all(re.search(rf'\b{name}\b', rows) for name in names), rows
