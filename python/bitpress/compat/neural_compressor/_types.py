"""ONNX Neural Compressor's configuration classes as plain data; _translate.py says what they mean."""

import abc
import enum
import itertools
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple

from bitpress.compat import _fates
from bitpress.compat.neural_compressor import _words


class QuantType(enum.Enum):
    QInt8 = 0
    QUInt8 = 1


class QuantFormat(enum.Enum):
    QOperator = 0
    QDQ = 1


class CalibrationMethod(enum.Enum):
    MinMax = 0
    Entropy = 1
    Percentile = 2


class CalibrationDataReader(abc.ABC):
    """Samples: dicts of name -> array, and None at the end."""

    @abc.abstractmethod
    def get_next(self) -> Optional[Mapping[str, Any]]: ...

    @abc.abstractmethod
    def rewind(self) -> None: ...


@dataclass
class OperatorConfig:
    """Settings of some operators of a static configuration, for set_local."""

    weight_type: Any = QuantType.QInt8
    activation_type: Any = QuantType.QUInt8
    per_channel: bool = False
    weight_sym: bool = True
    activation_sym: bool = False
    calibrate_method: Any = CalibrationMethod.MinMax


class BaseConfig:
    """Options by name, and other options for some operators."""

    name: ClassVar[str] = ""
    defaults: ClassVar[Dict[str, Any]] = {}
    words: ClassVar[_fates.Table] = {}
    tunable: ClassVar[Tuple[str, ...]] = ()  # a list of values is as many configurations

    def __init__(self, **options: Any) -> None:
        single = {key: value for key, value in options.items() if not (key in self.tunable and isinstance(value, list))}
        _fates.check(single, self.words, type(self).__name__)
        self.given = options
        self.local_config: Dict[str, Any] = {}
        for key, value in {**self.defaults, **options}.items():
            setattr(self, key, value)

    def option(self, key: str) -> Any:
        return getattr(self, key)

    def set_local(self, operator_name: str, config: Any) -> "BaseConfig":
        """Other settings for an operator type, or for nodes whose names begin as the regular expression says."""
        self.local_config[operator_name] = config
        return self

    def expand(self) -> "List[BaseConfig]":
        """One configuration for each combination of the values that are lists."""
        lists = {key: value for key, value in self.given.items() if key in self.tunable and isinstance(value, list)}
        configs = []
        for values in itertools.product(*lists.values()):
            config = type(self)(**{**self.given, **dict(zip(lists, values))})
            config.local_config = dict(self.local_config)
            configs.append(config)
        return configs

    def to_dict(self) -> Dict[str, Any]:
        return {key: getattr(self, key) for key in {**self.defaults, **self.given}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.given.items())})"


class StaticQuantConfig(BaseConfig):
    """Integers whose activations have scales from samples."""

    name = "static_quant"
    words = _words.STATIC
    tunable: ClassVar[Tuple[str, ...]] = ("per_channel", "quant_last_matmul", "calibrate_method", "activation_type", "weight_type")
    defaults = {
        "calibration_data_reader": None, "calibrate_method": CalibrationMethod.MinMax, "quant_format": QuantFormat.QOperator,
        "activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "op_types_to_quantize": None, "nodes_to_quantize": None,
        "nodes_to_exclude": None, "per_channel": False, "reduce_range": False, "use_external_data_format": False,
        "extra_options": None, "calibration_sampling_size": 100, "quant_last_matmul": True, "execution_provider": None,
        "white_list": None,
    }

    def __init__(self, calibration_data_reader: Any = None, **options: Any) -> None:
        super().__init__(**({"calibration_data_reader": calibration_data_reader} if calibration_data_reader is not None else {}), **options)

    @classmethod
    def get_config_set_for_tuning(cls, **options: Any) -> "List[BaseConfig]":
        return [cls(**{"per_channel": [True, False], "quant_last_matmul": [True, False], **options})]


class SmoothQuantConfig(StaticQuantConfig):
    """The same after SmoothQuant."""

    name = "smooth_quant"
    words = {**_words.STATIC, **_words.SMOOTH}
    tunable: ClassVar[Tuple[str, ...]] = (*StaticQuantConfig.tunable, "alpha")
    defaults = {**StaticQuantConfig.defaults, "alpha": 0.5, "folding": True, "op_types": ["Gemm", "Conv", "MatMul", "FusedConv"],
                "calib_iter": 100, "scales_per_op": True, "auto_alpha_args": None}

    @classmethod
    def get_config_set_for_tuning(cls, **options: Any) -> "List[BaseConfig]":
        return [cls(**{"alpha": [0.3, 0.5, 0.7], **options})]


