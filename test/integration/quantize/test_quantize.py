"""trillim-quantize, the real program: what the SDK calls, what a person calls, and what it survives."""
import json
import os
import pty
import random
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest

from safetensors_files import BF16, F32, I2_S, Q8_0, read_gguf, read_safetensors, write_safetensors
from worker_process import BUILD, PATIENCE, PROJECT, SANITIZED, Worker, wait_until

PROGRAM = BUILD / 'trillim-quantize'
DATA = PROJECT / 'test' / 'data' / 'quantize'
CALLS = json.loads((DATA / 'quantize_argv.json').read_text())
PROMPT = [112, 56, 48, 72, 106, 116]
# What a forward pass in f64 with the same integers chooses, greedily.
GREEDY = [115, 112, 52, 28, 45, 5, 69, 64, 93, 75, 75, 55, 11, 50, 27, 62]
MANIFESTS = {'sdk_0.1.5 --model --adapter': 'manifest_v1_model_lora.bin',
             'sdk_0.1.5 --adapter': 'manifest_v1_lora_only.bin',
             'sdk_0.12.2 model': 'manifest_012_model.bin', 'sdk_0.12.2 adapter': 'manifest_012_lora_only.bin'}


def run(*words, cwd=None, **more):
    return subprocess.run([PROGRAM, *map(str, words)], cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=PATIENCE, **more)


def refused(code: int, *parts: str, done) -> None:
    text = done.stderr.decode()
    assert done.returncode == code, (done.returncode, text)
    assert text.startswith('trillim-quantize: ') and text.count('\n') == 1 and done.stdout == b'', text
    assert all(part in text for part in parts), (parts, text)


@pytest.fixture
def place(tmp_path):
    """A folder with the tiny model, where the manifests' relative paths hold."""
    shutil.copytree(DATA / 'tiny', tmp_path / 'tiny')
    (tmp_path / 'OUT').mkdir()
    return tmp_path


def call(place, name: str, manifest: bytes = b'', **changes):
    """One of the SDK's own calls; a change of None leaves an option out."""
    (place / 'OUT' / '.quantize_manifest.bin').write_bytes(manifest or (DATA / MANIFESTS[name]).read_bytes())
    words = list(CALLS[name])
    for option, value in changes.items():
        at = words.index('--' + option.replace('_', '-'))
        words[at:at + 2] = [] if value is None else [words[at], value]
    return run(*words, cwd=place)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != '.quantize_manifest.bin')


def same_codes(tensors, reference) -> None:
    matrices = [name for name, tensor in tensors.items() if tensor.kind == I2_S]
    assert len(matrices) == 14
    for name in matrices:
        ours, theirs = tensors[name], reference[name]
        assert ours.codes() == theirs.codes() and ours.scale() == theirs.scale(), name


@pytest.mark.parametrize('name', [name for name in MANIFESTS if 'model' in name])
def test_the_calls_that_make_a_model(place, name):
    done = call(place, name)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')
    with_adapter = '--adapter' in name
    assert names(place / 'OUT') == ['qmodel.lora'] * with_adapter + ['qmodel.tensors', 'rope.cache']
    image = (place / 'OUT' / 'qmodel.tensors').read_bytes()
    assert image[:256] == b'TRLM' + struct.pack('<III', 1, 1, 0) + bytes(240)
    metadata, tensors = read_gguf(image[256:])
    _, reference = read_gguf((PROJECT / 'test/data/ternary/tiny-i2_s.gguf').read_bytes())
    assert set(tensors) == set(reference) and metadata['general.architecture'] == 'bitnet-b1.58'
    same_codes(tensors, reference)
    # The first SDK asks for an embedding in bytes, the later one for the values as they are.
    stored = read_safetensors(place / 'tiny' / 'model.safetensors')['model.embed_tokens.weight'][2]
    embedding = tensors['token_embd.weight']
    assert embedding.kind == (Q8_0 if with_adapter else BF16)
    assert with_adapter or embedding.data == stored
    rope = (place / 'OUT' / 'rope.cache').read_bytes()
    assert rope == b'TRRC' + struct.pack('<IIIIddI', 1, 0, 512, 64, 500000.0, 0.0, 512) + bytes(28)
    cut = place / 'cut.gguf'
    cut.write_bytes(image[256:])
    told = subprocess.run([BUILD / 'worker-orcd-inspect', 'info', cut, '--json'], stdout=subprocess.PIPE,
                          check=True)
    assert len(json.loads(told.stdout)['tensors']) == 24


