"""Quark's named configurations, in the words of its older and its newer interface."""

import copy
import difflib
from typing import Any, Dict, List, Mapping, Tuple

from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress.compat.quark import _types as t
from bitpress.compat.quark._algorithm_types import AdaQuantConfig, AdaRoundConfig

_FINE_TUNING = {"DataSize": 1000, "FixedSeed": 1705472343, "BatchSize": 2, "EarlyStop": True}
_ADAROUND = {**_FINE_TUNING, "OptimAlgorithm": "adaround", "NumIterations": 1000, "LearningRate": 0.1}
_ADAQUANT = {**_FINE_TUNING, "OptimAlgorithm": "adaquant", "NumIterations": 1000, "LearningRate": 1e-5}

_E = t.ExtendedQuantType
_MIN_MAX, _PERCENTILE = t.CalibrationMethod.MinMax, t.CalibrationMethod.Percentile
_MSE = t.PowerOfTwoMethod.MinMSE
_PLAIN, _EXTENDED = t.QuantFormat.QDQ, t.ExtendedQuantFormat.QDQ


def _micro(bits: int) -> Dict[str, Any]:
    return {"BFPAttributes": {"bfp_method": "to_bfp_prime", "axis": 1, "bit_width": bits, "block_size": 16, "sub_block_size": 2,
                              "sub_block_shift_bits": 1, "rounding_mode": 2}}


def _microscaling(element: str) -> Dict[str, Any]:
    return {"MXAttributes": {"element_dtype": element, "axis": 1, "block_size": 32, "rounding_mode": 2}}


_BFP16 = {"BFPAttributes": {"bfp_method": "to_bfp", "axis": 1, "bit_width": 16, "block_size": 8, "rounding_mode": 2}}
_ACCURATE = {"Percentile": 99.9999, "FastFinetune": _ADAROUND}
_BF16_MIXED = {"QuantizeBias": False, "CalibDataSize": 1, "ActivationSymmetric": True}
_VINT8 = {"ActivationSymmetric": True, "Int32Bias": False, "UseRandomData": True, "QuantizeAllOpTypes": True}

