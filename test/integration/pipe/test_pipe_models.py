"""Which model files the token pipe takes, and that what the SDK says of them is what they say."""
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'quantize'))

from pipe_client import Pipe, config_of, keeping, run, words_of  # noqa: E402
from quantizer import DATA, PROGRAM as QUANTIZER, GREEDY, PROMPT, call, write_tokenizer  # noqa: E402
from worker_process import BACKEND, CUDA, PATIENCE, Worker  # noqa: E402

EXACT = {'WORKER_ORCD_KV_TYPE_K': 'f32', 'WORKER_ORCD_KV_TYPE_V': 'f32'}
END = 1
exact_cache = pytest.mark.skipif(BACKEND != 'host', reason='of the host alone: a cache in f32, this plan')


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """What trillim-quantize makes of the tiny model: qmodel.tensors and rope.cache."""
    place = tmp_path_factory.mktemp('quantized')
    subprocess.run([QUANTIZER, DATA / 'tiny', '--out', place], check=True, timeout=PATIENCE)
    return place


@pytest.fixture
def quantized(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / 'model'))


@pytest.fixture
def said(made, tmp_path):
    gguf = tmp_path / 'cut.gguf'
    gguf.write_bytes((made / 'qmodel.tensors').read_bytes()[256:])
    return config_of(gguf, [END])


def refused(folder, config, *parts: str, words=()) -> None:
    done = run(folder, *words_of(config), *words)
    text = done.stderr.decode()
    assert done.returncode == 1 and done.stdout == b'' and text.count('\n') == 1, (done.returncode, text)
    assert text.startswith('inference: ') and all(part in text for part in parts), (parts, text)


@exact_cache
def test_our_quantizer_s_files(quantized, said):
    limit = len(GREEDY) + 1
    with Pipe(quantized, said, env=EXACT) as pipe:
        assert pipe.ask(PROMPT, limit=limit) == (GREEDY + [END], len(PROMPT) + limit)
    (quantized / 'rope.cache').unlink()
    with Pipe(quantized, said, blocks=True, env=EXACT):
        pass


@exact_cache
def test_the_worker_serves_such_a_folder(quantized):
    write_tokenizer(quantized)
    exact = ('--kv-type-k', 'f32', '--kv-type-v', 'f32')
    with Worker('--model', f'{quantized}/', *exact) as worker:
        worker.wait_event('ready')
        assert worker.get('/v1/models').json()['data'][0]['id'] == 'model'
        asked = {'prompt': PROMPT, 'n_predict': len(GREEDY), 'temperature': 0, 'repeat_penalty': 1.0}
        told = worker.call('POST', '/completion', {**asked, 'return_tokens': True}).json()
    assert told['tokens'] == GREEDY


@pytest.mark.parametrize('family', ['llama', 'qwen2', 'qwen3', 'phi3', 'gpt-oss', 'bitnet-b1.58'])
def test_a_gguf_of_any_family(folder, family):
    ternary = ['--embedding', '128', '--type', 'I2_S'] if 'bitnet' in family else []
    place = folder(family, '--family', family, *ternary)
    config = config_of(place / 'model.gguf', [302])
    with Pipe(place, config) as pipe:
        answer = pipe.ask([7, 8, 9], limit=4)
        assert answer.tokens[-1] == 302 and answer.kv == 3 + len(answer.tokens)
    other = 2 if config['arch_type'] == 1 else 1
    refused(place, {**config, 'arch_type': other}, f'arch_type is {other}, but the file\'s architecture is')


FAMILIES = DATA.parent / 'families'
OF_HYBRIDS = {'qwen35': {'num_kv_heads': 1}, 'qwen3next': {'num_kv_heads': 1}, 'lfm2': {'num_kv_heads': 1},
              'granitehybrid': {'num_kv_heads': 1}}


