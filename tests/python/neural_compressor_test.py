"""Scripts as in ONNX Neural Compressor's documentation work with other import lines."""

import importlib
import warnings

import models
import numpy as np
import onnx
import onnxruntime
import onnxruntime.quantization as ort
import pytest
from models import is_as_measured
from package_helpers import Reader, outputs, sqnr_db

import bitpress
from bitpress.compat import Fate, Notice, neural_compressor
from bitpress.compat.neural_compressor import _providers, _words, config, data_reader
from bitpress.compat.neural_compressor._translate import translate
from bitpress.compat.neural_compressor.quantization import QuantFormat, QuantType, quantize, tuning

pytestmark = [pytest.mark.filterwarnings("ignore::bitpress.compat.Notice"), pytest.mark.usefixtures("one_thread")]


class DataReader(data_reader.CalibrationDataReader):
    def __init__(self, array, name):
        self.array, self.name = array, name
        self.rewind()

    def get_next(self):
        return next(self.items, None)

    def rewind(self):
        self.items = iter([{self.name: row[None]} for row in self.array])


def run(quant_config, model, tmp_path, **keywords):
    path = tmp_path / "out.onnx"
    assert quantize(str(model), str(path), quant_config, **keywords) is None
    onnx.checker.check_model(str(path), full_check=True)
    return path


def loss(model, path, inputs):
    return sqnr_db(outputs(model, inputs)[0], outputs(path, inputs)[0])


def operators(path):
    return bitpress.inspect(path).operators


@pytest.mark.integers
@pytest.mark.quick
def test_the_static_example(tmp_path, conv_path, images):
    x = {"image": images}
    qdq = config.StaticQuantConfig(calibration_data_reader=DataReader(images, "image"), quant_format=QuantFormat.QDQ, per_channel=True)
    path = run(qdq, conv_path, tmp_path)
    assert operators(path)["QuantizeLinear"] > 3 and is_as_measured(loss(conv_path, path, x), 48.0)
    mine = ort.QuantFormat.QOperator
    path = run(config.StaticQuantConfig(DataReader(images, "image"), quant_format=mine, activation_type=ort.QuantType.QUInt8), conv_path, tmp_path)
    assert operators(path)["QLinearConv"] == 3 and is_as_measured(loss(conv_path, path, x), 46.7)
    model = quantize(onnx.load(conv_path), None, config.StaticQuantConfig(DataReader(images, "image")))
    assert model.SerializeToString() == onnx.load(path).SerializeToString()


def test_a_reader_without_rewind_is_enough(tmp_path, matmul_path, sequences):
    wanted = run(config.SmoothQuantConfig(calibration_data_reader=DataReader(sequences, "x")), matmul_path, tmp_path).read_bytes()
    assert run(config.SmoothQuantConfig(calibration_data_reader=Reader(sequences, "x")), matmul_path, tmp_path).read_bytes() == wanted


@pytest.mark.integers
def test_recipes(tmp_path, matmul_path, sequences):
    def made(**options):
        return run(config.StaticQuantConfig(DataReader(sequences, "x"), quant_format=QuantFormat.QDQ, **options), matmul_path, tmp_path)

    smooth = made(extra_options={"SmoothQuant": True, "SmoothQuantAlpha": 0.5})
    assert operators(smooth)["Mul"] >= 1
    wanted = outputs(smooth, {"x": sequences})[0]
    same = config.SmoothQuantConfig(0.5, calibration_data_reader=DataReader(sequences, "x"), quant_format=QuantFormat.QDQ)
    np.testing.assert_array_equal(outputs(run(same, matmul_path, tmp_path), {"x": sequences})[0], wanted)
    everything = operators(made())["DequantizeLinear"]
    assert operators(made(quant_last_matmul=False))["DequantizeLinear"] < everything
    assert operators(made(nodes_to_exclude=["make_query"]))["DequantizeLinear"] < everything
    assert operators(made(nodes_to_quantize=["make_key"]))["DequantizeLinear"] < everything
    symmetric = made(activation_type=QuantType.QInt8, extra_options={"ActivationSymmetric": True, "WeightSymmetric": True})
    assert is_as_measured(loss(matmul_path, symmetric, {"x": sequences}), 26.6)


