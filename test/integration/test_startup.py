"""How a worker refuses to start: exit code, exactly one clear error, no hang; and where its options come
from. Sources: M0-W-1020, 1100..1111, 1210, WORK-3010..3012; the design's section 6."""
import hashlib
import os
import re
import socket
import struct
import subprocess

import pytest

import gguf_edit
from ports import free_port
from worker_process import BINARY, BUILD, CUDA, PATIENCE, Worker, run_to_exit, wait_until

FAILURE, USAGE = 1, 2


def only_error(worker) -> dict:
    errors = [e for e in worker.events() if e['level'] in ('error', 'critical')]
    assert len(errors) == 1, errors
    assert not worker.events('ready')
    return errors[0]


def refuse_model(path, *options, code='MODEL_LOAD_FAILED', words=()):
    """Starts on a bad model: exit 1, one error with the required fields."""
    exit_code, worker = run_to_exit('--model', path, *options)
    assert exit_code == FAILURE, '\n'.join(worker.lines)
    error = only_error(worker)
    assert error['event'] == 'error' and error['code'] == code, error
    assert error.get('model_path', error.get('model')) is not None and 'gpu_device' in error
    for word in words:
        assert word in error['message'], f'{word!r} is not in {error["message"]!r}'
    assert worker.stdout == b''
    return error


@pytest.fixture(scope='module')
def image(tiny_model) -> bytes:
    return tiny_model.read_bytes()


def test_missing_model(tmp_path):
    refuse_model(tmp_path / 'nowhere.gguf', words=('nowhere.gguf',))


def test_model_is_a_directory(tmp_path):
    refuse_model(tmp_path, words=(str(tmp_path),))


def test_unreadable_model(broken, image):
    path = broken(image)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip('runs as root: every file is readable')
    refuse_model(path)


def test_empty_model(broken):
    refuse_model(broken(b''), words=('broken.gguf',))


def test_not_a_model(broken):
    refuse_model(broken(b'#!/bin/sh\n' * 100), words=('broken.gguf',))


@pytest.mark.parametrize('version', [0, 1, 4, 2**32 - 1, 3 << 24])
def test_other_version(broken, image, version):
    refuse_model(broken(image[:4] + struct.pack('<I', version) + image[8:]), words=('version',))


@pytest.mark.parametrize('share', [0.0005, 0.01, 0.3, 0.6, 0.95, 0.9999])
def test_truncated_model(broken, image, share):
    refuse_model(broken(image[:max(5, int(len(image) * share))]), words=('broken.gguf',))


@pytest.mark.parametrize('field, value', [(8, 2**63), (8, 10_001), (16, 2**63)])
def test_impossible_counts(broken, image, field, value):
    refuse_model(broken(image[:field] + struct.pack('<Q', value) + image[field + 8:]))


def test_unknown_architecture(broken, image):
    refuse_model(broken(gguf_edit.with_architecture(image, b'lamma')),
                 words=('lamma', 'llama', 'qwen2', 'phi3'))


@pytest.mark.parametrize('kind', [4, 31, 39 + 1000, 2**31])
def test_unknown_tensor_type(broken, image, kind):
    refuse_model(broken(gguf_edit.with_tensor_type(image, kind)), words=(str(kind),))


@pytest.fixture(scope='module')
def nan_model(models, tmp_path_factory):
    """One scale of one block is NaN."""
    image = models('startup-q8', '--type', 'Q8_0').read_bytes()
    path = tmp_path_factory.mktemp('nan') / 'nan.gguf'
    # 64 columns are 2 blocks of 34 bytes a row: row 5, block 1.
    path.write_bytes(gguf_edit.with_tensor_bytes(image, b'blk.1.attn_output.weight', (5 * 2 + 1) * 34,
                                                 struct.pack('<H', 0x7e00)))
    return path


def test_verify_names_a_scale_that_is_nan(nan_model):
    refuse_model(nan_model, '--verify', words=('blk.1.attn_output.weight', 'row 5, block 1', 'd is NaN'))


