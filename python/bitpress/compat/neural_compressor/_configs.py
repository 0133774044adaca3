"""ONNX Neural Compressor's configurations as plain data, with its defaults, its order of arguments and its order of trials."""

from typing import Any, ClassVar, Dict, List, Optional, Type

from bitpress.compat.neural_compressor import _checks, _providers, _words
from bitpress.compat.neural_compressor._enums import CalibrationMethod, QuantFormat, QuantType
from bitpress.compat.neural_compressor._names import NAMES, refuse
from bitpress.compat.neural_compressor._types import BaseConfig, register, registered_configs


class _IntegerConfig(BaseConfig):
    kinds = _checks.INTEGERS

    @property
    def weight_sym(self) -> bool:
        return bool((self.option("extra_options") or {}).get("WeightSymmetric", True))

    @property
    def activation_sym(self) -> bool:
        return bool((self.option("extra_options") or {}).get("ActivationSymmetric", False))

    @classmethod
    def _without(cls, types: List[str], removals: List[str], options: Dict[str, Any]) -> "List[BaseConfig]":
        """Configurations that each leave more operator types float; the list of types is not the script's own then."""
        made: List[BaseConfig] = []
        for removed in removals:
            config = cls(**{"quant_last_matmul": [True, False], "per_channel": [True, False], **options})
            config._set("op_types_to_quantize", [name for name in options.get("op_types_to_quantize") or types if name not in removed.split()])
            config.given.pop("op_types_to_quantize", None)
            made.append(config)
        return made


@register
class StaticQuantConfig(_IntegerConfig):
    """Integers whose activations have scales from samples."""

    name = "static_quant"
    words = _words.STATIC
    params_list: ClassVar[List[str]] = ["weight_type", "activation_type", "per_channel", "calibrate_method"]
    model_params_list: ClassVar[List[str]] = ["quant_format", "reduce_range", "use_external_data_format", "calibration_sampling_size",
                                              "quant_last_matmul"]
    defaults = {
        "calibration_data_reader": None, "calibrate_method": CalibrationMethod.MinMax, "quant_format": QuantFormat.QOperator,
        "activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "op_types_to_quantize": None, "nodes_to_quantize": None,
        "nodes_to_exclude": None, "per_channel": False, "reduce_range": False, "use_external_data_format": False,
        "extra_options": None, "calibration_sampling_size": 100, "quant_last_matmul": True, "execution_provider": None,
        "white_list": None,
    }

    @classmethod
    def get_config_set_for_tuning(cls, quant_format: Any = QuantFormat.QOperator, execution_provider: Optional[str] = None,
                                  **options: Any) -> "List[BaseConfig]":
        """Sixteen trials: both granularities, with and without the last MatMul, and fewer and fewer operator types."""
        options = {"quant_format": quant_format, "execution_provider": execution_provider, **options}
        types = _providers.static_types(execution_provider, getattr(quant_format, "name", quant_format) == "QOperator")
        return cls._without(types, ["", "Add Mul", "Add Mul Gather GatherElements GatherND", "Add Mul Gather GatherElements GatherND Attention"],
                            options)


@register
class SmoothQuantConfig(StaticQuantConfig):
    """The same after SmoothQuant."""

    name = "smooth_quant"
    words = {**_words.SMOOTH, **_words.STATIC}
    model_params_list: ClassVar[List[str]] = ["alpha", "folding", "auto_alpha_args", "calib_iter", "scales_per_op", "quant_last_matmul"]
    defaults = {"alpha": 0.5, "folding": True, "op_types": ["Gemm", "Conv", "MatMul", "FusedConv"], "calib_iter": 100, "scales_per_op": True,
                "auto_alpha_args": {"alpha_min": 0.3, "alpha_max": 0.7, "alpha_step": 0.05, "attn_method": "min"}, **StaticQuantConfig.defaults}

    @classmethod
    def get_config_set_for_tuning(cls, **options: Any) -> "BaseConfig":  # type: ignore[override]
        return cls(**{"alpha": [round(0.3 + 0.05 * step, 2) for step in range(8)], **options})


@register
class DynamicQuantConfig(_IntegerConfig):
    """Integers whose activations have scales from each tensor at run time."""

    name = "dynamic_quant"
    kinds = {word: kind for word, kind in _checks.INTEGERS.items() if word != "quant_format"}  # of which nothing comes
    words = _words.DYNAMIC
    params_list: ClassVar[List[str]] = ["weight_type", "per_channel"]
    model_params_list: ClassVar[List[str]] = ["reduce_range", "use_external_data_format", "quant_last_matmul"]
    defaults = {
        "weight_type": QuantType.QInt8, "op_types_to_quantize": None, "nodes_to_quantize": None, "nodes_to_exclude": None,
        "per_channel": False, "reduce_range": False, "use_external_data_format": False, "extra_options": None, "quant_last_matmul": True,
        "execution_provider": None, "white_list": None, "quant_format": QuantFormat.QOperator,
    }

    @classmethod
    def get_config_set_for_tuning(cls, **options: Any) -> "List[BaseConfig]":
        """Twenty trials: both granularities, with and without the last MatMul, and fewer and fewer operator types."""
        few = "EmbedLayerNormalization Gather LSTM"
        return cls._without(_providers.DYNAMIC_TYPES, ["", few, f"{few} Conv FusedConv", f"{few} Conv FusedConv Attention",
                                                       f"{few} Conv FusedConv MatMul"], options)


