"""Scripts of ONNX Runtime's quantization tool with another import line: each option does what it says, or says what it does not."""

import os
import subprocess
import sys

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from locations import PACKAGE
from package_helpers import Reader, Rewinding, outputs, sqnr_db

import bitpress
from bitpress.compat import Notice
from bitpress.compat.onnxruntime.quantization import (
    CalibrationDataReader, CalibrationMethod, DynamicQuantConfig, QuantFormat, QuantType, StaticQuantConfig, get_qdq_config, quant_pre_process,
    quantize, quantize_dynamic, quantize_static,
)
from bitpress.compat.onnxruntime.quantization import matmul_4bits_quantizer, matmul_nbits_quantizer, qdq_loss_debug
from bitpress.compat.onnxruntime.quantization.onnx_model import ONNXModel

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.filterwarnings("ignore")]
Q = QuantType


class Script(CalibrationDataReader):
    """A reader as scripts write it."""

    def __init__(self, array, name):
        self.items = iter({name: row[None]} for row in array)

    def get_next(self):
        return next(self.items, None)


@pytest.fixture
def static(conv_path, images, tmp_path):
    """Quantizes the model of convolutions; gives the written model."""
    def made(model=conv_path, **options):
        path = tmp_path / "static.onnx"
        quantize_static(str(model), str(path), Script(images, "image"), **options)
        onnx.checker.check_model(str(path), full_check=True)
        return onnx.load(path)

    return made


def constants(model):
    return {item.name: onnx.numpy_helper.to_array(item) for item in model.graph.initializer}


def types(model):
    return [node.op_type for node in model.graph.node]


def pairs(model):
    """The activations that have a pair."""
    return {node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}


def test_default_arguments_are_onnx_runtimes(static):
    found = constants(static())
    assert found["image_zero_point"].dtype == np.int8 and found["head.weight_codes"].dtype == np.int8
    assert found["head.weight_scale"].size == 1
    channels = constants(static(per_channel=True))["head.weight_scale"]
    assert channels.shape == (models.NUM_CLASSES,)


def test_scales_are_those_of_onnx_runtime(static, conv_path, images, tmp_path):
    from onnxruntime.quantization import quantize_static as theirs

    prepared = tmp_path / "prepared.onnx"
    quant_pre_process(str(conv_path), str(prepared))
    theirs(str(prepared), str(tmp_path / "theirs.onnx"), Script(images, "image"))
    wanted = constants(onnx.load(tmp_path / "theirs.onnx"))
    found = constants(static(model=prepared))
    values = [name for name in pairs(onnx.load(tmp_path / "static.onnx")) if f"{name}_scale" in wanted]
    assert len(values) >= 5
    for name in values:
        np.testing.assert_allclose(found[f"{name}_scale"], wanted[f"{name}_scale"], rtol=1e-5, err_msg=name)
        assert abs(int(found[f"{name}_zero_point"]) - int(wanted[f"{name}_zero_point"])) <= 1, name
    weights = [name for name in found if name.endswith("weight_scale") and name in wanted]
    assert len(weights) == 4
    # ONNX Runtime divides by 127.5 and by 127. Where codes could saturate without VNNI, the scale is up to twice that.
    ratios = [float(found[name] / wanted[name]) for name in weights]
    assert sum(abs(ratio - 1) < 0.005 for ratio in ratios) >= 2 and max(ratios) <= 2.01 and min(ratios) > 0.995


@pytest.mark.parametrize("options, name, is_wanted", [
    ({"activation_type": Q.QUInt8}, "pooled_zero_point", lambda value: value.dtype == np.uint8),
    ({"activation_type": onnx.TensorProto.UINT16}, "pooled_zero_point", lambda value: value.dtype == np.uint16),
    ({"weight_type": Q.QUInt8}, "head.weight_zero_point", lambda value: value.dtype == np.uint8 and value != 128),
    ({"weight_type": Q.QUInt8, "extra_options": {"WeightSymmetric": True}}, "head.weight_zero_point", lambda value: value == 128),
    ({"weight_type": Q.QInt4}, "head.weight_codes", lambda value: value.dtype.name == "int4"),
    ({"reduce_range": True}, "head.weight_codes", lambda value: np.abs(value).max() <= 64),
    ({"extra_options": {"ActivationSymmetric": True}}, "image_zero_point", lambda value: value == 0),
    ({"extra_options": {"CalibTensorRangeSymmetric": True}}, "image_zero_point", lambda value: value == 0),
    ({"extra_options": {"MinimumRealRange": 51.0}}, "pooled_scale", lambda value: np.isclose(value, 51 / 255)),
    ({"extra_options": {"TensorQuantOverrides": {"pooled": [{"scale": np.array(0.125), "zero_point": np.float32(7)}]}}}, "pooled_scale", lambda value: value == 0.125),
    ({"extra_options": {"TensorQuantOverrides": {"pooled": [{"quant_type": Q.QUInt16}]}}}, "pooled_zero_point", lambda value: value.dtype == np.uint16),
])
def test_what_options_change(static, options, name, is_wanted):
    assert not is_wanted(constants(static()).get(name, np.zeros((), np.int64)))
    assert is_wanted(constants(static(**options))[name])


