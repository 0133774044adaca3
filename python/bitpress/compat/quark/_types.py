"""AMD Quark's configuration classes as plain data. Nothing here decides anything; _translate.py does."""

import enum
from dataclasses import dataclass, field, fields
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from bitpress._errors import ArgumentTypeError, InvalidArgumentError


class QuantType(enum.Enum):
    QInt8 = "int8"
    QUInt8 = "uint8"
    QInt16 = "int16"
    QUInt16 = "uint16"
    QInt4 = "int4"
    QUInt4 = "uint4"


class ExtendedQuantType(enum.Enum):
    QInt8 = "int8"
    QUInt8 = "uint8"
    QInt16 = "int16"
    QUInt16 = "uint16"
    QInt32 = "int32"
    QUInt32 = "uint32"
    QFloat16 = "fp16"
    QBFloat16 = "bf16"
    QBloat16 = "bloat16"  # as the documentation of Quark writes QBFloat16
    QBFP = "bfp"
    QMX = "mx"


class QuantFormat(enum.Enum):
    QOperator = 0
    QDQ = 1


class ExtendedQuantFormat(enum.Enum):
    QDQ = 1


class CalibrationMethod(enum.Enum):
    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


class PowerOfTwoMethod(enum.Enum):
    NonOverflow = 0
    MinMSE = 1


class Int16Method(enum.Enum):
    MinMax = 0


class LayerWiseMethod(enum.Enum):
    LayerWisePercentile = 0


class ExtendedCalibrationMethod(enum.Enum):
    MinMSE = 0


class CalibMethod(enum.Enum):
    MinMax = "min_max"
    MinMSE = "mse"
    Percentile = "percentile"
    Entropy = "entropy"
    LayerwisePercentile = "layerwise_percentile"
    Distribution = "distribution"


class ScaleType(enum.Enum):
    Float32 = "float"
    PowerOf2 = "power_of_two"
    Int16 = "int16"


class QuantGranularity(enum.Enum):
    Tensor = "per_tensor"
    Channel = "per_axis"
    Group = "per_block"


class CalibrationDataReader:
    """The base class of readers: get_next() gives dicts of name -> array, and None at the end."""

    def get_next(self) -> Optional[Mapping[str, Any]]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        while (sample := self.get_next()) is not None:
            yield sample


class DataType(enum.Enum):
    """Quark's classes of data types, by their names."""

    Int4 = "int4"
    UInt4 = "uint4"
    Int8 = "int8"
    UInt8 = "uint8"
    Int16 = "int16"
    UInt16 = "uint16"
    Int32 = "int32"
    UInt32 = "uint32"
    Float16 = "fp16"
    BFloat16 = "bf16"
    BFP16 = "bfp16"
    MX4 = "mx4"
    MX6 = "mx6"
    MX9 = "mx9"
    MXFP8E5M2 = "mxfp8_e5m2"
    MXFP8E4M3 = "mxfp8_e4m3"
    MXFP6E3M2 = "mxfp6_e3m2"
    MXFP6E2M3 = "mxfp6_e2m3"
    MXFP4E2M1 = "mxfp4_e2m1"
    MXInt8 = "mxint8"


@dataclass(frozen=True)
class QTensorConfig:
    """The treatment of a kind of tensor."""

    symmetric: bool = True
    scale_type: ScaleType = ScaleType.Float32
    calibration_method: CalibMethod = CalibMethod.MinMax
    quant_granularity: QuantGranularity = QuantGranularity.Tensor
    data_type: str = "int8"  # a format of ours; a DataType is taken too

    def __post_init__(self) -> None:
        self._set("data_type", self.data_type)

    # Older scripts change a specification after it was made, before it is part of a configuration.
    def set_symmetric(self, symmetric: bool) -> None:
        self._set("symmetric", symmetric)

    def set_scale_type(self, scale_type: ScaleType) -> None:
        self._set("scale_type", scale_type)

    def set_calibration_method(self, calibration_method: CalibMethod) -> None:
        self._set("calibration_method", calibration_method)

    def set_quant_granularity(self, quant_granularity: QuantGranularity) -> None:
        self._set("quant_granularity", quant_granularity)

    def set_data_type(self, data_type: Union[str, DataType]) -> None:
        self._set("data_type", data_type)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value.value if isinstance(value, DataType) else value)


def _integer_spec(name: str, data_type: str, is_symmetric: bool, scale: ScaleType = ScaleType.Float32,
                  method: CalibMethod = CalibMethod.Percentile) -> Callable[..., QTensorConfig]:
    def make(symmetric: bool = is_symmetric, scale_type: ScaleType = scale, calibration_method: CalibMethod = method,
             quant_granularity: QuantGranularity = QuantGranularity.Tensor) -> QTensorConfig:
        return QTensorConfig(symmetric, scale_type, calibration_method, quant_granularity, data_type)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A tensor in {data_type}."
    return make