def test_without_verify_weights_are_not_looked_at(nan_model):
    with Worker('--model', nan_model) as worker:
        worker.wait_event('ready')


def test_verify_lets_a_sound_model_pass(tiny_model):
    with Worker('--model', tiny_model, '--verify') as worker:
        worker.wait_event('ready')
        (told,) = worker.events('weights_verified')
        assert told['tensors'] > 0 and told['bytes'] > 0


def test_digest_and_fingerprint(tiny_model):
    with Worker('--model', tiny_model) as worker:
        worker.wait_event('ready')
        worker.wait_event('model_digest')
        wait_until(lambda: worker.get('/health').json()['digest'], PATIENCE, 'the io thread knows it, too')
        health = worker.get('/health').json()
        assert health['digest'] == 'sha256:' + hashlib.sha256(tiny_model.read_bytes()).hexdigest()
        assert re.fullmatch('fp_[0-9a-f]{16}', health['system_fingerprint']), health


def test_fingerprint_follows_what_a_template_says_and_not_where_it_lies(tiny_model, tmp_path):
    def fingerprint(path, text):
        path.write_text(text)
        with Worker('--model', tiny_model, '--chat-template', path) as worker:
            worker.wait_event('ready')
            return worker.get('/health').json()['system_fingerprint']

    first = fingerprint(tmp_path / 'a.jinja', '{{ messages[0].content }}')
    assert fingerprint(tmp_path / 'a.jinja', '{{ messages[0].content }}!') != first
    assert fingerprint(tmp_path / 'b.jinja', '{{ messages[0].content }}') == first


def test_missing_tokenizer(broken, image):
    error = refuse_model(broken(gguf_edit.without_tokenizer(image)))
    assert 'tokenizer' in error['message']


def test_missing_tokenizer_json(tiny_model, tmp_path):
    exit_code, worker = run_to_exit('--model', tiny_model, '--tokenizer', tmp_path / 'none.json')
    assert exit_code == FAILURE and 'none.json' in only_error(worker)['message']


def test_unknown_pre_tokenizer_names_the_option(broken, image):
    value = image.index(b'tokenizer.ggml.pre') + len('tokenizer.ggml.pre') + 4 + 8
    message = refuse_model(broken(image[:value] + b'X' + image[value + 1:]))['message']
    assert "tokenizer.ggml.pre is 'X" in message and '--tokenizer-pre NAME' in message and '\n' not in message


def test_a_chosen_pre_tokenizer_is_what_runs(tiny_model):
    def health(*options):
        with Worker('--model', tiny_model, *options) as worker:
            worker.wait_event('ready')
            return worker.get('/health').json()

    chosen = health('--tokenizer-pre', 'falcon')
    assert chosen['tokenizer'] == 'gguf-bpe/falcon'
    assert chosen['system_fingerprint'] != health()['system_fingerprint']


def test_port_in_use(tiny_model):
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        exit_code, worker = run_to_exit('--model', tiny_model, port=port)
    error = only_error(worker)
    assert exit_code == FAILURE and error['code'] == 'WORKER_START_FAILED'
    assert port in error['message'] and '127.0.0.1' in error['message']


def test_port_is_checked_before_the_model_is_loaded(tmp_path):
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        _, worker = run_to_exit('--model', tmp_path / 'none.gguf', port=str(taken.getsockname()[1]))
    assert only_error(worker)['code'] in ('WORKER_START_FAILED', 'MODEL_LOAD_FAILED')


@pytest.mark.parametrize('option, code', [('--config', USAGE), ('--api-key-file', FAILURE),
                                          ('--chat-template', FAILURE), ('--tokenizer', FAILURE),
                                          ('--model', FAILURE), ('--lora', FAILURE)])