@pytest.mark.parametrize('name', [name for name in MANIFESTS if 'adapter' in name])
def test_the_calls_that_make_an_adapter(place, name):
    done = call(place, name)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')
    alone = '--model' not in name
    assert not alone or names(place / 'OUT') == ['qmodel.lora'], 'what has no tensors writes no model'
    image = (place / 'OUT' / 'qmodel.lora').read_bytes()
    assert image[:256] == b'TRLA' + struct.pack('<II', 1, 0) + bytes(244)
    metadata, tensors = read_gguf(image[256:])
    assert metadata == {'general.type': 'adapter', 'general.architecture': 'bitnet-b1.58',
                        'adapter.type': 'lora', 'adapter.lora.alpha': 16.0}
    stored = read_safetensors(place / 'tiny' / 'adapter' / 'adapter_model.safetensors')
    assert len(tensors) == len(stored) == 12
    half = tensors['blk.1.ffn_down.weight.lora_b']
    assert half.extents == (8, 256) and half.kind == F32
    assert half.data == stored['base_model.model.model.layers.1.mlp.down_proj.lora_B.weight'][2]


def write_tokenizer(folder) -> None:
    """128 tokens of their own texts; a prompt of ids needs no more."""
    longer = (f'a{chr(0x41 + i % 26)}{i}' for i in range(32))
    texts = ['<bos>', '<eos>', *map(chr, range(0x21, 0x7f)), *longer]
    model = {'type': 'BPE', 'vocab': {text: i for i, text in enumerate(texts)}, 'merges': []}
    added = [{'id': i, 'content': texts[i], 'single_word': False, 'lstrip': False, 'rstrip': False,
              'normalized': False, 'special': True} for i in range(2)]
    level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True}
    (folder / 'tokenizer.json').write_text(json.dumps({
        'version': '1.0', 'added_tokens': added, 'normalizer': None, 'pre_tokenizer': level,
        'post_processor': None, 'decoder': level, 'model': model}))


@pytest.mark.parametrize('kind', ['i2_s', 'tq1_0', 'tq2_0'])
def test_every_type_gives_the_reference_s_tokens(place, kind):
    write_tokenizer(place)
    done = run(place / 'tiny', '--out', place / 'tiny.gguf', '--type', kind)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')
    with Worker('--model', place / 'tiny.gguf') as worker:
        worker.wait_event('ready')
        answer = worker.call('POST', '/v1/completions', {
            'prompt': PROMPT, 'max_tokens': len(GREEDY), 'temperature': 0, 'logprobs': 1,
            'return_tokens_as_token_ids': True}).json()
    told = [int(text.split(':')[1]) for text in answer['choices'][0]['logprobs']['tokens']]
    assert told == GREEDY


@pytest.mark.parametrize('kind', ['tq1_0', 'tq2_0'])
def test_scales_that_f16_has_not_are_beside_the_matrices(place, kind):
    """One in F32 with more digits than f16 has: all get theirs, and the model gives I2_S's tokens."""
    def longer(tensors):
        name = 'model.layers.1.mlp.down_proj.weight_scale'
        exact, = struct.unpack('<f', b'\0\0' + tensors[name][2])
        tensors[name] = ('F32', [1], struct.pack('<f', exact * 1.0001))
    spoiled(place, longer)
    write_tokenizer(place)
    for name in 'i2_s', kind:
        done = run(place / 'tiny', '--out', place / f'{name}.gguf', '--type', name)
        assert (done.returncode, done.stderr) == (0, b'')
    _, tensors = read_gguf((place / f'{kind}.gguf').read_bytes())
    _, reference = read_gguf((place / 'i2_s.gguf').read_bytes())
    scales = {name[:-5] + 'weight': struct.unpack('<f', tensor.data)[0] for name, tensor in tensors.items()
              if name.endswith('.scale')}
    assert len(scales) == 14 and all(reference[name].scale() == scale for name, scale in scales.items())
    texts = set()
    for name in 'i2_s', kind:
        with Worker('--model', place / f'{name}.gguf') as worker:
            worker.wait_event('ready')
            asked = {'prompt': PROMPT, 'max_tokens': 40, 'temperature': 0, 'logprobs': 1}
            answer = worker.call('POST', '/v1/completions', asked).json()
        texts.add(json.dumps(answer['choices'][0]['logprobs']))
    assert len(texts) == 1


