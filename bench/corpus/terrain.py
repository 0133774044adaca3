"""Inputs of a network that makes landscapes out of noise, or varies given ones."""

import itertools

import numpy as np
from samples import rng_of

MODEL = "terrain_diffusion/weights/terrain_consistency_unet_difficulty100.onnx"
SIZE, LEAST, MOST = 128, 0.002, 80.0  # metres; the least and the most noise


def landscape(rng):
    """Hills from -1 to 1: noise whose waves are the higher the longer they are."""
    frequency = np.hypot(np.fft.fftfreq(SIZE)[:, None], np.fft.rfftfreq(SIZE)[None])
    frequency[0, 0] = 1
    spectrum = np.fft.rfft2(rng.standard_normal((SIZE, SIZE))) / frequency**rng.uniform(1.2, 2.2)
    height = np.fft.irfft2(spectrum, (SIZE, SIZE))
    return 2 * (height - height.min()) / (height.max() - height.min()) - 1


def terrain(cache, side):
    """Every other sample is noise alone, the others are landscapes with some."""
    del cache  # the samples need no file
    for i in itertools.count():
        rng = rng_of(side, i, 32)
        sigma = MOST if i % 2 else LEAST * (MOST / LEAST)**rng.uniform(0.3, 0.9)
        noisy = sigma * rng.standard_normal((SIZE, SIZE)) + (0 if i % 2 else landscape(rng))
        yield {"noisy": noisy[None, None].astype(np.float32), "sigma": np.array([sigma], np.float32),
               "difficulty": np.array([rng.integers(100) / 99], np.float32)}
