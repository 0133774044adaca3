"""Photos out of PyPI packages, cut into pieces, and how pictures become arrays.

They are few, but real. Each picture gives its left, centre and right square and four smaller corner pieces, as in
examples/demo/photos.py.
"""

import itertools

import numpy as np
from packages import wheel
from PIL import Image

# People, things, landscapes, textures and science on both sides.
PICTURES = {
    "calibration": [
        ("matplotlib", "matplotlib/mpl-data/sample_data/grace_hopper.jpg"),
        ("scikit-learn", "sklearn/datasets/images/china.jpg"),
        ("scikit-image", "skimage/data/rocket.jpg"),
        ("scikit-image", "skimage/data/motorcycle_left.png"),
        ("scikit-image", "skimage/data/coins.png"),
        ("scikit-image", "skimage/data/brick.png"),
        ("scikit-image", "skimage/data/retina.jpg"),
        ("scikit-image", "skimage/data/ihc.png"),
    ],
    "validation": [
        ("scikit-image", "skimage/data/astronaut.png"),
        ("scikit-image", "skimage/data/coffee.png"),
        ("scikit-image", "skimage/data/chelsea.png"),
        ("scikit-learn", "sklearn/datasets/images/flower.jpg"),
        ("scikit-image", "skimage/data/camera.png"),
        ("scikit-image", "skimage/data/gravel.png"),
        ("scikit-image", "skimage/data/hubble_deep_field.jpg"),
    ],
}
CORNER_SHARE = 0.75  # side of a corner piece over the picture's shorter side
FACES = {"calibration": (150, 110, 350, 370), "validation": (150, 0, 310, 210)}  # in the first picture of each side


def boxes_of(width, height):
    side = min(width, height)
    corner = int(side * CORNER_SHARE)
    starts = [((width - side) * i // 2, (height - side) * i // 2, side) for i in (1, 0, 2)]
    starts += [(x, y, corner) for y in (0, height - corner) for x in (0, width - corner)]
    return [(x, y, x + size, y + size) for x, y, size in dict.fromkeys(starts)]


def pictures(cache, side):
    return [Image.open(wheel(cache, package) / file).convert("RGB") for package, file in PICTURES[side]]


def photos(cache, side):
    """Square pieces without end: one of each picture in turn, then another of each."""
    whole = pictures(cache, side)
    for turn in itertools.count():
        for picture in whole:
            boxes = boxes_of(*picture.size)
            yield picture.crop(boxes[turn % len(boxes)])


def face(cache, side):
    return pictures(cache, side)[0].crop(FACES[side])


def fit(image, size, fill=(0, 0, 0), centre=False):
    """The longer side scaled to `size`, the rest filled."""
    ratio = size / max(image.size)
    image = image.resize((max(1, int(image.width * ratio)), max(1, int(image.height * ratio))), Image.BILINEAR)
    square = Image.new("RGB", (size, size), fill)
    square.paste(image, ((size - image.width) // 2, (size - image.height) // 2) if centre else (0, 0))
    return square


def to_array(image):
    """[H, W, C] or [H, W], values from 0 to 255."""
    return np.asarray(image, np.float32)


def imagenet(pixels):
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return (pixels / 255 - mean) / std


def nchw(pixels):
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32)
