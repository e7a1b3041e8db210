#!/usr/bin/env python3
"""Writes to test/data/media what transformers makes of sounds: sounds.json, values of
WhisperFeatureExtractor's frames and soxr's samples at another rate; files/*.mp3; and small projectors of
sound with the rows that its Voxtral tower makes with their values, and logits of a small text model behind a
sound.
usage: media_sounds.py [OUT_DIR]
"""
import json
import subprocess
import sys
from pathlib import Path

import media_towers
import numpy as np
import projector_file
import soxr
import tiny_models
import torch
from gguf import GGMLQuantizationType as T
from transformers import (VoxtralConfig, VoxtralEncoderConfig, VoxtralForConditionalGeneration,
                          WhisperFeatureExtractor)

RATE, CHUNK = 16000, 480000
LEVELS = np.array([1.0, 0.125, 0.0009765625, 0.0, 0.25], dtype=np.float32)
VALUES = 150  # that are kept of each case
SECONDS = 0.06  # of a sweep
LOUD = 0.95


def sound(count, seed):
    """Noise that gets louder and softer, from the index alone."""
    mask = np.uint64(0xFFFFFFFF)
    index = np.arange(count, dtype=np.uint64)
    value = index * np.uint64(2654435761) + np.uint64(seed * 65537) & mask
    value ^= value >> np.uint64(15)
    value = value * np.uint64(2246822519) & mask
    noise = ((value >> np.uint64(8)).astype(np.float32) - np.float32(1 << 23)) / np.float32(1 << 23)
    return noise * LEVELS[(index // np.uint64(4000) % np.uint64(5)).astype(int)]


def frames(samples, bins):
    """[frames][bins], of whole chunks."""
    extractor = WhisperFeatureExtractor(feature_size=bins)
    out = extractor(samples, sampling_rate=RATE, padding=True, truncation=False, pad_to_multiple_of=CHUNK,
                    return_tensors='np')['input_features'][0]
    return np.ascontiguousarray(out.T)


def mel_cases():
    for seconds in (0.01, 29.999, 30, 30.01, 61):
        for bins in (80, 128):
            count = round(seconds * RATE)
            made = frames(sound(count, bins), bins)
            flat = made.reshape(-1)
            kept = np.arange(VALUES, dtype=np.int64) * 7919 * 13 % flat.size
            yield {'samples': count, 'bins': bins, 'chunks': len(made) // 3000,
                   'values': [round(float(x), 8) for x in flat[kept]],
                   'means': [round(float(x), 9) for x in made.astype(np.float64).mean(0)]}


def sweep(rate, highest):
    """From 100 Hz to the highest, that begins and ends softly."""
    count = round(rate * SECONDS)
    t, seconds = np.arange(count) / rate, count / rate
    turns = 100 * t + (highest - 100) * t * t / (2 * seconds)
    return (np.sin(np.pi * t / seconds) ** 2 * np.sin(2 * np.pi * turns)).astype(np.float32)


def rate_cases():
    for rate in (8000, 11025, 22050, 24000, 44100, 48000, 96000):
        made = sweep(rate, min(6000, 0.4 * rate))
        out = soxr.resample(made, rate, RATE, quality='VHQ')
        yield {'rate': rate, 'samples': len(made), 'highest': min(6000, 0.4 * rate),
               'out': [round(float(x), 6) for x in out]}


def mp3_files(out):
    """Two tones, which the tests make anew and compare with. lame 3.100 makes everything softer by LOUD."""
    for name, rate, channels, more in (('mono.mp3', 16000, 1, ['-b', '48']),
                                       ('stereo.mp3', 44100, 2, ['-b', '112', '--tt', 'A title',
                                                                 '--add-id3v2'])):
        t = np.arange(rate * 2 // 5) / rate
        tone = 0.4 * np.sin(2 * np.pi * 440 * t) + 0.2 * np.sin(2 * np.pi * 1000 * t)
        both = np.stack([tone, tone / 2], -1)[:, :channels]
        raw = np.round(both / LOUD * 32767).astype('<i2').tobytes()
        subprocess.run(['lame', '--quiet', '-r', '-s', str(rate / 1000), '--bitwidth', '16', '--signed',
                        '--little-endian', '-m', 'm' if channels == 1 else 's', *more, '-',
                        str(out / name)], input=raw, check=True)


LAYER = {'ln1': 'self_attn_layer_norm', 'ln2': 'final_layer_norm', 'attn_q': 'self_attn.q_proj',
         'attn_k': 'self_attn.k_proj', 'attn_v': 'self_attn.v_proj', 'attn_out': 'self_attn.out_proj',
         'ffn_up': 'fc1', 'ffn_down': 'fc2'}


def shapes(a, out):
    n, ff = a['hidden_size'], a['intermediate_size']
    named = {'a.conv1d.1.weight': (n, a['num_mel_bins'], 3), 'a.conv1d.1.bias': (n, 1),
             'a.conv1d.2.weight': (n, n, 3), 'a.conv1d.2.bias': (n, 1),
             'a.position_embd.weight': (1500, n), 'a.post_ln.weight': (n,), 'a.post_ln.bias': (n,)}
    for i in range(a['num_hidden_layers']):
        for name in LAYER:
            rows, cols = {'ffn_up': (ff, n), 'ffn_down': (n, ff)}.get(name, (n, n))
            named[f'a.blk.{i}.{name}.weight'] = (n,) if name.startswith('ln') else (rows, cols)
            if name != 'attn_k':
                named[f'a.blk.{i}.{name}.bias'] = (rows,)
    return named | {'mm.a.mlp.1.weight': (out, ff), 'mm.a.mlp.2.weight': (out, out)}


def draw(rng, name, shape):
    if name.endswith('position_embd.weight'):
        return 0.5 * rng.standard_normal(shape)
    if len(shape) == 1 or shape[-1] == 1:
        norm = 'ln' in name
        return (0.3 if norm else 0.2) * rng.standard_normal(shape) + (norm and name.endswith('weight'))
    return 1.3 * rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))


def type_of(name, shape, types):
    if len(shape) == 1 or shape[-1] == 1:
        return T.F32
    words = name.split('.')
    return types.get(words[-2], types.get(words[1], types.get('', T.F32)))


def make_file(path, a, out, types, seed):
    w = projector_file.begin(path, 'audio')
    w.add_string('clip.projector_type', 'voxtral')
    for key, value in {'embedding_length': a['hidden_size'], 'feed_forward_length': a['intermediate_size'],
                       'block_count': a['num_hidden_layers'], 'projection_dim': out,
                       'attention.head_count': a['num_attention_heads'], 'num_mel_bins': a['num_mel_bins'],
                       'projector.stack_factor': a['intermediate_size'] // a['hidden_size']}.items():
        w.add_uint32(f'clip.audio.{key}', value)
    w.add_float32('clip.audio.attention.layer_norm_epsilon', 1e-5)
    return projector_file.finish(w, np.random.default_rng(seed), shapes(a, out), draw, types, choose=type_of)


def state_of(values):
    out = {}
    known = {'conv1d.1': 'conv1', 'conv1d.2': 'conv2', 'position_embd': 'embed_positions',
             'post_ln': 'layer_norm'}
    for name, value in values.items():
        parts = name.split('.')
        if parts[0] == 'mm':
            out[f'model.multi_modal_projector.linear_{parts[3]}.weight'] = value
        elif parts[1] == 'blk':
            out[f'model.audio_tower.layers.{parts[2]}.{LAYER[parts[3]]}.{parts[4]}'] = value
        else:
            to = known['.'.join(parts[1:-1])]
            out[f'model.audio_tower.{to}.{parts[-1]}'] = value.reshape(-1) if parts[-1] == 'bias' else value
    return out


SMALL = {'hidden_size': 16, 'intermediate_size': 64, 'num_hidden_layers': 2, 'num_attention_heads': 2,
         'num_mel_bins': 80}
LARGER = {'hidden_size': 32, 'intermediate_size': 128, 'num_hidden_layers': 2, 'num_attention_heads': 1,
          'num_mel_bins': 128}
MIXED = {'': T.Q8_0, 'conv1d': T.F16, 'position_embd': T.F16, 'attn_q': T.BF16}
AUDIO, KEPT = 7, 25


def tower(path, a, seed, types):
    text = tiny_models.llama_tied()
    values = make_file(path, a, text.config.hidden_size, types, seed)
    config = VoxtralConfig(audio_config=VoxtralEncoderConfig(**a).to_dict(),
                           text_config=text.config.to_dict(), audio_token_id=AUDIO)
    config._attn_implementation = 'eager'
    model = VoxtralForConditionalGeneration(config).float()
    state = {k.replace('model.', 'model.language_model.', 1): v
             for k, v in media_towers.text_of(text).items() if k.startswith('model.')} | state_of(values)
    state = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in state.items()}
    state['lm_head.weight'] = state['model.language_model.embed_tokens.weight']
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and not missing, (missing, unexpected)
    return model.eval()


def run(out, name, a, seed, types):
    model = tower(out / f'{name}.gguf', a, seed, types)
    samples = [7 * RATE, 31 * RATE]
    inputs = [torch.from_numpy(frames(sound(n, seed), a['num_mel_bins']).reshape(-1, 3000, a['num_mel_bins'])
                               .transpose(0, 2, 1).copy()) for n in samples]
    with torch.no_grad():
        rows = [model.get_audio_features(x).pooler_output for x in inputs]
        rng = np.random.default_rng(seed)
        words = [t if t != AUDIO else 8 for t in rng.integers(0, 320, 30).tolist()]
        tokens = words[:11] + [AUDIO] * len(rows[0]) + words[11:]
        logits = model(input_ids=torch.tensor([tokens]), input_features=inputs[0]).logits[0]
    positions = [10, 11, 200, 385, 386, len(tokens) - 1]
    np.concatenate([r[::KEPT].numpy() for r in rows]).astype('<f4').tofile(out / f'{name}.rows.f32')
    logits[positions].numpy().astype('<f4').tofile(out / f'{name}.logits.f32')
    golden = {'projector': f'{name}.gguf', 'text': 'golden/llama-tied.gguf', 'samples': samples, 'seed': seed,
              'rows': [len(r) for r in rows], 'kept': KEPT,
              'tokens': [-1 if t == AUDIO else t for t in tokens], 'positions': positions}
    (out / f'{name}.json').write_text(json.dumps(golden) + '\n')
    print(name, [len(r) for r in rows], float(rows[0].std()), float(logits.std()))


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else '../data/media')
    torch.set_num_threads(1)
    facts = {'mel': list(mel_cases()), 'rates': list(rate_cases())}
    (out / 'sounds.json').write_text(json.dumps(facts, separators=(',', ':')) + '\n')
    mp3_files(out / 'files')
    run(out, 'voxtral', SMALL, 1, {})
    run(out, 'voxtral-mixed', LARGER, 2, MIXED)


if __name__ == '__main__':
    main()
