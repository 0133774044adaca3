"""Clips of real speech with noise, and what networks compute from sound before they begin."""

import functools

import numpy as np
import scipy.io.wavfile
from packages import SOURCES, source
from samples import rng_of

RATE = 16000
SPEECH = ("pyannote.audio", "silero-vad")
# Recordings of pyannote.audio's training set and one of silero-vad calibrate; all others validate.
CALIBRATION = ("trn", "aepyx")


@functools.lru_cache(None)
def recordings(cache, side):
    found = []
    for name in SPEECH:
        for file in sorted(SOURCES[name][1]):
            path = source(cache, name) / file
            if path.name.startswith(CALIBRATION) == (side == "calibration"):
                rate, sound = scipy.io.wavfile.read(path)
                if rate != RATE or sound.ndim != 1:
                    raise ValueError(f"{path} is not mono at {RATE} Hz")
                found.append(sound.astype(np.float32) / 32768 if sound.dtype == np.int16 else sound.astype(np.float32))
    return found


def loudness(sound):
    return np.sqrt((sound**2).mean())


def noise_of(rng, length):
    """White to brown, now and then with the hum of mains."""
    frequencies = np.arange(length // 2 + 1) * RATE / length
    spectrum = np.fft.rfft(rng.standard_normal(length)) / np.maximum(1, frequencies / 50)**rng.uniform(0, 1)
    noise = np.fft.irfft(spectrum, length)
    if rng.random() < 0.3:
        noise += 0.5 * noise.std() * np.sin(2 * np.pi * rng.choice([50, 60, 100, 120]) * np.arange(length) / RATE)
    return noise


def clip_of(cache, side, i, seconds, salt):
    """A piece of speech of a level from -30 to -14 dB; three of four have noise, 0 to 35 dB below."""
    rng = rng_of(side, i, 100 + salt)
    length = int(seconds * RATE)
    spoken = recordings(cache, side)
    for _ in range(20):  # a piece may be a pause, which says nothing
        recording = spoken[int(rng.integers(len(spoken)))]
        if len(recording) <= length:
            clip = np.resize(recording, length)
        else:
            begin = int(rng.integers(len(recording) - length))
            clip = recording[begin:begin + length]
        if loudness(clip) > 3e-3:
            break
    clip = clip * (10**(rng.uniform(-30, -14) / 20) / max(1e-4, loudness(clip)))
    if rng.random() < 0.75:
        noise = noise_of(rng, length)
        clip = clip + noise * (loudness(clip) / noise.std() * 10**(-rng.uniform(0, 35) / 20))
    return np.clip(clip, -1, 1).astype(np.float32)


def frames_of(sound, size, hop):
    return np.lib.stride_tricks.sliding_window_view(sound, size)[::hop]


def power(sound, size, hop, num_points, window):
    """[frames, num_points / 2 + 1]"""
    return np.abs(np.fft.rfft(frames_of(sound, size, hop) * window, num_points))**2


def log_power(sound, size, hop, num_points, window):
    return np.log10(np.maximum(power(sound, size, hop, num_points, window), 1e-12)).astype(np.float32)


def mel_filters(num_points, count):
    """[count, num_points / 2 + 1]: Slaney's scale and norm, as librosa has them by default."""
    top = 15 + 27 * np.log(RATE / 2 / 1000) / np.log(6.4)
    mels = np.linspace(0, top, count + 2)
    edges = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))
    frequencies = np.arange(num_points // 2 + 1) * RATE / num_points
    rising = (frequencies - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rising, falling)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def mel_db(sound, num_points, hop, count):
    """Mel bands in dB below the loudest one; 80 dB become the values from -1 to 1."""
    window = np.hanning(num_points + 1)[:-1]
    bands = power(np.pad(sound, num_points // 2), num_points, hop, num_points, window) @ mel_filters(num_points, count).T
    db = 10 * np.log10(np.maximum(bands, 1e-10))
    return ((np.maximum(db - db.max(), -80) + 40) / 40).astype(np.float32)