def test_ranges(static, conv_path, images):
    scales = {method: constants(static(calibrate_method=CalibrationMethod[method]))["image_scale"] for method in ("MinMax", "Percentile", "Entropy")}
    scales["percentile"] = constants(static(calibrate_method=CalibrationMethod.Percentile, extra_options={"CalibPercentile": 99.0}))["image_scale"]
    scales["average"] = constants(static(extra_options={"CalibMovingAverage": True}))["image_scale"]
    least, most = images.min(), images.max()
    assert np.isclose(scales["MinMax"], (most - least) / 255) and len({float(scale) for scale in scales.values()}) == 5
    with pytest.warns(Notice, match="integers get the smallest and largest value, as in ONNX Runtime"):
        assert constants(static(calibrate_method=CalibrationMethod.Distribution))["image_scale"] == scales["MinMax"]


def test_restricted_asymmetric_activations(static):
    def zero_points(options):
        return {name: int(value) for name, value in constants(static(activation_type=Q.QUInt8, extra_options=options)).items()
                if name.endswith("_zero_point") and value.dtype == np.uint8 and value.size == 1}

    plain, found = zero_points({}), zero_points({"ActivationRestrictedAsymmetric": True})
    assert set(found.values()) == {0, 128} and not set(plain.values()) <= {0, 128}
    assert {name for name, value in found.items() if value == 0} == {name for name, value in plain.items() if value == 0}
    with pytest.raises(bitpress.InvalidArgumentError, match="ActivationRestrictedAsymmetric=True is for activation_type=QUInt8, not QInt8"):
        static(extra_options={"ActivationRestrictedAsymmetric": True})


def test_where_pairs_stand(static, conv_path):
    plain = static()
    assert "sum" in pairs(plain)
    assert "sum" not in pairs(static(extra_options={"OpTypesToExcludeOutputQuantization": ["Add"]}))
    assert {"depth", "normal"} <= pairs(static(extra_options={"ForceQuantizeNoInputCheck": True}))
    assert not any(name.endswith("bias_codes") for name in constants(static(extra_options={"QuantizeBias": False})))
    assert "head.weight_codes" not in constants(static(nodes_to_exclude=["head"]))
    assert [name for name in constants(static(nodes_to_quantize=["head"])) if name.endswith("weight_codes")] == ["head.weight_codes"]
    assert [name for name in constants(static(op_types_to_quantize=["Gemm"])) if name.endswith("weight_codes")] == ["head.weight_codes"]
    assert "QLinearConv" in types(static(quant_format=QuantFormat.QOperator, activation_type=Q.QUInt8))


def test_products_of_two_activations(matmul_path, sequences, tmp_path):
    def quantized(**extra):
        quantize_static(str(matmul_path), tmp_path / "out.onnx", Script(sequences, "x"), activation_type=Q.QUInt8, extra_options=extra)
        made = onnx.load(tmp_path / "out.onnx")
        dequantized = {node.output[0] for node in made.graph.node if node.op_type == "DequantizeLinear"}
        return sum(node.op_type == "MatMul" and node.input[1] in dequantized for node in made.graph.node)

    assert quantized() == 4 and quantized(MatMulConstBOnly=True) == 2
    assert quantized(SmoothQuant=True, MatMulConstBOnly=True) == 2


