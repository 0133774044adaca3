"""ONNX Runtime's quantization tool by Bitpress, as docs/migrate_onnxruntime.md translates its words, for its own test suite."""

import re
import sys
import types

import onnx
import onnxruntime.quantization
from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType
from onnxruntime.quantization.onnx_model import ONNXModel

import bitpress
from bitpress.compat import _numbers

_TYPES = {"QInt8": "int8", "QUInt8": "uint8", "QInt16": "int16", "QUInt16": "uint16", "QInt4": "int4", "QUInt4": "uint4", "QInt2": "int2",
          "QUInt2": "uint2", "QFLOAT8E4M3FN": "fp8_e4m3"}
# Tests also give members of TensorProto.
_NUMBERS = {2: "QUInt8", 3: "QInt8", 4: "QUInt16", 5: "QInt16", 17: "QFLOAT8E4M3FN", 21: "QUInt4", 22: "QInt4"}
_RANGES = {"MinMax": "min_max", "Entropy": "entropy", "Percentile": "percentile(99.999)", "Distribution": "min_max"}
# These settings do what ONNX Runtime's functions do.
_PLAIN = {"equalize": False, "guard": "off", "integer_kernels": "vnni"}


def _name(quant_type):
    return _NUMBERS[quant_type] if isinstance(quant_type, int) else quant_type.name


def _rules(op_types, nodes, excluded):
    selected = {"not_op_types": op_types, "not_names": nodes, "names": excluded}
    return [{selector: list(words), "exclude": True, "optional": True} for selector, words in selected.items() if words]


def _overrides(given):
    """Rules for the types of single tensors."""
    rules = []
    for tensor, (first, *others) in (given or {}).items():
        rule = {"tensors": [re.escape(tensor)], "optional": True}
        if "quant_type" in first:
            rule.update(activations=_TYPES[_name(first["quant_type"])], weights=_TYPES[_name(first["quant_type"])])
        if "symmetric" in first:
            rule.update(activation_symmetric=first["symmetric"], weight_symmetric=first["symmetric"])
        if others or "axis" in first:
            rule["weight_granularity"] = "per_axis"
        if len(rule) > 2:
            rules.append(rule)
    return rules


def _write(model_input, model_output, config, data, overrides=None, rules=(), form="qdq", external_data=False, **settings):
    numbers = {tensor: given for tensor, given in (overrides or {}).items() if _numbers.check(given, f"TensorQuantOverrides['{tensor}']")}
    arguments = {"config": config, "rules": rules, **settings}
    if numbers:
        arguments = {"plan": _numbers.give(bitpress.plan(model_input, config, rules=rules, **settings), numbers, "TensorQuantOverrides")}
    bitpress.quantize(model_input, str(model_output), data=data, check=False, form=form, external_data=external_data, **arguments)


def quantize_static(model_input, model_output, calibration_data_reader, quant_format=QuantFormat.QDQ, op_types_to_quantize=None,
                    per_channel=False, reduce_range=False, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                    nodes_to_quantize=None, nodes_to_exclude=None, use_external_data_format=False,
                    calibrate_method=CalibrationMethod.MinMax, calibration_cache_path=None, calibration_providers=None, extra_options=None):
    extra = extra_options or {}
    signed = _name(weight_type) in ("QInt8", "QInt16", "QInt4", "QInt2", "QFLOAT8E4M3FN")
    settings = {**_PLAIN, "activations": _TYPES[_name(activation_type)], "weights": _TYPES[_name(weight_type)],
                "activation_symmetric": bool(extra.get("ActivationSymmetric", False)), "weight_symmetric": bool(extra.get("WeightSymmetric", signed)),
                "weight_granularity": "per_axis" if per_channel else "per_tensor", "reduce_range": reduce_range,
                "activation_range": "moving_average" if extra.get("CalibMovingAverage") else _RANGES[calibrate_method.name]}
    if extra.get("ForceQuantizeNoInputCheck"):
        settings["placement"] = "all"
    if extra.get("QuantizeBias") is False:
        settings["biases"] = "none"
    if extra.get("SmoothQuant"):
        settings["smooth_quant"] = extra.get("SmoothQuantAlpha", 0.5)
    rules = [*_rules(op_types_to_quantize, nodes_to_quantize, nodes_to_exclude), *_overrides(extra.get("TensorQuantOverrides"))]
    _write(model_input, model_output, "INT8", calibration_data_reader, extra.get("TensorQuantOverrides"), rules=rules, external_data=use_external_data_format,
           form="qoperator" if quant_format == QuantFormat.QOperator else "qdq", **settings)