def bf16(values) -> bytes:
    """Values that bf16 holds exactly."""
    return b''.join(struct.pack('<f', value)[2:] for value in values)


def small_llama(folder, hidden=128, ffn=256, heads=4, kv_heads=2, head_dim=32, vocabulary=16):
    draw = random.Random(3)
    tensors, config = {}, {
        'model_type': 'llama', 'hidden_size': hidden, 'intermediate_size': ffn, 'num_attention_heads': heads,
        'num_key_value_heads': kv_heads, 'head_dim': head_dim, 'max_position_embeddings': 64,
        'rms_norm_eps': 1e-5, 'rope_theta': 10000.0, 'hidden_act': 'silu',
        'eos_token_id': [1, 2], 'bos_token_id': 0}

    def add(name, rows, cols=None):
        count = rows * (cols or 1)
        tensors[name] = ('BF16', [rows, cols] if cols else [rows],
                         bf16(draw.randrange(-64, 65) / 64 for _ in range(count)))
    add('model.embed_tokens.weight', vocabulary, hidden)
    add('lm_head.weight', vocabulary, hidden)
    add('model.norm.weight', hidden)
    layer = 'model.layers.0.'
    add(layer + 'input_layernorm.weight', hidden)
    add(layer + 'post_attention_layernorm.weight', hidden)
    for name, rows in ('q', heads), ('k', kv_heads), ('v', kv_heads):
        add(f'{layer}self_attn.{name}_proj.weight', rows * head_dim, hidden)
        add(f'{layer}self_attn.{name}_proj.bias', rows * head_dim)
    add(layer + 'self_attn.o_proj.weight', hidden, heads * head_dim)
    add(layer + 'mlp.gate_proj.weight', ffn, hidden)
    add(layer + 'mlp.up_proj.weight', ffn, hidden)
    add(layer + 'mlp.down_proj.weight', hidden, ffn)
    tensors[layer + 'self_attn.rotary_emb.inv_freq'] = ('F32', [1], bytes(4))
    folder.mkdir()
    (folder / 'config.json').write_text(json.dumps(config))
    return tensors


def values_of(stored) -> list:
    return [struct.unpack('<f', b'\0\0' + stored[2][i:i + 2])[0] for i in range(0, len(stored[2]), 2)]


def ternary(values):
    scale, = struct.unpack('<f', struct.pack('<f', sum(map(abs, values)) / len(values)))
    inverse, = struct.unpack('<f', struct.pack('<f', 1 / scale))
    return [max(-1, min(1, round(value * inverse))) for value in values], scale


