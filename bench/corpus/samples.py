"""Helpers of all makers of samples, and the files of samples: one .npz a sample, with the arrays by input name.

A maker is called with the cache folder and a side, "calibration" or "validation", and yields dicts of arrays by input name, mostly without
end. The sides share no photo, no recording, no molecule and no text.
"""

import itertools
import shutil
from pathlib import Path

import numpy as np
import onnxruntime


def rng_of(side, i, salt=0):
    """Random numbers that depend on nothing but the side, the sample and the maker (its salt)."""
    return np.random.default_rng([salt, side == "validation", i])


def open_session(model, library=""):
    """A session for a file or for bytes, in one thread, because times are compared."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if library:
        options.register_custom_ops_library(str(library))
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def write(folder, samples, count):
    """Writes the first `count` samples into the folder, unless it is there."""
    if folder.is_dir():
        return
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    written = 0
    for sample in itertools.islice(samples, count):
        np.savez(part / f"{written:03}.npz", **sample)
        written += 1
    if written < count:
        raise ValueError(f"{folder}: only {written} samples of {count} could be made")
    part.rename(folder)


def load(folder):
    for path in sorted(Path(folder).iterdir()):
        with np.load(path) as arrays:
            yield dict(arrays)
