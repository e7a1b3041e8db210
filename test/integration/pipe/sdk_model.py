"""A model of 128 tokens for the Trillim SDK, as a trainer leaves it: a token is a character, so that what a
template becomes can be said without a tokenizer."""
import json
import shutil
from pathlib import Path
from typing import Dict, List, Sequence

from worker_process import PROJECT

DATA = PROJECT / 'test' / 'data' / 'quantize' / 'tiny'
END = '<|eot_id|>'
TEXTS = ['<bos>', END, *map(chr, range(0x21, 0x7f)), ' ', '\n', *map(chr, range(0xc0, 0xc0 + 30))]
IDS = {text: i for i, text in enumerate(TEXTS)}
TEMPLATE = ("{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '" + END +
            "' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}")


def rendered(messages: List[Dict[str, str]]) -> List[int]:
    """The template's text as tokens."""
    out: List[int] = []
    for message in messages:
        out += [IDS[c] for c in f'{message["role"]}: {message["content"]}'] + [IDS[END]]
    return out


def write_model(folder: Path, adapter: Path, eos: Sequence[int] = (IDS[END],)) -> None:
    """`eos` is the trainer's; the SDK adds the template's END to it."""
    shutil.copytree(DATA, folder)
    said = json.loads((folder / 'config.json').read_text())
    (folder / 'config.json').write_text(json.dumps({**said, 'eos_token_id': list(eos)}))
    shutil.move(str(folder / 'adapter'), adapter)
    flags = {'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False, 'special': True}
    added = [{'id': i, 'content': TEXTS[i], **flags} for i in range(2)]
    model = {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
             'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False, 'ignore_merges': False,
             'vocab': IDS, 'merges': []}
    (folder / 'tokenizer.json').write_text(json.dumps({
        'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': added, 'normalizer': None,
        'pre_tokenizer': None, 'post_processor': None, 'decoder': {'type': 'Fuse'}, 'model': model}))
    (folder / 'tokenizer_config.json').write_text(json.dumps({
        'tokenizer_class': 'PreTrainedTokenizerFast', 'bos_token': '<bos>', 'eos_token': END,
        'clean_up_tokenization_spaces': False, 'chat_template': TEMPLATE}))
    (adapter / 'adapter_config.json').write_text(json.dumps({
        'peft_type': 'LORA', 'r': 8, 'lora_alpha': 16, 'base_model_name_or_path': 'tiny',
        'target_modules': ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj']}))