class DynamicQuantConfig(BaseConfig):
    """Integers whose activations have scales from each tensor at run time."""

    name = "dynamic_quant"
    words = _words.DYNAMIC
    tunable: ClassVar[Tuple[str, ...]] = ("per_channel", "quant_last_matmul", "weight_type")
    defaults = {
        "quant_format": QuantFormat.QOperator, "weight_type": QuantType.QInt8, "op_types_to_quantize": None, "nodes_to_quantize": None,
        "nodes_to_exclude": None, "per_channel": False, "reduce_range": False, "use_external_data_format": False,
        "extra_options": None, "quant_last_matmul": True, "execution_provider": None, "white_list": None,
    }

    @classmethod
    def get_config_set_for_tuning(cls, **options: Any) -> "List[BaseConfig]":
        return [cls(**{"per_channel": [True, False], **options})]


class _WeightOnlyConfig(BaseConfig):
    tunable: ClassVar[Tuple[str, ...]] = ("weight_bits", "weight_group_size", "weight_sym", "quant_last_matmul")
    defaults = {
        "weight_dtype": "int", "weight_bits": 4, "weight_group_size": 32, "weight_sym": True, "act_dtype": "fp32", "accuracy_level": 0,
        "providers": ["CPUExecutionProvider"], "layer_wise_quant": False, "quant_last_matmul": True,
        "quant_format": QuantFormat.QOperator, "nodes_to_exclude": [], "white_list": ["MatMul"], "calibration_data_reader": None,
    }

    @classmethod
    def get_config_set_for_tuning(cls, **options: Any) -> "List[BaseConfig]":
        return [cls(**{"weight_bits": [4, 8], "weight_sym": [True, False], **options})]


class RTNConfig(_WeightOnlyConfig):
    """Weights in blocks, rounded to nearest."""

    name = "rtn"
    words = _words.RTN
    defaults = {**_WeightOnlyConfig.defaults, "ratios": {}}


class GPTQConfig(_WeightOnlyConfig):
    """Weights in blocks, rounded one after another so that the layer's output changes least."""

    name = "gptq"
    words = _words.GPTQ
    tunable: ClassVar[Tuple[str, ...]] = (*_WeightOnlyConfig.tunable, "mse")
    defaults = {**_WeightOnlyConfig.defaults, "percdamp": 0.01, "block_size": 128, "actorder": False, "mse": False, "perchannel": True}


class AWQConfig(_WeightOnlyConfig):
    """Weights in blocks, after factors of input channels were moved into them."""

    name = "awq"
    words = _words.AWQ
    tunable: ClassVar[Tuple[str, ...]] = (*_WeightOnlyConfig.tunable, "enable_auto_scale", "enable_mse_search")
    defaults = {**_WeightOnlyConfig.defaults, "enable_auto_scale": True, "enable_mse_search": True}


def get_woq_tuning_config(quant_format: Any = QuantFormat.QOperator) -> List[BaseConfig]:
    """The weight-only configurations that autotune tries, coarse ones last."""
    return [
        RTNConfig(weight_sym=False, quant_format=quant_format),
        GPTQConfig(weight_sym=False, quant_format=quant_format),
        GPTQConfig(weight_sym=False, quant_last_matmul=False, quant_format=quant_format),
        GPTQConfig(weight_group_size=128, weight_sym=False, quant_format=quant_format),
        AWQConfig(weight_sym=False, quant_format=quant_format),
    ]


class TuningConfig:
    """The configurations that autotune tries, and the loss with which it is content."""

    def __init__(self, config_set: Any = None, sampler: Any = None, tolerable_loss: float = 0.01, max_trials: int = 100) -> None:
        _fates.check({"sampler": sampler}, _words.TUNING, "TuningConfig")
        configs: Sequence[BaseConfig] = config_set if isinstance(config_set, (list, tuple)) else [config_set or RTNConfig()]
        self.config_set: List[BaseConfig] = [expanded for config in configs for expanded in config.expand()]
        self.tolerable_loss = tolerable_loss
        self.max_trials = max_trials
