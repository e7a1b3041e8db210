"""Models whose widths a quantizer has padded with zeros answer as those before."""
import struct
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'quantize'))

from pipe_client import BUILD, Pipe, config_of, keeping  # noqa: E402
from quantizer import PROGRAM as QUANTIZER, small_llama  # noqa: E402
from safetensors_files import (BF16, F32, I2_S, Tensor, read_gguf, write_gguf,  # noqa: E402
                               write_safetensors)
from worker_process import BACKEND, PATIENCE, Worker  # noqa: E402

EXACT = {'WORKER_ORCD_KV_TYPE_K': 'f32', 'WORKER_ORCD_KV_TYPE_V': 'f32'} if BACKEND == 'host' else {}
PROMPT = [3, 4, 5, 6]


def greedy(folder: Path, eos: int) -> list:
    """What the token pipe answers, with its widths as an SDK tells them."""
    with Pipe(folder, config_of(folder / 'model.gguf', [eos]), blocks=True, env=EXACT) as pipe:
        pipe.send(keeping(0, PROMPT, limit=40))
        return pipe.answer().tokens


def served(folder: Path) -> list:
    with Worker('--model', folder / 'model.gguf') as worker:
        worker.wait_event('ready')
        asked = {'prompt': PROMPT, 'n_predict': 40, 'temperature': 0, 'repeat_penalty': 1.0}
        more = {'ignore_eos': True, 'return_tokens': True}
        return worker.call('POST', '/completion', {**asked, **more}).json()['tokens']


@pytest.mark.parametrize('name, shape, padded', [
    ('llama', ['--biases'], ['--padded-embedding', '128', '--padded-ffn', '256']),
    ('bitnet-b1.58', ['--embedding', '256', '--ffn', '256', '--type', 'I2_S', '--embedding-type', 'BF16'],
     ['--padded-embedding', '384', '--padded-ffn', '640'])])
def test_a_model_and_its_padded_twin(folder, name, shape, padded):
    plain = folder(f'plain-{name}', '--family', name, *shape)
    twin = folder(f'padded-{name}', '--family', name, *shape, *padded)
    assert greedy(plain, 302) == greedy(twin, 302)
    answers = served(plain), served(twin)
    assert answers[0] == answers[1] and len(set(answers[0])) > 4, answers


def in_f32(tensor: Tensor) -> list:
    """Its rows."""
    if tensor.kind == I2_S:
        values = [code * tensor.scale() for code in tensor.codes()]
    elif tensor.kind == BF16:
        halves = (tensor.data[i:i + 2] for i in range(0, len(tensor.data), 2))
        values = [struct.unpack('<f', b'\0\0' + half)[0] for half in halves]
    else:
        values = list(struct.unpack(f'<{len(tensor.data) // 4}f', tensor.data))
    cols = tensor.extents[0]
    return [values[at:at + cols] for at in range(0, len(values), cols)]


def without_padding(metadata: dict, tensors: dict) -> tuple:
    """The same model in f32, with its own widths."""
    widths = {metadata['llama.embedding_length']: metadata['orcd.hidden_original'],
              metadata['llama.feed_forward_length']: metadata['orcd.intermediate_original']}
    head = {key: value for key, value in metadata.items() if not key.startswith('orcd.')}
    head['llama.embedding_length'], head['llama.feed_forward_length'] = widths.values()
    out = {}
    for name, tensor in tensors.items():
        extents = tuple(widths.get(extent, extent) for extent in tensor.extents)
        rows = [row[:extents[0]] for row in in_f32(tensor)[:(*extents, 1)[1]]]
        values = [value for row in rows for value in row]
        out[name] = Tensor(extents, F32, struct.pack(f'<{len(values)}f', *values))
    return head, out


@pytest.mark.skipif(BACKEND != 'host', reason='f32 is not what the CUDA kernels keep their weights in')
def test_what_the_quantizer_pads(tmp_path):
    """A hidden width of 192 and a feed-forward width of 320 become 256 and 384."""
    source = tmp_path / 'source'
    stored = small_llama(source, hidden=192, ffn=320, heads=4, head_dim=32, vocabulary=128)
    write_safetensors(source / 'model.safetensors', stored)
    places = [tmp_path / 'padded', tmp_path / 'plain']
    for place in places:
        place.mkdir()
    subprocess.run([QUANTIZER, source, '--out', places[0] / 'model.gguf'], check=True, timeout=PATIENCE)
    metadata, tensors = read_gguf((places[0] / 'model.gguf').read_bytes())
    assert tensors['blk.0.ffn_down.weight'].extents == (384, 256)
    write_gguf(places[1] / 'model.gguf', *without_padding(metadata, tensors))
    answers = [greedy(place, 1) for place in places]
    assert answers[0] == answers[1] and len(set(answers[0])) > 4, answers
    # The folder that the SDK would make of it, whose norms are over the same widths.
    subprocess.run([QUANTIZER, source, '--out', places[1]], check=True, timeout=PATIENCE)
    plan = subprocess.run([BUILD / 'worker-orcd-inspect', 'plan', places[1] / 'qmodel.tensors'], check=True,
                          stdout=subprocess.PIPE, timeout=PATIENCE)
    assert b'weights' in plan.stdout