@exact_cache
@pytest.mark.parametrize('name', OF_HYBRIDS)
def test_layers_with_a_state(tmp_path, name):
    """A talk goes on, and goes back to any place, as one that was never further."""
    shutil.copy(FAMILIES / f'{name}.gguf', tmp_path / 'model.gguf')
    config = config_of(tmp_path / 'model.gguf', [319], **OF_HYBRIDS[name])
    prompt, more, other = list(range(20, 57)), [41, 42, 43], [50, 51]

    def asked(pipe, *requests):
        for kept, tokens in requests:
            pipe.send(keeping(kept, tokens, limit=6))
            answer = pipe.answer()
        return answer

    def alone(*requests):
        with Pipe(tmp_path, config, blocks=True, env=EXACT) as pipe:
            return asked(pipe, *requests)

    first = alone((0, prompt))
    held = len(prompt) + len(first.tokens) - 1
    whole = [*prompt, *first.tokens[:-1]]
    with Pipe(tmp_path, config, blocks=True, env=EXACT) as pipe:
        assert asked(pipe, (0, prompt)) == first
        assert asked(pipe, (held, more)).tokens == alone((0, [*whole, *more])).tokens
        for back in 33, 32, 17, 8, 3:
            assert asked(pipe, (back, other)).tokens == alone((0, [*whole[:back], *other])).tokens, back
            assert asked(pipe, (0, prompt)).tokens == first.tokens


@pytest.mark.parametrize('name, value', [
    ('activation', 0), ('hidden_dim', 256), ('intermediate_dim', 256), ('num_layers', 3), ('num_heads', 2),
    ('num_kv_heads', 4), ('vocab_size', 400), ('head_dim', 32), ('max_position_embeddings', 512),
    ('norm_eps', 1e-6), ('rope_theta', 500000.0), ('tie_word_embeddings', 1), ('has_qkv_bias', 1),
    ('has_attn_sub_norm', 1), ('has_ffn_sub_norm', 1)])
def test_a_value_that_the_file_contradicts(tiny, config, name, value):
    text = {500000.0: '5e+05'}.get(value, value)
    refused(tiny, {**config, name: value}, f'model.gguf: {name} is {text},', ' but the file\'s is ')


def test_folders_that_are_none(tmp_path, tiny, config):
    refused(tmp_path / 'none', config, 'cannot be opened')
    none = 'is a folder with 0 models (.gguf) and no qmodel.tensors; it must have one of them'
    refused(tmp_path, config, none)
    for name in 'a.gguf', 'b.gguf':
        shutil.copy(tiny / 'model.gguf', tmp_path / name)
    refused(tmp_path, config, 'is a folder with 2 models')


@pytest.mark.skipif(CUDA, reason='this build has the CUDA backend; it is used in gpu/')
def test_a_backend_that_the_build_has_not_is_wrong_usage(tiny, config):
    done = run(tiny, *words_of(config), env={'WORKER_ORCD_BACKEND': 'cuda'})
    assert done.returncode == 2 and b'this build has no CUDA backend' in done.stderr, done.stderr


@exact_cache
def test_a_context_that_has_no_room(folder):
    place = folder('long', '--context', '32768', '--layers', '1', '--embedding', '32', '--ffn', '32')
    config, env = config_of(place / 'model.gguf', [302]), {'WORKER_ORCD_KV_CACHE_SIZE_MB': '1'}
    done = run(place, *words_of(config), env=env)
    assert done.returncode == 1 and b'lower WORKER_ORCD_CONTEXT' in done.stderr and b'--' not in done.stderr
    assert run(place, *words_of(config), env={**env, 'WORKER_ORCD_CONTEXT': '4096'}).returncode == 0


def change(path: Path, at: int, data: bytes) -> None:
    image = bytearray(path.read_bytes())
    image[at:at + len(data)] = data
    path.write_bytes(image)


@pytest.mark.parametrize('at, data, why', [
    (0, b'TRLX', 'qmodel.tensors: magic at offset 0'),
    (4, struct.pack('<I', 2), 'version of the TRLM header is 2; it must be 1'),
    (8, struct.pack('<I', 9), 'architecture of the TRLM header is 9; it must be 1 (BitNet) or 2 (Llama)'),
    (8, struct.pack('<I', 2), "TRLM header is 2, but general.architecture is 'bitnet-b1.58'"),
    (256, b'\0\0\0\0', 'was written by another quantizer (byte 256 does not begin with GGUF)')])
def test_a_wrong_header(quantized, said, at, data, why):
    change(quantized / 'qmodel.tensors', at, data)
    refused(quantized, said, why)


@pytest.mark.parametrize('at, data, why', [
    (0, b'TRRX', "rope.cache: magic is 'TRRX'; it must be 'TRRC'"),
    (4, struct.pack('<I', 2), 'rope.cache: version is 2; it must be 1'),
    (12, struct.pack('<I', 64), 'rope.cache: max_position_embeddings is 512, but the file\'s is 64'),
    (20, struct.pack('<d', 1e4), 'rope.cache: rope_theta is 5e+05, but the file\'s is 10000')])
