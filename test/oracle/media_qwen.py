#!/usr/bin/env python3
"""Writes small projectors of Qwen's towers to test/data/media, small text models for them, what transformers'
towers make of pictures with exactly their values, and logits behind two pictures of a prompt.

usage: media_qwen.py [OUT_DIR]

As media_towers.py, with all parts of a row one behind the other: its own values, then those for layers.
"""
import json
import sys
from pathlib import Path

import family_models
import hybrid_models
import make_tiny_goldens
import media_pictures
import numpy as np
import projector_file
import torch
from gguf import GGMLQuantizationType as T
from media_towers import IMAGE, PICTURES
from PIL import Image
from transformers import (Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2Config, Qwen2VLConfig,
                          Qwen2VLForConditionalGeneration, Qwen3_5Config, Qwen3_5ForConditionalGeneration,
                          Qwen3Config, Qwen3MoeConfig, Qwen3VLConfig, Qwen3VLForConditionalGeneration,
                          Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

LEAST, MOST = 64, 6400  # pixels of a picture
MEAN, STD = media_pictures.CLIP
MERGER = {'qwen2': {'post_ln': 'merger.ln_q', 'mm.0': 'merger.mlp.0', 'mm.2': 'merger.mlp.2'},
          'qwen2.5': {'post_ln': 'merger.ln_q', 'mm.0': 'merger.mlp.0', 'mm.2': 'merger.mlp.2'},
          'qwen3': {'post_ln': 'merger.norm', 'mm.0': 'merger.linear_fc1', 'mm.2': 'merger.linear_fc2',
                    'position_embd': 'pos_embed'}}
FFN = {'qwen2': {'ffn_up': 'mlp.fc1', 'ffn_down': 'mlp.fc2'},
       'qwen2.5': {'ffn_gate': 'mlp.gate_proj', 'ffn_up': 'mlp.up_proj', 'ffn_down': 'mlp.down_proj'},
       'qwen3': {'ffn_up': 'mlp.linear_fc1', 'ffn_down': 'mlp.linear_fc2'}}


def shapes(kind, v, deep):
    """GGUF names and shapes, as transformers has them (rows first)."""
    n, ff, p, joined = v['hidden_size'], v['intermediate_size'], v['patch_size'], 4 * v['hidden_size']
    norms = ('weight',) if kind == 'qwen2.5' else ('weight', 'bias')
    named = {'v.patch_embd.weight': (n, 3, p, p), 'v.patch_embd.weight.1': (n, 3, p, p)}
    if kind == 'qwen3':
        named |= {'v.patch_embd.bias': (n,), 'v.position_embd.weight': (v['num_position_embeddings'], n)}
    matrices = {'attn_out': (n, n), 'ffn_up': (ff, n), 'ffn_down': (n, ff)}
    if kind == 'qwen3':
        matrices['attn_qkv'] = (3 * n, n)
    else:
        matrices |= {name: (n, n) for name in ('attn_q', 'attn_k', 'attn_v')}
    if kind == 'qwen2.5':
        matrices['ffn_gate'] = (ff, n)
    for i in range(v['depth']):
        for name, shape in matrices.items():
            named |= {f'v.blk.{i}.{name}.weight': shape, f'v.blk.{i}.{name}.bias': shape[:1]}
        named |= {f'v.blk.{i}.{name}.{part}': (n,) for name in ('ln1', 'ln2') for part in norms}
    named |= {f'v.post_ln.{part}': (n,) for part in norms}
    pairs = [('mm.0', 'mm.2')] + [(f'v.deepstack.{i}.fc1', f'v.deepstack.{i}.fc2') for i in deep]
    named |= {f'v.deepstack.{i}.norm.{part}': (joined,) for i in deep for part in norms}
    for first, second in pairs:
        named |= {f'{first}.weight': (joined, joined), f'{first}.bias': (joined,),
                  f'{second}.weight': (v['out_hidden_size'], joined),
                  f'{second}.bias': (v['out_hidden_size'],)}
    return named


def draw(rng, name, shape):
    if len(shape) == 1:
        norm = 'ln' in name or 'norm' in name
        return (0.3 if norm else 0.2) * rng.standard_normal(shape) + (norm and name.endswith('weight'))
    if 'position_embd' in name:
        return 0.7 * rng.standard_normal(shape)
    return 1.3 * rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))


