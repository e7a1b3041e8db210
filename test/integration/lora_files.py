"""LoRA adapters of the tiny models: random values, as PEFT writes them."""
import json
import random
import struct
from pathlib import Path
from typing import Dict, NamedTuple, Tuple



class Shape(NamedTuple):
    """Of a llama model. The adapters are beside three of its matrices in each layer."""
    layers: int = 2
    embedding: int = 64
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 128

    def options(self, *more: str) -> Tuple[str, ...]:
        """For write_tiny_model."""
        return ('--layers', str(self.layers), '--embedding', str(self.embedding), '--heads', str(self.heads),
                '--kv-heads', str(self.kv_heads), '--ffn', str(self.ffn), '--context', '1024', *more)

    def matrices(self) -> Dict[str, Tuple[int, int]]:
        """Columns and rows."""
        return {'self_attn.q_proj': (self.embedding, self.embedding),
                'self_attn.v_proj': (self.embedding, self.embedding // self.heads * self.kv_heads),
                'mlp.down_proj': (self.ffn, self.embedding)}


Tensors = Dict[str, Tuple[Tuple[int, int], list]]  # by name: shape and values


def tensors(shape: Shape, seed: int, rank: int, size: float) -> Tensors:
    draw = random.Random(seed)
    out = {}
    for layer in range(shape.layers):
        for module, (columns, rows) in shape.matrices().items():
            name = f'base_model.model.model.layers.{layer}.{module}'
            for half, (height, width) in (('lora_A', (rank, columns)), ('lora_B', (rows, rank))):
                out[f'{name}.{half}.weight'] = ((height, width),
                                                [draw.gauss(0.0, size) for _ in range(height * width)])
    return out


def write_tensors(path: Path, stored: Tensors) -> None:
    header, data = {}, b''
    for name, (shape, values) in stored.items():
        raw = struct.pack(f'<{len(values)}f', *values)
        header[name] = {'dtype': 'F32', 'shape': list(shape),
                        'data_offsets': [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack('<Q', len(text)) + text + data)


def write_adapter(folder: Path, seed: int, rank: int = 4, size: float = 0.3, change=None,
                  shape: Shape = Shape(), **config) -> Path:
    """A directory; `change` may alter the tensors before they are written."""
    folder.mkdir()
    stored = tensors(shape, seed, rank, size)
    if change:
        change(stored)
    write_tensors(folder / 'adapter_model.safetensors', stored)
    (folder / 'adapter_config.json').write_text(json.dumps(
        {'peft_type': 'LORA', 'r': rank, 'lora_alpha': 2 * rank,
         'target_modules': [module.split('.')[1] for module in shape.matrices()], **config}))
    return folder
