"""AMD Quark's configuration classes as plain data. Nothing here decides anything; _translate.py does."""

import enum
import functools
import inspect
from dataclasses import dataclass, field, fields
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress.compat import _fates
from bitpress.compat._enums import CalibrationMethod as CalibrationMethod
from bitpress.compat._enums import QuantFormat as QuantFormat
from bitpress.compat._enums import QuantizationMode as QuantizationMode
from bitpress.compat.quark._algorithm_types import AlgoConfig

_Class = TypeVar("_Class", bound=type)


def named_errors(kind: _Class) -> _Class:
    """A class whose arguments, if it has no such, are an error that names the nearest."""
    init = kind.__init__  # type: ignore[misc]
    signature = inspect.signature(init)

    @functools.wraps(init)
    def checked(self: Any, *by_position: Any, **by_name: Any) -> None:
        for name in by_name:
            if name not in signature.parameters and not any(item.kind is item.VAR_KEYWORD for item in signature.parameters.values()):
                raise ArgumentTypeError(_fates.unknown(name, [word for word in signature.parameters if word != "self"], kind.__name__))
        try:
            signature.bind(self, *by_position, **by_name)
        except TypeError as error:
            raise ArgumentTypeError(f"{kind.__name__}: {error}") from error
        init(self, *by_position, **by_name)

    kind.__init__ = checked  # type: ignore[misc]
    return kind


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


VitisQuantType = ExtendedQuantType  # its name in earlier versions


class VitisQuantFormat(enum.Enum):
    """Formats of earlier versions; FixNeuron and similar ones are refused."""

    QDQ = 2
    FixNeuron = 3
    BFPFixNeuron = 4
    MXFixNeuron = 5


class ExtendedQuantFormat(enum.Enum):
    QOperator = 0
    QDQ = 1


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
    """Quark's classes of data types, by their names. The values are formats of ours."""

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

    def __call__(self) -> "DataType":
        """Returns itself: in Quark these are classes, and scripts also give instances."""
        return self

    @property
    def map_onnx_format(self) -> Union[QuantType, ExtendedQuantType]:
        """Quark's word for it in the older interface."""
        if self.name in ("Int8", "UInt8", "Int4", "UInt4"):
            return QuantType["Q" + self.name]
        if self.name.startswith("MX"):
            return ExtendedQuantType.QBFP if self.name in ("MX4", "MX6", "MX9") else ExtendedQuantType.QMX
        return ExtendedQuantType.QBFP if self is DataType.BFP16 else ExtendedQuantType["Q" + self.name]