# name: activations, weights, calibration, format, extra options, other fields
_ROWS: Dict[str, Tuple[Any, Any, Any, Any, Dict[str, Any], Dict[str, Any]]] = {
    "UINT8_DYNAMIC_QUANT": (_E.QUInt8, _E.QUInt8, _MIN_MAX, _PLAIN, {"WeightSymmetric": False}, {"use_dynamic_quant": True}),
    "XINT8": (_E.QUInt8, _E.QInt8, _MSE, _PLAIN, {"ActivationSymmetric": True}, {"enable_npu_cnn": True}),
    "VINT8": (_E.QInt8, _E.QInt8, _MSE, _PLAIN, _VINT8, {"optimize_model": False}),
    "S8S8_AAWS": (_E.QInt8, _E.QInt8, _PERCENTILE, _PLAIN, {"ActivationSymmetric": False, "Percentile": 99.9999}, {}),
    "U8S8_AAWS": (_E.QUInt8, _E.QInt8, _PERCENTILE, _PLAIN, {}, {}),
    "U8U8_AAWA": (_E.QUInt8, _E.QUInt8, _PERCENTILE, _PLAIN, {"WeightSymmetric": False}, {}),
    "U16S8_AAWS": (_E.QUInt16, _E.QInt8, _PERCENTILE, _EXTENDED, {}, {}),
    "S16S8_ASWS": (_E.QInt16, _E.QInt8, _PERCENTILE, _EXTENDED, {"ActivationSymmetric": True}, {}),
    "A8W8": (_E.QInt8, _E.QInt8, _MIN_MAX, _EXTENDED, {"ActivationSymmetric": True}, {}),
    "A16W8": (_E.QInt16, _E.QInt8, _MIN_MAX, _EXTENDED, {"ActivationSymmetric": True, "AlignEltwiseQuantType": True}, {}),
    "FP16": (_E.QFloat16, _E.QFloat16, _MIN_MAX, _EXTENDED, {}, {}),
    "BF16": (_E.QBFloat16, _E.QBFloat16, _MIN_MAX, _EXTENDED, {"QuantizeAllOpTypes": True}, {}),
    "BFP16": (_E.QBFP, _E.QBFP, _MIN_MAX, _EXTENDED, _BFP16, {}),
    **{f"MX{width}": (_E.QBFP, _E.QBFP, _MIN_MAX, _EXTENDED, _micro(bits), {}) for width, bits in ((4, 11), (6, 13), (9, 16))},
    **{name: (_E.QMX, _E.QMX, _MIN_MAX, _EXTENDED, _microscaling(element), {})
       for name, element in (("MXFP8E5M2", "fp8_e5m2"), ("MXFP8E4M3", "fp8_e4m3"), ("MXFP6E3M2", "fp6_e3m2"),
                             ("MXFP6E2M3", "fp6_e2m3"), ("MXFP4E2M1", "fp4_e2m1"), ("MXINT8", "int8"))},
    "S16S16_MIXED_S8S8": (_E.QInt16, _E.QInt16, _PERCENTILE, _EXTENDED,
                          {"Percentile": 99.9999, "ActivationSymmetric": False, "WeightSymmetric": True, "Int32Bias": False,
                           "AutoMixprecision": {"ActTargetQuantType": _E.QInt8, "WeightTargetQuantType": _E.QInt8,
                                                "BiasTargetQuantType": _E.QInt8}},
                          {"include_auto_mp": True}),
    "BF16_MIXED_BFP16": (_E.QBFloat16, _E.QBFloat16, _MIN_MAX, _EXTENDED,
                         {**_BF16_MIXED, **_BFP16, "AutoMixprecision": {"TargetQuantType": _E.QBFP, "DualQuantNodes": True}},
                         {"include_auto_mp": True}),
    "BF16_MIXED_MXINT8": (_E.QBFloat16, _E.QBFloat16, _MIN_MAX, _EXTENDED,
                          {**_BF16_MIXED, **_microscaling("int8"),
                           "AutoMixprecision": {"TargetQuantType": _E.QMX, "DualQuantNodes": True}}, {"include_auto_mp": True}),
    "BF16_BFP16": (_E.QBFloat16, _E.QBFP, _MIN_MAX, _EXTENDED, _BFP16, {}),
    "BF16_MXINT8": (_E.QBFloat16, _E.QMX, _MIN_MAX, _EXTENDED, _microscaling("int8"), {}),
    "MX9_INT8": (_E.QBFP, _E.QInt8, _MIN_MAX, _EXTENDED, _micro(16), {}),
    "INT8_CNN_DEFAULT": (_E.QUInt8, _E.QInt8, _MIN_MAX, _PLAIN, {}, {}),
    "INT16_CNN_DEFAULT": (_E.QUInt16, _E.QInt16, _MIN_MAX, _EXTENDED, {}, {}),
    "INT8_TRANSFORMER_DEFAULT": (_E.QUInt8, _E.QInt8, _MIN_MAX, _PLAIN, {"CalibMovingAverage": True}, {"enable_npu_transformer": True}),
    "INT16_TRANSFORMER_DEFAULT": (_E.QUInt16, _E.QInt16, _MIN_MAX, _EXTENDED, {"CalibMovingAverage": True},
                                  {"enable_npu_transformer": True}),
    "INT8_CNN_ACCURATE": (_E.QUInt8, _E.QInt8, _PERCENTILE, _PLAIN, _ACCURATE, {"include_fast_ft": True}),
    "INT16_CNN_ACCURATE": (_E.QUInt16, _E.QInt16, _PERCENTILE, _EXTENDED, _ACCURATE, {"include_fast_ft": True}),
    "INT8_TRANSFORMER_ACCURATE": (_E.QUInt8, _E.QInt8, _PERCENTILE, _PLAIN, _ACCURATE,
                                  {"include_fast_ft": True, "enable_npu_transformer": True}),
    "INT16_TRANSFORMER_ACCURATE": (_E.QUInt16, _E.QInt16, _PERCENTILE, _EXTENDED, _ACCURATE,
                                   {"include_fast_ft": True, "enable_npu_transformer": True}),
    "MATMUL_NBITS": (_E.QInt8, _E.QInt8, _MIN_MAX, _PLAIN,
                     {"UseMatMulNBits": True, "MatMulNBitsParams": {"GroupSize": 128, "Symmetric": True, "Bits": 4, "AccuracyLevel": 1}},
                     {}),
}
_WITHOUT_ADAROUND = ("U8U8_AAWA", "UINT8_DYNAMIC_QUANT", "MATMUL_NBITS", "FP16", "BF16", "BFP16", "MX4", "MX6", "MX9", "MXFP8E5M2",
                     "MXFP8E4M3", "MXFP6E3M2", "MXFP6E2M3", "MXFP4E2M1", "MXINT8", "BF16_MIXED_BFP16", "BF16_MIXED_MXINT8")