def test_a_pipe_in_the_place_of_a_file_holds_nobody(tiny_model, tmp_path, option, code):
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    model = () if option == '--model' else ('--model', tiny_model)
    exit_code, worker = run_to_exit(*model, option, f'a={pipe}' if option == '--lora' else pipe)
    told = '\n'.join(worker.lines)
    assert exit_code == code and str(pipe) in told and 'is a pipe; it must be a plain file' in told, told


CONTROL = re.compile('[\x00-\x09\x0b-\x1f\x7f-\x9f]')
RED = '\x1b[31mred\x9b'  # what clears, colours and writes titles begins so


def test_no_text_of_others_commands_the_terminal(tiny_model, tmp_path):
    config, named = tmp_path / 'config', tmp_path / RED
    for text in (f'{RED} = 1', f'slots = {RED}', RED):
        config.write_text(text + '\n')
        exit_code, worker = run_to_exit('--model', tiny_model, '--config', config)
        told = '\n'.join(worker.lines)
        assert exit_code == USAGE and '\\x1b[31mred' in told and not CONTROL.search(told), told
    text, log = '\\x1b[31mred', '\\u001b[31mred\\u009b'
    for code, escaped, options in ((USAGE, text, ('--model', tiny_model, f'--{RED}')),
                                   (USAGE, text, ('--model', tiny_model, '--slots', RED)),
                                   (USAGE, text, ('--model', tiny_model, '--config', named)),
                                   (FAILURE, log, ('--model', named)),
                                   (FAILURE, log, ('--model', tiny_model, '--api-key-file', named))):
        exit_code, worker = run_to_exit(*options)
        told = '\n'.join(worker.lines)
        assert exit_code == code and escaped in told and not CONTROL.search(told), told


@pytest.mark.parametrize('words', [
    ('worker-orcd-holder', f'--{RED}'), ('worker-orcd-inspect', 'info', RED), ('worker-orcd-inspect', RED),
    ('worker-orcd-pod', 'validate', RED), ('trillim-quantize', RED, '--out', 'x.gguf'),
    ('inference', f'--{RED}')])
