"""Fixtures: small models and samples to try the Python package on, as ./dev build leaves it."""

import models
import numpy as np
import pytest
from package_helpers import COUNT, random_images

import bitpress


@pytest.fixture(scope="module", autouse=True)
def unchecked():
    """Models are written unchecked, as by the fixture `bitpress` of the command line: the check starts a process, which costs several
    times the rest. Tests of what the check says give check=True."""
    with pytest.MonkeyPatch.context() as patch:
        for function in (bitpress.quantize, bitpress.auto, bitpress.autotune):
            patch.setitem(function.__kwdefaults__, "check", False)
        yield


@pytest.fixture(scope="module")
def one_thread():
    """Functions use one thread unless they are told otherwise, which gives the same results. Tests run side by side, and threads that wait
    for each other cost these small models more than they gain."""
    with pytest.MonkeyPatch.context() as patch:
        for name in bitpress.__all__:
            defaults = getattr(getattr(bitpress, name), "__kwdefaults__", None) or {}
            if "threads" in defaults:
                patch.setitem(defaults, "threads", 1)
        yield


@pytest.fixture
def conv_path(tmp_path):
    return models.save(models.conv_model(), tmp_path / "conv.onnx")


@pytest.fixture
def matmul_path(tmp_path):
    return models.save(models.matmul_model(), tmp_path / "matmul.onnx")


@pytest.fixture
def images():
    return random_images()


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
