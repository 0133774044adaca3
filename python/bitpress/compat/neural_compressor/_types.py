"""ONNX Neural Compressor's readers and the base of its configurations; _configs.py has these, _translate.py says what they mean."""

import abc
import copy
import itertools
import json
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Tuple, Type

from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress._files import PathLike, existing
from bitpress.compat import _fates
from bitpress.compat import _values as v
from bitpress.compat._readers import Reader
from bitpress.compat.neural_compressor import _checks, _names
from bitpress.compat.neural_compressor._enums import CalibrationMethod, QuantType


class CalibrationDataReader(Reader):
    """Samples: dicts of name -> array, and None at the end. Any class with get_next() counts as one."""

    @abc.abstractmethod
    def rewind(self) -> None: ...


def _known(name: str, words: Any, where: str) -> None:
    if name not in words:
        raise InvalidArgumentError(_fates.unknown(name, words, where))


@dataclass
class OperatorConfig:
    """Settings of some operators of a static configuration, for set_local."""

    weight_type: Any = QuantType.QInt8
    activation_type: Any = QuantType.QUInt8
    per_channel: bool = False
    weight_sym: bool = True
    activation_sym: bool = False
    calibrate_method: Any = CalibrationMethod.MinMax

    def __post_init__(self) -> None:
        for word in ("weight_type", "activation_type"):
            setattr(self, word, _checks.in_members(word, getattr(self, word)))
        _checks.check(vars(self), _checks.INTEGERS, "OperatorConfig")

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def update(self, kwargs: Mapping[str, Any]) -> None:
        for key, value in kwargs.items():
            _known(key, vars(self), "OperatorConfig")
            setattr(self, key, value)
        self.__post_init__()

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


