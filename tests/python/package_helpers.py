"""What several tests of the Python package share: readers of samples, and outputs of models."""

import os
from collections import Counter

import models
import numpy as np
import onnxruntime

import bitpress
from bitpress import distributed

# The photos of tests with several workers.
COUNT = 12
IMAGE = "resize=20,crop=20"


def random_images():
    """Returns samples for models.conv_model()."""
    return np.random.default_rng(4).standard_normal((12, *models.CONV_INPUT)).astype(np.float32)


def outputs(model, inputs, on_integers=True):
    """Returns the outputs of a model, which is a path or bytes, computed by ONNX Runtime with our operators.

    Products of integers may saturate on processors without VNNI; without `on_integers` they are products of floats.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not on_integers:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.register_custom_ops_library(bitpress.get_library_path())
    source = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def sqnr_db(x, y):
    return 10 * np.log10(np.sum(np.square(x)) / np.sum(np.square(x - y)))


class Reader:
    """A reader of samples as scripts for other tools write it, with get_next() and without rewind()."""

    def __init__(self, array, name):
        self.items = iter({name: row[None]} for row in array)

    def get_next(self):
        return next(self.items, None)


class Rewinding(Reader):
    def __init__(self, array, name):
        self.array, self.name, self.num_rewinds = array, name, 0
        super().__init__(array, name)

    def rewind(self):
        self.num_rewinds += 1
        super().__init__(self.array, self.name)


class FatalOnce(dict):
    """A sample that kills the first worker that reads it, and leaves a file that says so."""

    def __init__(self, sample, mark):
        super().__init__(sample)
        self._mark = mark

    def __reduce__(self):
        # A worker cannot import this module, so it gets an expression and the names in it.
        names = {"sample": dict(self), "mark": self._mark, "kill": os.kill, "getpid": os.getpid}
        return eval, ("sample if mark.exists() else (mark.touch(), kill(getpid(), 9))", names)


def expect_an_iterable_is_read_as_workers_need_it(where, model, folder):
    """Calibrates on an iterable: its last item is read only after a shard was done, and the bytes are those of one process."""
    images = models.smooth_images(300, 7)
    bitpress.calibrate(model, [{"image": image[None]} for image in images], folder / "one.bpc", config="INT8", guard="off")
    given = []

    def items():
        for image in images:
            given.append(len(list((folder / "all.bpc.shards").glob("*.bpc"))))
            yield {"image": image[None]}

    distributed.calibrate(model, items(), folder / "all.bpc", where=where, config="INT8", guard="off")
    assert (folder / "all.bpc").read_bytes() == (folder / "one.bpc").read_bytes()
    assert given[0] == 0 and given[-1] > 0, "the last item was read only after a shard was done"


def expect_a_killed_worker_is_replaced(where, model, folder):
    """Calibrates on samples of which one kills the worker that reads it first; the bytes are those of one process."""
    images = models.smooth_images(40, 7)
    items = [{"image": image[None]} for image in images]
    bitpress.calibrate(model, items, folder / "one.bpc")
    items[35] = FatalOnce(items[35], folder / "killed")
    distributed.calibrate(model, items, folder / "all.bpc", where=where)
    assert (folder / "killed").exists() and (folder / "all.bpc").read_bytes() == (folder / "one.bpc").read_bytes()


def counted_fates(words, refused, tables, version):
    """The sentence of a migration page that counts what became of a peer's names and options."""
    names = {name for found in words["names"].values() for name in found}
    fates = Counter(word.fate.value for table in tables.values() for word in table.values())
    num_refused = len(names & set(refused))
    return (f"Of {len(names)} public names of version {version} {len(names) - num_refused} are there and {num_refused} are refused by name. "
            f"Of {sum(fates.values())} options {fates['honoured']} are honoured, {fates['accepted with a notice']} accepted with a notice and "
            f"{fates['refused']} refused.")
