"""Writes blocks of quantized formats and the values that the gguf package decodes from them.

usage: make_block_goldens.py GGML_LIBRARY OUT_DIR

Per format: NAME.bin, blocks as files have them, and NAME.f32, their values (little-endian f32). The first
blocks are random normal values quantized by ggml itself (GGML_LIBRARY is the libggml-base.so that
llama-cpp-python installs), those after them random bits with a moderate scale, in which every index of a grid
occurs.
"""

import ctypes
import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf import quants

FORMATS = [T.Q2_K, T.Q3_K, T.IQ4_NL, T.IQ4_XS, T.NVFP4, T.IQ3_S, T.IQ3_XXS, T.IQ2_S, T.IQ2_XS, T.IQ2_XXS]
VALUES = 1024  # that are quantized
SCALES = {T.Q2_K: [80, 82], T.Q3_K: [108], T.NVFP4: []}  # where a block has halves; others: at 0
INDICES = {T.IQ3_S: 512, T.IQ3_XXS: 256, T.IQ2_S: 1024, T.IQ2_XS: 512, T.IQ2_XXS: 256}


def quantized(library, kind, values):
    """What ggml makes of two rows of values, all of equal importance."""
    elems, size = GGML_QUANT_SIZES[kind]
    out = np.zeros(values.size // elems * size, dtype=np.uint8)
    importance = np.ones(values.shape[1], dtype=np.float32)

    def pointer(array, of):
        return array.ctypes.data_as(ctypes.POINTER(of))

    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    written = library.ggml_quantize_chunk(
        ctypes.c_int(kind), pointer(values, ctypes.c_float), pointer(out, ctypes.c_uint8), ctypes.c_int64(0),
        ctypes.c_int64(values.shape[0]), ctypes.c_int64(values.shape[1]), pointer(importance, ctypes.c_float))
    assert written == out.size
    return out.reshape(-1, size)


def put_indices(kind, blocks):
    """Every index of the grid once."""
    index = np.arange(INDICES[kind]).reshape(len(blocks), -1)
    if kind == T.IQ2_XXS:
        blocks[:, 2:66].reshape(-1, 8, 8)[:, :, :4] = index.reshape(-1, 8, 4)
    elif kind == T.IQ2_XS:
        words = blocks[:, 2:66].copy().view(np.uint16) & 0xFE00 | index.astype(np.uint16)
        blocks[:, 2:66] = words.view(np.uint8)
    elif kind == T.IQ2_S:
        blocks[:, 2:34] = index & 255
        blocks[:, 66:74] = ((index >> 8).reshape(-1, 8, 4) << (2 * np.arange(4))).sum(axis=2)
    else:
        blocks[:, 2:66] = index & 255
        if kind == T.IQ3_S:
            blocks[:, 66:74] = ((index >> 8).reshape(-1, 8, 8) << np.arange(8)).sum(axis=2)


def random_blocks(rng, kind):
    elems, size = GGML_QUANT_SIZES[kind]
    per_block = 32 if kind.name.startswith("IQ2") else 64
    count = INDICES[kind] // per_block if kind in INDICES else VALUES // elems
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in SCALES.get(kind, [0]):
        scale = rng.uniform(-1, 1, (count, 1)).astype(np.float16)
        blocks[:, at:at + 2] = scale.view(np.uint8)
    if kind in INDICES:
        put_indices(kind, blocks)
    return blocks


def main():
    library, out = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2])
    rng = np.random.default_rng(2402)
    for kind in FORMATS:
        values = rng.standard_normal((2, VALUES // 2)).astype(np.float32)
        blocks = np.concatenate([quantized(library, kind, values), random_blocks(rng, kind)])
        blocks.tofile(out / f"{kind.name.lower()}.bin")
        decoded = np.ascontiguousarray(quants.dequantize(blocks, kind), dtype="<f4")
        decoded.tofile(out / f"{kind.name.lower()}.f32")
        error = np.linalg.norm(decoded.reshape(-1)[:VALUES] - values.reshape(-1)) / np.linalg.norm(values)
        print(f"{kind.name}: {len(blocks)} blocks, relative error of the quantized ones {error:.3f}")


if __name__ == "__main__":
    main()
