"""Configurations as dictionaries and back, spelled as Quark spells them."""

import enum
from typing import Any, Dict, List, Mapping

from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress.compat import _fates
from bitpress.compat.quark import _types as t
from bitpress.compat.quark._algorithm_types import ALGORITHMS, AlgoConfig

ENUM_CLASS_MAP = {kind.__name__: kind for kind in (t.CalibMethod, t.ScaleType, t.QuantGranularity)}
_SPEC_ENUMS: Dict[str, Any] = {"calibration_method": t.CalibMethod, "scale_type": t.ScaleType, "quant_granularity": t.QuantGranularity}


def plain(value: Any) -> Any:
    """A value as plain data: enums as "CalibMethod.MinMax", data types by their names."""
    if isinstance(value, t.DataType):
        return value.name
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, AlgoConfig):
        return value.to_dict()
    if isinstance(value, t.QTensorConfig):
        return {name: plain(item) for name, item in vars(value).items()}
    if isinstance(value, t.QLayerConfig):
        return {name: plain(spec) for name, spec in vars(value).items() if spec is not None}
    if isinstance(value, Mapping):
        if any(isinstance(key, t.QLayerConfig) for key in value):
            return [[plain(key), plain(item)] for key, item in value.items()]
        return {key if isinstance(key, str) else plain(key): plain(item) for key, item in value.items()}
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(value)


def config_to_dict(config: t.QConfig) -> Dict[str, Any]:
    def pairs(layers: Mapping[Any, Any]) -> List[Any]:
        return [[plain(layer), plain(nodes)] for layer, nodes in layers.items()]

    return {"global_config": plain(config.global_config), "specific_layer_config": pairs(config.specific_layer_config),
            "layer_type_config": pairs(config.layer_type_config), "exclude": plain(config.exclude), "algo_config": plain(config.algo_config),
            "use_external_data_format": config.use_external_data_format, "extra_options": plain(config.extra_options)}


def _entries(data: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ArgumentTypeError(f"{where} is {type(data).__name__}; expected a dict")
    return data


def _member(kind: Any, value: Any, where: str) -> Any:
    name = str(getattr(value, "name", value)).rsplit(".", 1)[-1]
    if name not in kind.__members__:
        raise InvalidArgumentError(f"{where}={value!r}: expected one of {', '.join(f'{kind.__name__}.{item}' for item in kind.__members__)}")
    return kind[name]


def parse_enum(v: Any) -> Any:
    """The member that a text such as "CalibMethod.MinMax" names; other values as they are."""
    kind = ENUM_CLASS_MAP.get(v.split(".")[0]) if isinstance(v, str) and "." in v else None
    return v if kind is None else _member(kind, v, "parse_enum")


def parse_data_type(dtype_name: Any) -> Any:
    return None if dtype_name is None else _member(t.DataType, dtype_name, "parse_data_type")


def tensor_from_dict(data: Any, where: str = "QTensorConfig") -> t.QTensorConfig:
    arguments = dict(_entries(data, where))
    for name, value in arguments.items():
        if name in _SPEC_ENUMS:
            arguments[name] = _member(_SPEC_ENUMS[name], value, f"{where}: {name}")
        elif name == "data_type":
            arguments[name] = _member(t.DataType, value, f"{where}: {name}")
        elif name != "symmetric":
            raise InvalidArgumentError(_fates.unknown(name, [*_SPEC_ENUMS, "data_type", "symmetric"], where))
    return t.QTensorConfig(**arguments)


def layer_from_dict(data: Any, where: str = "QLayerConfig") -> t.QLayerConfig:
    layer = t.QLayerConfig()
    for name, spec in _entries(data, where).items():
        if name not in t.QLayerConfig.names:
            raise InvalidArgumentError(_fates.unknown(name, t.QLayerConfig.names, where))
        setattr(layer, name, None if spec is None else tensor_from_dict(spec, f"{where}.{name}"))
    return layer


def algorithm_from_dict(data: Any, where: str = "AlgoConfig") -> AlgoConfig:
    arguments = dict(_entries(data, where))
    name = arguments.pop("name", None)
    if name not in ALGORITHMS:
        raise InvalidArgumentError(f"{where}: name={name!r}: expected one of {', '.join(map(repr, ALGORITHMS))}")
    target = arguments.get("target_layer_config")
    if isinstance(target, Mapping) and not any(isinstance(key, t.QLayerConfig) for key in target):
        arguments["target_layer_config"] = layer_from_dict(target, f"{where}.target_layer_config")
    elif isinstance(target, list) and target and isinstance(target[0], list):
        arguments["target_layer_config"] = {layer_from_dict(layer, f"{where}.target_layer_config"): names for layer, names in target}
    elif isinstance(target, list):
        arguments["target_layer_config"] = [layer_from_dict(item, f"{where}.target_layer_config") if isinstance(item, Mapping) else item
                                            for item in target]
    return ALGORITHMS[name](**arguments)


def config_from_dict(data: Any) -> t.QConfig:
    entries = _entries(data, "QConfig.from_dict")
    known = ("global_config", "specific_layer_config", "layer_type_config", "exclude", "algo_config", "use_external_data_format", "extra_options")
    for name in entries:
        if name not in known:
            raise InvalidArgumentError(_fates.unknown(name, known, "QConfig.from_dict"))
    if "global_config" not in entries:
        raise InvalidArgumentError("QConfig.from_dict: there is no 'global_config'; it is the one entry that a configuration needs")

    def pairs(word: str) -> Dict[Any, Any]:
        made: Dict[Any, Any] = {}
        for pair in _list(entries.get(word), f"QConfig.from_dict: {word}"):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise ArgumentTypeError(f"QConfig.from_dict: {word}: {pair!r} is no pair [layer, names]")
            made[None if pair[0] is None else layer_from_dict(pair[0], word)] = pair[1]
        return made

    exclude = [item if isinstance(item, str) else _subgraphs(item) for item in _list(entries.get("exclude"), "QConfig.from_dict: exclude")]
    algorithms = [algorithm_from_dict(item, "algo_config") for item in _list(entries.get("algo_config"), "QConfig.from_dict: algo_config")]
    return t.QConfig(layer_from_dict(entries["global_config"], "global_config"), pairs("specific_layer_config"), pairs("layer_type_config"),
                     exclude, algorithms, entries.get("use_external_data_format", False), entries.get("extra_options"))


def _list(given: Any, where: str) -> List[Any]:
    if given is not None and not isinstance(given, (list, tuple)):
        raise ArgumentTypeError(f"{where} is {type(given).__name__}; expected a list")
    return list(given or ())


def _subgraphs(item: Any) -> Any:
    """JSON knows no tuples: [[[starts], [ends]]] is a list of subgraphs."""
    if isinstance(item, list) and item and all(isinstance(part, list) and len(part) == 2 and all(isinstance(side, list) for side in part)
                                               for part in item):
        return [tuple(part) for part in item]
    return item
