"""Wrong uses of ONNX Neural Compressor's interface: each is an error of ours that names the script's word."""

import onnxruntime
import pytest
from package_helpers import Rewinding

import bitpress
from bitpress.compat.neural_compressor import config
from bitpress.compat.neural_compressor.quantization import QuantFormat, QuantType, autotune, matmul_4bits_quantizer, quantize, tuning
from bitpress.compat.neural_compressor.quantization import matmul_nbits_quantizer as nbits

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("one_thread")]

STATIC, DYNAMIC, SMOOTH = config.StaticQuantConfig, config.DynamicQuantConfig, config.SmoothQuantConfig
RTN, GPTQ, AWQ = config.RTNConfig, config.GPTQConfig, config.AWQConfig
# (what is made, the options, what the error says). The class is the script's; the word is its own.
OPTIONS = [
    *[(kind, {word: value}, f"{kind.__name__}: {word}={shown}.*; expected {expected}") for kind, word, value, shown, expected in [
        (STATIC, "calibration_data_reader", 5, "5", "a reader with get_next"),
        (STATIC, "calibration_data_reader", True, "True", "a reader with get_next"),
        (STATIC, "calibrate_method", "minmax", "'minmax'", "one of 'MinMax', 'Entropy', 'Percentile'"),
        (STATIC, "calibrate_method", 1, "1", "one of 'MinMax'"),
        (STATIC, "quant_format", "qdq", "'qdq'", "one of 'QOperator', 'QDQ'"),
        (STATIC, "quant_format", 7, "7", "one of 'QOperator', 'QDQ'"),
        (STATIC, "quant_format", QuantType.QInt8, "<QuantType.QInt8: 0>", "one of 'QOperator', 'QDQ'"),
        (STATIC, "activation_type", "int8", "'int8'", "one of 'QInt8', 'QUInt8'"),
        (STATIC, "activation_type", QuantFormat.QDQ, "<QuantFormat.QDQ: 1>", "one of 'QInt8'"),
        (STATIC, "weight_type", 8, "8", "one of 'QInt8'"),
        (STATIC, "weight_type", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, ".*", "one of 'QInt8'"),
        (STATIC, "op_types_to_quantize", "Conv", "'Conv'", "a list, each a text"),
        (STATIC, "op_types_to_quantize", ["Conv", 3], r"\['Conv', 3\]", "a list, each a text"),
        (STATIC, "nodes_to_quantize", "stem", "'stem'", "a list, each a text"),
        (STATIC, "nodes_to_exclude", {"stem": 1}, ".*", "a list, each a text"),
        (STATIC, "per_channel", "yes", "'yes'", "True or False"),
        (STATIC, "per_channel", 2, "2", "True or False"),
        (STATIC, "per_channel", ["yes"], "'yes'", "True or False"),
        (STATIC, "reduce_range", "no", "'no'", "True or False"),
        (STATIC, "use_external_data_format", 2, "2", "True or False"),
        (STATIC, "extra_options", "int8", "'int8'", "a dict"),
        (STATIC, "extra_options", [("WeightSymmetric", True)], ".*", "a dict"),
        (STATIC, "calibration_sampling_size", -1, "-1", "a whole number of at least 1"),
        (STATIC, "calibration_sampling_size", "all", "'all'", "a whole number of at least 1"),
        (STATIC, "calibration_sampling_size", 2.5, "2.5", "a whole number of at least 1"),
        (STATIC, "calibration_sampling_size", True, "True", "a whole number of at least 1"),
        (STATIC, "quant_last_matmul", "False", "'False'", "True or False"),
        (STATIC, "execution_provider", 3, "3", "a text"),
        (STATIC, "execution_provider", ["CPUExecutionProvider"], ".*", "a text"),
        (STATIC, "white_list", "MatMul", "'MatMul'", "a list, each a text"),
        (DYNAMIC, "weight_type", "QInt32", "'QInt32'", "one of 'QInt8'"),
        (DYNAMIC, "per_channel", None.__class__, ".*", "True or False"),
        (DYNAMIC, "nodes_to_exclude", 4, "4", "a list, each a text"),
        (SMOOTH, "alpha", "half", "'half'", "a number of at least 0 and at most 1, or 'auto'"),
        (SMOOTH, "alpha", 1.5, "1.5", "a number of at least 0 and at most 1"),
        (SMOOTH, "alpha", [0.5, -1], "-1", "a number of at least 0 and at most 1"),
        (SMOOTH, "alpha", True, "True", "a number of at least 0 and at most 1"),
        (RTN, "weight_bits", "4", "'4'", "a whole number from 1 to 8"),
        (RTN, "weight_bits", 4.0, "4.0", "a whole number from 1 to 8"),
        (RTN, "weight_bits", 16, "16", "a whole number from 1 to 8"),
        (RTN, "weight_bits", [4, 0], "0", "a whole number from 1 to 8"),
        (RTN, "weight_dtype", "int4", "'int4'", "one of 'int', 'uint', 'fp32'"),
        (RTN, "weight_dtype", QuantType.QInt8, ".*", "one of 'int', 'uint', 'fp32'"),
        (RTN, "weight_group_size", 0, "0", "a whole number of at least 1, or -1"),
        (RTN, "weight_group_size", -2, "-2", "a whole number of at least 1, or -1"),
        (RTN, "weight_group_size", "32", "'32'", "a whole number of at least 1, or -1"),
        (RTN, "weight_sym", "sym", "'sym'", "True or False"),
        (RTN, "accuracy_level", 9, "9", "a whole number from 0 to 4"),
        (RTN, "accuracy_level", "int8", "'int8'", "a whole number from 0 to 4"),
        (RTN, "nodes_to_exclude", "head", "'head'", "a list, each a text"),
        (RTN, "white_list", ["MatMul", None], ".*", "a list, each a text"),
        (RTN, "quant_format", "QNN", "'QNN'", "one of 'QOperator', 'QDQ'"),
        (GPTQ, "percdamp", -0.1, "-0.1", "a number of at least 0 and at most 1"),
        (GPTQ, "percdamp", "1%", "'1%'", "a number of at least 0 and at most 1"),
        (GPTQ, "actorder", 3, "3", "True or False"),
        (GPTQ, "mse", "on", "'on'", "True or False"),
        (AWQ, "enable_auto_scale", 0.5, "0.5", "True or False"),
        (AWQ, "enable_mse_search", "auto", "'auto'", "True or False"),
        (AWQ, "calibration_data_reader", 0.5, "0.5", "a reader with get_next"),
    ]],
    *[(STATIC, {"extra_options": {word: value}}, f"extra_options: {word}={value!r}.*; expected {expected}") for word, value, expected in [
        ("ActivationSymmetric", "yes", "True or False"), ("WeightSymmetric", 2, "True or False"), ("SmoothQuant", "True", "True or False"),
        ("SmoothQuantAlpha", 2, "a number of at least 0 and at most 1"), ("Percentile", "99", "a number of at least 0 and at most 100"), ("Percentile", 101, "a number of at least 0")]],
    (RTN, {"bits": 4}, "RTNConfig has no 'bits'"),
    (RTN, {"weight_bit": 4}, "RTNConfig has no 'weight_bit'; did you mean 'weight_bits'"),
    (STATIC, {"extra_option": {}}, "StaticQuantConfig has no 'extra_option'; did you mean 'extra_options'"),
    (RTN, {"act_dtype": "int8"}, "RTNConfig: act_dtype='int8' is refused.*Instead: StaticQuantConfig"),
    (config.OperatorConfig, {"weight_type": "int8"}, "OperatorConfig: weight_type='int8'.*; expected one of 'QInt8'"),
    (config.OperatorConfig, {"per_channel": "yes"}, "OperatorConfig: per_channel='yes'.*; expected True or False"),
    (config.ComposableConfig, {"configs": [5]}, r"ComposableConfig: configs=\[5\]: expected a list of configurations"),
    (tuning.TuningConfig, {"config_set": 5}, "TuningConfig: config_set is int; expected"),
    (tuning.TuningConfig, {"config_set": [RTN(), "gptq"]}, "TuningConfig: config_set is str; expected"),
    (tuning.TuningConfig, {"max_trials": 0}, "TuningConfig: max_trials=0.*; expected a whole number of at least 1"),
    (tuning.TuningConfig, {"max_trials": "many"}, "TuningConfig: max_trials='many' is str; expected"),
    (tuning.TuningConfig, {"tolerable_loss": "1%"}, "TuningConfig: tolerable_loss='1%'.*; expected a number"),
    (nbits.RTNWeightOnlyQuantConfig, {"ratio": {}}, "RTNWeightOnlyQuantConfig has no 'ratio'; did you mean 'ratios'"),
    (nbits.GPTQWeightOnlyQuantConfig, {"percdamp": 2}, "GPTQWeightOnlyQuantConfig: percdamp=2.*; expected a number of at least 0 and at most 1"),
    (nbits.GPTQWeightOnlyQuantConfig, {"calibration_data_reader": 1}, "calibration_data_reader=1.*; expected a reader"),
    (nbits.AWQWeightOnlyQuantConfig, {"quant_format": "qdq"}, "AWQWeightOnlyQuantConfig: quant_format='qdq'.*; expected one of 'QOperator', 'QDQ'"),
    *[(nbits.MatMulNBitsQuantizer, {"model": "m.onnx", word: value}, f"MatMulNBitsQuantizer: {text}") for word, value, text in [
        ("block_size", 0, "block_size=0.*; expected a whole number"), ("block_size", "32", "block_size='32'.*; expected a whole number"),
        ("is_symmetric", "yes", "is_symmetric='yes'.*; expected True or False"), ("is_signed", 2, "is_signed=2.*; expected True or False"),
        ("accuracy_level", 5, "accuracy_level=5.*; expected a whole number from 0 to 4"), ("nodes_to_exclude", "head", "nodes_to_exclude='head'"),
        ("n_bits", "4", "n_bits='4'.*; expected a whole number"), ("n_bits", 32, "n_bits=32.*; expected a whole number from 1 to 8"),
        ("algo_config", 5, "algo_config is int; expected one of RTNWeightOnlyQuantConfig"),
        ("algo_config", nbits.WeightOnlyQuantConfig("KQuant"), "algo_config with algorithm='KQuant' is refused.*Instead: one of RTN")]],
    (matmul_4bits_quantizer.MatMul4BitsQuantizer, {"model": "m.onnx", "block_size": 1.5}, "MatMul4BitsQuantizer: block_size=1.5 is float; expected"),
]


