"""A cache that keeps K and V as IEEE half, as the product does, in an otherwise f32 model."""

import torch
from transformers import DynamicCache


class HalfCache(DynamicCache):
    """Rounds every K and V to f16 once, when it enters the cache; all arithmetic stays f32."""

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        key = key_states.to(torch.float16).to(key_states.dtype)
        value = value_states.to(torch.float16).to(value_states.dtype)
        return super().update(key, value, layer_idx, *args, **kwargs)


def logits_of(model, tokens, half_cache=False):
    """[len(tokens), vocab] of one forward pass."""
    cache = HalfCache(config=model.config) if half_cache else DynamicCache(config=model.config)
    with torch.no_grad():
        out = model(torch.tensor([tokens]), past_key_values=cache, use_cache=True)
    return out.logits[0]
