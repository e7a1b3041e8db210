"""What trillim-quantize refuses: one line, an exit code, and nothing is written."""
import json
import os
import struct

import pytest

from quantizer import CALLS, DATA, FIRST, MANIFESTS, call, names, refused, run, small_llama, spoiled
from safetensors_files import write_safetensors


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
    ({'output': 'tiny/model.safetensors'}, 2, ('is read as', 'model.safetensors')),
    ({'rope_output': 'tiny/config.json'}, 2, ('is read as', 'config.json')),
    ({'output': 'OUT'}, 2, ('OUT is to be written', 'no regular file')),
    ({'lora_output': 'OUT/qmodel.tensors'}, 2, ('twice',)),
    ({'lora_output': 'OUT/qmodel.tensors.tmp'}, 2, ('twice',)),
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


def test_a_shard_with_the_name_of_what_is_written_for_a_while(place):
    """It must be there, unchanged, whatever comes of it."""
    whole = (place / 'tiny' / 'model.safetensors').read_bytes()
    (place / 'tiny' / 'model.safetensors').rename(place / 'tiny' / 'out.gguf.tmp')
    (place / 'tiny' / 'model.safetensors.index.json').write_text(
        json.dumps({'weight_map': {'model.norm.weight': 'out.gguf.tmp'}}))
    refused(2, 'out.gguf.tmp', done=run('tiny', '--out', 'tiny/out.gguf', cwd=place))
    assert (place / 'tiny' / 'out.gguf.tmp').read_bytes() == whole


def test_targets_and_manifests_that_are_no_files(place):
    os.mkfifo(place / 'pipe.gguf')
    refused(2, 'pipe.gguf', 'no regular file', done=run('tiny', '--out', 'pipe.gguf', cwd=place))
    (place / 'folder.gguf').mkdir()
    refused(2, 'folder.gguf', 'no regular file', done=run('tiny', '--out', 'folder.gguf', cwd=place))
    refused(1, 'pipe.gguf', 'is a pipe', done=run('--manifest', 'pipe.gguf', *CALLS[FIRST][2:], cwd=place))


def test_what_a_config_says_and_a_file_cannot(place, tmp_path):
    tensors = small_llama(tmp_path / 'llama')
    write_safetensors(tmp_path / 'llama' / 'model.safetensors', tensors)
    config = json.loads((tmp_path / 'llama' / 'config.json').read_text())
    for changes, part in (
            ({'hidden_act': 'relu2'}, 'hidden_act'),
            ({'rope_parameters': {'rope_type': 'llama3', 'factor': 8}}, 'rope_parameters'),
            ({'rope_parameters': {'rope_theta': 500.0}}, 'rope_theta'),
            ({'rope_parameters': {'partial_rotary_factor': 0.5}}, 'partial_rotary_factor')):
        (tmp_path / 'llama' / 'config.json').write_text(json.dumps({**config, **changes}))
        refused(1, part, done=run('llama', '--out', 'out.gguf', cwd=tmp_path))
    del config['rope_theta']
    config['rope_parameters'] = {'rope_type': 'default', 'rope_theta': 10000.0}
    (tmp_path / 'llama' / 'config.json').write_text(json.dumps(config))
    assert run('llama', '--out', 'out.gguf', cwd=tmp_path).returncode == 0


def test_floats_with_a_scale_beside_them(place):
    """Whether it has been applied to them is not said anywhere."""
    key = 'model.layers.0.self_attn.k_proj.weight'
    spoiled(place, lambda t: t.update({key: ('BF16', [128, 256], bytes(2 * 128 * 256)),
                                       key + '_scale': ('BF16', [1], b'\x80\x3f')}))
    refused(1, key, 'scale', done=run('tiny', '--out', 'OUT', cwd=place))


def test_help_and_version(tmp_path):
    words = CALLS[FIRST]
    refused(1, f'{tmp_path}: is a directory; it must be a plain file',
            done=run('--manifest', tmp_path, *words[2:]))
    assert b'--manifest' in run('--help').stdout
    assert run('--version').stdout.startswith(b'trillim-quantize ')