_WITHOUT_ADAQUANT = ("U8U8_AAWA", "UINT8_DYNAMIC_QUANT", "MATMUL_NBITS")


def _has_suffix(name: str, algorithm: str) -> bool:
    without = _WITHOUT_ADAROUND if algorithm == "ADAROUND" else _WITHOUT_ADAQUANT
    return name not in without and not name.endswith("_ACCURATE")


def names() -> List[str]:
    """Every name that get_default_config takes."""
    tuned = [f"{name}_{algorithm}" for name in _ROWS for algorithm in ("ADAROUND", "ADAQUANT") if _has_suffix(name, algorithm)]
    return [*_ROWS, *tuned, *QCONFIGS]


def _legacy(name: str, tuning: Mapping[str, Any]) -> t.QuantizationConfig:
    activation, weight, method, quant_format, options, fields = _ROWS[name]
    extra: Dict[str, Any] = {key: dict(value) if isinstance(value, dict) else value for key, value in options.items()}
    if tuning:
        extra["FastFinetune"] = dict(tuning)
        fields = {**fields, "include_fast_ft": True}
    return t.QuantizationConfig(calibrate_method=method, quant_format=quant_format, activation_type=activation, weight_type=weight,
                                extra_options=extra, **fields)


def _newer(spec: Any, weight: Any = None, algorithm: Any = None, **options: Any) -> t.QConfig:
    layer = t.QLayerConfig(spec, weight if weight is not None else spec)
    return t.QConfig(layer, algo_config=[] if algorithm is None else [algorithm], extra_options=options)


def _tuned(kind: Any) -> Any:
    rate = 0.1 if kind is AdaRoundConfig else 1e-5
    return kind(data_size=1000, batch_size=2, num_iterations=1000, learning_rate=rate, early_stop=True, fixed_seed=1705472343)


XINT8_QCONFIG = _newer(t.XInt8Spec())
XINT8_ADAROUND_QCONFIG = _newer(t.XInt8Spec(), algorithm=_tuned(AdaRoundConfig))
XINT8_ADAQUANT_QCONFIG = _newer(t.XInt8Spec(), algorithm=_tuned(AdaQuantConfig))
VINT8_QCONFIG = _newer(t.XInt8Spec(), **_VINT8)
A8W8_QCONFIG = _newer(t.Int8Spec())
A8W8_ADAROUND_QCONFIG = _newer(t.Int8Spec(), algorithm=_tuned(AdaRoundConfig))
A8W8_ADAQUANT_QCONFIG = _newer(t.Int8Spec(), algorithm=_tuned(AdaQuantConfig))
A16W8_QCONFIG = _newer(t.Int16Spec(), t.Int8Spec())
A16W8_ADAROUND_QCONFIG = _newer(t.Int16Spec(), t.Int8Spec(), _tuned(AdaRoundConfig))
A16W8_ADAQUANT_QCONFIG = _newer(t.Int16Spec(), t.Int8Spec(), _tuned(AdaQuantConfig))
BF16_QCONFIG = _newer(t.BFloat16Spec())
BFP16_QCONFIG = _newer(t.BFP16Spec())

