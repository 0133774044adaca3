"""MatMulNBitsQuantizer: weights in blocks of 2, 4 or 8 bits."""

import tempfile
from pathlib import Path
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple

import bitpress
from bitpress._errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from bitpress._files import Model, PathLike
from bitpress.compat import _fates, _nbits
from bitpress.compat._enums import QuantFormat
from bitpress.compat._samples import learning_from_all
from bitpress.compat._values import name_of
from bitpress.compat.onnxruntime import _words

_AXES = (("MatMul", 0), ("Gather", 1))


class WeightOnlyQuantConfig:
    """An algorithm and its options, by name or in their order, as attributes.

    Attributes:
        algorithm: ONNX Runtime's word for the algorithm.
        defaults: all options in the order of positional arguments.
    """

    algorithm: str = ""
    words: ClassVar[_fates.Table] = _words.WEIGHT_ONLY
    defaults: ClassVar[Dict[str, Any]] = {"algorithm": "", "quant_format": QuantFormat.QOperator, "op_types_to_quantize": None, "quant_axes": None,
                                          "customized_weight_config": None}

    def __init__(self, *values: Any, **options: Any) -> None:
        given = _nbits.arguments(type(self).__name__, self.defaults, values, options)
        _fates.check(given, self.words, type(self).__name__)
        for name, value in {**self.defaults, **given}.items():
            setattr(self, name, value)
        self.op_types_to_quantize = set(getattr(self, "op_types_to_quantize", None) or ("MatMul",))
        self.quant_axes = dict(getattr(self, "quant_axes", None) or _AXES)


class DefaultWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Rounding to nearest."""

    algorithm = "DEFAULT"
    words = _words.DEFAULT
    defaults = {"block_size": 128, "is_symmetric": False, "accuracy_level": None, "quant_format": QuantFormat.QOperator,
                "op_types_to_quantize": None, "quant_axes": None, "bits": 4, "channel_wised_quantize": False}


class RTNWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Rounding to nearest, with the block size and symmetry of the quantizer."""

    algorithm = "RTN"
    words = _words.RTN
    defaults = {"ratios": None, "quant_format": QuantFormat.QOperator, "op_types_to_quantize": None, "customized_weight_config": None}


class KQuantWeightOnlyQuantConfig(RTNWeightOnlyQuantConfig):
    """Ranges with the least squared error of the weights."""

    algorithm = "k_quant"
    words = _words.K_QUANT


class GPTQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Rounding one after another so that the layer's output changes least."""

    algorithm = "GPTQ"
    words = _words.GPTQ
    defaults = {"calibration_data_reader": None, "percdamp": 0.01, "block_size": 128, "actorder": False, "mse": False, "perchannel": True,
                "quant_format": QuantFormat.QOperator, "op_types_to_quantize": None}


class HQQWeightOnlyQuantConfig(WeightOnlyQuantConfig):
    """Ranges with the least squared error of the weights, with zero points."""

    algorithm = "HQQ"
    words = _words.HQQ
    defaults = {"block_size": 128, "bits": 4, "axis": 1, "quant_format": QuantFormat.QOperator, "op_types_to_quantize": None, "quant_axes": None}


_ALGORITHMS = ("DEFAULT", "RTN", "k_quant", "GPTQ", "HQQ")


