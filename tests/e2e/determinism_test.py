"""Results have the same bytes with any number of threads and any instruction set of the kernels."""

import os
import re
import subprocess

import models
import numpy as np
import pytest

CONFIGS = {
    "integers": ["--config", "INT8"],
    "dynamic": ["--config", "INT8_DYNAMIC"],
    "powers_of_two": ["--config", "XINT8"],
    "micro_exponents": ["--config", "MX6"],
    "microscaling": ["--config", "MXFP4E2M1"],
    "block_floating_point": ["--config", "BFP16"],
    "small_floats": ["--config", "FP16_SIMULATED"],
    "half_network": ["--config", "FP16"],
    "weights": ["--config", "INT4_WEIGHTS"],
    "gptq": ["--config", "INT4_WEIGHTS", "--finetune", "gptq"],
    "adaquant": ["--config", "INT8", "--finetune", "adaquant"],
    "adaround": ["--config", "XINT8", "--finetune", "adaround"],
    "smooth": ["--config", "INT8", "--smooth-quant", "0.5"],
}


@pytest.fixture(scope="module")
def runs(program):
    """run(kernels, *arguments) runs the program with the kernels of an instruction set; "" means the best one."""

    def run(kernels, *arguments):
        return subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
                              env={**os.environ, "BITPRESS_KERNELS": kernels})

    return run


@pytest.fixture(scope="module")
def kernels(runs):
    refused = runs("NONE", "--version")
    assert refused.returncode == 1
    return re.search(r"these are: (.+)", refused.stderr).group(1).split()


@pytest.mark.parametrize("config", CONFIGS)
def test_the_same_bytes(config, runs, kernels, tmp_path):
    assert "PORTABLE" in kernels
    model = models.save(models.conv_model(), tmp_path / "model.onnx")
    (tmp_path / "samples").mkdir()
    for i, image in enumerate(models.smooth_images(12, seed=3)):
        np.save(tmp_path / "samples" / f"{i:02}.npy", image[None])

    def written(target, threads):
        output = tmp_path / "out.onnx"
        done = runs(target, "quantize", model, "-o", output, "--data", tmp_path / "samples", "--threads", threads, "--check", "off",
                    *CONFIGS[config])
        assert done.returncode == 0, done.stderr
        return output.read_bytes()

    wanted = written("", 1)
    for target in kernels:  # among them the best one, which "" means
        assert written(target, 2) == wanted, target
