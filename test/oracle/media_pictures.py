#!/usr/bin/env python3
"""Writes test/data/media/pictures.json: what transformers' picture processors (the PIL backend, Pillow 12.2)
make of pictures of many sizes, as digests of their f32 values. The pictures themselves follow from their size
(pixels() below and made_picture() of test/unit/media). Usage: media_pictures.py [OUTPUT]
"""
import hashlib
import json
import random
import sys

import numpy
import PIL
from PIL import Image
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

assert PIL.__version__.startswith('12.2.'), 'Pillow 13 chooses the order of the passes by size'
HALF = [0.5, 0.5, 0.5]
CLIP = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
SIZES = 300


def pixels(width, height):
    """Bytes that have no pattern, from their index alone."""
    mask = numpy.uint64(0xFFFFFFFF)
    index = numpy.arange(width * height * 3, dtype=numpy.uint64)
    value = index * numpy.uint64(2654435761) + numpy.uint64(width * 65537 + height) & mask
    value ^= value >> numpy.uint64(15)
    value = value * numpy.uint64(2246822519) & mask
    return (value >> numpy.uint64(24)).astype(numpy.uint8).reshape(height, width, 3)


def square(side):
    processor = Gemma3ImageProcessorPil(size={'height': side, 'width': side}, image_mean=HALF, image_std=HALF)
    return lambda image, low: processor(images=[image], return_tensors='np')['pixel_values']


def tiles(longest, tile):
    processor = Idefics3ImageProcessorPil(size={'longest_edge': longest}, image_mean=HALF, image_std=HALF,
                                          max_image_size={'longest_edge': tile})
    return lambda image, low: processor(images=[image], do_image_splitting=not low,
                                        return_tensors='np')['pixel_values'][0]


def multiples(patch, least, most, mean, std):
    processor = Qwen2VLImageProcessorPil(patch_size=patch, merge_size=2,
                                         size={'shortest_edge': least, 'longest_edge': most},
                                         image_mean=mean, image_std=std)

    def process(image, low):
        out = processor(images=[image], return_tensors='np')
        _, rows, columns = out['image_grid_thw'][0]
        # Patches in blocks of 2 x 2, each (channel, frame, y, x), back to a picture.
        x = out['pixel_values'].reshape(rows // 2, columns // 2, 2, 2, 3, 2, patch, patch)[:, :, :, :, :, 0]
        return x.transpose(4, 0, 2, 5, 1, 3, 6).reshape(1, 3, rows * patch, columns * patch)

    return process


def budget(patch, merge, rows, low_rows):
    processor = Gemma4ImageProcessorPil(patch_size=patch, pooling_kernel_size=merge)

    def process(image, low):
        out = processor(images=[image], max_soft_tokens=low_rows if low else rows, return_tensors='np')
        places = out['image_position_ids'][0]
        columns, lines = places.max(axis=0) + 1
        x = out['pixel_values'][0][:columns * lines].reshape(lines, columns, patch, patch, 3)
        # The tower itself brings the values around 0.
        views = x.transpose(4, 0, 2, 1, 3).reshape(1, 3, lines * patch, columns * patch)
        return 2 * (views - numpy.float32(0.5))

    return process


def bounded(longest, factor, low_longest):
    processor = PixtralImageProcessorPil(patch_size={'height': factor, 'width': factor}, image_mean=CLIP[0],
                                         image_std=CLIP[1])

    def process(image, low):
        size = {'longest_edge': low_longest if low else longest}
        return processor(images=[image], size=size, return_tensors='np')['pixel_values']

    return process


FAMILIES = [
    {'layout': 'square', 'filter': 'bilinear', 'side': 56, 'mean': HALF, 'deviation': HALF,
     'process': square(56)},
    {'layout': 'square', 'filter': 'bilinear', 'side': 896, 'mean': HALF, 'deviation': HALF,
     'process': square(896), 'sizes': 3},
    {'layout': 'tiles', 'filter': 'lanczos', 'side': 32, 'longest': 128, 'mean': HALF, 'deviation': HALF,
     'process': tiles(128, 32), 'low': True},
    {'layout': 'tiles', 'filter': 'lanczos', 'side': 512, 'longest': 2048, 'mean': HALF, 'deviation': HALF,
     'process': tiles(2048, 512), 'sizes': 2},
    {'layout': 'multiples', 'filter': 'bicubic', 'factor': 28, 'pixels_min': 3136, 'pixels_max': 50176,
     'mean': CLIP[0], 'deviation': CLIP[1], 'process': multiples(14, 3136, 50176, *CLIP)},
    {'layout': 'multiples', 'filter': 'bicubic', 'factor': 32, 'pixels_min': 65536, 'pixels_max': 16777216,
     'mean': HALF, 'deviation': HALF, 'process': multiples(16, 65536, 16777216, HALF, HALF)},
    {'layout': 'budget', 'filter': 'bicubic', 'factor': 12, 'patch': 4, 'merge': 3, 'rows_max': 280,
     'mean': HALF, 'deviation': HALF, 'process': budget(4, 3, 280, 140), 'low': True},
    {'layout': 'bounded', 'filter': 'bicubic', 'factor': 8, 'longest': 150, 'mean': CLIP[0],
     'deviation': CLIP[1], 'process': bounded(150, 8, 128), 'low': True},
]


def case(process, width, height, low):
    views = numpy.ascontiguousarray(process(Image.fromarray(pixels(width, height)), low), dtype=numpy.float32)
    digest = hashlib.sha256(views.tobytes()).hexdigest()[:16]
    return [width, height, int(low), len(views), views.shape[3], views.shape[2], digest]


def main():
    chance = random.Random(12)
    out = []
    for family in FAMILIES:
        process, low = family.pop('process'), family.pop('low', False)
        sizes = [(chance.randint(1, 97) * chance.choice([1, 1, 1, 3]), chance.randint(1, 97))
                 for _ in range(family.pop('sizes', SIZES))]
        # Of extremes no size may be more than 200 times the other.
        sizes = [(w, h) for w, h in sizes if max(w, h) <= 190 * min(w, h)]
        cases = [case(process, w, h, False) for w, h in sizes]
        if low:
            cases += [case(process, w, h, True) for w, h in sizes[:30]]
        out.append({**family, 'cases': cases})
        print(family['layout'], len(cases))
    with open(sys.argv[1] if len(sys.argv) > 1 else 'test/data/media/pictures.json', 'w') as file:
        file.write('[\n' + ',\n'.join(json.dumps(one, separators=(',', ':')) for one in out) + '\n]\n')


if __name__ == '__main__':
    main()