class ONNXModel:
    """A written model.

    Attributes:
        model: the onnx.ModelProto.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def graph(self) -> Any:
        return self.model.graph

    def nodes(self) -> Any:
        return self.model.graph.node

    def initializer(self) -> Any:
        return self.model.graph.initializer

    def opset_import(self) -> Any:
        return self.model.opset_import

    def get_initializer(self, name: str) -> Any:
        return next((item for item in self.model.graph.initializer if item.name == name), None)

    def save_model_to_file(self, output_path: PathLike, use_external_data_format: bool = False) -> None:
        """Writes the model, with `use_external_data_format` its data to OUTPUT.data."""
        import onnx

        path = Path(output_path)
        if use_external_data_format:
            data = path.with_name(path.name + ".data")
            data.unlink(missing_ok=True)  # onnx appends
            copy = onnx.ModelProto()
            copy.CopyFrom(self.model)
            onnx.save_model(copy, str(path), save_as_external_data=True, all_tensors_to_one_file=True, location=data.name)
        else:
            onnx.save_model(self.model, str(path))


class MatMulNBitsQuantizer:
    """Quantizes the weights of products, and tables of Gather, in blocks.

    Attributes:
        model: the given model, and after process() an ONNXModel of the quantized one.
    """

    def __init__(self, model: Model, bits: int = 4, block_size: int = 128, is_symmetric: bool = False, accuracy_level: Optional[int] = None,
                 nodes_to_exclude: Optional[Sequence[str]] = None, nodes_to_include: Optional[Sequence[str]] = None,
                 quant_format: Any = QuantFormat.QOperator, op_types_to_quantize: Optional[Sequence[str]] = None,
                 quant_axes: Optional[Sequence[Tuple[str, int]]] = None, channel_wised_quantize: bool = False, algo_config: Any = None) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        _fates.check(given, _words.NBITS, type(self).__name__)
        self.model: Any = model
        self.bits = bits
        self.block_size = block_size
        self.is_symmetric = is_symmetric
        self.accuracy_level = accuracy_level
        self.nodes_to_exclude = list(nodes_to_exclude or ())
        self.nodes_to_include = list(nodes_to_include or ())
        self.algo_config: Any = algo_config if algo_config is not None else DefaultWeightOnlyQuantConfig(
            block_size, is_symmetric, accuracy_level, quant_format, op_types_to_quantize, quant_axes, bits, channel_wised_quantize)
        algorithm = getattr(self.algo_config, "algorithm", None)
        if not isinstance(algorithm, str):
            raise ArgumentTypeError(f"MatMulNBitsQuantizer: algo_config is {type(algo_config).__name__}; expected one of "
                                    "DefaultWeightOnlyQuantConfig, RTN..., KQuant..., GPTQ..., HQQ...")
        if algorithm not in _ALGORITHMS:
            raise UnsupportedError(f"MatMulNBitsQuantizer: algo_config with algorithm='{algorithm}' is refused: it is not done here. Instead: one of "
                                   + ", ".join(_ALGORITHMS))

    def _option(self, name: str, default: Any) -> Any:
        """An option of the algorithm, or the quantizer's own."""
        return getattr(self.algo_config, name, default)

    def _settings(self) -> Dict[str, Any]:
        algorithm = self.algo_config.algorithm
        # The block size of GPTQ's configuration is that of its steps.
        size = self.block_size if algorithm == "GPTQ" else self._option("block_size", self.block_size)
        settings = _nbits.block_settings(self._option("bits", 4), size, algorithm != "HQQ" and bool(self._option("is_symmetric", self.is_symmetric)))
        if self._option("channel_wised_quantize", False):
            if self._is_operator():
                raise UnsupportedError("channel_wised_quantize=True with quant_format=QOperator is refused: MatMulNBits has blocks. Instead: QDQ")
            settings = {**settings, "weight_granularity": "per_axis"}
            del settings["weight_block_size"]
        if algorithm in ("HQQ", "k_quant") or self._option("mse", False):
            settings["weight_range"] = "mse"
        if algorithm in ("HQQ", "k_quant"):
            _fates.say(f"{type(self.algo_config).__name__}: ranges are those with the least squared error of the weights (weight_range=mse)")
        if algorithm == "GPTQ":
            settings.update(finetune="gptq", finetune_ridge=self.algo_config.percdamp, finetune_activation_order=bool(self.algo_config.actorder))
        if "Gather" in self.algo_config.op_types_to_quantize:
            settings["embeddings"] = settings["weights"]
        return settings

    def _is_operator(self) -> bool:
        return name_of(self._option("quant_format", QuantFormat.QOperator)) == "QOperator"

    def _rules(self) -> List[Dict[str, Any]]:
        others: Dict[str, Any] = {"not_op_types": sorted(self.algo_config.op_types_to_quantize)}
        if self.nodes_to_include:
            others["not_names"] = self.nodes_to_include
        rules = [{**others, "exclude": True, "optional": True}]
        if self.nodes_to_exclude:
            rules.append({"names": self.nodes_to_exclude, "exclude": True, "optional": True})
        own = getattr(self.algo_config, "customized_weight_config", None) or {}
        return rules + [{"names": [node], "optional": True, **self._own_settings(node, given)} for node, given in own.items()]

    def _own_settings(self, node: str, given: Mapping[str, Any]) -> Dict[str, Any]:
        for word in given:
            if word not in ("bits", "group_size", "scheme"):
                raise InvalidArgumentError(_fates.unknown(word, ("bits", "group_size", "scheme"), f"customized_weight_config['{node}']"))
        return _nbits.block_settings(given.get("bits", 4), given.get("group_size", self.block_size),
                                     given.get("scheme", "sym" if self.is_symmetric else "asym") == "sym")

    def process(self) -> None:
        """Quantizes `model` in place of it."""
        import onnx

        settings = self._settings()
        arguments: Dict[str, Any] = {}
        if not self._is_operator():
            arguments["storage"] = "qdq"
        else:
            level = 4 if self._option("accuracy_level", self.accuracy_level) == 4 else 1
            if _nbits.has_operator(self._option("bits", 4), settings["weight_block_size"], level, "bits", "block_size"):
                arguments.update(target="onnxruntime", accuracy_level=level)
        data = self._option("calibration_data_reader", None)
        if "finetune" in settings and data is None:
            raise InvalidArgumentError("GPTQWeightOnlyQuantConfig needs samples: calibration_data_reader is not given")
        source = getattr(self.model, "model", self.model)
        config = bitpress.Config.from_json('{"name": "matmul_nbits"}').changed(rules=self._rules(), **learning_from_all({"activations": "none", **settings}))
        with tempfile.TemporaryDirectory(prefix="bitpress-") as folder:
            path = Path(folder) / "quantized.onnx"
            report = bitpress.quantize(source, path, config, data, **arguments)
            self.model = ONNXModel(onnx.load(str(path)))
        _fates.say_report(report, {"not_op_types": "op_types_to_quantize", "not_names": "nodes_to_include", "names": "nodes_to_exclude"})
        if "target" in arguments:
            _fates.say_left(report, "quant_format=QOperator")

    int4_quant_algo = process
