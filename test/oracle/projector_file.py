"""Writes small projector files for the scripts that have transformers' towers as their references."""
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter
from quantize import decode, encode


def begin(path, encoder):
    """A file with a tower; `encoder` is vision or audio."""
    w = GGUFWriter(path, 'clip')
    w.add_type('mmproj')
    w.add_name(f'tiny {path.stem}')
    w.add_bool(f'clip.has_{encoder}_encoder', True)
    return w


def type_of(name, shape, types):
    """Of a matrix what `types` says of its part of the name, or else under ''."""
    part = name.removesuffix('.1').split('.')[-2]
    return types.get(part, types.get('', T.F32)) if len(shape) > 1 else T.F32


def finish(w, rng, shapes, draw, types, choose=type_of, stored_as=lambda name: name):
    """Draws the tensors and ends the file. The values that they have in it, by name."""
    values = {}
    for name, shape in shapes.items():
        t = choose(name, shape, types)
        stored = encode(draw(rng, name, shape), t)
        values[name] = decode(stored, t).reshape(shape)
        w.add_tensor(stored_as(name), stored, raw_dtype=t)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return values
