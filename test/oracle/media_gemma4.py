#!/usr/bin/env python3
"""Writes small projectors of Gemma 4's towers to test/data/media, what transformers' tower makes of pictures
with exactly their values, and logits of the small text models of test/data/families behind two pictures of a
prompt.

usage: media_gemma4.py [OUT_DIR]

As media_towers.py. Pictures have at most `rows_max` rows, fewer than any that transformers' processor knows,
because the small models have small windows; its function of sizes and its resizing are what is used.
"""
import json
import sys
from pathlib import Path

import gemma4_models
import make_tiny_goldens
import media_pictures
import numpy as np
import projector_file
import torch
from gguf import GGMLQuantizationType as T
from media_towers import IMAGE, PICTURES
from PIL import Image
from transformers import Gemma4Config, Gemma4ForConditionalGeneration
from transformers.models.gemma4.image_processing_pil_gemma4 import (Gemma4ImageProcessorPil,
                                                                    convert_image_to_patches,
                                                                    get_aspect_ratio_preserving_size)

ROWS = 6
PARTS = {'ln1': 'input_layernorm', 'ln2': 'pre_feedforward_layernorm',
         'attn_post_norm': 'post_attention_layernorm', 'ffn_post_norm': 'post_feedforward_layernorm',
         'attn_q_norm': 'self_attn.q_norm', 'attn_k_norm': 'self_attn.k_norm'}
MATRICES = {'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj',
            'attn_out': 'self_attn.o_proj', 'ffn_gate': 'mlp.gate_proj', 'ffn_up': 'mlp.up_proj',
            'ffn_down': 'mlp.down_proj'}
LIMITS = ('input_min', 'input_max', 'output_min', 'output_max')


def shapes(v, out):
    n, ff, p, head = v['hidden_size'], v['intermediate_size'], v['patch_size'], v['head_dim']
    named = {'v.patch_embd.weight': (n, 3, p, p),
             'v.position_embd.weight': (2, v['position_embedding_size'], n),
             'mm.input_projection.weight': (out, n)}
    if v['standardize']:
        named |= {'v.std_bias': (n,), 'v.std_scale': (n,)}
    for i in range(v['num_hidden_layers']):
        for name in PARTS:
            named[f'v.blk.{i}.{name}.weight'] = (head if name.endswith(('q_norm', 'k_norm')) else n,)
        for name in MATRICES:
            wide = {'ffn_gate': (ff, n), 'ffn_up': (ff, n), 'ffn_down': (n, ff)}
            named[f'v.blk.{i}.{name}.weight'] = wide.get(name, (n, n))
            if v['use_clipped_linears']:
                named |= {f'v.blk.{i}.{name}.{limit}': (1,) for limit in LIMITS}
    return named


def draw(rng, name, shape):
    if name.endswith(LIMITS):
        return np.array([{'min': -1, 'max': 1}[name[-3:]] * (1.2 + 0.4 * rng.random())])
    if name.endswith('std_bias'):
        return 3 * rng.standard_normal(shape)
    if len(shape) == 1:
        return 0.3 * rng.standard_normal(shape) + 1
    if 'position_embd' in name:
        return 0.7 * rng.standard_normal(shape)
    return 1.3 * rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))


def make_file(path, v, out, types, seed):
    w = projector_file.begin(path, 'vision')
    w.add_string('clip.vision.projector_type', 'gemma4v')
    keys = {'image_size': 224 // v['patch_size'] * v['patch_size'], 'patch_size': v['patch_size'],
            'embedding_length': v['hidden_size'], 'feed_forward_length': v['intermediate_size'],
            'block_count': v['num_hidden_layers'], 'projection_dim': out,
            'attention.head_count': v['num_attention_heads'],
            'projector.scale_factor': v['pooling_kernel_size']}
    for key, value in keys.items():
        w.add_uint32(f'clip.vision.{key}', value)
    w.add_float32('clip.vision.attention.layer_norm_epsilon', v['rms_norm_eps'])
    w.add_array('clip.vision.image_mean', [0.0] * 3)
    w.add_array('clip.vision.image_std', [1.0] * 3)
    return projector_file.finish(w, np.random.default_rng(seed), shapes(v, out), draw, types)


def vision_state(values):
    tower, out = 'model.vision_tower.', {}
    for name, value in values.items():
        words = name.split('.')
        if words[1] == 'blk' and words[3] in MATRICES:
            linear = f'{tower}encoder.layers.{words[2]}.{MATRICES[words[3]]}.'
            out[linear + ('linear.weight' if words[4] == 'weight' else words[4])] = (
                value if words[4] == 'weight' else value[0])
        elif words[1] == 'blk':
            out[f'{tower}encoder.layers.{words[2]}.{PARTS[words[3]]}.{words[4]}'] = value
        elif name == 'mm.input_projection.weight':
            out['model.embed_vision.embedding_projection.weight'] = value
        elif name == 'v.position_embd.weight':
            out[tower + 'patch_embedder.position_embedding_table'] = value
        elif name == 'v.patch_embd.weight':
            turned = value.transpose(0, 2, 3, 1)
            out[tower + 'patch_embedder.input_proj.weight'] = turned.reshape(len(value), -1)
        else:
            out[tower + words[1]] = value
    return out