@pytest.mark.integers
def test_the_dynamic_example(tmp_path, matmul_path, sequences):
    path = run(config.DynamicQuantConfig(weight_type=QuantType.QInt8, per_channel=True), matmul_path, tmp_path)
    assert operators(path)["DynamicQuantizeLinear"] >= 1 and is_as_measured(loss(matmul_path, path, {"x": sequences}), 29.6)
    local = config.DynamicQuantConfig()
    local.set_local("make_query", config.DynamicQuantConfig(weight_type=QuantType.QUInt8))
    run(local, matmul_path, tmp_path)
    with pytest.raises(bitpress.UnsupportedError, match="DmlExecutionProvider.*StaticQuantConfig"):
        run(config.DynamicQuantConfig(execution_provider="DmlExecutionProvider"), matmul_path, tmp_path)


@pytest.mark.integers
def test_the_weight_only_examples(tmp_path, matmul_path, sequences):
    x, reader = {"x": sequences}, DataReader(sequences, "x")
    rtn = run(config.RTNConfig(weight_bits=4, weight_sym=False), matmul_path, tmp_path)
    assert operators(rtn)["com.microsoft::MatMulNBits"] == 2
    plain = loss(matmul_path, rtn, x)
    assert is_as_measured(plain, 13.5)
    gptq = config.GPTQConfig(weight_bits=4, weight_dtype="int", weight_sym=False, weight_group_size=32)
    assert loss(matmul_path, run(gptq, matmul_path, tmp_path, calibration_data_reader=reader), x) > plain
    awq = config.AWQConfig(weight_sym=False, calibration_data_reader=reader)
    assert loss(matmul_path, run(awq, matmul_path, tmp_path), x) > plain
    eight = run(config.RTNConfig(weight_bits=8, weight_group_size=-1, quant_format=QuantFormat.QDQ), matmul_path, tmp_path)
    assert is_as_measured(loss(matmul_path, eight, x), 34.6) and not any("microsoft" in name for name in operators(eight))


@pytest.mark.parametrize("made, settings", [
    (config.AWQConfig(), {"finetune": "awq+clip_search+bias_correction"}),
    (config.AWQConfig(enable_mse_search=False), {"finetune": "awq+bias_correction"}),
    (config.AWQConfig(enable_auto_scale=False), {"finetune": "clip_search+bias_correction"}),
    (config.AWQConfig(enable_auto_scale=False, enable_mse_search=False), {}),
    (config.GPTQConfig(), {"finetune": "gptq", "finetune_ridge": 0.01}),
    (config.GPTQConfig(percdamp=0.1, actorder=False), {"finetune": "gptq", "finetune_ridge": 0.1, "finetune_activation_order": False}),
    (config.RTNConfig(), {}),
])
def test_what_is_learned(made, settings, matmul_path):
    found = translate(made, matmul_path).settings
    assert {key: value for key, value in found.items() if key.startswith("finetune")} == settings
    assert "smooth_quant" not in found


def test_all_that_a_reader_gives_is_learned_from(tmp_path, matmul_path, sequences):
    many = np.concatenate([sequences * scale for scale in (1, 0.5, 2, 1.5)])  # 128
    made = [run(config.GPTQConfig(), matmul_path, tmp_path, calibration_data_reader=DataReader(rows, "x")).read_bytes()
            for rows in (many, many[:100])]
    mine = bitpress.quantize_to_bytes(matmul_path, "INT4_WEIGHTS", DataReader(many, "x"), finetune="gptq", weight_range="min_max")[0]
    assert made[0] != made[1]
    first = bitpress.quantize_to_bytes(matmul_path, "INT4_WEIGHTS", DataReader(many[:100], "x"), finetune="gptq", weight_range="min_max")[0]
    assert mine == first  # Bitpress itself takes 100 unless it is told


