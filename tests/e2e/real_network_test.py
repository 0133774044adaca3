"""The accuracy of real networks of PyPI packages, through the command line, must not fall below these bars.

The tables hold measurements of 2026-11-22 with ONNX Runtime 1.31.1 on x86 with AVX-512 VNNI. A bar is a measurement less a margin.
"""

import dataclasses
import functools

import numpy as np
import onnx
import pytest
import real_networks
from models import sqnr_db
from onnx import numpy_helper

pytestmark = pytest.mark.usefixtures("source")  # without the networks nothing has been tested

# Without VNNI, integer kernels saturate and float ones sum in another order. There, no entry of the tables was lower by more than
# 0.1 dB, and no decision differed. A mistake costs more: if the scale of one layer is wrong by a quarter, 7 and 8 dB.
MARGIN_DB = 1.0
MARGIN_SHARE = 0.01  # 2 of 200 drawings, 53 of 5280 pieces of sound
MARGIN_SIZE = 0.02  # names and attributes; weights left float add more


@dataclasses.dataclass(frozen=True)
class Measured:
    sqnr_db: float
    agreement: float  # share of decisions that are the float network's
    size: float  # of the file, over that of the float network
    top1: float | None = None


# The keys are the words that follow `--config`.
MEASURED = {
    "text_direction": {
        "BF16": Measured(41.7, 0.995, 0.57, 0.975),
        "MX9": Measured(33.8, 0.995, 0.44, 0.965),
        "INT8": Measured(25.6, 0.990, 0.50, 0.970),
        "MXFP8E4M3": Measured(15.6, 0.975, 0.39, 0.975),
        "MX6": Measured(13.0, 0.950, 0.385, 0.940),  # --target portable has fewer functions: 0.375
        "MX6_ADAQUANT": Measured(16.7, 0.985, 0.385, 0.955),
        "INT4_WEIGHTS --finetune gptq": Measured(15.9, 0.960, 0.30, 0.960),
    },
    "voice_activity": {
        "BF16": Measured(51.1, 1.000, 0.51),
        "MX9": Measured(41.9, 0.998, 0.31),
        "INT8": Measured(17.9, 0.960, 0.28),
        "INT8_DYNAMIC": Measured(21.0, 0.973, 0.27),
        "MXFP8E4M3": Measured(25.7, 0.983, 0.28),
        "MX6": Measured(21.8, 0.976, 0.22),
        "MX6_ADAQUANT": Measured(25.6, 0.984, 0.22),
        "INT4_WEIGHTS --finetune gptq": Measured(27.9, 0.989, 0.18),
    },
}
NEED_SAMPLES = ["INT8", "MX6_ADAQUANT", "INT4_WEIGHTS --finetune gptq"]
FLOAT_TOP1 = 0.97  # of text_direction
SPEECH = 0.794  # share of the pieces of sound in which voice_activity finds speech


@pytest.fixture(scope="module")
def networks(source, operator_library, tmp_path_factory):
    """networks(name) returns a network with the outputs of its float form as `wanted`."""

    @functools.cache
    def make(name):
        made = getattr(real_networks, name)(source, tmp_path_factory.mktemp(name) / "samples")
        made.wanted = made.outputs(made.path, operator_library)
        return made

    return make


def decisions(outputs):
    """Returns the class of each row. For rows with one number, it is whether that is above a half."""
    return outputs.argmax(1) if outputs.ndim == 2 else outputs > 0.5


@pytest.fixture(scope="module")
def quantized(networks, bitpress, tmp_path_factory):
    """quantized(name, config) returns the path of a network in a configuration, which is made once."""

    @functools.cache
    def make(name, config):
        network, output = networks(name), tmp_path_factory.mktemp(name) / "quantized.onnx"
        samples = ["--data", network.learning] if config in NEED_SAMPLES else []
        # Side by side with other tests, more threads would wait for each other.
        bitpress.ok("quantize", network.path, "-o", output, "--config", *config.split(), *samples, "--threads", "1")
        return output

    return make


def measure(network, path, operator_library):
    outputs = network.outputs(path, operator_library)
    chosen = decisions(outputs)
    return Measured(sqnr_db(network.wanted, outputs), np.mean(chosen == decisions(network.wanted)),
                    path.stat().st_size / network.path.stat().st_size,
                    None if network.labels is None else np.mean(chosen == network.labels))


def reaches(found, bar):
    return (found.sqnr_db >= bar.sqnr_db - MARGIN_DB and found.agreement >= bar.agreement - MARGIN_SHARE and
            found.size <= bar.size + MARGIN_SIZE and (bar.top1 is None or found.top1 >= bar.top1 - MARGIN_SHARE))


@pytest.mark.parametrize("name", MEASURED)
def test_the_float_network_has_its_known_accuracy(name, networks):
    """If this fails, the data are not those of the tables."""
    network = networks(name)
    if network.labels is None:
        assert np.mean(decisions(network.wanted)) == pytest.approx(SPEECH, abs=0.002)
    else:
        assert np.mean(decisions(network.wanted) == network.labels) == pytest.approx(FLOAT_TOP1, abs=0.006)


# Learning takes long: each way is tried on one of the networks after each change, and on both by `./dev test --all`.
LONG = [("text_direction", "INT4_WEIGHTS --finetune gptq"), ("voice_activity", "MX6_ADAQUANT")]


def marks(name, config):
    if (name, config) in LONG:
        return [pytest.mark.corpus]
    return [pytest.mark.integers] if config in ("INT8", "INT8_DYNAMIC") else []


@pytest.mark.parametrize("name, config", [pytest.param(name, config, marks=marks(name, config))
                                          for name, table in MEASURED.items() for config in table])
def test_accuracy_of_each_configuration(name, config, networks, quantized, operator_library):
    found, bar = measure(networks(name), quantized(name, config), operator_library), MEASURED[name][config]
    assert reaches(found, bar), f"{name} in {config}: {found}, measured before: {bar}"


@pytest.mark.parametrize("name", MEASURED)
def test_a_wrong_scale_is_noticed(name, networks, quantized, operator_library, tmp_path):
    """The bars of INT8 are so high that a layer whose scale is wrong by a quarter fails them."""
    model = onnx.load(quantized(name, "INT8"))
    makers = {node.output[0]: node for node in model.graph.node}
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    wrong = makers[convolutions[2].input[1]].input[1]
    for tensor in model.graph.initializer:
        if tensor.name == wrong:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1.25), wrong))
    onnx.save(model, tmp_path / "wrong.onnx")
    assert not reaches(measure(networks(name), tmp_path / "wrong.onnx", operator_library), MEASURED[name]["INT8"])


@pytest.mark.parametrize("name", MEASURED)
def test_bars_tell_formats_apart(name):
    """No bar is so low that the next narrower format would reach it."""
    table = MEASURED[name]
    for wide, narrow in [("BF16", "MX9"), ("MX9", "MX6"), ("MXFP8E4M3", "MX6"), ("MX6_ADAQUANT", "MX6")]:
        assert table[wide].sqnr_db - MARGIN_DB > table[narrow].sqnr_db, (wide, narrow)
