"""Inputs of a network that finds sleep spindles, bursts of 11 to 16 Hz, in half a minute of EEG."""

import itertools

import numpy as np
from samples import rng_of

SPINDLES = "brainmaze_eeg_models/spindles/_models"
RATE, LENGTH = 250, 7500
SCALES = np.geomspace(135, 270, 15)
BANDWIDTH, CENTRE = 6, 13  # of the wavelet, times the rate over the scale in Hz


def signal(rng):
    """Pink noise, slow waves, and some spindles; microvolts."""
    time, frequencies = np.arange(LENGTH) / RATE, np.fft.rfftfreq(LENGTH, 1 / RATE)
    noise = np.fft.irfft(np.fft.rfft(rng.standard_normal(LENGTH)) / np.maximum(0.5, frequencies)**rng.uniform(0.5, 1), LENGTH)
    found = 15 * noise / noise.std() + rng.uniform(0, 40) * np.sin(2 * np.pi * rng.uniform(0.5, 1.5) * time + rng.uniform(0, 6))
    for _ in range(int(rng.integers(0, 8))):
        burst = np.exp(-((time - rng.uniform(0, LENGTH / RATE)) / rng.uniform(0.2, 0.6))**2)
        found += rng.uniform(10, 40) * burst * np.sin(2 * np.pi * rng.uniform(11, 16) * time)
    return found


def bands(sound):
    """How strong each of 15 frequencies is at each time, by wavelets whose spectrum is a box."""
    spectrum, frequencies = np.fft.fft(sound, 2 * LENGTH), np.fft.fftfreq(2 * LENGTH, 1 / RATE)
    boxes = np.abs(frequencies[None] * SCALES[:, None] / RATE - CENTRE) <= BANDWIDTH / 2
    return np.abs(np.fft.ifft(spectrum[None] * boxes * np.sqrt(SCALES)[:, None], axis=1))[:, :LENGTH]


def normal(rows):
    return (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True)


def spindles(cache, side):
    del cache  # the samples need no file
    for i in itertools.count():
        sound = signal(rng_of(side, i, 33))
        yield {"raw_signal": normal(sound)[None, None].astype(np.float32), "spectrogram": normal(bands(sound))[None].astype(np.float32)}
