#!/usr/bin/env python3
"""Writes small projector files to test/data/media, what transformers' towers make of pictures with exactly
their values, and the logits of the small text models of test/data behind such pictures.

usage: media_towers.py [OUT_DIR]

NAME.gguf is the projector, NAME.rows.f32 the rows of each picture, NAME.logits.f32 the logits at some
positions of a prompt with the first picture; NAME.json says the rest.
"""
import json
import sys
from pathlib import Path

import family_models
import make_tiny_goldens
import media_pictures
import numpy as np
import projector_file
import tiny_models
import torch
from gguf import GGMLQuantizationType as T
from PIL import Image
from transformers import (Gemma3Config, Gemma3ForConditionalGeneration, Idefics3Config,
                          Idefics3ForConditionalGeneration)

HALF = [0.5, 0.5, 0.5]
LAYER = {'ln1': 'layer_norm1', 'ln2': 'layer_norm2', 'attn_q': 'self_attn.q_proj',
         'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj', 'attn_out': 'self_attn.out_proj',
         'ffn_up': 'mlp.fc1', 'ffn_down': 'mlp.fc2'}


def shapes(v, out, merge, projection, norm):
    """GGUF names and shapes, as transformers has them (rows first)."""
    n, ff, p = v['hidden_size'], v['intermediate_size'], v['patch_size']
    side = v['image_size'] // p
    named = {'v.patch_embd.weight': (n, 3, p, p), 'v.patch_embd.bias': (n,),
             'v.position_embd.weight': (side * side, n), 'v.post_ln.weight': (n,), 'v.post_ln.bias': (n,)}
    for i in range(v['num_hidden_layers']):
        for name in LAYER:
            rows, cols = {'ffn_up': (ff, n), 'ffn_down': (n, ff)}.get(name, (n, n))
            named[f'v.blk.{i}.{name}.weight'] = (n,) if name.startswith('ln') else (rows, cols)
            named[f'v.blk.{i}.{name}.bias'] = (rows,)
    named[projection] = (n, out) if norm else (out, n * merge * merge)
    if norm:
        named[norm] = (n,)
    return named


def draw(rng, name, shape):
    if len(shape) == 1:
        norm = 'ln' in name or 'norm' in name
        return (0.3 if norm else 0.2) * rng.standard_normal(shape) + (norm and name.endswith('weight'))
    if name == 'v.position_embd.weight':
        return 0.7 * rng.standard_normal(shape)
    fan = shape[0] if name.startswith('mm.input') else np.prod(shape[1:])
    return 1.3 * rng.standard_normal(shape) / np.sqrt(fan)


def swap(name):
    """As older files call it."""
    return name.replace('ffn_up', 'x').replace('ffn_down', 'ffn_up').replace('x', 'ffn_down')


def make_file(path, kind, v, out, merge, types, keys, seed, swapped=False):
    projection, norm = ('mm.input_projection.weight', 'mm.soft_emb_norm.weight') if kind == 'gemma3' else (
        'mm.model.fc.weight', None)
    w = projector_file.begin(path, 'vision')
    w.add_string('clip.projector_type', kind)
    w.add_bool('clip.use_gelu', True)
    for key, value in {'image_size': v['image_size'], 'patch_size': v['patch_size'],
                       'embedding_length': v['hidden_size'], 'feed_forward_length': v['intermediate_size'],
                       'block_count': v['num_hidden_layers'], 'projection_dim': out,
                       'attention.head_count': v['num_attention_heads'],
                       'projector.scale_factor': merge, **keys}.items():
        w.add_uint32(f'clip.vision.{key}', value)
    w.add_float32('clip.vision.attention.layer_norm_epsilon', v['layer_norm_eps'])
    w.add_array('clip.vision.image_mean', HALF)
    w.add_array('clip.vision.image_std', HALF)
    named = shapes(v, out, merge, projection, norm)
    return projector_file.finish(w, np.random.default_rng(seed), named, draw, types,
                                 stored_as=swap if swapped else str)


def vision_state(values, prefix, layers):
    out = {}
    for name, value in values.items():
        parts = name.split('.')
        if parts[0] != 'v':
            continue
        if parts[1] == 'blk':
            out[f'{prefix}encoder.layers.{parts[2]}.{LAYER[parts[3]]}.{parts[4]}'] = value
        else:
            known = {'patch_embd': 'embeddings.patch_embedding', 'post_ln': layers,
                     'position_embd': 'embeddings.position_embedding'}
            out[f'{prefix}{known[parts[1]]}.{parts[2]}'] = value
    return out


def load(model, inner, text, vision, more):
    state = {k.replace('model.', f'model.{inner}.', 1) if k.startswith('model.') else k: v
             for k, v in text.items()} | vision | more
    state = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in state.items()}
    state.setdefault('lm_head.weight', state[f'model.{inner}.embed_tokens.weight'])
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and not [m for m in missing if 'position_ids' not in m and '.head.' not in m], (
        missing, unexpected)
    return model.eval()


def text_of(tiny):
    _, values = make_tiny_goldens.make_weights(tiny)
    return tiny.to_hf(values, tiny.config)