def _float_spec(name: str, data_type: str) -> Callable[..., QTensorConfig]:
    def make(calibration_method: CalibMethod = CalibMethod.MinMax) -> QTensorConfig:
        return QTensorConfig(calibration_method=calibration_method, data_type=data_type)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A tensor in {data_type}."
    return make


Int4Spec = _integer_spec("Int4Spec", "int4", True)
UInt4Spec = _integer_spec("UInt4Spec", "uint4", False)
Int8Spec = _integer_spec("Int8Spec", "int8", True)
UInt8Spec = _integer_spec("UInt8Spec", "uint8", False)
XInt8Spec = _integer_spec("XInt8Spec", "int8", True, ScaleType.PowerOf2, CalibMethod.MinMSE)
Int16Spec = _integer_spec("Int16Spec", "int16", True)
UInt16Spec = _integer_spec("UInt16Spec", "uint16", False)
Int32Spec = _integer_spec("Int32Spec", "int32", True)
UInt32Spec = _integer_spec("UInt32Spec", "uint32", False)
Float16Spec = _float_spec("Float16Spec", "fp16")
BFloat16Spec = _float_spec("BFloat16Spec", "bf16")
BFP16Spec = _float_spec("BFP16Spec", "bfp16")
MX4Spec = _float_spec("MX4Spec", "mx4")
MX6Spec = _float_spec("MX6Spec", "mx6")
MX9Spec = _float_spec("MX9Spec", "mx9")
MXFP8E5M2Spec = _float_spec("MXFP8E5M2Spec", "mxfp8_e5m2")
MXFP8E4M3Spec = _float_spec("MXFP8E4M3Spec", "mxfp8_e4m3")
MXFP6E3M2Spec = _float_spec("MXFP6E3M2Spec", "mxfp6_e3m2")
MXFP6E2M3Spec = _float_spec("MXFP6E2M3Spec", "mxfp6_e2m3")
MXFP4E2M1Spec = _float_spec("MXFP4E2M1Spec", "mxfp4_e2m1")
MXInt8Spec = _float_spec("MXInt8Spec", "mxint8")


@dataclass(frozen=True, init=False)
class QLayerConfig:
    """The treatment of the tensors of a layer. `activation` is the older name of `input_tensors`.

    By position two specifications are those of activations and weights, as in older versions of Quark; more are in the order of
    the fields, as in newer ones, which refuse an activation beside input_tensors.
    """

    input_tensors: Optional[QTensorConfig] = None
    activation: Optional[QTensorConfig] = None
    weight: Optional[QTensorConfig] = None
    bias: Optional[QTensorConfig] = None
    output_tensors: Optional[QTensorConfig] = None

    def __init__(self, *by_position: Optional[QTensorConfig], **by_name: Optional[QTensorConfig]) -> None:
        names = [item.name for item in fields(QLayerConfig)]
        if len(by_position) == 2 and "weight" not in by_name:
            if by_position[0] is None:
                raise ArgumentTypeError("QLayerConfig(None, specification) is that of weights in older versions of Quark, and that of activations "
                                        "in newer ones; write weight=... or input_tensors=...")
            names = ["input_tensors", "weight"]
        if len(by_position) > len(names):
            raise ArgumentTypeError(f"QLayerConfig takes {len(names)} specifications by position ({', '.join(names)}), not {len(by_position)}")
        given = dict(zip(names, by_position))
        for name, spec in by_name.items():
            if name in given or name not in (item.name for item in fields(QLayerConfig)):
                raise ArgumentTypeError(f"QLayerConfig has {'two specifications' if name in given else 'nothing'} named '{name}'")
            given[name] = spec
        if given.get("input_tensors") is not None and given.get("activation") is not None:
            raise InvalidArgumentError("QLayerConfig: input_tensors and activation, its older name, are both given; give input_tensors alone")
        for item in fields(QLayerConfig):
            object.__setattr__(self, item.name, given.get(item.name))

    @property
    def inputs(self) -> Optional[QTensorConfig]:
        return self.input_tensors if self.input_tensors is not None else self.activation


class AlgoConfig:
    """The base of algorithms: what was given by name, as far as it differs from Quark's defaults or not."""

    name = ""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"


class AdaRoundConfig(AlgoConfig):
    name = "adaround"


class AdaQuantConfig(AlgoConfig):
    name = "adaquant"


class GPTQConfig(AlgoConfig):
    name = "gptq"


class SmoothQuantConfig(AlgoConfig):
    name = "smooth_quant"


class CLEConfig(AlgoConfig):
    name = "cle"


class BiasCorrectionConfig(AlgoConfig):
    name = "bias_correction"


class QuarotConfig(AlgoConfig):
    name = "quarot"


class AutoMixprecisionConfig(AlgoConfig):
    name = "auto_mixprecision"


