"""Inputs of networks that rate how good speech sounds, with the faults that they look for."""

import itertools

import numpy as np
from samples import rng_of
from sounds import clip_of, mel_db, power


def dnsmos(cache, side):
    for i in itertools.count():
        yield {"input_1": clip_of(cache, side, i, 9.01, 5)[None]}


def dnsmos_p808(cache, side):
    for i in itertools.count():
        yield {"input_1": mel_db(clip_of(cache, side, i, 9.01, 5)[:-160], 321, 160, 120)[None, :900]}


def aecmos(cache, side):
    """Far end, microphone (near end plus its echo) and a clip with some echo left; five seconds, with the marks of the scenario: only
    the near end talks, only the far end, or both."""
    for i in itertools.count():
        rng = rng_of(side, i, 8)
        near, far = clip_of(cache, side, i, 5, 6), clip_of(cache, side, i + 1000, 5, 6)
        scenario = int(rng.integers(3))
        near, far = near * (scenario != 1), far * (scenario != 0)
        room = rng.standard_normal(2000) * np.exp(-np.arange(2000) / 300) * 0.1
        echo = np.convolve(far, room)[:len(far)]
        parts = []
        marks = [scenario != 0, scenario != 1, 1]
        for sound, mark in zip([far, near + echo, near + echo * rng.uniform(0, 0.5)], marks):
            bands = mel_db(sound + 1e-5 * rng.standard_normal(len(sound)), 513, 256, 160)
            parts.append(np.concatenate([bands, np.full((20, 160), float(mark)), np.zeros((20, 160))]))
        yield {"input": np.stack(parts)[None].astype(np.float32), "h0": np.zeros((4, 1, 64), np.float32)}


def plcmos(cache, side):
    """Four seconds with lost packets of 20 ms, silent or repeated."""
    for i in itertools.count():
        rng = rng_of(side, i, 9)
        sound = clip_of(cache, side, i, 4, 7).copy()
        for k in np.flatnonzero(rng.random(len(sound) // 320) < rng.uniform(0, 0.25)):
            is_silent = rng.random() < 0.5 or k == 0
            sound[320 * k:320 * k + 320] = 0 if is_silent else 0.8 * sound[320 * k - 320:320 * k]
        bands = power(np.concatenate([np.zeros(256, np.float32), sound]), 512, 256, 512, np.hamming(513)[:-1])
        is_zero = bands == 0
        log = np.log(np.where(is_zero, 1, bands))
        log[is_zero] = log[~is_zero].min() - 12 * np.log(10)
        yield {"degraded_audio": (log / 20)[None, None].astype(np.float32),
               "rater_embed": rng.standard_normal((1, 64)).astype(np.float32)}