@pytest.mark.quick
@pytest.mark.parametrize("kind, options, text", OPTIONS)
def test_values_are_checked_where_they_are_given(kind, options, text):
    with pytest.raises(bitpress.Error, match=text):
        kind(**options)


def reader(images):
    return Rewinding(images, "image")


# What is done with a model of convolutions, samples and a folder, and what the error says.
DONE = {
    "positions": (lambda m, x, d: RTN(*range(30)), "RTNConfig takes 14 arguments at most, not 30"),
    "twice": (lambda m, x, d: RTN("int", weight_dtype="uint"), "RTNConfig: weight_dtype is given twice"),
    "algorithm_twice": (lambda m, x, d: nbits.RTNWeightOnlyQuantConfig({}, ratios={}), "RTNWeightOnlyQuantConfig: ratios is given twice"),
    "attribute": (lambda m, x, d: setattr(RTN(), "weight_bits", "four"), "RTNConfig: weight_bits='four'.*; expected a whole number"),
    "item": (lambda m, x, d: RTN()["weight_bit"], "RTNConfig has no 'weight_bit'; did you mean 'weight_bits'"),
    "set_item": (lambda m, x, d: RTN().__setitem__("weight_bit", 4), "RTNConfig has no 'weight_bit'"),
    "local_name": (lambda m, x, d: RTN().set_local(5, RTN()), "set_local: operator_name=5"),
    "local_expression": (lambda m, x, d: RTN().set_local("fc(", RTN()), r"set_local: operator_name='fc\(' is no regular expression"),
    "local_config": (lambda m, x, d: RTN().set_local("fc", {"weight_bits": 8}), r"set_local\('fc'\): config is dict"),
    "sum": (lambda m, x, d: RTN() + 5, r"RTNConfig \+ int: expected another configuration"),
    "sums": (lambda m, x, d: config.ComposableConfig([RTN()]) + None, r"ComposableConfig \+ NoneType"),
    "from_dict": (lambda m, x, d: RTN.from_dict("rtn"), "RTNConfig.from_dict: config_dict='rtn'.*; expected a dict"),
    "from_dict_key": (lambda m, x, d: RTN.from_dict({"global": {}, "locals": {}}), "RTNConfig.from_dict has no 'locals'; did you mean 'local'"),
    "from_dict_local": (lambda m, x, d: RTN.from_dict({"local": {"fc": 8}}), "RTNConfig.from_dict, local: fc=8.*; expected a dict"),
    "from_dict_value": (lambda m, x, d: RTN.from_dict({"local": {"fc": {"weight_bits": "8"}}}), "weight_bits='8'.*; expected a whole number"),
    "from_dict_operator": (lambda m, x, d: STATIC.from_dict({"local": {"Conv": {"weight_sym": True, "bits": 8}}}), "OperatorConfig has no 'bits'"),
    "composable": (lambda m, x, d: config.ComposableConfig.from_dict({}), "ComposableConfig.from_dict: config_dict is empty"),
    "composable_name": (lambda m, x, d: config.ComposableConfig.from_dict({"rtm": {}}), "ComposableConfig.from_dict has no 'rtm'; did you mean 'rtn'"),
    "json_file": (lambda m, x, d: RTN.from_json_file(d / "none.json"), "there is no filename '.*none.json'"),
    "json": (lambda m, x, d: RTN.from_json_file(m), "RTNConfig.from_json_file: '.*' is not JSON"),
    "provider": (lambda m, x, d: STATIC.get_config_set_for_tuning(execution_provider="GPU"), "execution_provider='GPU': there is no"),
    "model": (lambda m, x, d: quantize(5, None, RTN()), "model_input is int; expected a path"),
    "no_model": (lambda m, x, d: quantize(str(d / "none.onnx"), None, RTN()), "there is no model_input '.*none.onnx'"),
    "output": (lambda m, x, d: quantize(m, 5, RTN()), "model_output is int; expected the path"),
    "config": (lambda m, x, d: quantize(m, None, None), "quant_config is NoneType; expected StaticQuantConfig"),
    "config_text": (lambda m, x, d: quantize(m, None, "rtn"), "quant_config is str; expected StaticQuantConfig"),
    "config_class": (lambda m, x, d: quantize(m, None, RTN), "quant_config is type; expected StaticQuantConfig"),
    "config_sum": (lambda m, x, d: quantize(m, None, RTN() + GPTQ()), "ComposableConfig of rtn, gptq is refused.*Instead: one configuration"),
    "list": (lambda m, x, d: quantize(m, None, RTN(weight_bits=[4, 8])), r"weight_bits=\[4, 8\] is list; expected .*lists of values are for tuning.autotune"),
    "level": (lambda m, x, d: quantize(m, None, RTN(), "BASIC"), "optimization_level='BASIC': expected one of ORT_DISABLE_ALL"),
    "no_reader": (lambda m, x, d: quantize(m, None, STATIC()), "StaticQuantConfig needs samples: calibration_data_reader is not given"),
    "no_reader_gptq": (lambda m, x, d: quantize(m, None, GPTQ()), "GPTQConfig needs samples: calibration_data_reader is not given"),
    "no_reader_awq": (lambda m, x, d: quantize(m, None, AWQ()), "AWQConfig needs samples: calibration_data_reader is not given"),
    "other_reader": (lambda m, x, d: quantize(m, None, STATIC(), calibration_data_reader=5), "calibration_data_reader=5.*; expected a reader"),
    "unknown_extra": (lambda m, x, d: quantize(m, None, STATIC(reader(x), extra_options={"WeightSymetric": True})),
                      "extra_options has no 'WeightSymetric'; did you mean 'WeightSymmetric'"),
    "bits": (lambda m, x, d: quantize(m, None, RTN(weight_bits=3)), "RTNConfig: weight_bits=3 is refused.*Instead: (2|4)"),
    "local_static": (lambda m, x, d: quantize(m, None, STATIC(reader(x)).set_local("Conv", RTN())), "set_local.*not RTNConfig"),
    "local_weights": (lambda m, x, d: quantize(m, None, RTN().set_local("Conv", STATIC())), "set_local.*not StaticQuantConfig"),
    "process": (lambda m, x, d: nbits.MatMulNBitsQuantizer("none.onnx").process(), "there is no model_input 'none.onnx'"),
    "process_reader": (lambda m, x, d: nbits.MatMulNBitsQuantizer(m, algo_config=nbits.GPTQWeightOnlyQuantConfig(None)).process(),
                       "needs samples: calibration_data_reader"),
    "tune_config": (lambda m, x, d: autotune(m, RTN(), len), "tune_config is RTNConfig; expected a TuningConfig"),
    "eval_fn": (lambda m, x, d: autotune(m, tuning.TuningConfig(RTN()), 5), "eval_fn is int; expected a function"),
    "eval_args": (lambda m, x, d: autotune(m, tuning.TuningConfig(RTN()), len, 5), "eval_args=5: expected a list"),
    "eval_none": (lambda m, x, d: autotune(m, tuning.TuningConfig(RTN()), lambda path: None), "eval_fn gave None; expected a number"),
    "eval_nan": (lambda m, x, d: autotune(m, tuning.TuningConfig(RTN()), lambda path: float("nan")), "eval_fn gave NaN"),
    "eval_level": (lambda m, x, d: autotune(m, tuning.TuningConfig(RTN()), len, optimization_level=99), "optimization_level=99: expected one of"),
    "sampler": (lambda m, x, d: autotune(m, tuning.TuningConfig(RTN(), sampler=5), len), "TuningConfig: sampler=5: expected a class"),
    "trials": (lambda m, x, d: autotune(m, tuning.TuningConfig([]), len), "there is no configuration to try"),
}


@pytest.mark.parametrize("do, text", DONE.values(), ids=DONE)
def test_the_rest_is_said_in_the_words_of_the_script(do, text, conv_path, images, tmp_path):
    with pytest.raises(bitpress.Error, match=text):
        do(str(conv_path), images, tmp_path)


def test_there_are_many():
    assert len(OPTIONS) + len(DONE) >= 130
