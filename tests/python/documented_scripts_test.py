"""Scripts in the form of other tools' documents run through their dialects, and give what the documents say.

SCRIPTS is the table: the document and the section, a script of our own with the same words, and what its model must hold.
docs/migrate_quark.md and docs/migrate_neural_compressor.md say what is not met.
"""

import numpy as np
import onnx
import onnxruntime
import pytest
from package_helpers import outputs, sqnr_db

import bitpress
from bitpress.compat import Notice
from bitpress.compat.neural_compressor import config as nc
from bitpress.compat.neural_compressor import data_reader
from bitpress.compat.neural_compressor.quantization import quantize
from bitpress.compat.quark.onnx import (
    CalibrationMethod, ExtendedQuantFormat, ExtendedQuantType, ModelQuantizer, QuantType, get_library_path,
)
from bitpress.compat.quark.onnx.quantization.config.config import Config, QuantizationConfig
from bitpress.compat.quark.onnx.quantization.config.custom_config import get_default_config

pytestmark = pytest.mark.usefixtures("one_thread")
BF16, BFP, MX = ExtendedQuantType.QBFloat16, ExtendedQuantType.QBFP, ExtendedQuantType.QMX
LAYERS = ["Conv", "ConvTranspose", "Gemm", "MatMul"]
TUNING = {"DataSize": 100, "FixedSeed": 1705472343, "BatchSize": 2, "NumIterations": 20, "LearningRate": 1e-5,
          "OptimAlgorithm": "adaquant", "OptimDevice": "cpu", "InferDevice": "cpu", "EarlyStop": True}


class DataReader(data_reader.CalibrationDataReader):
    def __init__(self, rows, name):
        self.rows, self.name = rows, name
        self.rewind()

    def get_next(self):
        return next(self.items, None)

    def rewind(self):
        self.items = iter([{self.name: row[None]} for row in self.rows])


def quark_config(activation, weight, extra_options=None, **fields):
    return Config(global_quant_config=QuantizationConfig(
        calibrate_method=CalibrationMethod.MinMax, quant_format=ExtendedQuantFormat.QDQ, activation_type=activation, weight_type=weight,
        extra_options=extra_options or {}, **fields))


def amp(**words):
    return {"AutoMixprecision": {"TargetOpType": LAYERS, **words}}


def mx(**changes):
    return {"MXAttributes": {"element_dtype": "int8", "axis": 1, "block_size": 32, "rounding_mode": 2, **changes}}


def quantizers(*names):
    """The operators of activations are exactly these."""
    return lambda model: set(bitpress.inspect(model).quantizers) == set(names)


def constants(*formats):
    """Weights have these formats."""
    return lambda model: set(formats) <= {constant.format for constant in bitpress.inspect(model).constants}


def both(*checks):
    return lambda model: all(check(model) for check in checks)


OURS, QUARKS = "bitpress::QuantizeDequantize_", "com.amd.quark::"
PAIR = (QUARKS + "ExtendedQuantizeLinear", QUARKS + "ExtendedDequantizeLinear")