def test_a_rope_cache_that_differs(quantized, said, at, data, why):
    change(quantized / 'rope.cache', at, data)
    refused(quantized, said, why)


def test_a_rope_cache_of_another_size(quantized, said):
    (quantized / 'rope.cache').write_bytes((quantized / 'rope.cache').read_bytes() + b'\0')
    refused(quantized, said, 'rope.cache: has 69 bytes; it must have 68')


def test_a_rope_cache_that_is_no_file(quantized, said):
    (quantized / 'rope.cache').unlink()
    os.mkfifo(quantized / 'rope.cache')
    refused(quantized, said, 'rope.cache: is a pipe; it must be a plain file')


def test_a_rope_cache_beside_a_uri(quantized, said):
    change(quantized / 'rope.cache', 67, b'\1')
    refused(f'file://{quantized}/qmodel.tensors', said, 'rope.cache: has something at its end')


def test_an_empty_or_cut_model(quantized, said):
    whole = (quantized / 'qmodel.tensors').read_bytes()
    for length, why in ((0, 'is empty'), (10, 'within its header'), (200, 'another quantizer'),
                        (4000, 'offset')):
        (quantized / 'qmodel.tensors').write_bytes(whole[:length])
        refused(quantized, said, why)


@pytest.fixture
def adapted(quantized, tmp_path):
    """The same model, with the adapter beside it, as the SDK makes it."""
    place = tmp_path / 'work'
    shutil.copytree(DATA / 'tiny', place / 'tiny')
    (place / 'OUT').mkdir()
    done = call(place, 'sdk_0.1.5 --adapter')
    assert done.returncode == 0, done.stderr
    shutil.move(str(place / 'OUT' / 'qmodel.lora'), quantized / 'qmodel.lora')
    return quantized


def test_an_adapter_in_all_its_places(adapted, said, tmp_path):
    """The tokens of a worker with the same adapter; what is kept between turns has it, too."""
    (tmp_path / 'adapter').mkdir()
    shutil.copy(adapted / 'qmodel.lora', tmp_path / 'adapter')
    write_tokenizer(adapted)
    with Worker('--model', adapted, '--lora', f'a={adapted}/qmodel.lora') as worker:
        worker.wait_event('ready')
        asked = {'prompt': PROMPT, 'n_predict': 12, 'temperature': 0, 'repeat_penalty': 1.0}
        told = worker.call('POST', '/completion', {**asked, 'return_tokens': True}).json()['tokens']
    with Pipe(adapted, said) as plain:
        assert plain.ask(PROMPT, limit=13).tokens[:-1] != told
    for words in ['--lora'], ['--lora', adapted], ['--lora', tmp_path / 'adapter']:
        with Pipe(adapted, said, *words) as pipe:
            first = pipe.ask(PROMPT, limit=13)
            assert first == (told + [END], len(PROMPT) + 13)
            second = pipe.ask([5, 6], reset=0, limit=6)
        with Pipe(adapted, said, *words) as whole:
            assert whole.ask(PROMPT + told + [END, 5, 6], limit=6) == second
    more = {'lora_dir': tmp_path / 'adapter', 'lora_quant': 'none'}
    with Pipe(adapted, said, blocks=True, more=more) as pipe:
        pipe.send(keeping(0, PROMPT, limit=13))
        assert pipe.answer() == first


@pytest.mark.parametrize('at, data, why', [
    (0, b'TRLX', "qmodel.lora: magic is 'TRLX'; it must be 'TRLA'"),
    (4, struct.pack('<I', 2), 'qmodel.lora: version is 2; it must be 1'),
    (256, b'\0\0\0\0', 'qmodel.lora: was written by another quantizer')])
def test_an_adapter_that_is_wrong(adapted, said, at, data, why):
    change(adapted / 'qmodel.lora', at, data)
    refused(adapted, said, why, words=['--lora'])
    (adapted / 'qmodel.lora').unlink()
    refused(adapted, said, 'qmodel.lora: cannot be opened: No such file', words=['--lora'])


def test_what_inspect_says_of_a_folder(quantized):
    inspect = QUANTIZER.parent / 'worker-orcd-inspect'
    told = json.loads(subprocess.run([inspect, 'info', quantized, '--json'], stdout=subprocess.PIPE,
                                     check=True, timeout=PATIENCE).stdout)
    assert told['architecture'] == 'bitnet-b1.58' and len(told['tensors']) == 24
