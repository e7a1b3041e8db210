"""Block quantizers for the tiny models. Encoding needs no quality, only valid blocks that use every field;
decoding is the `gguf` package's, so that the values the oracle computes with owe nothing to this project."""

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants


def _pack_scales_and_mins(scale, least):
    """Eight 6-bit scales and eight 6-bit minimums in twelve bytes, [n, 8] each."""
    scale, least = scale.astype(np.uint8), least.astype(np.uint8)
    low = scale[:, :4] | ((scale[:, 4:] >> 4) << 6)
    mid = least[:, :4] | ((least[:, 4:] >> 4) << 6)
    high = (scale[:, 4:] & 15) | ((least[:, 4:] & 15) << 4)
    return np.concatenate([low, mid, high], axis=1)


def _half_bytes(x):
    return x.astype(np.float16).reshape(-1, 1).view(np.uint8)


def _scaled_with_minimum(blocks, levels):
    """Codes 0..levels of 256-blocks in eight sub-blocks with a 6-bit scale and minimum each."""
    x = blocks.reshape(-1, 8, 32)
    least = np.maximum(0.0, -x.min(axis=2))
    scale = (x.max(axis=2) + least) / levels
    d = (scale.max(axis=1) / 63).astype(np.float16).astype(np.float32)
    dmin = (least.max(axis=1) / 63).astype(np.float16).astype(np.float32)
    scale_code = np.clip(np.rint(scale / np.maximum(d, 1e-12)[:, None]), 1, 63)
    least_code = np.clip(np.rint(least / np.maximum(dmin, 1e-12)[:, None]), 0, 63)
    step = np.maximum(d[:, None] * scale_code, 1e-12)[:, :, None]
    shifted = x + (dmin[:, None] * least_code)[:, :, None]
    codes = np.clip(np.rint(shifted / step), 0, levels).astype(np.uint8)
    head = [_half_bytes(d), _half_bytes(dmin), _pack_scales_and_mins(scale_code, least_code)]
    return head, codes


def _nibbles_of_pairs(codes):
    """Sub-blocks 2g and 2g+1 share 32 bytes: low and high nibble. codes [n, 8, 32] -> [n, 128]."""
    low, high = codes[:, 0::2, :] & 15, codes[:, 1::2, :] & 15
    return (low | (high << 4)).reshape(-1, 128)


def _q4_k(blocks):
    head, codes = _scaled_with_minimum(blocks, 15)
    return np.concatenate([*head, _nibbles_of_pairs(codes)], axis=1)


def _q5_k(blocks):
    head, codes = _scaled_with_minimum(blocks, 31)
    fifth = ((codes >> 4) << np.arange(8, dtype=np.uint8)[None, :, None]).sum(axis=1).astype(np.uint8)
    return np.concatenate([*head, fifth, _nibbles_of_pairs(codes)], axis=1)


def _q6_k(blocks):
    x = blocks.reshape(-1, 16, 16)
    scale = np.abs(x).max(axis=2) / 31
    d = (scale.max(axis=1) / 127).astype(np.float16).astype(np.float32)
    code = np.clip(np.rint(scale / np.maximum(d, 1e-12)[:, None]), 1, 127)
    code[:, 1::2] *= -1  # half of the scales are negative: the sign of the int8 must be honoured
    step = (np.where(d > 0, d, 1e-12)[:, None] * code)[:, :, None]
    q = (np.clip(np.rint(x / step), -32, 31) + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    low = q & 15
    ql = np.stack([low[:, :, 0] | (low[:, :, 2] << 4), low[:, :, 1] | (low[:, :, 3] << 4)], axis=2)
    qh = (q[:, :, 0] >> 4) | ((q[:, :, 1] >> 4) << 2) | ((q[:, :, 2] >> 4) << 4) | ((q[:, :, 3] >> 4) << 6)
    scales = code.astype(np.int8).view(np.uint8)
    return np.concatenate([ql.reshape(-1, 128), qh.reshape(-1, 64), scales, _half_bytes(d)], axis=1)


_OWN = {T.Q4_K: _q4_k, T.Q5_K: _q5_k, T.Q6_K: _q6_k}


def encode(values, kind):
    """`values` as the file stores them: float arrays for F32 and F16, bytes otherwise."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    if kind not in _OWN:
        return quants.quantize(values, kind)
    rows = _OWN[kind](values.reshape(-1, 256))
    return np.ascontiguousarray(rows).reshape(*values.shape[:-1], -1)


def decode(stored, kind):
    """The exact f32 values of what `encode` made."""
    return np.ascontiguousarray(quants.dequantize(stored, kind), dtype=np.float32)