def regrouped(rows, head_dim):
    """Rows of each head in GGUF's order: of the first half and of the second in turn."""
    out = []
    for begin in range(0, len(rows), head_dim):
        head = rows[begin:begin + head_dim]
        for i in range(head_dim // 2):
            out += [head[i], head[head_dim // 2 + i]]
    return out


def test_masters_in_shards_become_a_llama(tmp_path):
    model = tmp_path / 'model'
    stored = small_llama(model)
    shards = [dict(list(stored.items())[0::2]), dict(list(stored.items())[1::2])]
    index = {}
    for number, shard in enumerate(shards):
        write_safetensors(model / f'{number}.safetensors', shard)
        index.update({name: f'{number}.safetensors' for name in shard})
    (model / 'model.safetensors.index.json').write_text(json.dumps({'weight_map': index}))
    done = run(model, '--out', tmp_path / 'out.gguf', '--embedding', 'q8_0')
    assert (done.returncode, done.stderr) == (0, b'')
    metadata, tensors = read_gguf((tmp_path / 'out.gguf').read_bytes())
    assert metadata['general.architecture'] == 'llama' and metadata['tokenizer.ggml.eos_token_id'] == 1
    assert tensors['output.weight'].kind == Q8_0 and len(tensors) == len(stored) - 1
    for part, head_dim in ('q', 32), ('k', 32), ('v', 0), ('down', 0):
        where = 'mlp' if part == 'down' else 'self_attn'
        theirs = stored[f'model.layers.0.{where}.{part}_proj.weight']
        ours = tensors['blk.0.ffn_down.weight' if part == 'down' else f'blk.0.attn_{part}.weight']
        codes, scale = ternary(values_of(theirs))
        cols = theirs[1][1]
        rows = [codes[at:at + cols] for at in range(0, len(codes), cols)]
        rows = regrouped(rows, head_dim) if head_dim else rows
        assert ours.codes() == [code for row in rows for code in row] and ours.scale() == scale, part
    bias = struct.unpack('<128f', tensors['blk.0.attn_q.bias'].data)
    assert list(bias) == regrouped(values_of(stored['model.layers.0.self_attn.q_proj.bias']), 32)


def test_a_scale_that_divides(place):
    config = json.loads((place / 'tiny' / 'config.json').read_text())
    config['quantization_config']['linear_class'] = 'bitlinear'
    (place / 'tiny' / 'config.json').write_text(json.dumps(config))
    assert run('tiny', '--out', 'tiny.gguf', cwd=place).returncode == 0
    _, tensors = read_gguf((place / 'tiny.gguf').read_bytes())
    _, reference = read_gguf((PROJECT / 'test/data/ternary/tiny-i2_s.gguf').read_bytes())
    name = 'blk.0.attn_k.weight'
    assert tensors[name].codes() == reference[name].codes()
    inverse, = struct.unpack('<f', struct.pack('<f', 1 / reference[name].scale()))
    assert tensors[name].scale() == inverse


def test_widths_that_are_padded(tmp_path):
    """A hidden width of 192 and a feed-forward width of 320 become 256 and 384: zeros in what is added."""
    model = tmp_path / 'model'
    stored = small_llama(model, hidden=192, ffn=320, heads=4, head_dim=32)
    write_safetensors(model / 'model.safetensors', stored)
    done = run(model, '--out', tmp_path / 'out.gguf')
    assert (done.returncode, done.stderr) == (0, b'')
    metadata, tensors = read_gguf((tmp_path / 'out.gguf').read_bytes())
    assert (metadata['llama.embedding_length'], metadata['orcd.hidden_original']) == (256, 192)
    assert (metadata['llama.feed_forward_length'], metadata['orcd.intermediate_original']) == (384, 320)
    down = tensors['blk.0.ffn_down.weight']
    assert down.extents == (384, 256)
    codes, _ = ternary(values_of(stored['model.layers.0.mlp.down_proj.weight']))
    padded = [codes[row * 320:(row + 1) * 320] + [0] * 64 for row in range(192)] + [[0] * 384] * 64
    assert down.codes() == [code for row in padded for code in row]
    norm = struct.unpack('<256f', tensors['output_norm.weight'].data)
    assert list(norm[:192]) == values_of(stored['model.norm.weight']) and not any(norm[192:])
    assert tensors['token_embd.weight'].extents == (256, 16)
    # A forward pass that took the norms' means over 256 would answer, and wrongly.
    plan = subprocess.run([BUILD / 'worker-orcd-inspect', 'plan', tmp_path / 'out.gguf'],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert plan.returncode == 1 and b"'orcd.hidden_original' is 192" in plan.stderr, plan.stderr


# ---- what is refused ------------------------------------------------------------------------------------

FIRST = 'sdk_0.1.5 --model --adapter'


@pytest.mark.parametrize('changes, code, parts', [
    ({'arch': '3'}, 2, ('--arch', "'3'")),
    ({'hidden_dim': '0'}, 2, ('--hidden-dim', "'0'", '131072')),
    ({'hidden_dim': '99999999999999999999'}, 2, ('--hidden-dim',)),
    ({'hidden_dim': '384'}, 2, ('--hidden-dim', '384', '256')),
    ({'norm_eps': 'nan'}, 2, ('--norm-eps', "'nan'")),
    ({'norm_eps': '1,5'}, 2, ('--norm-eps',)),
    ({'rope_theta': None}, 2, ('--rope-theta',)),
    ({'lora_output': None}, 2, ('--lora-output',)),
    ({'num_heads': None}, 2, ('--num-heads',)),
    ({'head_dim': '65'}, 2, ('head dimension', '65')),
    ({'num_heads': '5'}, 1, ('q_proj', '256 rows', '5 heads')),
    ({'head_dim': '48'}, 1, ('q_proj', '256 rows')),
    ({'lora_rank': '4'}, 1, ('lora_A', '[8, 256]', '[4, 256]')),
    ({'output': 'none/qmodel.tensors'}, 1, ('none/qmodel.tensors.tmp', 'No such file')),
    ({'output': 'tiny/model.safetensors'}, 2, ('is read as a shard',)),
    ({'lora_output': 'OUT/qmodel.tensors'}, 1, ('another process writes it',)),
])
def test_calls_that_are_refused(place, changes, code, parts):
    before = {path.name: path.read_bytes() for path in (place / 'tiny').iterdir() if path.is_file()}
    refused(code, *parts, done=call(place, FIRST, **changes))
    assert names(place / 'OUT') == []
    assert before == {path.name: path.read_bytes() for path in (place / 'tiny').iterdir() if path.is_file()}


@pytest.mark.parametrize('words, part', [
    ((), "--help"), (('--nonsense', '1'), "'--nonsense'"), (('a', 'b', '--out', 'x.gguf'), "'b'"),
    (('a',), '--out is missing'), (('a', '--out', 'x.gguf', '--type', 'q4_0'), "--type is 'q4_0'"),
    (('a', '--out', 'x.gguf', '--arch', '1'), '--arch'), (('--out', 'x.gguf'), '--out'),
    (('a', '--out', 'nowhere'), 'nowhere'), (('--manifest', 'm', '--manifest', 'n'), 'twice'),
    (('a', '--out'), 'needs a value')])
def test_wrong_words(tmp_path, words, part):
    refused(2, part, done=run(*words, cwd=tmp_path))


def spoiled(place, change) -> None:
    path = place / 'tiny' / 'model.safetensors'
    tensors = read_safetensors(path)
    change(tensors)
    write_safetensors(path, tensors)


def test_values_that_cannot_be_converted(place):
    key, norm = 'model.layers.0.self_attn.k_proj.weight', 'model.norm.weight'

    def code_of_three(tensors):
        kind, shape, data = tensors[key]
        tensors[key] = (kind, shape, data[:300] + b'\x03' + data[301:])
    original = (place / 'tiny' / 'model.safetensors').read_bytes()
    for change, parts in (
            (code_of_three, (key, 'row 1', 'byte 44 is 3')),
            (lambda t: t.update({key + '_scale': ('BF16', [1], b'\x80\x7f')}), ('_scale', 'finite')),
            (lambda t: t.update({norm: ('BF16', [256], b'\xc0\x7f' * 256)}), (norm, 'finite')),
            (lambda t: t.update({norm: ('BF16', [255], bytes(510))}), (norm, '[255, 1]')),
            (lambda t: t.pop('model.layers.1.mlp.up_proj.weight'), ('blk.1.ffn_up.weight',)),
            (lambda t: t.update({'model.layers.0.q_norm.weight': ('BF16', [1], bytes(2))}), ('q_norm',)),
            (lambda t: t.update({'lm_head.bias': ('I8', [1], bytes(1))}), ('lm_head.bias',))):
        (place / 'tiny' / 'model.safetensors').write_bytes(original)
        spoiled(place, change)
        refused(1, *parts, done=run('tiny', '--out', 'OUT', cwd=place))
        assert names(place / 'OUT') == []


def test_a_manifest_that_does_not_fit_its_shards(place):
    whole = (DATA / MANIFESTS[FIRST]).read_bytes()
    entry = whole.index(struct.pack('<HQQ', 0, 3928, 65536)) - 18
    def changed(at, data):
        return whole[:at] + data + whole[at + len(data):]
    for image, parts in ((whole[:-1], ('manifest',)), (changed(entry, b'\x07'), ('action', 'is 7')),
                         (changed(entry + 20, struct.pack('<Q', 3929)), ('begins at byte 3929',)),
                         (changed(entry + 1, b'\x01'), ('is BF16', 'the manifest says F16')),
                         (changed(entry + 2, struct.pack('<IIII', 256, 128, 256, 128)),
                          ('[128, 256]', '[256, 128]')),
                         # The second entry once more where the third must be.
                         (changed(entry + 110, whole[entry + 55:entry + 110]), ('norm', 'second time'))):
        refused(1, *parts, done=call(place, FIRST, image))
        assert names(place / 'OUT') == []
    (place / 'tiny' / 'config.json').unlink()
    refused(1, 'config.json', done=call(place, FIRST))
    (place / 'tiny' / 'model.safetensors').unlink()
    refused(1, 'model.safetensors', done=call(place, FIRST))


# ---- what it survives -----------------------------------------------------------------------------------

@pytest.fixture(scope='module')
def large(tmp_path_factory):
    """A model whose matrices have 96 MiB; what is not written of them is a hole, and zero."""
    folder = tmp_path_factory.mktemp('large') / 'model'
    hidden, ffn, vocabulary = 1024, 8192, 1024
    stored = small_llama(folder, 128, 256)
    shapes = {'embed_tokens': [vocabulary, hidden], 'lm_head': [vocabulary, hidden], 'o_proj': [hidden, 1024],
              'q_proj.weight': [1024, hidden], 'k_proj.weight': [512, hidden], 'v_proj.weight': [512, hidden],
              'gate_proj': [ffn, hidden], 'up_proj': [ffn, hidden], 'down_proj': [hidden, ffn]}
    header, at = {}, 0
    for name in stored:
        if 'rotary' in name or 'bias' in name:
            continue
        shape = next((shape for part, shape in shapes.items() if part in name), [hidden])
        size = 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(folder / 'model.safetensors', 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        file.truncate(8 + len(text) + at)
    config = json.loads((folder / 'config.json').read_text())
    config.update(hidden_size=hidden, intermediate_size=ffn, num_attention_heads=16,
                  num_key_value_heads=8, head_dim=64)
    (folder / 'config.json').write_text(json.dumps(config))
    return folder


def test_a_kill_leaves_no_half_file(large, tmp_path):
    out, temporary = tmp_path / 'out.gguf', tmp_path / 'out.gguf.tmp'
    killed = 0
    for _ in range(5):
        with subprocess.Popen([PROGRAM, large, '--out', out]) as process:
            wait_until(lambda: temporary.exists() or process.poll() is not None, PATIENCE, 'begun', 0.0002)
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        assert not out.exists() or process.returncode == 0
        out.unlink(missing_ok=True)
    assert killed > 0 and temporary.exists(), 'what a killed one leaves is not what the next one trips over'
    assert run(large, '--out', out).returncode == 0
    whole = out.read_bytes()
    assert not temporary.exists() and read_gguf(whole)
    with subprocess.Popen([PROGRAM, large, '--out', out]) as process:
        wait_until(lambda: temporary.exists() or process.poll() is not None, PATIENCE, 'it begins', 0.0002)
        process.send_signal(signal.SIGKILL)
    assert out.read_bytes() == whole, 'the file of before is there until the new one is whole'


@pytest.mark.skipif(SANITIZED, reason='a sanitizer has an allocator of its own')
def test_memory_does_not_grow_with_the_model(large, tmp_path):
    """All writable memory of its own, stacks and heap, within 64 MiB; the model's matrices have more."""
    limit = 64 << 20
    done = run(large, '--out', tmp_path / 'out.gguf',
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
    assert (done.returncode, done.stderr) == (0, b'')


def test_a_disk_that_is_full(large, tmp_path):
    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    refused(1, 'out.gguf.tmp', 'File too large', done=run(large, '--out', tmp_path / 'out.gguf',
                                                          preexec_fn=small_files))
    assert list(tmp_path.iterdir()) == []


def test_progress_is_for_terminals(large, tmp_path):
    ours, theirs = pty.openpty()
    with subprocess.Popen([PROGRAM, large, '--out', tmp_path / 'out.gguf'], stderr=theirs) as process:
        assert process.wait(PATIENCE) == 0
    os.close(theirs)
    shown = b''
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other end is closed, and all is read
            break
    os.close(ours)
    assert b' %' in shown and shown.endswith(b'\r') and b'100 %' in shown
    assert run(large, '--out', tmp_path / 'out.gguf').stderr == b''


def test_two_threads_or_one_give_the_same_file(large, tmp_path):
    for name, cpus in ('two', os.sched_getaffinity(0)), ('one', {min(os.sched_getaffinity(0))}):
        assert run(large, '--out', tmp_path / f'{name}.gguf',
                   preexec_fn=lambda cpus=cpus: os.sched_setaffinity(0, cpus)).returncode == 0
    assert (tmp_path / 'two.gguf').read_bytes() == (tmp_path / 'one.gguf').read_bytes()


def test_help_and_version(tmp_path):
    words = CALLS[FIRST]
    refused(1, f'{tmp_path}: is no file', done=run('--manifest', tmp_path, *words[2:]))
    assert b'--manifest' in run('--help').stdout
    assert run('--version').stdout.startswith(b'trillim-quantize ')
