"""Inputs of a network that transcribes music: chords and runs of plucked and blown notes."""

import itertools

import numpy as np
from samples import rng_of

RATE = 22050
LENGTH = 43844  # what the network reads, two seconds
LOWEST, HIGHEST = 33, 96  # MIDI's numbers; 69 is 440 Hz


def note(rng, length, late):
    """A note that has sounded for `late` samples already; its partials are a little sharp, as those of a string."""
    time = (np.arange(length) + late) / RATE
    pitch = 440 * 2**((int(rng.integers(LOWEST, HIGHEST)) - 69) / 12)
    decay, brightness, duration = rng.uniform(0.5, 6), rng.uniform(0.3, 0.8), rng.uniform(0.1, 1.5)
    tone = np.zeros(length)
    for k in range(1, 12):
        if pitch * k < RATE / 2:
            tone += brightness**k * np.sin(2 * np.pi * pitch * k * time * (1 + 1e-4 * k * k) + rng.uniform(0, 6))
    return rng.uniform(0.1, 1) * tone * np.exp(-decay * time) * np.minimum(1, time / 0.01) * (time < duration)


def melody(rng, length):
    """Up to seven notes a second, of any loudness, with a trace of noise."""
    sound = np.zeros(length)
    for _ in range(int(rng.integers(2, 14) * length / LENGTH)):
        begin = int(rng.integers(-8000, length - 2000))
        sound[max(0, begin):] += note(rng, length - max(0, begin), max(0, -begin))
    sound = sound / max(1e-3, np.abs(sound).max()) * rng.uniform(0.05, 0.9)
    return sound + 10**rng.uniform(-5, -2.5) * rng.standard_normal(length)


def basic_pitch(cache, side):
    for i in itertools.count():
        yield {"serving_default_input_2:0": melody(rng_of(side, i, 10), LENGTH).astype(np.float32)[None, :, None]}
