"""The real token pipe, driven as the Trillim SDK does, and the SDK's view of a model file."""
import json
import os
import queue
import subprocess
import threading
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

from worker_process import BACKEND, BUILD, PATIENCE, STRETCH

PROGRAM = BUILD / 'inference'
NAMES = ('arch_type', 'activation', 'hidden_dim', 'intermediate_dim', 'num_layers', 'num_heads',
         'num_kv_heads', 'vocab_size', 'head_dim', 'max_position_embeddings', 'norm_eps', 'rope_theta',
         'tie_word_embeddings', 'has_qkv_bias', 'has_attn_sub_norm', 'has_ffn_sub_norm', 'num_threads')
GREEDY = (0, 0, 1, 1, 0)  # temperature, top_k, top_p, penalty, look-back
DEFAULTS = (0.6, 50, 0.9, 1.1, 64)


def config_of(model: Path, eos: Sequence[int], **changes) -> Dict[str, object]:
    """What an SDK would say of the model, by worker-orcd-inspect."""
    told = json.loads(subprocess.run([BUILD / 'worker-orcd-inspect', 'info', model, '--json'],
                                     stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout)
    family = told['architecture']
    keys = {key.replace(family + '.', ''): entry['value'] for key, entry in told['metadata'].items()}
    tensors = {tensor['name']: tensor for tensor in told['tensors']}
    width, heads = keys['embedding_length'], keys['attention.head_count']
    bitnet = family.startswith('bitnet')
    vocabulary = tensors['token_embd.weight']['shape'][1]
    values = [1 if bitnet else 2, 0 if bitnet else 1, -(-width // 128) * 128,
              -(-keys['feed_forward_length'] // 128) * 128, keys['block_count'], heads,
              keys['attention.head_count_kv'], vocabulary,
              keys.get('attention.key_length', width // heads), keys['context_length'],
              round(keys['attention.layer_norm_rms_epsilon'], 9), float(keys['rope.freq_base']),
              int('output.weight' not in tensors), int('blk.0.attn_q.bias' in tensors),
              int('blk.0.attn_sub_norm.weight' in tensors), int('blk.0.ffn_sub_norm.weight' in tensors), 2]
    return {**dict(zip(NAMES, values)), 'eos': list(eos), **changes}


def words_of(config: Dict[str, object]) -> List[str]:
    eos = config['eos']
    return ['--config', *(str(config[name]) for name in NAMES), str(len(eos)), *map(str, eos)]


def first_block(config: Dict[str, object], **more) -> str:
    pairs = [f'{name}={config[name]}' for name in NAMES] + [f'eos_tokens={",".join(map(str, config["eos"]))}']
    return block(*pairs, *(f'{key}={value}' for key, value in more.items()))


def block(*pairs: str) -> str:
    return f'{len(pairs)}\n' + ''.join(pair + '\n' for pair in pairs)


def lines(tokens: Sequence[int], reset: int = 1, sampling=GREEDY, limit: int = 0) -> str:
    """A request of the first protocol."""
    return ''.join(f'{value}\n' for value in (len(tokens), reset, *sampling, limit, *tokens))


def keeping(kept: int, tokens: Sequence[int], sampling=GREEDY, limit: int = 0) -> str:
    """A request of the later protocol."""
    temperature, top_k, top_p, penalty, look_back = sampling
    return block(f'kv_position={kept}', f'tokens={",".join(map(str, tokens))}', f'temperature={temperature}',
                 f'top_k={top_k}', f'top_p={top_p}', f'repetition_penalty={penalty}',
                 f'rep_penalty_lookback={look_back}', f'max_tokens={limit}')


def environment(more: Optional[Dict[str, str]] = None) -> Dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(('WORKER_', 'ORCD_'))}
    return {**clean, 'WORKER_ORCD_BACKEND': BACKEND, **(more or {})}


class Answer(NamedTuple):
    tokens: List[int]  # as written, an EOS that stands in for one among them
    kv: int


class Pipe:
    """A pipe that runs; its end is that of the `with` block."""

    def __init__(self, model: Path, config: Dict[str, object], *words: str, blocks: bool = False,
                 more: Optional[Dict[str, object]] = None, env: Optional[Dict[str, str]] = None):
        self.eos = set(config['eos'])
        command = [PROGRAM, model, *words, *([] if blocks else words_of(config))]
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(env))
        self._lines: 'queue.Queue[bytes]' = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        if blocks:
            self.send(first_block(config, **(more or {})))

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b'')

    def __enter__(self) -> 'Pipe':
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for stream in (self.process.stdin, self.process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass

    def send(self, text: str) -> None:
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def line(self) -> bytes:
        return self._lines.get(timeout=PATIENCE * STRETCH)

    def number(self) -> int:
        line = self.line()
        assert line.endswith(b'\n'), (line, self.process.poll(), self.process.stderr.read())
        return int(line)

    def answer(self) -> Answer:
        """As the SDK reads one: to an EOS, then one line more."""
        tokens = [self.number()]
        while tokens[-1] not in self.eos:
            tokens.append(self.number())
        return Answer(tokens, self.number())

    def ask(self, *arguments, **more) -> Answer:
        self.send(lines(*arguments, **more))
        return self.answer()

    def ended(self) -> int:
        """The exit code; normal work has said nothing by then."""
        code = self.process.wait(PATIENCE)
        assert code != 0 or self.process.stderr.read() == b''
        return code

    def refusal(self) -> str:
        """The one line with which it ended."""
        self.process.wait(PATIENCE)
        text = self.process.stderr.read().decode()
        assert text.startswith('inference: ') and text.count('\n') == 1, text
        return text[len('inference: '):-1]


def run(*words, input: bytes = b'', env: Optional[Dict[str, str]] = None):
    return subprocess.run([PROGRAM, *map(str, words)], input=input, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=environment(env), timeout=PATIENCE)
