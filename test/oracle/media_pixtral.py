#!/usr/bin/env python3
"""Writes small projectors of Pixtral and Mistral 3 to test/data/media, what transformers' towers make of
pictures with exactly their values, and logits of a small Llama behind two pictures of a prompt.

usage: media_pixtral.py [OUT_DIR]

As media_towers.py. Files hold Q and K with the pairs that are turned together side by side, as converters
write them.
"""
import json
import sys
from pathlib import Path

import family_models
import make_tiny_goldens
import media_pictures
import numpy as np
import projector_file
import torch
from gguf import GGMLQuantizationType as T
from media_towers import IMAGE, PICTURES
from PIL import Image
from transformers import (LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, Mistral3Config,
                          Mistral3ForConditionalGeneration)
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil

LONGEST = 48
MEAN, STD = media_pictures.CLIP
LAYER = {'ln1': 'attention_norm', 'ln2': 'ffn_norm', 'attn_q': 'attention.q_proj',
         'attn_k': 'attention.k_proj', 'attn_v': 'attention.v_proj', 'attn_out': 'attention.o_proj',
         'ffn_gate': 'feed_forward.gate_proj', 'ffn_up': 'feed_forward.up_proj',
         'ffn_down': 'feed_forward.down_proj'}
TOWER, PROJECTOR = 'model.vision_tower.', 'model.multi_modal_projector.'
NAMES = {'v.patch_embd.weight': TOWER + 'patch_conv.weight', 'v.pre_ln.weight': TOWER + 'ln_pre.weight',
         'mm.input_norm.weight': PROJECTOR + 'norm.weight',
         'mm.patch_merger.weight': PROJECTOR + 'patch_merger.merging_layer.weight'} | {
             f'mm.{i}.{part}': f'{PROJECTOR}linear_{i}.{part}' for i in (1, 2) for part in ('weight', 'bias')}


def shapes(v, out, merge, biases):
    """GGUF names and shapes, as transformers has them (rows first)."""
    n, ff, p = v['hidden_size'], v['intermediate_size'], v['patch_size']
    named = {'v.patch_embd.weight': (n, 3, p, p), 'v.pre_ln.weight': (n,)}
    for i in range(v['num_hidden_layers']):
        for name in LAYER:
            wide = {'ln1': (n,), 'ln2': (n,), 'ffn_gate': (ff, n), 'ffn_up': (ff, n), 'ffn_down': (n, ff)}
            named[f'v.blk.{i}.{name}.weight'] = wide.get(name, (n, n))
    if merge > 1:
        named |= {'mm.input_norm.weight': (n,), 'mm.patch_merger.weight': (n, n * merge * merge)}
    named |= {'mm.1.weight': (out, n), 'mm.2.weight': (out, out)}
    return named | ({'mm.1.bias': (out,), 'mm.2.bias': (out,)} if biases else {})


def draw(rng, name, shape):
    if name.endswith('bias'):
        return 0.2 * rng.standard_normal(shape)
    if len(shape) == 1:
        return 0.3 * rng.standard_normal(shape) + 1
    return 1.3 * rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))


def halves(matrix, heads):
    """Pairs side by side become pairs half a head apart."""
    return matrix.reshape(heads, -1, 2, matrix.shape[1]).swapaxes(1, 2).reshape(matrix.shape)


def make_file(path, v, out, merge, biases, types, seed):
    w = projector_file.begin(path, 'vision')
    w.add_string('clip.projector_type', 'pixtral')
    w.add_bool('clip.use_silu', True)
    keys = {'image_size': LONGEST, 'patch_size': v['patch_size'], 'embedding_length': v['hidden_size'],
            'feed_forward_length': v['intermediate_size'], 'block_count': v['num_hidden_layers'],
            'projection_dim': out, 'attention.head_count': v['num_attention_heads']}
    if merge > 1:
        keys['spatial_merge_size'] = merge
    for key, value in keys.items():
        w.add_uint32(f'clip.vision.{key}', value)
    w.add_float32('clip.vision.attention.layer_norm_epsilon', 1e-5)
    w.add_array('clip.vision.image_mean', MEAN)
    w.add_array('clip.vision.image_std', STD)
    return projector_file.finish(w, np.random.default_rng(seed), shapes(v, out, merge, biases), draw, types)


def vision_state(values, heads):
    """The tower's tensors by transformers' names."""
    out = {}
    for name, value in values.items():
        if name in NAMES:
            out[NAMES[name]] = value
            continue
        _, _, layer, part, end = name.split('.')
        out[f'{TOWER}transformer.layers.{layer}.{LAYER[part]}.{end}'] = (
            halves(value, heads) if part in ('attn_q', 'attn_k') else value)
    return out


