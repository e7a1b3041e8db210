#!/usr/bin/env python3
"""Writes small picture files of all kinds to test/data/media/files, and what Pillow makes of them: their
pixels turned by EXIF and over white, as digests. usage: media_files.py [OUT_DIR]
"""
import hashlib
import json
import sys
from pathlib import Path

import media_pictures
import numpy as np
from PIL import Image, ImageOps


def smooth(width, height):
    y, x = np.mgrid[0:height, 0:width]
    both = (x + y) * 127 // (width + height)
    return np.stack([x * 255 // width, y * 255 // height, both], -1).astype(np.uint8)


def kinds():
    noise, soft = Image.fromarray(media_pictures.pixels(31, 17)), Image.fromarray(smooth(45, 30))
    alpha = Image.fromarray(np.dstack([smooth(20, 24), (media_pictures.pixels(20, 24)[..., 0])]))
    yield 'noise.png', noise, {}
    yield 'alpha.png', alpha, {}
    yield 'grey.png', soft.convert('L'), {}
    yield 'grey-alpha.png', alpha.convert('LA'), {}
    yield 'bits.png', soft.convert('1'), {}
    yield 'palette.png', soft.quantize(7), {}
    yield 'palette-alpha.png', alpha.quantize(9), {}
    yield 'colour.jpg', soft, {'quality': 85}
    yield 'full.jpg', noise, {'quality': 95, 'subsampling': 0}
    yield 'progressive.jpg', soft, {'quality': 60, 'progressive': True}
    yield 'grey.jpg', soft.convert('L'), {}
    yield 'cmyk.jpg', soft.convert('CMYK'), {'quality': 90}
    yield 'lossy.webp', soft, {'quality': 70}
    yield 'lossless.webp', noise, {'lossless': True}
    yield 'alpha.webp', alpha, {'lossless': True, 'exact': True}
    exif = Image.Exif()
    for turn in range(2, 9):
        exif[0x0112] = turn
        yield f'turn-{turn}.jpg', soft, {'quality': 80, 'exif': exif}
    exif[0x0112] = 6
    yield 'turned.png', noise, {'exif': exif}
    yield 'turned.webp', soft, {'quality': 80, 'exif': exif}


def over_white(image):
    """As transformers' convert_to_rgb."""
    if image.mode in ('RGB', 'L', '1', 'CMYK') or (image.mode == 'P' and 'transparency' not in image.info):
        return image.convert('RGB')
    rgba = image.convert('RGBA')
    white = Image.new('RGBA', rgba.size, (255, 255, 255))
    return Image.alpha_composite(white, rgba).convert('RGB')


def main():
    out = Path(sys.argv[1] if len(sys.argv) > 1 else '../data/media/files')
    out.mkdir(parents=True, exist_ok=True)
    facts = []
    for name, image, options in kinds():
        image.save(out / name, **options)
        made = over_white(ImageOps.exif_transpose(Image.open(out / name)))
        facts.append([name, *made.size, hashlib.sha256(made.tobytes()).hexdigest()[:16]])
    frames = [Image.fromarray(smooth(8, 8)), Image.fromarray(smooth(8, 8)[::-1])]
    for name in ('animated.png', 'animated.webp'):
        frames[0].save(out / name, save_all=True, append_images=frames[1:])
    (out / 'files.json').write_text('[\n' + ',\n'.join(json.dumps(f) for f in facts) + '\n]\n')


if __name__ == '__main__':
    main()