QCONFIGS: Dict[str, t.QConfig] = {
    "XINT8_QCONFIG": XINT8_QCONFIG, "XINT8_ADAROUND_QCONFIG": XINT8_ADAROUND_QCONFIG, "XINT8_ADAQUANT_QCONFIG": XINT8_ADAQUANT_QCONFIG,
    "VINT8_QCONFIG": VINT8_QCONFIG, "A8W8_QCONFIG": A8W8_QCONFIG, "A8W8_ADAROUND_QCONFIG": A8W8_ADAROUND_QCONFIG,
    "A8W8_ADAQUANT_QCONFIG": A8W8_ADAQUANT_QCONFIG, "A16W8_QCONFIG": A16W8_QCONFIG, "A16W8_ADAROUND_QCONFIG": A16W8_ADAROUND_QCONFIG,
    "A16W8_ADAQUANT_QCONFIG": A16W8_ADAQUANT_QCONFIG, "BF16_QCONFIG": BF16_QCONFIG, "BFP16_QCONFIG": BFP16_QCONFIG,
}


def get_default_config(config_name: str) -> Any:
    """A QuantizationConfig of Quark's older interface by its name, or with the suffix _QCONFIG one of the newer.

    Raises:
        InvalidArgumentError: an unknown name, with the nearest.
    """
    if not isinstance(config_name, str):
        raise ArgumentTypeError(f"get_default_config: config_name={config_name!r} is {type(config_name).__name__}; expected a text")
    name = config_name.upper()
    if name in QCONFIGS:
        return copy.deepcopy(QCONFIGS[name])
    for algorithm, tuning in (("ADAROUND", _ADAROUND), ("ADAQUANT", _ADAQUANT)):
        base = name[: -len(algorithm) - 1]
        if name == f"{base}_{algorithm}" and base in _ROWS and _has_suffix(base, algorithm):
            return _legacy(base, tuning)
    if name in _ROWS:
        return _legacy(name, {})
    near = difflib.get_close_matches(name, names(), 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise InvalidArgumentError(f"there is no configuration '{config_name}'{hint}")


DefaultConfigMapping: Dict[str, t.QuantizationConfig] = {name: get_default_config(name) for name in names() if name not in QCONFIGS}


def get_default_config_mapping() -> Dict[str, t.QuantizationConfig]:
    return DefaultConfigMapping


_PARAMETERS = {
    "DEFAULT_ADAROUND_PARAMS": _ADAROUND, "DEFAULT_ADAQUANT_PARAMS": _ADAQUANT, "DEFAULT_BFP_PARAMS": _BFP16["BFPAttributes"],
    "DEFAULT_MICROEXPONENTS_PARAMS": _micro(13)["BFPAttributes"], "DEFAULT_MICROSCALING_PARAMS": _microscaling("int8")["MXAttributes"]}


def constant(name: str) -> Any:
    """A constant of Quark's module custom_config: NAME_CONFIG of each configuration, and the parameters that several share."""
    if name in _PARAMETERS:
        return dict(_PARAMETERS[name])
    if name == "XINT8_WEIGHTSONLY_ADAROUND_CONFIG":
        found = get_default_config("XINT8_ADAROUND")
        found.extra_options["WeightsOnly"] = True
        return found
    if name.endswith("_CONFIG") and name[: -len("_CONFIG")] in DefaultConfigMapping:
        return get_default_config(name[: -len("_CONFIG")])
    raise AttributeError(f"module 'custom_config' has no attribute '{name}'")
