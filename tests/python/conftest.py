"""Fixtures: the Python package as ./dev build leaves it, and small models to try it on."""

import sys

import numpy as np
import onnxruntime
import pytest
from locations import ROOT, cannot_run, from_environment

PACKAGE = from_environment("BITPRESS_PYTHON_PACKAGE", ROOT / "build" / "python")
sys.path.insert(0, str(PACKAGE))
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import models  # noqa: E402

import bitpress  # noqa: E402
from bitpress import distributed  # noqa: E402

# The photos of tests with several workers.
COUNT = 12
IMAGE = "resize=20,crop=20"


@pytest.fixture
def conv_path(tmp_path):
    return models.save(models.conv_model(), tmp_path / "conv.onnx")


@pytest.fixture
def matmul_path(tmp_path):
    return models.save(models.matmul_model(), tmp_path / "matmul.onnx")


@pytest.fixture
def images():
    return np.random.default_rng(4).standard_normal((12, *models.CONV_INPUT)).astype(np.float32)


@pytest.fixture
def sequences():
    """Returns samples whose neighbouring features depend on each other, so that there is something to learn."""
    rng = np.random.default_rng(5)
    mix = rng.standard_normal((48, 48)) / 7
    return (rng.standard_normal((32, 12, 48)) @ mix + 0.2).astype(np.float32)


@pytest.fixture
def photos(tmp_path):
    models.save_photos(tmp_path / "photos", COUNT)
    return tmp_path / "photos"


@pytest.fixture(scope="module")
def ray():
    try:
        import ray as package
    except ImportError:
        cannot_run("the package ray is not installed")
    yield distributed.Ray(2)
    package.shutdown()


@pytest.fixture(params=["processes", "ray"])
def where(request):
    """Returns the place of two workers."""
    return distributed.Processes(2) if request.param == "processes" else request.getfixturevalue("ray")


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
