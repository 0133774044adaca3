"""One table of formats: packed files compute what simulated ones do, as functions of plain ONNX Runtime and as operators of our
library, with weights alone and with activations in the format too. Each format is as accurate as it was measured."""

from collections import Counter

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from models import is_as_measured, sqnr_db
from onnx import numpy_helper
from onnxruntime import GraphOptimizationLevel

# The signal-to-noise ratios of the weights, and of the outputs with both sides in the format, in dB as measured on 2026-11-26.
FORMATS = {
    "fp16": (73.6, 71.1), "bf16": (55.6, 52.6), "fp8_e4m3": (9.5, 28.6), "fp8_e5m2": (25.8, 22.6), "bfp16": (44.4, 41.5),
    "mx4": (16.0, 13.4), "mx6": (28.5, 25.1), "mx9": (46.4, 43.0), "mxfp8_e5m2": (25.8, 22.6), "mxfp8_e4m3": (31.6, 28.6),
    "mxfp6_e3m2": (25.8, 22.6), "mxfp6_e2m3": (30.8, 27.5), "mxfp4_e2m1": (18.9, 16.3), "mxint8": (41.4, 39.1), "nvfp4": (11.7, 18.1),
    "bfp(bits=13, block=32)": (24.1, 20.5), "bfp(bits=11, block=7)": (14.7, 11.9), "bfp(bits=20, block=16)": (66.4, 62.8),
    "bfp(bits=24, block=8)": (91.9, 89.4), "bfp(bits=10, block=32, exponent_bits=5)": (24.1, 20.5),
    "bfp(bits=8, block=5, exponent_bits=5)": (15.3, 12.2), "mx(bits=13, block=20, sub_block=4, shift_bits=2)": (27.9, 24.1),
    "mxfp8_e4m3(block=16)": (31.6, 28.6), "mxfp4_e2m1(block=64)": (18.8, 16.6), "mxint8(block=256)": (40.5, 38.1),
}
HAVE_NO_OPERATORS = {"nvfp4", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "bfp(bits=20, block=16)", "bfp(bits=24, block=8)"}
# The table holds what was measured of weights in integers, by granularity. 7 and 32 do not divide the sizes of the model. Symmetric and asymmetric codes
# take turns, so that each granularity and each number of bits, signed or not, has both.
GRANULARITIES = ("per_tensor", "per_axis", "per_block(7)", "per_block(32)")
MEASURED = {
    "int2": (0.4, 7.4, 7.4, 8.7), "uint2": (0.9, 6.0, 12.3, 6.8), "int4": (2.3, 19.1, 26.1, 20.6), "uint4": (2.2, 20.7, 22.1, 22.4),
    "int8": (3.8, 44.3, 48.4, 46.5), "uint8": (3.8, 42.7, 50.4, 44.3), "int16": (15.4, 89.9, 98.5, 92.2),
    "uint16": (14.8, 91.5, 94.3, 94.1), "int32": (110.6, 152.9, 158.7, 152.7), "uint32": (111.3, 154.2, 152.4, 155.1),
    "int3": (1.7, 12.1, 19.6, 15.7), "uint3": (1.6, 14.4, 15.5, 16.0),
}
INTEGERS = {f"{name} {granularity} {'false' if (row + row // 2 + column) % 2 else 'true'}": MEASURED[name][column]
            for row, name in enumerate(MEASURED) for column, granularity in enumerate(GRANULARITIES)}
QUICK = ("mx6", "mxfp4_e2m1", "bf16", "int4 per_block(7) false")


def cells(names):
    return [pytest.param(name, marks=pytest.mark.quick if name in QUICK else ()) for name in names]


class Table:
    """The model of the table, its outputs, and what the command line makes of it."""

    def __init__(self, bitpress, folder):
        self.bitpress, self.path = bitpress, folder / "odd.onnx"
        onnx.save(models.odd_model(), self.path)
        self.inputs = models.odd_inputs()
        self.outputs = session(self.path).run(None, self.inputs)
        self.weights = constants(self.path)

    def quantize(self, output, weights, activations, *options):
        """`weights` is a format, or for integers also granularity and symmetry, as in "int4 per_block(7) true"."""
        weights, *scales = weights.split(" ") if weights in INTEGERS else [weights]
        if scales:
            granularity, _, block_size = scales[0].partition("(")
            options += ("--set", f"weight_granularity={granularity}", "--set", f"weight_symmetric={scales[1]}")
            if block_size:
                options += ("--set", f"weight_block_size={block_size[:-1]}")
        self.bitpress.ok("quantize", self.path, "-o", output, "--config", "BF16", "--activations", activations, "--weights", weights,
                         *options)
        return output

    def floats(self, path):
        """Returns the weights of a packed file after unpacking, which leaves nothing of ours if only weights are quantized."""
        output = path.with_suffix(".floats.onnx")
        self.bitpress.ok("unpack", path, "-o", output)
        return constants(output)

    def weights_db(self, found):
        """Returns the mean over the output channels of all weights, so that none may be lost, such as by blocks on a wrong axis."""
        channels = []
        for name, weight in self.weights.items():
            axis = 1 if name in ("up", "mat", "columns") else 0
            channels += map(sqnr_db, np.moveaxis(weight, axis, 0), np.moveaxis(found[name], axis, 0))
        return mean_db(channels)

    def outputs_db(self, found):
        return mean_db(map(sqnr_db, self.outputs, found))


def mean_db(ratios):
    """Returns the ratio that belongs to the mean of relative noise powers."""
    return -10 * np.log10(np.mean([10 ** (-ratio / 10) for ratio in ratios]))


@pytest.fixture(scope="module")
def table(bitpress, tmp_path_factory):
    return Table(bitpress, tmp_path_factory.mktemp("table"))