def quantize_dynamic(model_input, model_output, op_types_to_quantize=None, per_channel=False, reduce_range=False,
                     weight_type=QuantType.QInt8, nodes_to_quantize=None, nodes_to_exclude=None, use_external_data_format=False,
                     extra_options=None):
    signed = _name(weight_type) in ("QInt8", "QInt16")
    settings = {**_PLAIN, "weights": _TYPES[_name(weight_type)], "weight_symmetric": bool((extra_options or {}).get("WeightSymmetric", signed)),
                "weight_granularity": "per_axis" if per_channel else "per_tensor", "reduce_range": reduce_range}
    _write(model_input, model_output, "INT8_DYNAMIC", None, rules=_rules(op_types_to_quantize, nodes_to_quantize, nodes_to_exclude),
           external_data=use_external_data_format, **settings)


class _Algorithm:
    """The configuration of an algorithm: its name, and its arguments as attributes."""

    algorithm = "DEFAULT"

    def __init__(self, calibration_data_reader=None, **options):
        self.calibration_data_reader, self.options = calibration_data_reader, options


class MatMulNBitsQuantizer:
    def __init__(self, model, block_size=128, is_symmetric=False, accuracy_level=None, nodes_to_exclude=None, quant_format=QuantFormat.QOperator,
                 op_types_to_quantize=None, quant_axes=None, algo_config=None, bits=4, **options):
        given = getattr(algo_config, "options", {})
        self.model, self.algorithm = model, algo_config
        self.settings = {"weights": f"{'int' if given.get('is_symmetric', is_symmetric) else 'uint'}{given.get('bits', bits)}",
                         "weight_symmetric": given.get("is_symmetric", is_symmetric), "weight_block_size": given.get("block_size", block_size)}
        types = set(given.get("op_types_to_quantize") or op_types_to_quantize or ("MatMul",))
        if "Gather" in types:
            self.settings["embeddings"] = self.settings["weights"]
        self.rules = _rules(sorted(types), None, nodes_to_exclude)
        self.target = "portable" if given.get("quant_format", quant_format) == QuantFormat.QDQ else "onnxruntime"
        self.level = 4 if given.get("accuracy_level", accuracy_level) == 4 else 1
        if getattr(algo_config, "algorithm", "") == "GPTQ":
            self.settings["finetune"] = "gptq"
        if getattr(algo_config, "algorithm", "") == "HQQ":
            self.settings["weight_range"] = "mse"

    def process(self):
        model = self.model.model if isinstance(self.model, ONNXModel) else self.model
        content, _ = bitpress.quantize_to_bytes(model, "MATMUL_NBITS", getattr(self.algorithm, "calibration_data_reader", None), check=False,
                                                target=self.target, accuracy_level=self.level, rules=self.rules, **self.settings)
        calls_of_products()
        self.model = ONNXModel(onnx.load_from_string(content))


def calls_of_products():
    """Notes that a quantizer of products ran: the plugin counts calls of functions."""


def install():
    """Puts the functions into ONNX Runtime's modules, and returns their names."""
    here = sys.modules[__name__]
    names = ("quantize_static", "quantize_dynamic")
    for module in (onnxruntime.quantization, onnxruntime.quantization.quantize):
        for name in names:
            setattr(module, name, lambda *arguments, name=name, **options: getattr(here, name)(*arguments, **options))
    for bits in ("nbits", "4bits"):
        module = types.ModuleType(f"onnxruntime.quantization.matmul_{bits}_quantizer")
        module.MatMulNBitsQuantizer = module.MatMul4BitsQuantizer = MatMulNBitsQuantizer
        for algorithm in ("Default", "RTN", "GPTQ", "HQQ", "KQuant"):
            setattr(module, f"{algorithm}WeightOnlyQuantConfig", type(f"{algorithm}WeightOnlyQuantConfig", (_Algorithm,), {"algorithm": algorithm.upper()}))
        sys.modules[module.__name__] = module
        setattr(onnxruntime.quantization, module.__name__.rsplit(".", 1)[-1], module)
    return (*names, "calls_of_products")