def make_file(path, kind, v, deep, types, seed):
    w = projector_file.begin(path, 'vision')
    w.add_string('clip.projector_type', f"{'qwen3vl' if kind == 'qwen3' else kind + 'vl'}_merger")
    if kind != 'qwen2':  # whose files name no activation
        w.add_bool('clip.use_gelu' if kind == 'qwen3' else 'clip.use_silu', True)
    side = int(v.get('num_position_embeddings', 25) ** 0.5)
    keys = {'image_size': side * v['patch_size'], 'patch_size': v['patch_size'], 'spatial_merge_size': 2,
            'embedding_length': v['hidden_size'], 'feed_forward_length': v['intermediate_size'],
            'block_count': v['depth'], 'projection_dim': v['out_hidden_size'],
            'attention.head_count': v['num_heads'], 'image_min_pixels': LEAST, 'image_max_pixels': MOST}
    if kind == 'qwen2.5':
        keys |= {'n_wa_pattern': v['fullatt_block_indexes'][0] + 1, 'window_size': v['window_size']}
    for key, value in keys.items():
        w.add_uint32(f'clip.vision.{key}', value)
    if kind == 'qwen3':
        w.add_array('clip.vision.is_deepstack_layers', [i in deep for i in range(v['depth'])])
    w.add_float32('clip.vision.attention.layer_norm_epsilon', 1e-6)
    w.add_array('clip.vision.image_mean', MEAN)
    w.add_array('clip.vision.image_std', STD)
    return projector_file.finish(w, np.random.default_rng(seed), shapes(kind, v, deep), draw, types)


def vision_state(kind, values, v, deep):
    """The tower's tensors by transformers' names."""
    out, layers = {}, {'attn_out': 'attn.proj', 'attn_qkv': 'attn.qkv', 'ln1': 'norm1', 'ln2': 'norm2'}
    for name, value in values.items():
        stem, part = name.removesuffix('.1').rsplit('.', 1)
        words = stem.split('.')
        if words[1] == 'blk' and words[3] in ('attn_q', 'attn_k', 'attn_v'):
            continue
        if words[1] == 'blk':
            to = f'blocks.{words[2]}.{(layers | FFN[kind])[words[3]]}'
        elif words[1] == 'deepstack':
            inner = {'fc1': 'linear_fc1', 'fc2': 'linear_fc2'}.get(words[3], words[3])
            to = f'deepstack_merger_list.{deep.index(int(words[2]))}.{inner}'
        elif words[1] == 'patch_embd':
            to = 'patch_embed.proj'
        else:
            to = MERGER[kind][stem.removeprefix('v.')]
        out[f'model.visual.{to}.{part}'] = value
    frames = [values[f'v.patch_embd.weight{end}'] for end in ('', '.1')]
    out['model.visual.patch_embed.proj.weight'] = np.stack(frames, axis=2)
    if kind != 'qwen3':
        for i in range(v['depth']):
            for part in ('weight', 'bias'):
                out[f'model.visual.blocks.{i}.attn.qkv.{part}'] = np.concatenate(
                    [values[f'v.blk.{i}.attn_{x}.{part}'] for x in 'qkv'])
    return out


def load(model, text, vision):
    state = {k.replace('model.', 'model.language_model.', 1) if k.startswith('model.') else k: x
             for k, x in text.items()} | vision
    state = {k: torch.from_numpy(np.ascontiguousarray(x)) for k, x in state.items()}
    state.setdefault('lm_head.weight', state['model.language_model.embed_tokens.weight'])
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and not missing, (missing, unexpected)
    return model.eval()


def text_model(name, arch, seed, config, sections, **more):
    keys = {'rope.dimension_sections': [*sections, 0]} | more
    return family_models.tiny(name, arch, seed, config, keys)


def qwen2vl():
    c = Qwen2Config(**family_models.sizes(num_attention_heads=2, num_key_value_heads=1,
                                          use_sliding_window=False))
    return text_model('qwen2vl', 'qwen2vl', 201, c, [2, 3, 3])


def qwen3vl():
    c = Qwen3Config(**family_models.sizes(num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                                          num_hidden_layers=3))
    return text_model('qwen3vl', 'qwen3vl', 202, c, [4, 2, 2], n_deepstack_layers=2, **family_models.head(16))


def qwen3vlmoe():
    c = Qwen3MoeConfig(**family_models.sizes(num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                                             num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
                                             moe_intermediate_size=64, decoder_sparse_step=1,
                                             mlp_only_layers=[], tie_word_embeddings=True))
    return text_model('qwen3vlmoe', 'qwen3vlmoe', 203, c, [4, 2, 2], n_deepstack_layers=1, expert_count=4,
                      expert_used_count=2, expert_feed_forward_length=64, **family_models.head(16))


def features(model, pixels, grid):
    out = model.get_image_features(pixel_values=pixels, image_grid_thw=grid)
    def joined(of):  # pictures may come one by one
        return torch.cat(list(of)) if isinstance(of, (list, tuple)) else of

    parts = [joined(out.pooler_output), *map(joined, getattr(out, 'deepstack_features', None) or [])]
    return torch.cat([p.reshape(-1, p.shape[-1]) for p in parts], dim=1)


