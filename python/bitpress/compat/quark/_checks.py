"""Checks the values of configurations, in the script's words, before anything is made of them."""

import dataclasses
from typing import Any, Dict

from bitpress import formats
from bitpress._errors import ArgumentTypeError, Error, InvalidArgumentError
from bitpress.compat import _fates
from bitpress.compat import _values as v
from bitpress.compat.quark import _words
from bitpress.compat.quark._algorithm_types import AlgoConfig
from bitpress.compat.quark._types import DataType, QConfig, QLayerConfig, QTensorConfig, QuantizationConfig


def _is_node(item: Any) -> bool:
    """A name, a regular expression, a subgraph, or a list of subgraphs."""
    if isinstance(item, str) or not v.LIST.is_type(item):
        return isinstance(item, str)
    return (len(item) == 2 and all(map(v.NAMES.is_type, item))) or (bool(item) and all(not isinstance(part, str) and _is_node(part) for part in item))


_LAYER = v.Kind("a QLayerConfig", lambda value: isinstance(value, QLayerConfig), takes_none=False)
_NODES = v.Kind("a list of names, regular expressions that begin with ^, and subgraphs ([starts], [ends])",
                lambda value: v.LIST.is_type(value) and all(map(_is_node, value)))
_ALGORITHM = v.Kind("an algorithm, such as CLEConfig()", lambda value: isinstance(value, AlgoConfig), takes_none=False)
_OPTIONS = v.Kind("a dict", v.MAPPING.is_type)


def check_options(options: Any) -> None:
    _OPTIONS.check(options, "extra_options")
    _fates.check(options, _words.OPTIONS, "extra_options", is_lenient=True)
    _fates.check(options.get("MXAttributes") or {}, _words.MX_ATTRIBUTES, "MXAttributes")
    _fates.check(options.get("BFPAttributes") or {}, _words.BFP_ATTRIBUTES, "BFPAttributes")
    for tensor, overrides in (options.get("TensorQuantOverrides") or {}).items():
        v.DICTS.check(overrides, f"TensorQuantOverrides['{tensor}']")
    type_of: Dict[str, str] = {}
    for quant_type, tensors in (options.get("MixedPrecisionTensor") or {}).items():
        _words.TYPES.check(quant_type, "MixedPrecisionTensor: a type")
        v.NAMES.check(tensors, f"MixedPrecisionTensor: {v.name_of(quant_type)}")
        for tensor in tensors:
            if type_of.setdefault(tensor, v.name_of(quant_type)) != v.name_of(quant_type):
                raise InvalidArgumentError(f"MixedPrecisionTensor: tensor '{tensor}' is under {type_of[tensor]} and {v.name_of(quant_type)}; "
                                           "give it one type")


def checked_legacy(config: QuantizationConfig) -> QuantizationConfig:
    """Returns the configuration with Quark's defaults where None is given."""
    defaults = QuantizationConfig()
    given = {name: getattr(defaults, name) if value is None and name not in _words.NEEDED else value for name, value in config.given().items()}
    _fates.check(given, _words.FIELDS, "QuantizationConfig")
    options = {} if config.extra_options is None else config.extra_options
    check_options(options)
    return dataclasses.replace(config, extra_options=dict(options), **given)


def check_spec(spec: Any, where: str) -> None:
    if not isinstance(spec, QTensorConfig):
        hint = f"; did you mean {spec.__name__}()?" if isinstance(spec, type) and issubclass(spec, QTensorConfig) else ""
        raise ArgumentTypeError(f"{where}={spec!r} is {type(spec).__name__}; expected a specification such as Int8Spec(){hint}")
    for word in _words.SPEC.values():
        if word.takes is not None:
            word.takes.check(getattr(spec, word.name), f"{where}: {word.name}")
    if not isinstance(spec.data_type, (DataType, str)):
        raise ArgumentTypeError(f"{where}: data_type={spec.data_type!r} is {type(spec.data_type).__name__}; expected a data type such as Int8")
    try:
        formats.find(spec.format)
    except Error as error:
        raise InvalidArgumentError(f"{where}: data_type={spec.data_type!r}: {error}") from error


def check_layer(layer: Any, where: str) -> None:
    _LAYER.check(layer, where)
    for name in QLayerConfig.names:
        if getattr(layer, name) is not None:
            check_spec(getattr(layer, name), f"{where}.{name}")
    if layer.input_tensors is not None and layer.activation is not None:
        raise InvalidArgumentError(f"{where}: input_tensors and activation, its older name, are both given; give input_tensors alone")


def check_targets(target: Any, where: str) -> None:
    """Checks the forms of target_layer_config: a layer, a list of them, or a dict of layer -> names."""
    if isinstance(target, (list, tuple)) and target:
        for layer in target:
            check_layer(layer, where)
    elif isinstance(target, dict) and target:
        for layer, names in target.items():
            check_layer(layer, where)
            v.NAMES.check(names, where)
    else:
        check_layer(target, where)


def check_algorithms(algorithms: Any, where: str) -> None:
    v.LIST.check(algorithms, where)
    for algorithm in algorithms:
        _ALGORITHM.check(algorithm, where)


def check_config(config: QConfig) -> None:
    check_layer(config.global_config, "QConfig: global_config")
    for word, kind in (("specific_layer_config", v.MAPPING), ("layer_type_config", v.MAPPING), ("exclude", _NODES), ("algo_config", v.LIST)):
        kind.check(getattr(config, word), f"QConfig: {word}")
    for layer, nodes in config.specific_layer_config.items():
        check_layer(layer, "QConfig: specific_layer_config")
        _NODES.check(nodes, "QConfig: specific_layer_config: the names of a layer")
    for layer, types in config.layer_type_config.items():
        if layer is not None:
            check_layer(layer, "QConfig: layer_type_config")
        v.NAMES.check(types, "QConfig: layer_type_config: the operator types of a layer")
    check_algorithms(config.algo_config, "QConfig: algo_config")
    v.FLAG.check(config.use_external_data_format, "QConfig: use_external_data_format")
    check_options(config.extra_options)