def test_a_cache_of_ranges(conv_path, images, tmp_path):
    cache = tmp_path / "ranges"
    quantize_static(conv_path, tmp_path / "a.onnx", Script(images, "image"), calibration_cache_path=cache)
    quantize_static(conv_path, tmp_path / "b.onnx", None, calibration_cache_path=cache)
    assert cache.is_file() and (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    with pytest.raises(bitpress.InvalidArgumentError, match="needs samples: calibration_data_reader is not given"):
        quantize_static(conv_path, tmp_path / "b.onnx")
    cache.write_text("{}")
    with pytest.raises(bitpress.InvalidArgumentError, match="is JSON, ONNX Runtime's own cache"):
        quantize_static(conv_path, tmp_path / "b.onnx", Script(images, "image"), calibration_cache_path=cache)


def test_eight_bit_floats(static):
    made = static(activation_type=Q.QFLOAT8E4M3FN, weight_type=Q.QFLOAT8E4M3FN, calibrate_method=CalibrationMethod.Distribution)
    assert onnx.TensorProto.FLOAT8E4M3FN in {item.data_type for item in made.graph.initializer}
    for options, text in [({"weight_type": Q.QFLOAT8E4M3FN, "activation_type": Q.QFLOAT8E4M3FN}, "needs Distribution"),
                          ({"weight_type": Q.QFLOAT8E4M3FN, "calibrate_method": CalibrationMethod.Distribution}, "for both or for none")]:
        with pytest.raises(bitpress.InvalidArgumentError, match=text):
            static(**options)


def test_configurations(conv_path, images, tmp_path):
    config = StaticQuantConfig(Script(images, "image"), activation_type=Q.QUInt8, per_channel=True, nodes_to_exclude=["head"])
    quantize(conv_path, tmp_path / "a.onnx", config)
    quantize_static(conv_path, tmp_path / "b.onnx", Script(images, "image"), activation_type=Q.QUInt8, per_channel=True, nodes_to_exclude=["head"])
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    quantize(conv_path, tmp_path / "c.onnx", DynamicQuantConfig(per_channel=True, weight_type=Q.QUInt8))
    assert constants(onnx.load(tmp_path / "c.onnx"))["head.weight_zero_point"].dtype == np.uint8
    with pytest.raises(TypeError, match="quant_config is str; expected a StaticQuantConfig"):
        quantize(conv_path, tmp_path / "c.onnx", "static")


def test_the_configuration_of_a_whole_model(conv_path, images, tmp_path):
    def excluded(model, node):
        return isinstance(model, onnx.ModelProto) and node.op_type == "Gemm"

    config = get_qdq_config(str(conv_path), Script(images, "image"), calibrate_args={"percentile": 99.9}, per_channel=True,
                            nodes_to_exclude=excluded, tensor_quant_overrides={"pooled": [{"rmin": 0.0, "rmax": 2.55}]})
    assert config.nodes_to_exclude == ["head"] and "Gemm" not in config.op_types_to_quantize and config.extra_options["CalibPercentile"] == 99.9
    assert config.activation_type is Q.QUInt8 and config.extra_options["ForceQuantizeNoInputCheck"] is True
    quantize(str(conv_path), str(tmp_path / "out.onnx"), config)
    found = constants(onnx.load(tmp_path / "out.onnx"))
    assert "head.weight_codes" not in found and np.isclose(found["pooled_scale"], 0.01)
    with pytest.raises(bitpress.InvalidArgumentError, match="calibrate_args has no 'percentil'; did you mean 'percentile'?"):
        get_qdq_config(str(conv_path), Script(images, "image"), calibrate_args={"percentil": 99})


def test_dynamic(matmul_path, sequences, tmp_path):
    quantize_dynamic(str(matmul_path), str(tmp_path / "out.onnx"), nodes_to_exclude=["make_key"])
    made = onnx.load(tmp_path / "out.onnx")
    assert types(made).count("MatMulInteger") == 1
    assert sqnr_db(outputs(matmul_path, {"x": sequences})[0], outputs(tmp_path / "out.onnx", {"x": sequences})[0]) > 25
    with pytest.raises(bitpress.UnsupportedError, match="weight_type=QInt4 is refused.*Instead: QInt8 or QUInt8"):
        quantize_dynamic(str(matmul_path), str(tmp_path / "out.onnx"), weight_type=Q.QInt4)


@pytest.mark.parametrize("options, text", [
    ({"extra_options": {"extra.Sigmoid.nnapi": True}}, "extra.Sigmoid.nnapi=True is refused: .* Instead: TensorQuantOverrides"),
    ({"extra_options": {"TensorQuantOverrides": {"pooled": [{"quant_type": Q.QInt8, "convert": {"quant_type": Q.QInt16}}]}}}, "convert=.* is refused"),
    ({"extra_options": {"TensorQuantOverrides": {"pooled": {"scale": 1}}}}, r"TensorQuantOverrides\['pooled'\]=.* expected a list of dicts"),
    ({"extra_options": {"BlockSize": -1}}, "BlockSize=-1 is not allowed"),
    ({"activation_type": "QInt7"}, "activation_type='QInt7' is not allowed; expected one of 'QInt8'"),
    ({"per_channel": "yes"}, "per_channel='yes' is str; expected True or False"),
    ({"calibrate_method": "Minmax"}, "calibrate_method='Minmax' is not allowed"),
    ({"nodes_to_exclude": "head"}, "nodes_to_exclude='head' is str; expected a list"),
])
def test_wrong_use_names_the_scripts_word(static, options, text):
    with pytest.raises(bitpress.Error, match=text):
        static(**options)


@pytest.mark.parametrize("options, text", [
    ({"extra_options": {"ActivationSymetric": True}}, "extra_options has no 'ActivationSymetric'; it changes nothing. Did you mean 'ActivationSymmetric'?"),
    ({"extra_options": {"AddQDQPairToWeight": True}}, "AddQDQPairToWeight=True changes nothing here: weights are stored as codes"),
    ({"calibration_providers": ["CUDAExecutionProvider"]}, "calibration_providers=.* changes nothing here: samples run on the CPU"),
    ({"op_types_to_quantize": ["conv", "Gemm"]}, r"op_types_to_quantize: 'conv' matches no operator type in the model \(did you mean 'Conv'\?\)"),
    ({"extra_options": {"OpTypesToExcludeOutputQuantization": ["MatMul"]}}, "OpTypesToExcludeOutputQuantization: the model has no 'MatMul'"),
    ({"extra_options": {"TensorQuantOverrides": {"poled": [{"scale": 1.0, "zero_point": 0}]}}}, "the model has no 'poled' in integers"),
])
def test_what_changes_nothing_is_said(static, options, text):
    with pytest.warns(Notice, match=text):
        static(**options)


def test_preparation(conv_path, tmp_path):
    quant_pre_process(str(conv_path), str(tmp_path / "a.onnx"))
    assert "BatchNormalization" in types(onnx.load(conv_path)) and "BatchNormalization" not in types(onnx.load(tmp_path / "a.onnx"))
    quant_pre_process(onnx.load(conv_path), tmp_path / "b.onnx", skip_optimization=True, save_as_external_data=True)
    assert "BatchNormalization" in types(onnx.load(tmp_path / "b.onnx")) and (tmp_path / "b.onnx.data").exists()
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    command = [sys.executable, "-m", "bitpress.compat.onnxruntime.quantization.preprocess", "--input", conv_path, "--output", tmp_path / "c.onnx",
               "--skip_symbolic_shape", "True"]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert (tmp_path / "c.onnx").read_bytes() == (tmp_path / "a.onnx").read_bytes()


def products(model):
    return {node.name: {item.name: item.i for item in node.attribute} for node in model.graph.node if node.op_type == "MatMulNBits"}


@pytest.mark.parametrize("algorithm", [
    None, matmul_nbits_quantizer.DefaultWeightOnlyQuantConfig(block_size=32, accuracy_level=4), matmul_nbits_quantizer.RTNWeightOnlyQuantConfig(),
    matmul_nbits_quantizer.KQuantWeightOnlyQuantConfig(), matmul_nbits_quantizer.HQQWeightOnlyQuantConfig(block_size=32), "gptq"])
def test_the_quantizer_of_products(matmul_path, sequences, tmp_path, algorithm):
    if algorithm == "gptq":
        algorithm = matmul_nbits_quantizer.GPTQWeightOnlyQuantConfig(Script(sequences, "x"), percdamp=0.05)
    quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(str(matmul_path), block_size=32, accuracy_level=4, algo_config=algorithm)
    quantizer.process()
    assert isinstance(quantizer.model, ONNXModel)
    assert {name: (item["bits"], item["block_size"], item["accuracy_level"]) for name, item in products(quantizer.model.model).items()} == {
        "make_query": (4, 32, 4), "make_key": (4, 32, 4)}
    quantizer.model.save_model_to_file(tmp_path / "out.onnx", use_external_data_format=True)
    assert sqnr_db(outputs(matmul_path, {"x": sequences})[0], outputs(tmp_path / "out.onnx", {"x": sequences})[0]) > 12
    session = onnxruntime.InferenceSession(str(tmp_path / "out.onnx"))  # without our library
    assert session.run(None, {"x": sequences})


def test_options_of_the_quantizer(matmul_path, tmp_path):
    def made(**options):
        quantizer = matmul_nbits_quantizer.MatMulNBitsQuantizer(onnx.load(matmul_path), **{"block_size": 16, **options})
        quantizer.process()
        return quantizer.model.model

    assert set(products(made(nodes_to_exclude=["make_key"]))) == {"make_query"}
    assert {item["bits"] for item in products(made(bits=8, accuracy_level=4)).values()} == {8}
    config = matmul_nbits_quantizer.RTNWeightOnlyQuantConfig(customized_weight_config={"make_key": {"bits": 8, "group_size": 32}})
    found = products(made(accuracy_level=4, algo_config=config))
    assert (found["make_key"]["bits"], found["make_key"]["block_size"], found["make_query"]["bits"]) == (8, 32, 4)
    blocked = made(quant_format=QuantFormat.QDQ, is_symmetric=True)
    assert not products(blocked) and "DequantizeLinear" in types(blocked)
    assert onnx.TensorProto.INT4 in {item.data_type for item in blocked.graph.initializer}
    assert not products(made(op_types_to_quantize=("Gather",), nodes_to_include=["make_key"])).get("make_query")
    assert set(products(made(op_types_to_quantize=("Gather",), nodes_to_include=["make_key"]))) == {"make_key"}
    for options, text in [({"bits": 3}, "bits=3 is not allowed"), ({"channel_wised_quantize": True}, "channel_wised_quantize=True .* is refused"),
                          ({"algo_config": 4}, "algo_config is int")]:
        with pytest.raises(bitpress.Error, match=text):
            made(**options)
    with pytest.raises(bitpress.InvalidArgumentError, match="has no 'bit'; did you mean 'bits'"):
        made(algo_config=matmul_nbits_quantizer.RTNWeightOnlyQuantConfig(customized_weight_config={"make_key": {"bit": 8}}))
    with pytest.raises(bitpress.InvalidArgumentError, match="GPTQWeightOnlyQuantConfig needs samples"):
        made(algo_config=matmul_nbits_quantizer.GPTQWeightOnlyQuantConfig())
    older = matmul_4bits_quantizer.MatMul4BitsQuantizer(onnx.load(matmul_path), 16, True)
    older.process()
    assert older.model.model.SerializeToString() == made(is_symmetric=True).SerializeToString()
    quantize(matmul_path, tmp_path / "whole.onnx", matmul_nbits_quantizer.DefaultWeightOnlyQuantConfig(block_size=16))
    assert set(products(onnx.load(tmp_path / "whole.onnx"))) == {"make_query", "make_key"}


def test_loss_tensor_by_tensor(conv_path, images, tmp_path):
    prepared, quantized = tmp_path / "prepared.onnx", tmp_path / "quantized.onnx"
    quant_pre_process(str(conv_path), str(prepared))
    quantize_static(prepared, quantized, Script(images, "image"), activation_type=Q.QUInt8)
    weights = qdq_loss_debug.compute_weight_error(qdq_loss_debug.create_weight_matching(str(prepared), str(quantized)))
    assert len(weights) >= 4 and all(25 < error < 100 for error in weights.values())
    found = {}
    for path in (prepared, quantized):
        more = tmp_path / f"more_{path.name}"
        qdq_loss_debug.modify_model_output_intermediate_tensors(str(path), str(more))
        found[path] = qdq_loss_debug.collect_activations(str(more), Reader(images, "image"))
    matched = qdq_loss_debug.create_activation_matching(found[quantized], found[prepared])
    errors = qdq_loss_debug.compute_activation_error(matched)
    assert set(errors) == pairs(onnx.load(quantized)) - {"image"} and {"active", "pooled"} <= set(errors)
    assert all(20 < error["qdq_err"] for error in errors.values())
    assert all(error["xmodel_err"] <= error["qdq_err"] + 1 for error in errors.values())
    assert qdq_loss_debug.compute_signal_to_quantization_noice_ratio([3.0, 4.0], [3.0, 3.5]) == pytest.approx(20)
    with pytest.raises(bitpress.InvalidArgumentError, match="different sizes"):
        qdq_loss_debug.compute_signal_to_quantization_noice_ratio([1.0], [1.0, 2.0])


def test_readers():
    reader = Script(np.zeros((3, 1), np.float32), "x")
    assert len(list(reader)) == 3 and isinstance(Rewinding(np.zeros((3, 1)), "x"), CalibrationDataReader)
    with pytest.raises(bitpress.UnsupportedError, match="Script has no set_range"):
        reader.set_range(0, 1)
