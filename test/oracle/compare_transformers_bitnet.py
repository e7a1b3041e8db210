"""Generated BitNet models in transformers beside what trillim-quantize and the worker make of the same files:
packed weights of both of transformers' linear classes, and masters in bf16 that it quantizes online. In
transformers all is f32. Exits with 1 where greedy tokens differ although the two best logits are not nearly
the same, or where no position of a model agrees but for f32 noise.

    compare_transformers_bitnet.py BUILD_FOLDER [MODELS]            (6 models, 12 prompts each; a few minutes)
"""
import json
import os
import random
import subprocess
import sys
import tempfile
from typing import Dict, List

# Its kernels are compiled at first use otherwise; eager torch computes the same.
os.environ['TORCHDYNAMO_DISABLE'] = '1'

import torch
import transformers
from safetensors.torch import save_file
from served import Served, gap
from transformers import AutoModelForCausalLM, BitNetConfig
from transformers.integrations.bitnet import pack_weights

PROMPTS, TOKENS, LIKELY, VOCABULARY = 12, 24, 20, 128
NEARLY_THE_SAME = 1e-3
NOISE = 3e-5
# Embedding, feed-forward, layers, heads, KV heads.
SHAPES = [(256, 256, 2, 4, 2), (256, 512, 3, 4, 4), (512, 256, 2, 8, 2), (384, 384, 2, 6, 2),
          (512, 1536, 3, 4, 2), (768, 768, 2, 6, 3)]
KINDS = {'packed, bitlinear': ('bitlinear', 'offline'), 'packed, autobitlinear': ('autobitlinear', 'offline'),
         'masters, online': ('autobitlinear', 'online')}


def config_of(number: int, kind: str) -> BitNetConfig:
    hidden, ffn, layers, heads, kv_heads = SHAPES[number % len(SHAPES)]
    linear_class, mode = KINDS[kind]
    quantization = {'quant_method': 'bitnet', 'linear_class': linear_class, 'quantization_mode': mode}
    return BitNetConfig(hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers,
                        num_attention_heads=heads, num_key_value_heads=kv_heads, vocab_size=VOCABULARY,
                        max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=1,
                        tie_word_embeddings=True, hidden_act='relu2', architectures=['BitNetForCausalLM'],
                        quantization_config=quantization)


def packed(name: str, master: torch.Tensor, linear_class: str) -> Dict[str, torch.Tensor]:
    """Four rows a byte, and the scale, by which bitlinear divides and autobitlinear multiplies."""
    mean = master.float().abs().mean()
    codes = (master.float() / mean).round().clamp(-1, 1)
    scale = 1 / mean if linear_class == 'bitlinear' else mean
    return {name: pack_weights(codes), name + '_scale': scale.reshape(1).to(torch.bfloat16)}


def write_model(folder: str, number: int, kind: str) -> None:
    config = config_of(number, kind)
    plain = BitNetConfig(**{k: v for k, v in config.to_dict().items() if k != 'quantization_config'})
    draw = torch.Generator().manual_seed(number)
    tensors = {}
    for name, like in AutoModelForCausalLM.from_config(plain).state_dict().items():
        if name == 'lm_head.weight':
            continue
        values = torch.randn(like.shape, generator=draw)
        if name.endswith('norm.weight'):
            tensors[name] = (1 + 0.3 * values).to(torch.bfloat16)
        elif '_proj.' not in name or kind == 'masters, online':
            tensors[name] = (values if '_proj.' not in name else 0.05 * values).to(torch.bfloat16)
        else:
            tensors |= packed(name, 0.05 * values, KINDS[kind][0])
    config.save_pretrained(folder)
    save_file(tensors, os.path.join(folder, 'model.safetensors'), metadata={'format': 'pt'})


def write_tokenizer(folder: str) -> None:
    """Tokens with texts of their own; prompts are ids."""
    texts = ['<bos>', '<eos>', *map(chr, range(0x21, 0x7f))]
    texts += [f'a{chr(0x41 + i % 26)}{i}' for i in range(VOCABULARY - len(texts))]
    level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True}
    model = {'type': 'BPE', 'vocab': {text: i for i, text in enumerate(texts)}, 'merges': []}
    added = [{'id': i, 'content': texts[i], 'single_word': False, 'lstrip': False, 'rstrip': False,
              'normalized': False, 'special': True} for i in range(2)]
    with open(os.path.join(folder, 'tokenizer.json'), 'w', encoding='utf-8') as file:
        json.dump({'version': '1.0', 'added_tokens': added, 'normalizer': None, 'pre_tokenizer': level,
                   'post_processor': None, 'decoder': level, 'model': model}, file)


class Outcome:
    """Errors are relative: of log probabilities, whose mean over the tokens is taken away first."""

    def __init__(self):
        self.errors: List[float] = []
        self.gaps: List[float] = []
        self.prompts = 0

    def compare(self, model, prompt: List[int], answer: Dict) -> None:
        self.prompts += 1
        tokens = answer['tokens']
        with torch.no_grad():
            logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1:-1]
        theirs = torch.log_softmax(logits.double(), dim=-1)
        for at, token in enumerate(tokens):
            likely = answer['completion_probabilities'][at]['top_logprobs']
            ours = torch.tensor([one['logprob'] for one in likely], dtype=torch.float64)
            wanted = theirs[at, [one['id'] for one in likely]]
            difference = (ours - wanted).norm() / (wanted - wanted.mean()).norm()
            self.errors.append(float(difference))
            if int(logits[at].argmax()) != token:
                self.gaps.append(gap(answer, at))

    def failed(self) -> bool:
        near = sum(one < NOISE for one in self.errors)
        return 5 * near < len(self.errors) or any(one > NEARLY_THE_SAME for one in self.gaps)

    def __str__(self) -> str:
        ordered = sorted(self.errors)
        largest, median, least = ordered[-1], ordered[len(ordered) // 2], ordered[0]
        return (f'relative error: least {least:.1e}, median {median:.1e}, largest {largest:.1e}; '
                f'{len(ordered) - len(self.gaps)} of {len(ordered)} greedy tokens the same') + ''.join(
                    f', {one:.1e} apart' for one in self.gaps)


def run(build: str, number: int, kind: str) -> Outcome:
    out = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, number, kind)
        file = os.path.join(folder, 'model.gguf')
        subprocess.run([os.path.join(build, 'trillim-quantize'), folder, '--out', file, '--type', 'i2_s'],
                       check=True)
        write_tokenizer(folder)
        # What is read as it is stored, whatever dtype says, holds the same values in f32.
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        model = torch.nn.Module.float(model)
        draw = random.Random(number)
        with Served(build, file) as served:
            for _ in range(PROMPTS):
                prompt = [draw.randrange(VOCABULARY) for _ in range(draw.randrange(3, 40))]
                out.compare(model, prompt, served.complete(prompt, TOKENS, LIKELY))
    return out


def main() -> int:
    build, models = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else len(SHAPES)
    transformers.logging.set_verbosity_error()
    failed = 0
    for kind in KINDS:
        for number in range(models):
            outcome = run(build, number, kind)
            failed += outcome.failed()
            print(kind, *SHAPES[number % len(SHAPES)], outcome, flush=True)
    print(f'compared {models * len(KINDS)} models, {failed} are not alike')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