# (document, section): (configuration, operators, check)
SCRIPTS = {
    ("Microscaling (MX)", "MXINT8"): (quark_config(MX, MX, mx()), "bitpress", both(quantizers(OURS + "mxint8"), constants("mxint8"))),
    ("Microscaling (MX)", "MXQuantizeDequantize nodes"):
        (quark_config(MX, MX, mx()), "quark", quantizers(QUARKS + "MXQuantizeDequantize")),
    ("Microscaling (MX)", "fp8_e4m3 in blocks of 16, another rounding"):
        (quark_config(MX, MX, mx(element_dtype="fp8_e4m3", block_size=16, rounding_mode=0)), "bitpress",
         both(quantizers(OURS + "mxfp8_e4m3"), constants("mxfp8_e4m3(block=16)"))),
    ("Microscaling (MX)", "fast finetune"):
        (quark_config(MX, MX, {**mx(), "FastFinetune": TUNING}, include_fast_ft=True), "bitpress", constants("mxint8")),
    ("Mixed Precision", "element-wise: BFP16 activations, BF16 weights"):
        (quark_config(BFP, BF16), "quark", both(quantizers(QUARKS + "BFPQuantizeDequantize"), constants("bf16"))),
    ("Mixed Precision", "element-wise: BF16 activations, BFP16 weights"):
        (quark_config(ExtendedQuantType.QBloat16, BFP), "quark", both(quantizers(*PAIR), constants("bfp16"))),
    ("Mixed Precision", "layer-wise: BF16 with BFP16 layers"):
        (quark_config(BF16, BF16, amp(TargetQuantType=BFP), include_auto_mp=True), "bitpress",
         both(quantizers(OURS + "bf16", OURS + "bfp16"), constants("bfp16"))),
    ("Mixed Precision", "layer-wise: DualQuantNodes"):
        (quark_config(BF16, BF16, amp(TargetQuantType=BFP, DualQuantNodes=True), include_auto_mp=True), "quark",
         quantizers(*PAIR, QUARKS + "BFPQuantizeDequantize")),
    ("Mixed Precision", "layer-wise: BF16 with MXINT8 layers"):
        (quark_config(BF16, BF16, amp(TargetQuantType=MX), include_auto_mp=True), "bitpress",
         both(quantizers(OURS + "bf16", OURS + "mxint8"), constants("mxint8"))),
    ("Mixed Precision", "tensor-wise"):
        (quark_config(BFP, BFP, {"MixedPrecisionTensor": {BF16: ["project.weight", "pooled"]}}, specific_tensor_precision=True), "bitpress",
         both(quantizers(OURS + "bf16", OURS + "bfp16"), constants("bf16", "bfp16"))),
    ("Mixed Precision", "automatic, L2Target"):
        (quark_config(ExtendedQuantType.QInt16, QuantType.QInt8,
                      amp(ActTargetQuantType=QuantType.QInt8, WeightTargetQuantType=QuantType.QInt8, OutputIndex=0, L2Target=0.1),
                      include_auto_mp=True), "bitpress", both(quantizers("QuantizeLinear", "DequantizeLinear"), constants("INT8", "INT16"))),
    ("BFloat16", "a custom pair a tensor"): (quark_config(BF16, BF16), "quark", both(quantizers(*PAIR), constants("bf16"))),
    ("BFloat16", "BF16QDQToCast"):
        (quark_config(BF16, BF16, {"BF16QDQToCast": True}), "bitpress", lambda model: bitpress.inspect(model).operators["Cast"] > 4),
    ("BFloat16", "WeightScaled, ActivationScaled"):
        (quark_config(BF16, BF16, {"WeightScaled": True, "ActivationScaled": True}), "quark", quantizers(*PAIR)),
    ("BFloat16", "fast finetune"):
        (quark_config(BF16, BF16, {"FastFinetune": {**TUNING, "LearningRate": 1e-6}}), "bitpress", constants("bf16")),
}


@pytest.mark.filterwarnings("ignore::bitpress.compat.Notice")
@pytest.mark.parametrize("script", SCRIPTS, ids=" - ".join)
def test_a_script_for_quark(script, tmp_path, conv_path, images):
    config, operators, check = SCRIPTS[script]
    path = tmp_path / "out.onnx"
    ModelQuantizer(config, operators=operators).quantize_model(str(conv_path), str(path), DataReader(images, "image"))
    onnx.checker.check_model(str(path), full_check=True)
    assert check(path), (bitpress.inspect(path).quantizers, {constant.format for constant in bitpress.inspect(path).constants})
    # The documentation opens a session with the operator library of get_library_path.
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path("CPU"))
    found = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"image": images})[0]
    assert sqnr_db(outputs(conv_path, {"image": images})[0], found) > 20


def test_the_import_line_of_onnxruntimes_enums():
    """Quark's documents import this; it needs the package onnx, which is why ours depends on it."""
    from onnxruntime.quantization.calibrate import CalibrationMethod as theirs

    config = QuantizationConfig(calibrate_method=theirs.MinMax, activation_type=QuantType.QInt8)
    assert ModelQuantizer(Config(config))


@pytest.mark.parametrize("made, check", [
    (lambda reader: nc.StaticQuantConfig(reader), lambda operators: operators["QLinearMatMul"] >= 2),
    (lambda reader: nc.DynamicQuantConfig(), lambda operators: operators["DynamicQuantizeLinear"] >= 1),
    (lambda reader: nc.GPTQConfig(weight_bits=4, weight_dtype="int", weight_sym=False, weight_group_size=32, calibration_data_reader=reader)
     .set_local("make_query", nc.GPTQConfig(weight_dtype="fp32")),
     lambda operators: operators["com.microsoft::MatMulNBits"] == 1 and operators["MatMul"] == 3),
    (lambda reader: nc.SmoothQuantConfig(alpha=0.5, calibration_data_reader=reader), lambda operators: operators["QLinearMatMul"] >= 2),
], ids=["static", "dynamic", "rule by name", "SmoothQuant"])
@pytest.mark.filterwarnings("ignore::bitpress.compat.Notice")
def test_a_script_for_neural_compressor(made, check, tmp_path, matmul_path, sequences):
    path = tmp_path / "out.onnx"
    quantize(str(matmul_path), str(path), made(DataReader(sequences, "x")))
    assert check(bitpress.inspect(path).operators), bitpress.inspect(path).operators
    assert sqnr_db(outputs(matmul_path, {"x": sequences})[0], outputs(path, {"x": sequences})[0]) > 10