@dataclass
class QuantizationConfig:
    """The configuration of Quark's older interface; fields and defaults are its own."""

    calibrate_method: Any = CalibrationMethod.MinMax
    quant_format: Any = QuantFormat.QDQ
    activation_type: Any = QuantType.QInt8
    weight_type: Any = QuantType.QInt8
    input_nodes: Sequence[str] = ()
    output_nodes: Sequence[str] = ()
    op_types_to_quantize: Sequence[str] = ()
    nodes_to_quantize: Sequence[str] = ()
    extra_op_types_to_quantize: Sequence[str] = ()
    nodes_to_exclude: Sequence[str] = ()
    subgraphs_to_exclude: Sequence[Tuple[Sequence[str], Sequence[str]]] = ()
    specific_tensor_precision: bool = False
    execution_providers: Sequence[str] = ("CPUExecutionProvider",)
    per_channel: bool = False
    reduce_range: bool = False
    optimize_model: bool = True
    use_dynamic_quant: bool = False
    use_external_data_format: bool = False
    convert_fp16_to_fp32: bool = False
    convert_nchw_to_nhwc: bool = False
    include_sq: bool = False
    include_rotation: bool = False
    include_cle: bool = True
    include_auto_mp: Optional[bool] = None
    include_fast_ft: Optional[bool] = None
    enable_npu_cnn: bool = False
    enable_npu_transformer: bool = False
    debug_mode: bool = False
    crypto_mode: bool = False
    print_summary: bool = True
    ignore_warnings: bool = True
    log_severity_level: int = 1
    extra_options: Dict[str, Any] = field(default_factory=dict)

    def given(self) -> Dict[str, Any]:
        """Every field but the extra options."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "extra_options"}


@dataclass
class Config:
    """The configuration that ModelQuantizer of the older interface takes."""

    global_quant_config: QuantizationConfig = field(default_factory=QuantizationConfig)


Nodes = Union[str, Tuple[Sequence[str], Sequence[str]]]  # a name, a regular expression that begins with ^, or a subgraph


class QConfig:
    """The configuration that ModelQuantizer of the newer interface takes."""

    def __init__(self, global_config: Optional[QLayerConfig] = None,
                 specific_layer_config: Optional[Mapping[QLayerConfig, Sequence[Nodes]]] = None,
                 layer_type_config: Optional[Mapping[Optional[QLayerConfig], Sequence[str]]] = None,
                 exclude: Optional[Sequence[Any]] = None, algo_config: Optional[Sequence[AlgoConfig]] = None,
                 use_external_data_format: bool = False, extra_options: Optional[Mapping[str, Any]] = None,
                 **options: Any) -> None:
        self.global_config = global_config or QLayerConfig(Int8Spec(), Int8Spec())
        self.specific_layer_config = dict(specific_layer_config or {})
        self.layer_type_config = dict(layer_type_config or {})
        self.exclude: List[Any] = list(exclude or [])
        self.algo_config: List[AlgoConfig] = list(algo_config or [])
        self.use_external_data_format = use_external_data_format
        self.extra_options: Dict[str, Any] = {**(extra_options or {}), **options}

    def to_dict(self) -> Dict[str, Any]:
        """Plain data; the values of extra_options stay as they are."""
        return {
            "global_config": _layer_to_dict(self.global_config),
            "specific_layer_config": [[_layer_to_dict(layer), list(nodes)] for layer, nodes in self.specific_layer_config.items()],
            "layer_type_config": [[_layer_to_dict(layer), list(types)] for layer, types in self.layer_type_config.items()],
            "exclude": list(self.exclude),
            "algo_config": [[type(algorithm).__name__, dict(algorithm.options)] for algorithm in self.algo_config],
            "use_external_data_format": self.use_external_data_format,
            "extra_options": dict(self.extra_options),
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "QConfig":
        """Returns the configuration that to_dict was called of."""
        algorithms = {kind.__name__: kind for kind in AlgoConfig.__subclasses__()}
        return QConfig(
            global_config=_layer_from_dict(data["global_config"]),
            specific_layer_config={QLayerConfig(**_tensors(layer)): nodes for layer, nodes in data["specific_layer_config"]},
            layer_type_config={_layer_from_dict(layer): types for layer, types in data["layer_type_config"]},
            exclude=data["exclude"], algo_config=[algorithms[name](**options) for name, options in data["algo_config"]],
            use_external_data_format=data["use_external_data_format"], extra_options=data["extra_options"])


def _layer_to_dict(layer: Optional[QLayerConfig]) -> Optional[Dict[str, Any]]:
    if layer is None:
        return None
    given = {item.name: getattr(layer, item.name) for item in fields(layer) if getattr(layer, item.name) is not None}
    return {name: {item.name: getattr(getattr(spec, item.name), "name", getattr(spec, item.name)) for item in fields(spec)}
            for name, spec in given.items()}


def _tensors(layer: Mapping[str, Mapping[str, Any]]) -> Dict[str, QTensorConfig]:
    return {name: QTensorConfig(spec["symmetric"], ScaleType[spec["scale_type"]], CalibMethod[spec["calibration_method"]],
                                QuantGranularity[spec["quant_granularity"]], spec["data_type"]) for name, spec in layer.items()}


def _layer_from_dict(layer: Optional[Mapping[str, Mapping[str, Any]]]) -> Optional[QLayerConfig]:
    return None if layer is None else QLayerConfig(**_tensors(layer))