def session(path, library=None, level=GraphOptimizationLevel.ORT_ENABLE_ALL, optimized=""):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(optimized)
    if library:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def constants(path):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer if tensor.name in models.ODD_WEIGHTS}


def operators(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def same_bits(found, wanted):
    return len(found) == len(wanted) and all(y.dtype == z.dtype and y.tobytes() == z.tobytes() for y, z in zip(found, wanted))


def bits(arrays):
    return {name: array.tobytes() for name, array in arrays.items()}


def check_weights_alone(name, table, tmp_path, operator_library):
    """Returns the weights of the simulated file, which are those of the packed one."""
    packed = table.quantize(tmp_path / "packed.onnx", name, "none", "--target", "portable")
    simulated = table.quantize(tmp_path / "simulated.onnx", name, "none", "--storage", "simulated")
    onnx.checker.check_model(packed, full_check=True)
    assert sum(count for op, count in operators(packed).items() if op.startswith("Unpack_")) == len(models.ODD_WEIGHTS)
    wanted = session(simulated, optimized=tmp_path / "s.onnx").run(None, table.inputs)
    assert same_bits(session(packed, optimized=tmp_path / "p.onnx").run(None, table.inputs), wanted)
    # ONNX Runtime folds the decoders when it loads the model, so that nothing is decoded at inference.
    assert operators(tmp_path / "p.onnx") == operators(tmp_path / "s.onnx")
    assert same_bits(session(packed, operator_library).run(None, table.inputs), wanted)
    unfolded = [session(path, level=GraphOptimizationLevel.ORT_DISABLE_ALL).run(None, table.inputs) for path in (packed, simulated)]
    assert same_bits(*unfolded)
    weights = constants(simulated)
    assert bits(table.floats(packed)) == bits(weights)
    unpacked = onnx.load(tmp_path / "packed.floats.onnx")
    onnx.checker.check_model(unpacked, full_check=True)
    assert not unpacked.functions and not any(node.domain for node in unpacked.graph.node)
    return weights


@pytest.mark.parametrize("name", cells(FORMATS))
def test_weights_alone(name, table, tmp_path, operator_library):
    weights = check_weights_alone(name, table, tmp_path, operator_library)
    assert is_as_measured(table.weights_db(weights), FORMATS[name][0])
    if name in HAVE_NO_OPERATORS:
        return
    path = table.quantize(tmp_path / "operators.onnx", name, "none", "--target", "bitpress")
    assert sum(count for op, count in operators(path).items() if op.startswith("MatMul") and op != "MatMul") == 3
    ours, plain = (session(path, library).run(None, table.inputs) for library in (operator_library, None))
    for found, wanted in zip(ours, plain, strict=True):
        assert found.shape == wanted.shape and sqnr_db(wanted, found) > 120
    assert bits(table.floats(path)) == bits(weights)


@pytest.mark.parametrize("name", cells(INTEGERS))
def test_weights_in_integers(name, table, tmp_path, operator_library):
    weights = check_weights_alone(name, table, tmp_path, operator_library)
    assert is_as_measured(table.weights_db(weights), INTEGERS[name])


@pytest.mark.parametrize("name", cells(FORMATS))
def test_both_sides(name, table, tmp_path, operator_library):
    packed = table.quantize(tmp_path / "packed.onnx", name, name, "--target", "portable")
    simulated = table.quantize(tmp_path / "simulated.onnx", name, name, "--storage", "simulated", "--target", "portable")
    graph = onnx.load(packed).graph
    stored = {tensor.name for tensor in graph.initializer} | {node.output[0] for node in graph.node if node.op_type == "Constant"}
    quantizers = [node for node in graph.node if node.op_type.startswith("QuantizeDequantize_")]
    assert not any(stored & set(node.input) for node in quantizers), "weights were quantized before"
    wanted = session(simulated).run(None, table.inputs)
    assert is_as_measured(table.outputs_db(wanted), FORMATS[name][1])
    for path, library in ((packed, None), (packed, operator_library), (simulated, operator_library)):
        assert same_bits(session(path, library).run(None, table.inputs), wanted)
    if name in HAVE_NO_OPERATORS:
        return
    path = table.quantize(tmp_path / "operators.onnx", name, name, "--target", "bitpress")
    assert sum(count for op, count in operators(path).items() if op.startswith(("MatMul", "Conv")) and "_" in op) >= 3
    ours, plain = (session(path, library).run(None, table.inputs) for library in (operator_library, None))
    for found, wanted in zip(ours, plain, strict=True):
        assert found.shape == wanted.shape and sqnr_db(wanted, found) > 110
    assert bits(table.floats(path)) == bits(constants(simulated))


# SQNR of the logits of a small network, in dB as measured on 2026-11-22. One bit of the mantissa is worth 6 dB.
PRESETS = {"BF16": 53.6, "FP16": 73.3, "BFP16": 47.1, "MX4": 12.2, "MX6": 27.3, "MX9": 45.0, "MXFP8E5M2": 24.4, "MXFP8E4M3": 27.8,
           "MXFP6E3M2": 24.4, "MXFP6E2M3": 27.3, "MXFP4E2M1": 14.2, "MXINT8": 42.6}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_writes_a_model_that_passes_its_check(preset, conv_path, tmp_path, bitpress, run_model):
    text = bitpress.checking.ok("quantize", conv_path, "-o", tmp_path / "out.onnx", "--config", preset)
    assert "loads and runs" in text
    image = {"image": np.random.default_rng(3).standard_normal((16, *models.CONV_INPUT)).astype(np.float32)}
    wanted, found = run_model(conv_path, image)[0], run_model(tmp_path / "out.onnx", image)[0]
    assert found.shape == wanted.shape and is_as_measured(sqnr_db(wanted, found), PRESETS[preset])