class _WeightOnlyConfig(BaseConfig):
    kinds = _checks.WEIGHTS
    params_list: ClassVar[List[str]] = ["weight_dtype", "weight_bits", "weight_group_size", "weight_sym", "act_dtype", "accuracy_level", "quant_format"]


def _weight_defaults(**own: Any) -> Dict[str, Any]:
    """The options of a weight-only configuration, whose own ones stand in the middle."""
    return {
        "weight_dtype": "int", "weight_bits": 4, "weight_group_size": 32, "weight_sym": True, "act_dtype": "fp32", "accuracy_level": 0,
        **own, "quant_last_matmul": True, "white_list": ["MatMul"], "quant_format": QuantFormat.QOperator, "nodes_to_exclude": [],
        "calibration_data_reader": None,
    }


_CPU = ["CPUExecutionProvider"]


@register
class RTNConfig(_WeightOnlyConfig):
    """Weights in blocks, rounded to nearest."""

    name = "rtn"
    words = _words.RTN
    params_list: ClassVar[List[str]] = [*_WeightOnlyConfig.params_list[:-1], "ratios", "quant_format"]
    model_params_list: ClassVar[List[str]] = ["layer_wise_quant", "quant_last_matmul"]
    defaults = _weight_defaults(ratios={}, providers=_CPU, layer_wise_quant=False)

    @classmethod
    def get_config_set_for_tuning(cls, **options: Any) -> BaseConfig:
        return cls(**{"weight_bits": [4, 8], "weight_sym": [True, False], **options})


@register
class GPTQConfig(_WeightOnlyConfig):
    """Weights in blocks, rounded one after another so that the layer's output changes least."""

    name = "gptq"
    words = _words.GPTQ
    model_params_list: ClassVar[List[str]] = ["percdamp", "block_size", "actorder", "mse", "perchannel", "layer_wise_quant", "quant_last_matmul"]
    defaults = _weight_defaults(percdamp=0.01, block_size=128, actorder=False, mse=False, perchannel=True, providers=_CPU,
                                layer_wise_quant=False)

    @classmethod
    def get_config_set_for_tuning(cls, **options: Any) -> BaseConfig:
        return cls(**{"weight_bits": [4, 8], "weight_sym": [True, False], "actorder": [True, False], "mse": [True, False], **options})


@register
class AWQConfig(_WeightOnlyConfig):
    """Weights in blocks, after factors of input channels were moved into them."""

    name = "awq"
    words = _words.AWQ
    model_params_list: ClassVar[List[str]] = ["enable_auto_scale", "enable_mse_search", "quant_last_matmul"]
    defaults = _weight_defaults(enable_auto_scale=True, enable_mse_search=True, providers=_CPU)

    @classmethod
    def get_config_set_for_tuning(cls, **options: Any) -> BaseConfig:
        return cls(**{"weight_bits": [4, 8], "weight_sym": [True, False], "enable_auto_scale": [True, False],
                      "enable_mse_search": [True, False], **options})


def get_default_rtn_config() -> RTNConfig:
    return RTNConfig()


def get_default_gptq_config() -> GPTQConfig:
    return GPTQConfig()


def get_default_awq_config() -> AWQConfig:
    return AWQConfig()


def get_default_sq_config() -> SmoothQuantConfig:
    return SmoothQuantConfig()


def get_woq_tuning_config(quant_format: Any = QuantFormat.QOperator) -> List[BaseConfig]:
    """The weight-only configurations that autotune tries, coarse ones last."""
    return [
        RTNConfig(weight_sym=False, quant_format=quant_format),
        GPTQConfig(weight_sym=False, quant_format=quant_format),
        GPTQConfig(weight_sym=False, quant_last_matmul=False, quant_format=quant_format),
        GPTQConfig(weight_group_size=128, weight_sym=False, quant_format=quant_format),
        AWQConfig(weight_sym=False, quant_format=quant_format),
    ]


# The other tool's order of algorithms, larger ones first.
_PRIORITIES = {"smooth_quant": 80, "gptq": 70, "static_quant": 70, "rtn": 60, "dynamic_quant": 60, "awq": 50}


class ConfigRegistry:
    """The classes of configurations by the name of their algorithm."""

    @staticmethod
    def get_all_configs() -> Dict[str, Dict[str, Any]]:
        return {name: {"priority": _PRIORITIES[name], "cls": config} for name, config in registered_configs.items()}

    @classmethod
    def get_sorted_configs(cls) -> Dict[str, Dict[str, Any]]:
        return dict(sorted(cls.get_all_configs().items(), key=lambda item: -item[1]["priority"]))

    @staticmethod
    def get_cls_configs() -> Dict[str, Type[BaseConfig]]:
        return dict(registered_configs)

    @staticmethod
    def get_all_config_cls() -> List[Type[BaseConfig]]:
        return list(registered_configs.values())

    @staticmethod
    def register_config_impl(algo_name: str, priority: float = 0) -> Any:
        refuse(NAMES, "ConfigRegistry", "register_config")


config_registry = ConfigRegistry()


def get_all_config_set_from_config_registry() -> List[Any]:
    """What each algorithm has autotune try."""
    return [config.get_config_set_for_tuning() for config in registered_configs.values()]  # type: ignore[attr-defined]