def test_local_settings(tmp_path, matmul_path):
    general = config.RTNConfig(weight_bits=4).set_local("make_q.*", config.RTNConfig(weight_dtype="fp32"))
    assert operators(run(general, matmul_path, tmp_path))["com.microsoft::MatMulNBits"] == 1
    general = config.RTNConfig(weight_dtype="fp32").set_local("MatMul", config.RTNConfig(weight_bits=8, weight_group_size=16))
    path = run(general, matmul_path, tmp_path)
    assert any("int8" in constant.format for constant in bitpress.inspect(path).constants)
    static = config.StaticQuantConfig(DataReader(np.ones((2, 12, 48), np.float32), "x"), quant_format=QuantFormat.QDQ)
    static.set_local("MatMul", config.OperatorConfig(weight_type=QuantType.QUInt8, weight_sym=False, per_channel=True))
    assert run(static, matmul_path, tmp_path)
    with pytest.raises(bitpress.ArgumentTypeError, match="weight-only"):
        run(config.RTNConfig().set_local("MatMul", config.StaticQuantConfig()), matmul_path, tmp_path)


def two_products(path):
    """A MatMul with an Add, which preparation joins to a Gemm, then a Gemm."""
    rng = np.random.default_rng(8)
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (("a", (16, 16)), ("b", (16,)), ("c", (16, 16)))}
    nodes = [onnx.helper.make_node("MatMul", ["x", "a"], ["product"], name="first"),
             onnx.helper.make_node("Add", ["product", "b"], ["sum"], name="add"),
             onnx.helper.make_node("Gemm", ["sum", "c"], ["y"], name="second")]
    io = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 16]) for name in ("x", "y")]
    graph = onnx.helper.make_graph(nodes, "two", io[:1], io[1:], [onnx.numpy_helper.from_array(w, n) for n, w in weights.items()])
    return models.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def test_words_that_select_nothing_are_passed_over_with_a_notice(tmp_path):
    model = two_products(tmp_path / "two.onnx")

    def quantized(**fields):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            path = run(config.DynamicQuantConfig(**fields), model, tmp_path)
        said = [str(warning.message) for warning in caught if issubclass(warning.category, Notice) and "passed over" in str(warning.message)]
        return {name for name in ("a", "c") if f"{name}_codes" in {weight.name for weight in bitpress.inspect(path).constants}}, said

    both = {"a", "c"}
    assert quantized() == (both, [])
    assert quantized(op_types_to_quantize=["MatMul", "Gemm"]) == (both, [])
    assert quantized(nodes_to_quantize=["first", "add", "second"]) == (both, [])
    # The Gemm that was a MatMul is one.
    assert quantized(op_types_to_quantize=["MatMul"]) == ({"a"}, [])
    left, said = quantized(op_types_to_quantize=["MatMul", "Gemm", "Attention"], nodes_to_exclude=["second", "secnd"])
    assert left == {"a"} and len(said) == 2
    assert "'Attention' matches no operator type" in said[0] and "did you mean 'second'" in said[1]
    left, said = quantized(nodes_to_quantize=["frst"])
    assert not left and "did you mean 'first'" in said[0]
    # The last MatMul is that of the given file.
    assert quantized(quant_last_matmul=False) == ({"c"}, [])


def test_a_model_of_products_only_is_not_too_little(tmp_path):
    rng = np.random.default_rng(8)
    io = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 32]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "one", io[:1], io[1:],
                                   [onnx.numpy_helper.from_array(rng.standard_normal((32, 32)).astype(np.float32), "w")])
    model = models.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "one.onnx")
    assert operators(run(config.RTNConfig(), model, tmp_path)) == {"com.microsoft::MatMulNBits": 1}


def test_autotune_takes_the_first_that_is_good_enough(tmp_path, matmul_path, sequences):
    tried = []
    wanted = outputs(matmul_path, {"x": sequences})[0]

    def evaluate(path, scale):
        tried.append(path)
        error = np.square(outputs(path, {"x": sequences})[0] - wanted).sum() / np.square(wanted).sum()
        return scale * (1 - error)

    configs = [config.RTNConfig(weight_bits=[2, 8], weight_group_size=16), config.GPTQConfig()]
    made = neural_compressor.quantization.autotune(str(matmul_path), tuning.TuningConfig(configs, tolerable_loss=0.01), evaluate, [100],
                                                   DataReader(sequences, "x"))
    assert len(tried) == 3  # the float model, 2 bits, 8 bits
    eight = quantize(str(matmul_path), None, config.RTNConfig(weight_bits=8, weight_group_size=16))
    assert made.SerializeToString() == eight.SerializeToString()
    tried.clear()
    best = tuning.autotune(str(matmul_path), tuning.TuningConfig(configs, tolerable_loss=-1, max_trials=2), evaluate, [100])
    assert len(tried) == 3 and best.SerializeToString() == eight.SerializeToString()
    assert len(tuning.TuningConfig(config.get_woq_tuning_config()).config_set) == 5
    assert len(tuning.TuningConfig(config.RTNConfig.get_config_set_for_tuning()).config_set) == 4


