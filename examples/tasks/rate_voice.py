#!/usr/bin/env python3
"""Lets DNSMOS rate how good voices sound, from 1 to 5. For docs/guides/tasks/speech_synthesis.md.

    python examples/tasks/rate_voice.py model.onnx int8.onnx    # in the folder that get.py made
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import scipy.io.wavfile
import scipy.signal

RATE, NUM_RATED = 22050, 144160  # samples a second of the voice; samples at 16 kHz that DNSMOS takes at once


def rating(voice):
    """The mean over the sentences, and the seconds of speech. The first sentence stays as a file beside the voice."""
    session, dnsmos = onnxruntime.InferenceSession(voice), onnxruntime.InferenceSession("dnsmos.onnx")
    scores, seconds = [], 0
    for i, path in enumerate(sorted(Path("validation").iterdir())):
        sound = session.run(None, dict(np.load(path)))[0].ravel()
        seconds += len(sound) / RATE
        if i == 0:
            scipy.io.wavfile.write(Path(voice).with_suffix(".wav"), RATE, sound)
        resampled = np.resize(scipy.signal.resample_poly(sound, 320, 441), NUM_RATED).astype(np.float32)
        scores.append(dnsmos.run(None, {"input_1": resampled[None]})[0][0, 2])
    return np.mean(scores), seconds


for voice in sys.argv[1:]:
    print("{}: {:.2f} of 5, {:.1f} s of speech".format(voice, *rating(voice)))
