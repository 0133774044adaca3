"""MatMulNBitsQuantizer: weight-only quantization through ONNX Runtime's interface."""

from typing import Any, ClassVar, Dict, List, Optional, Tuple, Type

from bitpress._errors import ArgumentTypeError, UnsupportedError
from bitpress._files import Model
from bitpress.compat import _fates, _nbits
from bitpress.compat.neural_compressor import _checks, _words
from bitpress.compat.neural_compressor._configs import AWQConfig, GPTQConfig, RTNConfig
from bitpress.compat.neural_compressor._enums import QuantFormat
from bitpress.compat.neural_compressor._quantize import quantize
from bitpress.compat.neural_compressor._types import BaseConfig


class WeightOnlyQuantConfig:
    """An algorithm and its options by name or in their order."""

    algorithm: str = ""
    defaults: ClassVar[Dict[str, Any]] = {"algorithm": "", "quant_format": QuantFormat.QOperator}

    def __init__(self, *values: Any, **options: Any) -> None:
        where = type(self).__name__
        given = _nbits.arguments(where, self.defaults, values, options)
        _fates.check(given, {name: _words.NBITS_ALGORITHMS[name] for name in self.defaults}, where)
        _checks.check(given, _checks.WEIGHTS, where)
        self.given = given
        for name, value in {**self.defaults, **given}.items():
            setattr(self, name, value)


class RTNWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Rounding to nearest."""

    algorithm = "RTN"
    defaults = {"ratios": None, "layer_wise_quant": False, "quant_format": QuantFormat.QOperator}


class DefaultWeightOnlyQuantConfig(RTNWeightOnlyQuantConfig):
    """ONNX Runtime's name for rounding to nearest."""

    algorithm = "DEFAULT"
    defaults = {"quant_format": QuantFormat.QOperator}


class GPTQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Rounding one after another so that the layer's output changes least."""

    algorithm = "GPTQ"
    defaults = {"calibration_data_reader": None, "percdamp": 0.01, "block_size": 128, "actorder": False, "mse": False, "perchannel": True,
                "layer_wise_quant": False, "quant_format": QuantFormat.QOperator}


class AWQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Rounding after factors of input channels were moved into the weights."""

    algorithm = "AWQ"
    defaults = {"calibration_data_reader": None, "enable_auto_scale": True, "enable_mse_search": True, "quant_format": QuantFormat.QOperator}


_CONFIGS: Dict[str, Tuple[Type[WeightOnlyQuantConfig], Type[BaseConfig]]] = {
    "RTN": (RTNWeightOnlyQuantConfig, RTNConfig), "DEFAULT": (DefaultWeightOnlyQuantConfig, RTNConfig),
    "GPTQ": (GPTQWeightOnlyQuantConfig, GPTQConfig), "AWQ": (AWQWeightOnlyQuantConfig, AWQConfig),
}
algorithm_config_mapping = {name: configs[0] for name, configs in _CONFIGS.items()}


class MatMulNBitsQuantizer:
    """Quantizes the weights of MatMul in blocks.

    Attributes:
        model: the given model, and after process() the quantized one, an onnx.ModelProto.
    """

    def __init__(self, model: Model, block_size: int = 128, is_symmetric: bool = False, accuracy_level: int = 0,
                 nodes_to_exclude: Optional[List[str]] = None, algo_config: Any = None, n_bits: int = 4,
                 providers: Optional[List[str]] = None, optimization_level: Any = None, is_signed: bool = False) -> None:
        where = type(self).__name__
        given = {"block_size": block_size, "is_symmetric": is_symmetric, "is_signed": is_signed, "accuracy_level": accuracy_level or 0,
                 "nodes_to_exclude": nodes_to_exclude, "n_bits": n_bits}
        _fates.check({**given, "algo_config": algo_config, "providers": providers, "optimization_level": optimization_level}, _words.NBITS, where)
        _checks.check(given, _checks.NBITS, where)
        self.algo_config = RTNWeightOnlyQuantConfig() if algo_config is None else algo_config
        self.algorithm = getattr(self.algo_config, "algorithm", None)
        if not isinstance(self.algorithm, str):
            raise ArgumentTypeError(f"{where}: algo_config is {type(algo_config).__name__}; expected one of "
                                    + ", ".join(config.__name__ for config in algorithm_config_mapping.values()))
        if self.algorithm not in _CONFIGS:
            raise UnsupportedError(f"{where}: algo_config with algorithm='{self.algorithm}' is refused: it is not done here. Instead: one of "
                                   + ", ".join(_CONFIGS))
        self.model: Any = model
        self.optimization_level = optimization_level
        for name, value in given.items():
            setattr(self, name, value)
        self._config = self._made(given)

    def _made(self, given: Dict[str, Any]) -> BaseConfig:
        """The weight-only configuration that means the same."""
        _, config = _CONFIGS[str(self.algorithm)]
        options = {"weight_dtype": "int" if given["is_signed"] or given["is_symmetric"] else "uint", "weight_bits": given["n_bits"],
                   "weight_group_size": given["block_size"], "weight_sym": given["is_symmetric"], "accuracy_level": given["accuracy_level"],
                   "nodes_to_exclude": list(given["nodes_to_exclude"] or ()), "quant_format": getattr(self.algo_config, "quant_format", "QOperator")}
        # Options without a notice: what they are was said when they were given.
        options.update({name: value for name, value in getattr(self.algo_config, "given", {}).items()
                        if name in config.defaults and name not in ("ratios", "layer_wise_quant", "block_size", "perchannel")})
        return config(**options)

    def process(self) -> None:
        """Quantizes `model` in place of it."""
        self.model = quantize(self.model, None, self._config, self.optimization_level,
                              getattr(self.algo_config, "calibration_data_reader", None))

    int4_quant_algo = process


class MatMul4BitsQuantizer(MatMulNBitsQuantizer):
    """The same with four bits."""

    def __init__(self, model: Model, block_size: int = 128, is_symmetric: bool = False, accuracy_level: int = 0,
                 nodes_to_exclude: Optional[List[str]] = None, algo_config: Any = None, providers: Optional[List[str]] = None,
                 optimization_level: Any = None, is_signed: bool = False) -> None:
        super().__init__(model, block_size, is_symmetric, accuracy_level, nodes_to_exclude, algo_config, 4, providers,
                         optimization_level, is_signed)