def test_providers(monkeypatch, tmp_path, conv_path, images):
    assert _providers.auto_detect_ep() in _providers.DEVICES
    offered = ["CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: offered)
    assert _providers.available() == ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
    offered.append("DmlExecutionProvider")
    assert neural_compressor.utility.auto_detect_ep() == "DmlExecutionProvider"
    path = run(config.StaticQuantConfig(DataReader(images, "image"), quant_format=QuantFormat.QDQ,
                                        execution_provider="TensorrtExecutionProvider"), conv_path, tmp_path)
    codes = [constant for constant in bitpress.inspect(path).constants if constant.name.endswith("_zero_point")]
    assert codes and {constant.format for constant in codes} <= {"INT8", "INT32"}
    for provider, error, text in [("DmlExecutionProvider", bitpress.UnsupportedError, "batch size of input 'image' is free"),
                                  ("GPU", bitpress.InvalidArgumentError, "no execution provider 'GPU'")]:
        with pytest.raises(error, match=text):
            run(config.StaticQuantConfig(DataReader(images, "image"), execution_provider=provider), conv_path, tmp_path)
    fixed = onnx.load(conv_path)
    fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    fixed.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 1
    assert run(config.StaticQuantConfig(DataReader(images, "image"), execution_provider="DmlExecutionProvider"),
               models.save(fixed, tmp_path / "fixed.onnx"), tmp_path)


def test_tensorrt_reads_pairs(monkeypatch, tmp_path, conv_path, images):
    reader = DataReader(images, "image")
    path = run(config.StaticQuantConfig(reader, execution_provider="TensorrtExecutionProvider"), conv_path, tmp_path)
    assert operators(path)["QuantizeLinear"] > 3 and "QLinearConv" not in operators(path)
    with pytest.warns(Notice, match="quant_format=QOperator: TensorRT reads pairs"):
        translate(config.StaticQuantConfig(reader, quant_format=QuantFormat.QOperator, execution_provider="TensorrtExecutionProvider"), conv_path)
    offered = ["CPUExecutionProvider", "TensorrtExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: offered)
    assert translate(config.StaticQuantConfig(reader), conv_path).arguments["form"] == "qdq"


@pytest.mark.quick
def test_what_a_local_configuration_says_holds_or_is_named(matmul_path):
    static = config.StaticQuantConfig(extra_options={"Percentile": 99.5})
    own = {"ActivationSymmetric": True, "WeightSymmetric": False, "Percentile": 99}
    local = config.StaticQuantConfig(activation_type=QuantType.QInt8, calibrate_method=neural_compressor._enums.CalibrationMethod.Percentile,
                                     reduce_range=True, extra_options=own)
    (rule,) = translate(static.set_local("make_query", local), matmul_path).rules
    assert (rule["activation_symmetric"], rule["weight_symmetric"], rule["reduce_range"]) == (True, False, True)
    assert rule["activation_range"] == "percentile(99)"
    for options, text in [({"quant_format": QuantFormat.QDQ}, "set_local: quant_format=.* holds for the whole model"),
                          ({"extra_options": {"AddQDQPairToWeight": True}}, "set_local, extra_options: AddQDQPairToWeight=True")]:
        with pytest.warns(Notice, match=text):
            translate(config.StaticQuantConfig().set_local("make_query", config.StaticQuantConfig(**options)), matmul_path)
    smooth = config.StaticQuantConfig(extra_options={"SmoothQuant": True})
    with pytest.raises(bitpress.UnsupportedError, match="set_local, extra_options: SmoothQuant=True is refused"):
        translate(config.StaticQuantConfig().set_local("make_query", smooth), matmul_path)
    with pytest.raises(bitpress.ArgumentTypeError, match="not SmoothQuantConfig"):
        translate(config.StaticQuantConfig().set_local("make_query", config.SmoothQuantConfig()), matmul_path)
    with pytest.warns(Notice, match="set_local: accuracy_level=4 changes nothing here"):
        translate(config.RTNConfig().set_local("make_query", config.RTNConfig(weight_bits=8, accuracy_level=4)), matmul_path)
    with pytest.warns(Notice, match="GPTQConfig sets formats only"):
        translate(config.RTNConfig().set_local("make_query", config.GPTQConfig(weight_bits=8)), matmul_path)
    dynamic = config.DynamicQuantConfig(weight_type=QuantType.QUInt8, extra_options={"WeightSymmetric": False})
    (rule,) = translate(config.DynamicQuantConfig().set_local("make_query", dynamic), matmul_path).rules
    assert (rule["weights"], rule["weight_symmetric"]) == ("uint8", False)


def test_what_a_dynamic_configuration_cannot_do_is_said(matmul_path):
    for options, text in [({"quant_format": QuantFormat.QDQ}, "quant_format=.*DynamicQuantizeLinear and integer operators"),
                          ({"extra_options": {"ActivationSymmetric": True}}, "ActivationSymmetric=True changes nothing"),
                          ({"extra_options": {"SmoothQuantAlpha": 0.4}}, "SmoothQuantAlpha=0.4 changes nothing.*needs samples")]:
        with pytest.warns(Notice, match=text):
            translate(config.DynamicQuantConfig(**options), matmul_path)
    with pytest.raises(bitpress.UnsupportedError, match="SmoothQuant=True is refused.*Instead: SmoothQuantConfig"):
        translate(config.DynamicQuantConfig(extra_options={"SmoothQuant": True}), matmul_path)
    for quant_format in (QuantFormat.QOperator, ort.QuantFormat.QOperator):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            config.DynamicQuantConfig(quant_format=quant_format)


def test_advice_where_there_is_no_vnni(monkeypatch, matmul_path):
    from bitpress.compat.neural_compressor import _translate
    monkeypatch.setattr(_translate, "saturates_products", lambda: True)
    with pytest.warns(Notice, match="no VNNI.*reduce_range=True"):
        translate(config.StaticQuantConfig(), matmul_path)
    monkeypatch.setattr(_translate, "saturates_products", lambda: False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translate(config.StaticQuantConfig(), matmul_path)
        monkeypatch.setattr(_translate, "saturates_products", lambda: True)
        translate(config.StaticQuantConfig(reduce_range=True), matmul_path)
        translate(config.StaticQuantConfig(activation_type=QuantType.QInt8), matmul_path)


def test_every_word_has_its_fate(conv_path):
    for title, words in _words.TABLES.items():
        for word in words.values():
            assert (word.fate is Fate.REFUSED) == bool(word.nearest), (title, word.name)
    classes = [config.StaticQuantConfig, config.DynamicQuantConfig, config.SmoothQuantConfig, config.RTNConfig, config.GPTQConfig,
               config.AWQConfig]
    for kind in classes:
        assert set(kind.defaults) == set(kind.words), kind
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kind()
        for word in kind.words.values():
            if word.fate is Fate.REFUSED:
                with pytest.raises(bitpress.UnsupportedError, match=f"{word.name}='other' is refused"):
                    kind(**{word.name: "other"})
            elif word.fate is Fate.NOTICE:
                with pytest.warns(Notice, match=f"{word.name}='other' changes nothing"):
                    kind(**{word.name: "other"})
        with pytest.raises(bitpress.InvalidArgumentError, match="did you mean"):
            kind(quant_formats="QDQ")
    with pytest.raises(bitpress.UnsupportedError, match="weight_bits=3 is refused.*Instead: (2|4)"):
        quantize(str(conv_path), None, config.RTNConfig(weight_bits=3))


def test_public_names_are_there():
    for module in ("", ".config", ".data_reader", ".quantization", ".quantization.config", ".quantization.tuning", ".utility"):
        found = importlib.import_module("bitpress.compat.neural_compressor" + module)
        assert all(hasattr(found, name) for name in found.__all__)