def run(out, name, kind, classes, v, deep, types, seed, tiny, source):
    if source is None:
        stored, values = make_tiny_goldens.make_weights(tiny)
        make_tiny_goldens.write_gguf(tiny, stored, out / f'{tiny.name}.gguf')
        source = f'media/{tiny.name}.gguf'
    else:
        _, values = make_tiny_goldens.make_weights(tiny)
    v = v | {'out_hidden_size': tiny.config.hidden_size}
    tower = make_file(out / f'{name}.gguf', kind, v, deep, types, seed)
    sections = tiny.keys['rope.dimension_sections'][:3]
    text = tiny.config.to_dict()
    text['rope_parameters'] = dict(text['rope_parameters']) | {
        'mrope_section': sections, 'mrope_interleaved': kind == 'qwen3'}
    vision = {k: x for k, x in v.items()} | ({'deepstack_visual_indexes': deep} if classes[0] in (
        Qwen3VLConfig, Qwen3VLMoeConfig) else {})
    if kind == 'qwen2':
        width = vision.pop('out_hidden_size')
        ratio = vision.pop('intermediate_size') // vision['hidden_size']
        vision |= {'embed_dim': vision['hidden_size'], 'hidden_size': width, 'mlp_ratio': ratio}
    config = classes[0](text_config=text, vision_config=vision, image_token_id=IMAGE,
                        tie_word_embeddings=tiny.config.tie_word_embeddings)
    config._attn_implementation = 'eager'
    model = load(classes[1](config).float(), tiny.to_hf(values, tiny.config),
                 vision_state(kind, tower, v, deep))
    processor = Qwen2VLImageProcessorPil(patch_size=v['patch_size'], merge_size=2, image_mean=MEAN,
                                         image_std=STD, size={'shortest_edge': LEAST, 'longest_edge': MOST})
    images = [Image.fromarray(media_pictures.pixels(w, h)) for w, h in PICTURES]
    seen = processor(images=images, return_tensors='pt')
    grids = seen['image_grid_thw']
    counts = [int(g.prod()) // 4 for g in grids]
    with torch.no_grad():
        rows = features(model, seen['pixel_values'], grids)
        rng = np.random.default_rng(seed)
        words = [t if t != IMAGE else 8 for t in rng.integers(0, 320, 30).tolist()]
        tokens = words[:9] + [IMAGE] * counts[0] + words[9:14] + [IMAGE] * counts[1] + words[14:]
        ids = torch.tensor([tokens])
        logits = model(input_ids=ids, pixel_values=seen['pixel_values'], image_grid_thw=grids,
                       mm_token_type_ids=(ids == IMAGE).long()).logits[0]
    rows.numpy().astype('<f4').tofile(out / f'{name}.rows.f32')
    second = 14 + counts[0]
    positions = [0, 8, 9, 10, 8 + counts[0], 9 + counts[0], second, second + counts[1], len(tokens) - 1]
    logits[positions].numpy().astype('<f4').tofile(out / f'{name}.logits.f32')
    golden = {'projector': f'{name}.gguf', 'text': source, 'pictures': PICTURES, 'rows': counts,
              'tokens': [-1 if t == IMAGE else t for t in tokens], 'positions': positions,
              'grids': [[int(g[1]) // 2, int(g[2]) // 2] for g in grids]}
    (out / f'{name}.json').write_text(json.dumps(golden) + '\n')
    print(name, counts, float(logits.std()), float(rows.std()))


SMALL = {'depth': 3, 'hidden_size': 32, 'intermediate_size': 48, 'num_heads': 2, 'patch_size': 4,
         'spatial_merge_size': 2}
ODD = SMALL | {'depth': 2, 'hidden_size': 40, 'intermediate_size': 72, 'patch_size': 3}
EIGHT = {name: T.Q8_0 for name in ('0', '2', 'fc1', 'fc2')}
MIXED = {'': T.F16, 'position_embd': T.F32, 'attn_qkv': T.BF16, 'attn_q': T.BF16}


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else '../data/media')
    torch.set_num_threads(1)
    first = (Qwen2VLConfig, Qwen2VLForConditionalGeneration)
    run(out, 'qwen2', 'qwen2', first, ODD | {'intermediate_size': 80}, [], {'2': T.F16}, 15, qwen2vl(), None)
    windows = {'fullatt_block_indexes': [1], 'window_size': 16}
    two = (Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration)
    run(out, 'qwen25', 'qwen2.5', two, SMALL | windows, [], {'0': T.F16}, 11, qwen2vl(), None)
    three = (Qwen3VLConfig, Qwen3VLForConditionalGeneration)
    run(out, 'qwen3', 'qwen3', three, SMALL | {'num_position_embeddings': 25}, [0, 2], EIGHT, 12, qwen3vl(),
        None)
    experts = (Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration)
    run(out, 'qwen3-mixed', 'qwen3', experts, ODD | {'num_position_embeddings': 16}, [1], MIXED, 13,
        qwen3vlmoe(), None)
    hybrid = (Qwen3_5Config, Qwen3_5ForConditionalGeneration)
    run(out, 'qwen35', 'qwen3', hybrid, SMALL | {'num_position_embeddings': 49}, [], EIGHT, 14,
        hybrid_models.qwen35(), 'families/qwen35.gguf')


if __name__ == '__main__':
    main()