def load(model, text, vision):
    state = {k.replace('model.', 'model.language_model.', 1): x for k, x in text.items()} | vision
    state = {k: torch.from_numpy(np.ascontiguousarray(x)) for k, x in state.items()}
    state.setdefault('lm_head.weight', state['model.language_model.embed_tokens.weight'])
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and not missing, (missing, unexpected)
    return model.eval()


def llama():
    c = LlamaConfig(**family_models.sizes(num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-5))
    return family_models.tiny('pixtral-llama', 'llama', 211, c, {}, family_models.Layout(permuted=16))


def run(out, name, v, merge, types, seed, tiny):
    stored, values = make_tiny_goldens.make_weights(tiny)
    make_tiny_goldens.write_gguf(tiny, stored, out / f'{tiny.name}.gguf')
    tower = make_file(out / f'{name}.gguf', v, tiny.config.hidden_size, merge, merge == 1, types, seed)
    vision = v | {'model_type': 'pixtral', 'image_size': LONGEST, 'hidden_act': 'silu'}
    more = {'image_token_id': IMAGE, 'vision_feature_layer': -1, 'projector_hidden_act': 'gelu',
            'tie_word_embeddings': tiny.config.tie_word_embeddings}
    if merge > 1:
        config = Mistral3Config(text_config=tiny.config.to_dict(), vision_config=vision,
                                spatial_merge_size=merge, multimodal_projector_bias=False, **more)
        model = Mistral3ForConditionalGeneration(config)
    else:
        config = LlavaConfig(text_config=tiny.config.to_dict(), vision_config=vision,
                             vision_feature_select_strategy='full', **more)
        model = LlavaForConditionalGeneration(config)
    model = load(model.float(), tiny.to_hf(values, tiny.config),
                 vision_state(tower, v['num_attention_heads']))
    model.set_attn_implementation('eager')
    factor = v['patch_size'] * merge
    processor = PixtralImageProcessorPil(size={'longest_edge': LONGEST}, image_mean=MEAN, image_std=STD,
                                         patch_size={'height': factor, 'width': factor})
    images = [Image.fromarray(media_pictures.pixels(w, h)) for w, h in PICTURES]
    seen = processor(images=images, return_tensors='pt')
    sizes = torch.tensor([[int(side) for side in size] for size in seen['image_sizes']])
    grids = [[int(h) // factor, int(w) // factor] for h, w in sizes]
    counts = [h * w for h, w in grids]
    with torch.no_grad():
        rows = model.get_image_features(pixel_values=seen['pixel_values'], image_sizes=sizes).pooler_output
        rows = torch.cat(list(rows))
        rng = np.random.default_rng(seed)
        words = [t if t != IMAGE else 8 for t in rng.integers(0, 320, 30).tolist()]
        tokens = words[:9] + [IMAGE] * counts[0] + words[9:14] + [IMAGE] * counts[1] + words[14:]
        logits = model(input_ids=torch.tensor([tokens]), pixel_values=seen['pixel_values'],
                       image_sizes=sizes).logits[0]
    rows.numpy().astype('<f4').tofile(out / f'{name}.rows.f32')
    second = 14 + counts[0]
    positions = [0, 8, 9, 10, 8 + counts[0], 9 + counts[0], second, second + counts[1], len(tokens) - 1]
    logits[positions].numpy().astype('<f4').tofile(out / f'{name}.logits.f32')
    golden = {'projector': f'{name}.gguf', 'text': f'media/{tiny.name}.gguf', 'pictures': PICTURES,
              'rows': counts, 'tokens': [-1 if t == IMAGE else t for t in tokens], 'positions': positions}
    (out / f'{name}.json').write_text(json.dumps(golden) + '\n')
    print(name, grids, float(logits.std()), float(rows.std()))


SMALL = {'num_hidden_layers': 2, 'hidden_size': 32, 'intermediate_size': 48, 'num_attention_heads': 2,
         'head_dim': 16, 'patch_size': 4}
ODD = SMALL | {'hidden_size': 40, 'head_dim': 20, 'intermediate_size': 72, 'patch_size': 6}
MIXED = {'': T.F16, 'attn_q': T.BF16, 'ffn_up': T.F32}


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else '../data/media')
    torch.set_num_threads(1)
    text = llama()
    run(out, 'pixtral', ODD, 1, MIXED, 31, text)
    run(out, 'mistral3', SMALL, 2, {'patch_merger': T.Q8_0}, 32, text)


if __name__ == '__main__':
    main()