def test_nor_does_another_program_pass_it_on(words, tmp_path):
    done = subprocess.run([BUILD / words[0], *words[1:]], cwd=tmp_path, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    told = done.stderr.decode('utf-8')
    assert done.returncode in (1, 2) and '\\x1b[31mred' in told and not CONTROL.search(told), told


@pytest.mark.skipif(CUDA, reason='this build has the CUDA backend; gpu/test_cuda.py covers its refusals')
def test_cuda_backend_is_refused_where_there_is_none(tiny_model):
    exit_code, worker = run_to_exit('--model', tiny_model, '--backend', 'cuda', backend=False)
    message = only_error(worker)['message']
    assert exit_code == USAGE and 'cuda' in message.lower() and 'host' in message, message
    exit_code, worker = run_to_exit('--model', tiny_model, backend=False)
    assert exit_code == USAGE, 'nothing falls back to the host backend'


def test_kv_cache_limit(tiny_model):
    exit_code, worker = run_to_exit('--model', tiny_model, '--context', '1024', '--slots', '64',
                                    '--kv-cache-size-mb', '1')
    error = only_error(worker)
    assert exit_code == USAGE and error['code'] in ('INSUFFICIENT_VRAM', 'WORKER_START_FAILED')


BAD_OPTIONS = [
    (['--port', '80'], 'port', ('80', '1024', '65535')),
    (['--port', '65536'], 'port', ('65536',)),
    (['--port', 'x'], 'port', ('x',)),
    (['--port', '-1'], 'port', ()),
    (['--worker-id', 'me'], 'worker-id', ('me', 'UUID')),
    (['--slots', '0'], 'slots', ('0', '1')),
    (['--slots', '1000'], 'slots', ('1000', '256')),
    (['--max-queue', '-1'], 'max-queue', ('-1',)),
    (['--max-tokens-out', '1e3'], 'max-tokens-out', ('1e3',)),
    (['--backend', 'gpu'], 'backend', ('gpu', 'cuda', 'host')),
    (['--gpu-device', '-1'], 'gpu-device', ('-1',)),
    (['--callback-url', 'ftp://x'], 'callback-url', ('ftp://x',)),
    (['--kv-type-k', 'q4_0'], 'kv-type-k', ('q4_0', 'f16|bf16|q8_0')),
    (['--kv-type-v', 'Q8_0'], 'kv-type-v', ('Q8_0', 'f16|bf16|q8_0')),
    (['--log-format', 'xml'], 'log-format', ('xml', 'json')),
    (['--deadline-mode', 'maybe'], 'deadline-mode', ('maybe',)),
    (['--host', 'not an address'], 'host', ('not an address',)),
    (['--rope-freq-base', 'nan'], 'rope-freq-base', ('nan',)),
    (['--inference-timeout-sec', '0'], 'inference-timeout-sec', ('0',)),
    (['--model', ''], 'model', ()),
    (['--no-such-option', '1'], 'no-such-option', ()),
    (['stray'], 'stray', ()),
    (['--slots'], 'slots', ()),
    (['--slots', '2', '--slots', '3'], 'slots', ()),
]


@pytest.mark.parametrize('options, name, words', BAD_OPTIONS, ids=[' '.join(o[0]) for o in BAD_OPTIONS])
def test_bad_option(tiny_model, options, name, words):
    model = [] if options[0] == '--model' else ['--model', tiny_model]
    port = '' if options[0] == '--port' else '0'
    backend = options[0] != '--backend'
    log_format = '' if options[0] == '--log-format' else 'json'
    exit_code, worker = run_to_exit(*model, *options, port=port, backend=backend, log_format=log_format)
    assert exit_code == USAGE
    told = [line for line in worker.lines if line]
    assert len(told) == 1, told
    for word in (name, *words):
        assert word in told[0], f'{word!r} is not in {told[0]!r}'


# No start with the same options could succeed, so that a service manager that sees 2 does not try for ever.
NOT_TOGETHER = [
    (['--kv-tokens', '100', '--context', '1024'], 'a slot\'s context is 1024'),
    (['--context', '1024', '--slots', '64', '--kv-cache-size-mb', '1'], 'the KV cache '),
    (['--tokenizer-pre', 'qwen2', '--tokenizer', '{folder}/tokenizer.json'], '--tokenizer-pre is for'),
    (['--yarn-beta-fast', '1', '--yarn-beta-slow', '2'], '--yarn-beta-fast must be above'),
    (['--allow-lora-load', '{folder}', '--pooling', 'mean'], 'a model that generates text'),
    (['--allow-lora-load', '{folder}', '--failover-dir', '{folder}'], 'cannot be beside --failover-dir'),
    (['--max-loras', '2'], '--allow-lora-load'),
    (['--max-lora-rank', '8'], '--allow-lora-load'),
    (['--system-port', '9191', '--port', '9191', '--failover-dir', '{folder}'], 'must differ'),
    (['--failover-dir', '{folder}', '--port', '0'], 'must not be 0'),
    (['--engine-id', '1'], 'needs --failover-dir'),
]


@pytest.mark.parametrize('options, words', NOT_TOGETHER, ids=[' '.join(o[0]) for o in NOT_TOGETHER])
def test_options_that_do_not_go_together(tiny_model, tmp_path, options, words):
    (tmp_path / 'tokenizer.json').write_text('{}')
    given = [word.format(folder=tmp_path) for word in options]
    port = '' if '--port' in given else str(free_port()) if '--failover-dir' in given else '0'
    exit_code, worker = run_to_exit('--model', tiny_model, *given, port=port)
    assert exit_code == USAGE, worker.lines
    assert sum(words in line for line in worker.lines) == 1, worker.lines


def test_model_is_required():
    exit_code, worker = run_to_exit()
    assert exit_code == USAGE and '--model' in '\n'.join(worker.lines)


def test_help_and_version():
    for option, word in (('--help', b'--max-queue'), ('--version', b'worker-orcd')):
        exit_code, worker = run_to_exit(option, backend=False, port='', log_format='')
        assert exit_code == 0 and word in worker.stdout and not worker.lines


def test_command_line_wins_over_environment_wins_over_file(tiny_model, tmp_path):
    config = tmp_path / 'worker.conf'
    config.write_text('# comment\nslots = 2\nmax-queue = 3\nmax-tokens-out = 44\ninference-timeout-sec = 5\n')
    environment = {'WORKER_ORCD_SLOTS': '4', 'WORKER_ORCD_MAX_TOKENS_OUT': '55'}
    with Worker('--model', tiny_model, '--config', config, '--slots', '5', environment=environment) as worker:
        assert worker.get('/health').json()['slots'] == 5
        refused = worker.open(max_tokens=56)
        assert refused.response.status == 400 and '55' in refused.response.error['message']
        refused.close()


def test_everything_by_environment(tiny_model):
    environment = {'WORKER_ORCD_MODEL': str(tiny_model), 'WORKER_ORCD_BACKEND': 'host',
                   'WORKER_ORCD_PORT': '0', 'WORKER_ORCD_LOG_FORMAT': 'json'}
    with Worker(environment=environment, backend=False, port='', log_format='') as worker:
        assert worker.get('/ready').status == 200


def test_bad_config_file(tiny_model, tmp_path):
    for text, word in (('slotz = 2\n', 'slotz'), ('slots = many\n', 'many'), ('slots\n', 'config'),
                       ('slots = 1\nslots = 2\n', 'slots')):
        config = tmp_path / 'worker.conf'
        config.write_text(text)
        exit_code, worker = run_to_exit('--model', tiny_model, '--config', config)
        assert exit_code == USAGE and word in '\n'.join(worker.lines), (text, worker.lines)
    exit_code, worker = run_to_exit('--model', tiny_model, '--config', tmp_path / 'none.conf')
    assert exit_code == USAGE and 'none.conf' in '\n'.join(worker.lines)


@pytest.mark.parametrize('how', ['path', 'file uri', 'relative path', 'shared memory'])
def test_model_locations(tiny_model, how):
    location = {'path': str(tiny_model), 'file uri': f'file:{tiny_model}',
                'relative path': tiny_model.name}.get(how)
    segment = None
    if how == 'shared memory':
        segment = f'/dev/shm/orcd-test-{os.getpid()}'
        with open(segment, 'wb') as file:
            file.write(tiny_model.read_bytes())
        location = f'shm:/{os.path.basename(segment)}'
    try:
        with Worker('--model', location, directory=tiny_model.parent) as worker:
            assert worker.execute(max_tokens=2)[-1].name == 'end'
    finally:
        if segment:
            os.unlink(segment)


@pytest.mark.parametrize('family', ['llama', 'qwen2', 'phi3', 'gpt-oss'])
def test_every_family_serves(models, family):
    options = ['--sentencepiece'] if family == 'phi3' else []
    model = models(f'family-{family}', '--family', family, '--context', '512', *options)
    with Worker('--model', model) as worker:
        first, second = (worker.execute(max_tokens=20, ignore_eos=True) for _ in range(2))
        assert first[-1].data['tokens_out'] == 20
        assert [e.raw for e in first if e.name == 'token'] == [e.raw for e in second if e.name == 'token']


def test_ipv6(tiny_model):
    if not os.path.exists('/proc/net/if_inet6') or '1' not in open('/proc/net/if_inet6').read():
        pytest.skip('no IPv6 here')
    with Worker('--model', tiny_model, '--host', '::1') as worker:
        with socket.create_connection(('::1', worker.port), timeout=PATIENCE) as peer:
            peer.sendall(b'GET /live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
            assert b' 200 ' in peer.recv(4096)


def test_binary_is_the_release():
    assert os.access(BINARY, os.X_OK)
