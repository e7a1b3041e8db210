"""The real trillim-quantize, its calls, and small models for it."""
import json
import random
import struct
import subprocess

from safetensors_files import read_safetensors, write_safetensors
from worker_process import BUILD, PATIENCE, PROJECT

PROGRAM = BUILD / 'trillim-quantize'
DATA = PROJECT / 'test' / 'data' / 'quantize'
CALLS = json.loads((DATA / 'quantize_argv.json').read_text())
PROMPT = [112, 56, 48, 72, 106, 116]
# What a forward pass in f64 with the same integers chooses, greedily.
GREEDY = [115, 112, 52, 28, 45, 5, 69, 64, 93, 75, 75, 55, 11, 50, 27, 62]
MANIFESTS = {'sdk_0.1.5 --model --adapter': 'manifest_v1_model_lora.bin',
             'sdk_0.1.5 --adapter': 'manifest_v1_lora_only.bin',
             'sdk_0.12.2 model': 'manifest_012_model.bin', 'sdk_0.12.2 adapter': 'manifest_012_lora_only.bin'}
FIRST = 'sdk_0.1.5 --model --adapter'


def run(*words, cwd=None, **more):
    return subprocess.run([PROGRAM, *map(str, words)], cwd=cwd, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=PATIENCE, **more)


def refused(code: int, *parts: str, done) -> None:
    text = done.stderr.decode()
    assert done.returncode == code, (done.returncode, text)
    assert text.startswith('trillim-quantize: ') and text.count('\n') == 1 and done.stdout == b'', text
    assert all(part in text for part in parts), (parts, text)


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


def spoiled(place, change) -> None:
    path = place / 'tiny' / 'model.safetensors'
    tensors = read_safetensors(path)
    change(tensors)
    write_safetensors(path, tensors)


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