def prepared(image, v):
    """As the processor does it, with another limit of rows."""
    p, k = v['patch_size'], v['pooling_kernel_size']
    array = np.asarray(image).transpose(2, 0, 1)
    height, width = get_aspect_ratio_preserving_size(array.shape[1], array.shape[2], p, ROWS * k * k, k)
    processor = Gemma4ImageProcessorPil()
    resized = processor.aspect_ratio_preserving_resize(array, p, ROWS * k * k, k, processor.resample)
    pixels = processor.rescale(image=resized, scale=1 / 255)
    patches = convert_image_to_patches(pixels, p)
    x, y = np.meshgrid(np.arange(width // p), np.arange(height // p), indexing='xy')
    places = np.stack([x, y], axis=-1).reshape(len(patches), 2)
    return (torch.from_numpy(np.array(patches, dtype=np.float32))[None], torch.from_numpy(places)[None],
            [height // p // k, width // p // k])


def load(model, text, vision):
    state = {k.replace('model.', 'model.language_model.', 1): x for k, x in text.items()} | vision
    state = {k: torch.from_numpy(np.array(x)) for k, x in state.items()}
    state['lm_head.weight'] = state['model.language_model.embed_tokens.weight']
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and not [m for m in missing if 'audio' not in m], (missing, unexpected)
    return model.eval()


def run(out, name, v, types, seed, tiny):
    _, values = make_tiny_goldens.make_weights(tiny)
    tower = make_file(out / f'{name}.gguf', v, tiny.config.hidden_size, types, seed)
    text = tiny.config.to_dict() | {
        'use_bidirectional_attention': None if tiny.config.hidden_size_per_layer_input else 'vision'}
    config = Gemma4Config(text_config=text, vision_config=v, audio_config=None, image_token_id=IMAGE,
                          boi_token_id=1, eoi_token_id=2, tie_word_embeddings=True)
    config._attn_implementation = 'eager'
    model = load(Gemma4ForConditionalGeneration(config).float(), tiny.to_hf(values, tiny.config),
                 vision_state(tower))
    seen = [prepared(Image.fromarray(media_pictures.pixels(w, h)), v) for w, h in PICTURES]
    counts = [h * w for _, _, (h, w) in seen]
    with torch.no_grad():
        rows = []
        for pixels, places, _ in seen:
            got = model.get_image_features(pixel_values=pixels, image_position_ids=places)
            got = getattr(got, 'pooler_output', got)
            got = torch.cat(list(got)) if isinstance(got, (list, tuple)) else got
            rows.append(got.reshape(-1, tiny.config.hidden_size))
        rng = np.random.default_rng(seed)
        words = [t if t > IMAGE else t + 8 for t in rng.integers(0, 320, 30).tolist()]
        tokens = words[:9] + [IMAGE] * counts[0] + words[9:14] + [IMAGE] * counts[1] + words[14:]
        ids = torch.tensor([tokens])
        most = max(p.shape[1] for p, _, _ in seen)
        pixels = torch.cat([torch.nn.functional.pad(p, (0, 0, 0, most - p.shape[1])) for p, _, _ in seen])
        places = torch.cat([torch.nn.functional.pad(a, (0, 0, 0, most - a.shape[1]), value=-1)
                            for _, a, _ in seen])
        logits = model(input_ids=ids, pixel_values=pixels, image_position_ids=places,
                       mm_token_type_ids=(ids == IMAGE).long()).logits[0]
    np.concatenate([r.numpy() for r in rows]).astype('<f4').tofile(out / f'{name}.rows.f32')
    second = 14 + counts[0]
    positions = [0, 8, 9, 8 + counts[0], 9 + counts[0], second, second + counts[1], len(tokens) - 1]
    logits[positions].numpy().astype('<f4').tofile(out / f'{name}.logits.f32')
    golden = {'projector': f'{name}.gguf', 'text': f'families/{tiny.name}.gguf', 'pictures': PICTURES,
              'rows': counts, 'rows_max': ROWS, 'tokens': [-1 if t == IMAGE else t for t in tokens],
              'positions': positions}
    (out / f'{name}.json').write_text(json.dumps(golden) + '\n')
    print(name, counts, float(logits.std()), [float(r.std()) for r in rows])


SMALL = {'num_hidden_layers': 2, 'hidden_size': 32, 'intermediate_size': 48, 'num_attention_heads': 2,
         'num_key_value_heads': 2, 'head_dim': 16, 'patch_size': 4, 'pooling_kernel_size': 2,
         'rms_norm_eps': 1e-3, 'position_embedding_size': 560, 'standardize': True,
         'use_clipped_linears': False}
CLIPPED = SMALL | {'hidden_size': 40, 'head_dim': 20, 'intermediate_size': 56, 'pooling_kernel_size': 3,
                   'position_embedding_size': 840, 'standardize': False, 'use_clipped_linears': True}
MIXED = {'': T.F16, 'attn_q': T.BF16}


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else '../data/media')
    torch.set_num_threads(1)
    run(out, 'gemma4', SMALL, {'position_embd': T.F16}, 21, gemma4_models.dense())
    run(out, 'gemma4-mixed', CLIPPED, MIXED, 22, gemma4_models.inputs())


if __name__ == '__main__':
    main()