class BaseConfig:
    """Options by name or in their order, and other options for some operators.

    Attributes:
        defaults: all options in the order of positional arguments.
        params_list, model_params_list: options that may be lists of values to try, of operators and of the whole model. Of each
            the first varies fastest.
    """

    name: ClassVar[str] = ""
    defaults: ClassVar[Dict[str, Any]] = {}
    words: ClassVar[_fates.Table] = {}
    kinds: ClassVar[_checks.Kinds] = {}
    params_list: ClassVar[List[str]] = []
    model_params_list: ClassVar[List[str]] = []
    local_config: Dict[str, Any]
    given: Dict[str, Any]

    def __init__(self, *values: Any, **options: Any) -> None:
        where, names = type(self).__name__, list(self.defaults)
        if len(values) > len(names):
            raise ArgumentTypeError(f"{where} takes {len(names)} arguments at most, not {len(values)}")
        twice = set(names[:len(values)]) & set(options)
        if twice:
            raise ArgumentTypeError(f"{where}: {min(twice)} is given twice, by position and by name")
        given = {**dict(zip(names, values)), **options}
        _fates.check({key: value for key, value in given.items() if not self._is_list(key, value)}, self.words, where)
        self._set("given", {})
        self._set("local_config", {})
        for key, value in self.defaults.items():
            self._set(key, copy.copy(value))
        for key, value in given.items():
            self._give(key, value)

    def _set(self, key: str, value: Any) -> None:
        object.__setattr__(self, key, value)

    def _is_list(self, key: str, value: Any) -> bool:
        return key in (*self.params_list, *self.model_params_list) and _checks.is_list(value)

    def _give(self, key: str, value: Any) -> None:
        where, value = type(self).__name__, _checks.in_members(key, value)
        _checks.check({key: value}, self.kinds, where, (*self.params_list, *self.model_params_list))
        if key == "extra_options" and value is not None:
            _checks.check(value, _checks.EXTRA, f"{where}, extra_options")
        self.given[key] = value
        self._set(key, value)

    def __setattr__(self, key: str, value: Any) -> None:
        """Fields are options; others change nothing, which is said."""
        if key in self.defaults:
            self._give(key, value)
            return
        if key not in vars(self) and not key.startswith("_") and not hasattr(type(self), key):
            near = _fates.nearest(key, self.defaults)
            _fates.say(f"{type(self).__name__}: the attribute {key} changes nothing here" + (f"; did you mean '{near}'?" if near else ""))
        self._set(key, value)

    def option(self, key: str) -> Any:
        return getattr(self, key)

    def verify(self) -> None:
        """Checks that no option is a list of values to try."""
        _checks.check({key: getattr(self, key) for key in self.given}, self.kinds, type(self).__name__)

    def __getitem__(self, key: str) -> Any:
        _known(key, self.defaults, type(self).__name__)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        _known(key, self.defaults, type(self).__name__)
        setattr(self, key, value)

    def set_local(self, operator_name: str, config: Any) -> "BaseConfig":
        """Other settings for an operator type, or for nodes whose names begin as the regular expression says."""
        if not isinstance(operator_name, str):
            raise ArgumentTypeError(f"set_local: operator_name={operator_name!r}: expected an operator type or a regular expression")
        if not isinstance(config, (BaseConfig, OperatorConfig)):
            raise ArgumentTypeError(f"set_local('{operator_name}'): config is {type(config).__name__}; expected a configuration")
        try:
            re.compile(operator_name)
        except re.error as error:
            raise InvalidArgumentError(f"set_local: operator_name='{operator_name}' is no regular expression: {error}") from error
        self.local_config[operator_name] = config
        return self

    def __add__(self, other: Any) -> "BaseConfig":
        """Of one kind: its settings for some operators, too, and those of a white list for these. Of two kinds: both."""
        if not isinstance(other, BaseConfig):
            raise ArgumentTypeError(f"{type(self).__name__} + {type(other).__name__}: expected another configuration")
        if not isinstance(other, type(self)):
            return ComposableConfig([self, other])
        if "white_list" in other.given and isinstance(other.white_list, (list, tuple)):
            own = type(other)(**{key: value for key, value in other.given.items() if key != "white_list"})
            for operator_name in other.white_list:
                self.set_local(operator_name, own)
        for operator_name, config in other.local_config.items():
            self.set_local(operator_name, config)
        return self

    def expand(self) -> "List[BaseConfig]":
        """One configuration for each combination of the values that are lists: those of the model change last."""
        lists = {key: list(value) for key in (*self.params_list, *self.model_params_list)
                 if self._is_list(key, value := getattr(self, key))}
        configs: List[BaseConfig] = []
        for values in itertools.product(*reversed(lists.values())):
            config = self._copy()
            _fates.check(dict(zip(reversed(lists), values)), self.words, type(self).__name__)
            for key, value in zip(reversed(lists), values):
                config._give(key, value)
                for local in config.local_config.values():
                    if isinstance(local, BaseConfig) and _checks.is_list(getattr(local, key, None)) and value in getattr(local, key):
                        local._give(key, value)
            configs.append(config)
        return configs

    def _copy(self) -> "BaseConfig":
        made = copy.copy(self)
        made._set("given", dict(self.given))
        made._set("local_config", {key: local._copy() if isinstance(local, BaseConfig) else local for key, local in self.local_config.items()})
        return made

    def get_init_args(self) -> Dict[str, Any]:
        return {key: getattr(self, key) for key in self.defaults if key != "white_list"}

    def get_params_dict(self) -> Dict[str, Any]:
        return {key: getattr(self, key) for key in self.params_list}

    def get_model_params_dict(self) -> Dict[str, Any]:
        return {key: getattr(self, key) for key in self.model_params_list}

    @staticmethod
    def get_model_info(model: Any) -> List[Tuple[str, str]]:
        """The name and type of each node of a model, which is a path or an onnx.ModelProto."""
        import onnx  # takes a while

        loaded = onnx.load(model, load_external_data=False) if isinstance(model, (str, Path)) else model
        return [(node.name, node.op_type) for node in loaded.graph.node]

    def __getattr__(self, name: str) -> Any:
        return _names.refuse(_names.METHODS, type(self).__name__, name)

    def get_diff_dict(self, config: "BaseConfig") -> Dict[str, Any]:
        """The options that differ from another configuration's."""
        return {key: value for key, value in self.get_init_args().items() if value != getattr(config, key, None)}

    def to_dict(self) -> Dict[str, Any]:
        """All options; with settings for some operators "global" has them, and "local" those of each."""
        options = self.get_init_args()
        if not self.local_config:
            return options
        return {"global": options, "local": {key: local.to_dict() for key, local in self.local_config.items()}}

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any]) -> "BaseConfig":
        where = f"{cls.__name__}.from_dict"
        _checks.check({"config_dict": config_dict}, {"config_dict": v.MAPPING}, where)
        if not {"global", "local"} & set(config_dict):
            return cls(**config_dict)
        for key in config_dict:
            _known(key, ("global", "local"), where)
        parts: Mapping[str, Any] = {"global": {}, "local": {}, **config_dict}
        _checks.check(parts, {"global": v.MAPPING, "local": v.MAPPING}, where)
        made = cls.from_dict(parts["global"])
        for operator_name, options in parts["local"].items():
            _checks.check({operator_name: options}, {operator_name: v.MAPPING}, f"{where}, local")
            is_operator = bool({"weight_sym", "activation_sym"} & set(options)) and "weight_sym" not in cls.defaults
            made.set_local(operator_name, _operator_config(options) if is_operator else cls.from_dict(options))
        return made

    def to_json_string(self, use_diff: bool = False) -> str:
        """Returns to_dict() as JSON, without a reader of samples, and only what was given with `use_diff`."""
        return json.dumps(_plain(self.given if use_diff else self.to_dict()), indent=2) + "\n"

    def to_json_file(self, filename: PathLike) -> None:
        Path(filename).write_text(self.to_json_string(), encoding="utf-8")

    @classmethod
    def from_json_file(cls, filename: PathLike) -> "BaseConfig":
        try:
            read = json.loads(existing(filename, "filename").read_text(encoding="utf-8"))
        except ValueError as error:
            raise InvalidArgumentError(f"{cls.__name__}.from_json_file: '{filename}' is not JSON: {error}") from error
        return cls.from_dict(read)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BaseConfig) and type(other) is type(self) and other.to_dict() == self.to_dict()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.given.items())})"


