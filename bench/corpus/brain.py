"""Inputs of networks for EEG: one finds sleep spindles, bursts of 11 to 16 Hz, in half a minute; one names what a component is of."""

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


def components(cache, side):
    """Maps of the scalp around two poles, with spectrum and autocorrelation; each in four mirrored views, which belong together."""
    del cache
    y, x = np.mgrid[-1:1:32j, -1:1:32j]
    for i in itertools.count():
        rng = rng_of(side, i, 34)
        poles = [np.exp(-((x - rng.uniform(-1, 1))**2 + (y - rng.uniform(-1, 1))**2) / rng.uniform(0.05, 0.8)) for _ in range(2)]
        field = poles[0] - poles[1]
        field = 0.99 * field / np.abs(field).max() * (x**2 + y**2 < 1)
        hertz = np.arange(1, 101)
        power = -10 * rng.uniform(0.5, 2) * np.log10(hertz) + rng.uniform(0, 15) * np.exp(-((hertz - 10) / 2)**2) + rng.standard_normal(100)
        lag = np.arange(100)
        memory = np.exp(-lag / rng.uniform(3, 60)) * np.cos(lag * rng.uniform(0, 0.7))
        views = [view[None] for view in (field, -field, field[:, ::-1], -field[:, ::-1])]
        rows = [np.tile(0.99 * row / np.abs(row).max(), (4, 1, 1, 1)).astype(np.float32) for row in (power, memory)]
        yield {"topo": np.ascontiguousarray(np.stack(views), np.float32), "psds": rows[0], "autocorr": rows[1]}