@named_errors
class QTensorConfig:
    """The treatment of a kind of tensor. `data_type` is a DataType, or a format of ours."""

    def __init__(self, symmetric: bool = True, scale_type: ScaleType = ScaleType.Float32,
                 calibration_method: CalibMethod = CalibMethod.MinMax, quant_granularity: QuantGranularity = QuantGranularity.Tensor,
                 data_type: Union[DataType, str] = DataType.Int8) -> None:
        self.symmetric = symmetric
        self.scale_type = scale_type
        self.calibration_method = calibration_method
        self.quant_granularity = quant_granularity
        self.data_type = data_type

    @property
    def format(self) -> str:
        """The name of our format."""
        return str(self.data_type.value if isinstance(self.data_type, DataType) else self.data_type)

    # Older scripts change a specification after it was made.
    def set_symmetric(self, symmetric: bool) -> None:
        self.symmetric = symmetric

    def set_scale_type(self, scale_type: ScaleType) -> None:
        self.scale_type = scale_type

    def set_calibration_method(self, calibration_method: CalibMethod) -> None:
        self.calibration_method = calibration_method

    def set_quant_granularity(self, quant_granularity: QuantGranularity) -> None:
        self.quant_granularity = quant_granularity

    def set_data_type(self, data_type: Union[DataType, str]) -> None:
        self.data_type = data_type

    def to_dict(self) -> Dict[str, Any]:
        from bitpress.compat.quark._dictionaries import plain

        return dict(plain(self))

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "QTensorConfig":
        from bitpress.compat.quark._dictionaries import tensor_from_dict

        return tensor_from_dict(data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def _spec(data_type: DataType, is_symmetric: bool = True, scale: ScaleType = ScaleType.Float32, method: CalibMethod = CalibMethod.MinMax,
          base: Type[QTensorConfig] = QTensorConfig, name: str = "") -> Type[QTensorConfig]:
    def init(self: QTensorConfig, symmetric: bool = is_symmetric, scale_type: ScaleType = scale, calibration_method: CalibMethod = method,
             quant_granularity: QuantGranularity = QuantGranularity.Tensor, data_type: Union[DataType, str] = data_type) -> None:
        QTensorConfig.__init__(self, symmetric, scale_type, calibration_method, quant_granularity, data_type)

    return named_errors(type(name or f"{data_type.name}Spec", (base,),
                             {"__init__": init, "__doc__": f"A tensor in {data_type.name}.", "__module__": __name__}))


_PERCENTILE = CalibMethod.Percentile
Int4Spec = _spec(DataType.Int4, method=_PERCENTILE)
UInt4Spec = _spec(DataType.UInt4, False, method=_PERCENTILE)
Int8Spec = _spec(DataType.Int8, method=_PERCENTILE)
UInt8Spec = _spec(DataType.UInt8, False, method=_PERCENTILE)
XInt8Spec = _spec(DataType.Int8, scale=ScaleType.PowerOf2, method=CalibMethod.MinMSE, base=Int8Spec, name="XInt8Spec")
Int16Spec = _spec(DataType.Int16, method=_PERCENTILE)
UInt16Spec = _spec(DataType.UInt16, False, method=_PERCENTILE)
Int32Spec = _spec(DataType.Int32, method=_PERCENTILE)
UInt32Spec = _spec(DataType.UInt32, False, method=_PERCENTILE)
Float16Spec = _spec(DataType.Float16)
BFloat16Spec = _spec(DataType.BFloat16)
BFP16Spec = _spec(DataType.BFP16)
MX4Spec = _spec(DataType.MX4)
MX6Spec = _spec(DataType.MX6)
MX9Spec = _spec(DataType.MX9)
MXFP8E5M2Spec = _spec(DataType.MXFP8E5M2)
MXFP8E4M3Spec = _spec(DataType.MXFP8E4M3)
MXFP6E3M2Spec = _spec(DataType.MXFP6E3M2)
MXFP6E2M3Spec = _spec(DataType.MXFP6E2M3)
MXFP4E2M1Spec = _spec(DataType.MXFP4E2M1)
MXInt8Spec = _spec(DataType.MXInt8)


class QLayerConfig:
    """The treatment of the tensors of a layer. `activation` is the older name of `input_tensors`.

    By position two specifications are those of activations and weights, as in older versions of Quark; more are in the order of
    the fields, as in newer ones, which refuse an activation beside input_tensors.
    """

    names = ("input_tensors", "activation", "weight", "bias", "output_tensors")

    def __init__(self, *by_position: Optional[QTensorConfig], **by_name: Optional[QTensorConfig]) -> None:
        names = list(self.names)
        if len(by_position) == 2 and "weight" not in by_name:
            if by_position[0] is None:
                raise ArgumentTypeError("QLayerConfig(None, specification) is that of weights in older versions of Quark, and that of activations "
                                        "in newer ones; write weight=... or input_tensors=...")
            names = ["input_tensors", "weight"]
        if len(by_position) > len(names):
            raise ArgumentTypeError(f"QLayerConfig takes {len(names)} specifications by position ({', '.join(names)}), not {len(by_position)}")
        given = dict(zip(names, by_position))
        for name, spec in by_name.items():
            if name in given:
                raise ArgumentTypeError(f"QLayerConfig has two specifications named '{name}'")
            if name not in self.names:
                raise ArgumentTypeError(_fates.unknown(name, self.names, "QLayerConfig"))
            given[name] = spec
        if given.get("input_tensors") is not None and given.get("activation") is not None:
            raise InvalidArgumentError("QLayerConfig: input_tensors and activation, its older name, are both given; give input_tensors alone")
        self.input_tensors = given.get("input_tensors")
        self.activation = given.get("activation")
        self.weight = given.get("weight")
        self.bias = given.get("bias")
        self.output_tensors = given.get("output_tensors")

    @property
    def inputs(self) -> Optional[QTensorConfig]:
        return self.input_tensors if self.input_tensors is not None else self.activation

    def to_dict(self) -> Dict[str, Any]:
        from bitpress.compat.quark._dictionaries import plain

        return dict(plain(self))

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "QLayerConfig":
        from bitpress.compat.quark._dictionaries import layer_from_dict

        return layer_from_dict(data)

    def __repr__(self) -> str:
        given = {name: spec for name, spec in vars(self).items() if spec is not None}
        return f"QLayerConfig({', '.join(f'{name}={spec!r}' for name, spec in given.items())})"


@named_errors
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
    log_severity_level: Optional[int] = 1
    extra_options: Dict[str, Any] = field(default_factory=dict)

    def given(self) -> Dict[str, Any]:
        """Every field but the extra options."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "extra_options"}


@named_errors
@dataclass
class Config:
    """The configuration that ModelQuantizer of the older interface takes."""

    global_quant_config: QuantizationConfig = field(default_factory=QuantizationConfig)


Nodes = Union[str, Tuple[Sequence[str], Sequence[str]]]  # a name, a regular expression that begins with ^, or a subgraph


@named_errors
class QConfig:
    """The configuration that ModelQuantizer of the newer interface takes. Further arguments are extra options, as Quark has it."""

    def __init__(self, global_config: Optional[QLayerConfig] = None,
                 specific_layer_config: Optional[Mapping[QLayerConfig, Sequence[Nodes]]] = None,
                 layer_type_config: Optional[Mapping[Optional[QLayerConfig], Sequence[str]]] = None,
                 exclude: Optional[Sequence[Any]] = None, algo_config: Optional[Sequence[AlgoConfig]] = None,
                 use_external_data_format: bool = False, extra_options: Optional[Mapping[str, Any]] = None,
                 **options: Any) -> None:
        self.global_config = QLayerConfig(Int8Spec(), Int8Spec()) if global_config is None else global_config
        self.specific_layer_config = _copy(specific_layer_config, "specific_layer_config", dict)
        self.layer_type_config = _copy(layer_type_config, "layer_type_config", dict)
        self.exclude: List[Any] = _copy(exclude, "exclude", list)
        self.algo_config: List[AlgoConfig] = _copy(algo_config, "algo_config", list)
        self.use_external_data_format = use_external_data_format
        self.extra_options: Dict[str, Any] = {**_copy(extra_options, "extra_options", dict), **options}

    def __repr__(self) -> str:
        return f"QConfig({', '.join(f'{name}={value!r}' for name, value in vars(self).items() if value)})"

    def to_dict(self) -> Dict[str, Any]:
        """Plain data as Quark's, which can be written as JSON."""
        from bitpress.compat.quark._dictionaries import config_to_dict

        return config_to_dict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "QConfig":
        """Returns the configuration that to_dict was called of, here or in Quark."""
        from bitpress.compat.quark._dictionaries import config_from_dict

        return config_from_dict(data)

    @staticmethod
    def get_default_config(config_name: str) -> Config:
        """A configuration of the older interface by its name, such as "A8W8"."""
        from bitpress.compat.quark._presets import get_default_config

        found = get_default_config(config_name)
        if not isinstance(found, QuantizationConfig):
            raise InvalidArgumentError(f"QConfig.get_default_config('{config_name}'): this is a QConfig; import it by that name")
        return Config(found)


def _copy(given: Any, where: str, kind: type) -> Any:
    wanted = isinstance(given, Mapping) if kind is dict else isinstance(given, (list, tuple, set))
    if given is not None and not wanted:
        raise ArgumentTypeError(f"QConfig: {where}={given!r} is {type(given).__name__}; expected a {kind.__name__}")
    return kind(given or ())