def _operator_config(options: Mapping[str, Any]) -> OperatorConfig:
    for key in options:
        _known(key, [field.name for field in fields(OperatorConfig)], "OperatorConfig")
    return OperatorConfig(**options)


def _plain(options: Mapping[str, Any]) -> Dict[str, Any]:
    """The options as JSON can hold them."""
    return {key: _plain(value) if isinstance(value, Mapping) else _checks.in_json(key, value) for key, value in options.items()
            if key != "calibration_data_reader"}


class ComposableConfig(BaseConfig):
    """Configurations of several kinds, which autotune tries one after another."""

    name = "composable_config"

    def __init__(self, configs: List[BaseConfig]) -> None:
        if not isinstance(configs, (list, tuple)) or not all(isinstance(config, BaseConfig) for config in configs):
            raise ArgumentTypeError(f"ComposableConfig: configs={configs!r}: expected a list of configurations")
        super().__init__()
        self._set("config_list", list(configs))

    config_list: List[BaseConfig]

    def __add__(self, other: Any) -> "ComposableConfig":
        if not isinstance(other, BaseConfig):
            raise ArgumentTypeError(f"ComposableConfig + {type(other).__name__}: expected another configuration")
        self.config_list.extend(other.config_list if isinstance(other, ComposableConfig) else [other])
        return self

    def expand(self) -> List[BaseConfig]:
        return [expanded for config in self.config_list for expanded in config.expand()]

    def to_dict(self) -> Dict[str, Any]:
        return {config.name: config.to_dict() for config in self.config_list}

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any], config_registry: Optional[Mapping[str, Type[BaseConfig]]] = None) -> BaseConfig:
        """Reads {"rtn": {...}, "gptq": {...}}. One kind alone gives its configuration."""
        _checks.check({"config_dict": config_dict}, {"config_dict": v.MAPPING}, "ComposableConfig.from_dict")
        registry = registered_configs if config_registry is None else config_registry
        made: Optional[BaseConfig] = None
        for name, options in config_dict.items():
            _known(name, registry, "ComposableConfig.from_dict")
            config = registry[name].from_dict(options)
            made = config if made is None else made + config
        if made is None:
            raise InvalidArgumentError("ComposableConfig.from_dict: config_dict is empty; expected {'rtn': {...}} or another algorithm's name")
        return made

    def __repr__(self) -> str:
        return f"ComposableConfig({self.config_list!r})"


registered_configs: Dict[str, Type[BaseConfig]] = {}


def register(config: Type[BaseConfig]) -> Type[BaseConfig]:
    """Gives a class to dictionaries under its name."""
    registered_configs[config.name] = config
    return config