def gemma3(path, v, seed, types, swapped, text):
    merge, into = 2, 'model.multi_modal_projector'
    values = make_file(path, 'gemma3', v, text.config.hidden_size, merge, types, {}, seed, swapped)
    rows = (v['image_size'] // v['patch_size'] // merge) ** 2
    config = Gemma3Config(text_config=text.config.to_dict(), vision_config={**v, 'vision_use_head': False},
                          mm_tokens_per_image=rows, image_token_index=IMAGE, boi_token_index=1,
                          eoi_token_index=2)
    config._attn_implementation = 'eager'
    model = load(Gemma3ForConditionalGeneration(config).float(), 'language_model', text_of(text),
                 vision_state(values, 'model.vision_tower.', 'post_layernorm'),
                 {f'{into}.mm_input_projection_weight': values['mm.input_projection.weight'],
                  f'{into}.mm_soft_emb_norm.weight': values['mm.soft_emb_norm.weight'] - 1})
    prepare = media_pictures.square(v['image_size'])
    return model, lambda image: torch.from_numpy(np.array(prepare(image, False))), rows


def idefics3(path, v, seed, types, swapped, text):
    merge, longest = 2, 2 * v['image_size']
    values = make_file(path, 'idefics3', v, text.config.hidden_size, merge, types,
                       {'preproc_image_size': longest}, seed, swapped)
    config = Idefics3Config(text_config=text.config.to_dict(), vision_config=v, scale_factor=merge,
                            image_token_id=IMAGE)
    config._attn_implementation = 'eager'
    model = load(Idefics3ForConditionalGeneration(config).float(), 'text_model', text_of(text),
                 vision_state(values, 'model.vision_model.', 'post_layernorm'),
                 {'model.connector.modality_projection.proj.weight': values['mm.model.fc.weight']})
    prepare = media_pictures.tiles(longest, v['image_size'])
    return model, lambda image: torch.from_numpy(np.array(prepare(image, False)))[None], (
        v['image_size'] // v['patch_size'] // merge) ** 2


IMAGE = 7
SMALL = {'hidden_size': 48, 'intermediate_size': 80, 'num_hidden_layers': 2, 'num_attention_heads': 4,
         'image_size': 32, 'patch_size': 8, 'num_channels': 3, 'layer_norm_eps': 1e-3,
         'hidden_act': 'gelu_pytorch_tanh', 'attention_dropout': 0.0}
LARGER = SMALL | {'hidden_size': 72, 'intermediate_size': 96, 'num_hidden_layers': 3,
                  'num_attention_heads': 1, 'image_size': 28, 'patch_size': 7}
MIXED = {'': T.F16, 'position_embd': T.F32, 'attn_q': T.BF16}
PICTURES = [[40, 30], [9, 50]]


def features(model, pixels):
    out = model.get_image_features(pixel_values=pixels)
    out = getattr(out, 'pooler_output', out)
    out = torch.cat(list(out)) if isinstance(out, (list, tuple)) else out
    return out.reshape(-1, out.shape[-1])


def run(out, name, make, v, seed, types, swapped, text, source):
    model, prepare, a_view = make(out / f'{name}.gguf', v, seed, types, swapped, text)
    rows, counts = [], []
    with torch.no_grad():
        for width, height in PICTURES:
            pixels = prepare(Image.fromarray(media_pictures.pixels(width, height)))
            rows.append(features(model, pixels).numpy())
            counts.append(len(rows[-1]))
        first = prepare(Image.fromarray(media_pictures.pixels(*PICTURES[0])))
        rng = np.random.default_rng(seed)
        words = [t if t != IMAGE else 8 for t in rng.integers(0, 320, 40).tolist()]
        tokens = words[:11] + [IMAGE] * counts[0] + words[11:]
        ids = torch.tensor([tokens])
        more = {'token_type_ids': (ids == IMAGE).long()} if make is gemma3 else {}
        logits = model(input_ids=ids, pixel_values=first, **more).logits[0]
    np.concatenate(rows).astype('<f4').tofile(out / f'{name}.rows.f32')
    positions = [0, 10, 11, 12, 10 + counts[0], 11 + counts[0], len(tokens) - 1]
    logits[positions].numpy().astype('<f4').tofile(out / f'{name}.logits.f32')
    golden = {'projector': f'{name}.gguf', 'text': source, 'pictures': PICTURES, 'rows': counts,
              'tokens': [-1 if t == IMAGE else t for t in tokens], 'positions': positions,
              'rows_a_view': a_view}
    (out / f'{name}.json').write_text(json.dumps(golden) + '\n')
    print(name, counts, float(logits.std()))


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else '../data/media')
    torch.set_num_threads(1)
    g, l = family_models.gemma3(), tiny_models.llama_tied()
    run(out, 'gemma3', gemma3, SMALL, 1, {}, False, g, 'families/gemma3.gguf')
    run(out, 'gemma3-mixed', gemma3, LARGER, 2, MIXED, True, g, 'families/gemma3.gguf')
    run(out, 'idefics3', idefics3, SMALL, 3, {}, True, l, 'golden/llama-tied.gguf')
    run(out, 'idefics3-mixed', idefics3, LARGER, 4, MIXED, False, l, 'golden/llama-tied.gguf')


if __name__ == '__main__':
    main()
