import models
import numpy as np
import onnxruntime
import pytest
from locations import DEPS, cannot_run


@pytest.fixture
def conv_path(tmp_path):
    return models.save(models.conv_model(), tmp_path / "conv.onnx")


@pytest.fixture
def matmul_path(tmp_path):
    return models.save(models.matmul_model(), tmp_path / "matmul.onnx")


@pytest.fixture
def photos(tmp_path):
    """A folder of 48 smooth pictures as arrays, to learn from."""
    folder = tmp_path / "samples"
    folder.mkdir()
    for i, image in enumerate(models.smooth_images(48, 3)):
        np.save(folder / f"{i:02}.npy", image[None])
    return folder


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of 12 photos as files."""
    folder = tmp_path_factory.mktemp("pictures")
    models.save_photos(folder, 12)
    return folder


@pytest.fixture(scope="session")
def run_model(operator_library):
    """run_model(path, {input: array}) returns the outputs, computed by ONNX Runtime with our operators."""

    def run(path, inputs):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.register_custom_ops_library(str(operator_library))
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return session.run(None, inputs)

    return run


@pytest.fixture(scope="session")
def source():
    """The folder with the real networks that tools/setup/networks.py gets."""
    folder = DEPS / "networks"
    if not (folder / "stamp").is_file():
        cannot_run("the networks, which ./dev test fetches from PyPI, are not there")
    return folder
