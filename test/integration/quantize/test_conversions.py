"""What trillim-quantize makes of models and adapters, and that it answers as the reference does."""
import json
import struct
import subprocess

import pytest

from quantizer import (GREEDY, MANIFESTS, PROMPT, call, names, regrouped, run, small_llama, spoiled, ternary,
                       values_of, write_tokenizer)
from safetensors_files import BF16, F32, I2_S, Q8_0, read_gguf, read_safetensors, write_safetensors
from worker_process import BUILD, PATIENCE, PROJECT, Worker


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


def test_an_adapter_stays_the_one_that_it_was_made_of(place):
    """The worker knows both by their content."""
    write_tokenizer(place)
    assert call(place, 'sdk_0.12.2 adapter').returncode == 0
    assert run(place / 'tiny', '--out', place / 'tiny.gguf', '--type', 'i2_s').returncode == 0
    (place / 'tiny' / 'adapter' / 'adapter_config.json').write_text(json.dumps({'r': 8, 'lora_alpha': 16}))
    with Worker('--model', place / 'tiny.gguf', '--lora', f'made={place}/OUT/qmodel.lora',
                '--lora', f'source={place}/tiny/adapter', '--lora-init-without-apply') as worker:
        worker.wait_event('ready')
        made, source = worker.events('adapter_loaded')
        assert made['digest'] == source['digest'] and made['pairs'] == source['pairs'] == 6


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


def halved(stored, kind: str):
    """The same values in another float type; exact, because they are multiples of 1/64."""
    form = {'F32': 'f', 'F16': 'e'}[kind]
    values = values_of(stored)
    return kind, stored[1], struct.pack(f'<{len(values)}{form}', *values)


def packed(stored, kind: str):
    """The codes of a matrix of masters, one a byte or four."""
    rows, cols = stored[1]
    codes, _ = ternary(values_of(stored))
    if kind == 'I8':
        return kind, [rows, cols], struct.pack(f'{rows * cols}b', *codes)
    quarter = rows * cols // 4
    data = bytes(sum((codes[i + group * quarter] + 1) << 2 * group for group in range(4))
                 for i in range(quarter))
    return kind, [rows // 4, cols], data


def made(tmp_path, name, tensors) -> bytes:
    model = tmp_path / 'model'
    write_safetensors(model / 'model.safetensors', tensors)
    done = run(model, '--out', tmp_path / f'{name}.gguf')
    assert (done.returncode, done.stderr) == (0, b''), done.stderr
    return (tmp_path / f'{name}.gguf').read_bytes()


def test_every_float_type_gives_the_same_file(tmp_path):
    stored = small_llama(tmp_path / 'model')
    files = {made(tmp_path, 'BF16', stored)}
    for kind in 'F32', 'F16':
        tensors = {name: t if t[0] == 'F32' else halved(t, kind) for name, t in stored.items()}
        files.add(made(tmp_path, kind, tensors))
    assert len(files) == 1


def test_one_code_a_byte_or_four_give_the_same_file(tmp_path):
    """With rows of Q and K that are regrouped, which cross the quarters that four codes come from."""
    stored = small_llama(tmp_path / 'model', heads=3, kv_heads=1, head_dim=128)
    files = {}
    for kind in 'I8', 'U8':
        tensors = {}
        for name, tensor in stored.items():
            matrix = '_proj.weight' in name
            tensors[name] = packed(tensor, kind) if matrix else tensor
            if matrix:
                tensors[name + '_scale'] = ('F32', [1], struct.pack('<f', 4.0))
        files[kind] = made(tmp_path, kind, tensors)
    assert files['I8'] == files['U8']
    _, tensors = read_gguf(files['U8'])
    codes, _ = ternary(values_of(stored['model.layers.0.self_attn.q_proj.weight']))
    rows = regrouped([codes[at:at + 128] for at in range(0, len(codes), 128)], 128)
    q = tensors['blk.0.attn_q.weight']
    assert q.codes() == [code for row in rows for code in row]
    assert q.scale() == 0.25, 'without a linear_class it divides'


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


@pytest.mark.parametrize('kind', ['BF16', 'I8', 'U8'])
def test_widths_that_are_padded(tmp_path, kind):
    """A hidden width of 192 and a feed-forward width of 320 become 256 and 384: zeros in what is added. Codes
    without a scale have the scale 1."""
    stored = small_llama(tmp_path / 'model', hidden=192, ffn=320, heads=4, head_dim=32)
    given = {name: packed(tensor, kind) if kind != 'BF16' and '_proj.weight' in name else tensor
             for name, tensor in stored.items()}
    metadata, tensors = read_gguf(made(tmp_path, 'out', given))
    assert (metadata['llama.embedding_length'], metadata['orcd.hidden_original']) == (256, 192)
    assert (metadata['llama.feed_forward_length'], metadata['orcd.intermediate_original']) == (384, 320)
    down = tensors['blk.0.ffn_down.weight']
    assert down.extents == (384, 256)
    codes, scale = ternary(values_of(stored['model.layers.0.mlp.down_proj.weight']))
    assert down.scale() == (scale if kind == 'BF16' else 1.0)
    padded = [codes[row * 320:(row + 1) * 320] + [0] * 64 for row in range(192)] + [[0] * 384] * 64
    assert down.codes() == [code for row in padded for code in row]
    norm = struct.unpack('<256f', tensors['output_norm.weight'].data)
    assert list(norm[:192]) == values_of(stored['model.norm.weight']) and not any(norm[192:])
    assert tensors['token_embd.weight'].extents == (256, 16)
