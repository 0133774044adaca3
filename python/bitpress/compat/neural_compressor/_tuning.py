"""The configurations that autotune tries, and their order."""

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress.compat import _fates
from bitpress.compat.neural_compressor import _checks, _words
from bitpress.compat.neural_compressor._configs import RTNConfig
from bitpress.compat.neural_compressor._types import BaseConfig, ComposableConfig

Configs = Union[BaseConfig, Mapping[str, Any], Sequence[Union[BaseConfig, Mapping[str, Any]]]]


def config_of(given: Any, where: str) -> BaseConfig:
    """A configuration, also of a dict {"rtn": {...}}."""
    config = ComposableConfig.from_dict(given) if isinstance(given, Mapping) else given
    if not isinstance(config, BaseConfig):
        raise ArgumentTypeError(f"{where} is {type(config).__name__}; expected StaticQuantConfig, DynamicQuantConfig, SmoothQuantConfig, "
                                "RTNConfig, GPTQConfig or AWQConfig")
    return config


class ConfigSet:
    """Configurations with one value for every option."""

    def __init__(self, config_list: List[BaseConfig]) -> None:
        self.config_list = config_list

    def __getitem__(self, index: int) -> BaseConfig:
        return self.config_list[index]

    def __len__(self) -> int:
        return len(self.config_list)

    @classmethod
    def generate_config_list(cls, fwk_configs: Configs) -> List[BaseConfig]:
        return cls.from_fwk_configs(fwk_configs).config_list

    @classmethod
    def from_fwk_configs(cls, fwk_configs: Configs) -> "ConfigSet":
        """All combinations of the values that are lists."""
        configs = fwk_configs if isinstance(fwk_configs, (list, tuple)) else [fwk_configs]
        return cls([expanded for config in configs for expanded in config_of(config, "TuningConfig: config_set").expand()])


class Sampler:
    """An order of trials: its objects give the indices of the configurations of a set."""

    def __init__(self, config_source: Any = None) -> None:
        self.config_source = config_source


class SequentialSampler(Sampler):
    """Each index once, from the first."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.config_source)))

    def __len__(self) -> int:
        return len(self.config_source)


default_sampler = SequentialSampler


class Evaluator:
    """A sum of several functions' results, for eval_fn: {"eval_fn": f, "weight": 0.5, "name": "accuracy"}, or a list of these."""

    def __init__(self) -> None:
        self.eval_fn_registry: List[Dict[str, Any]] = []

    def set_eval_fn_registry(self, eval_fns: Any = None) -> None:
        if eval_fns is None:
            return
        given = eval_fns if isinstance(eval_fns, list) else [eval_fns]
        pairs = [{"eval_fn": pair} if callable(pair) else pair for pair in given]
        for pair in pairs:
            if not isinstance(pair, Mapping) or not callable(pair.get("eval_fn")):
                raise ArgumentTypeError(f"Evaluator: eval_fns={pair!r}: expected a function or a dict with the function eval_fn")
        self.eval_fn_registry = [{"weight": 1.0, "name": getattr(pair["eval_fn"], "__name__", "custom_func"), **pair} for pair in pairs]

    def get_number_of_eval_functions(self) -> int:
        return len(self.eval_fn_registry)

    def self_check(self) -> None:
        if not self.eval_fn_registry:
            raise InvalidArgumentError("Evaluator: eval_fns is empty; expected at least one function")

    def evaluate(self, model: Any) -> float:
        return float(sum(pair["weight"] * pair["eval_fn"](model) for pair in self.eval_fn_registry))


class ConfigLoader:
    """The configurations of a set in the order of a sampler, equal ones once."""

    def __init__(self, config_set: Configs, sampler: Any = default_sampler, skip_verified_config: bool = True) -> None:
        self.config_set = ConfigSet.from_fwk_configs(config_set)
        self.skip_verified_config = skip_verified_config
        try:
            order = (default_sampler if sampler is None else sampler)(self.config_set)
            self._ordered = [self.config_set[index] for index in order]
        except (TypeError, IndexError) as error:
            raise ArgumentTypeError(f"TuningConfig: sampler={sampler!r}: expected a class whose objects give the indices of the configurations "
                                    f"({error})") from error

        self._tried: List[BaseConfig] = []

    def is_verified_config(self, config: BaseConfig) -> bool:
        return config in self._tried

    def __iter__(self) -> Iterator[BaseConfig]:
        self._tried = []
        for config in self._ordered:
            if not (self.skip_verified_config and self.is_verified_config(config)):
                self._tried.append(config)
                yield config


class TuningConfig:
    """The configurations that autotune tries, and the loss with which it is content."""

    def __init__(self, config_set: Optional[Configs] = None, sampler: Any = default_sampler, tolerable_loss: float = 0.01,
                 max_trials: int = 100) -> None:
        _fates.check({"config_set": config_set, "sampler": sampler}, _words.TUNING, "TuningConfig")
        _checks.check({"tolerable_loss": tolerable_loss, "max_trials": max_trials}, _checks.TUNING, "TuningConfig")
        self.config_set: List[BaseConfig] = ConfigSet.from_fwk_configs(RTNConfig() if config_set is None else config_set).config_list
        self.sampler = sampler
        self.tolerable_loss = tolerable_loss
        self.max_trials = max_trials

    def trials(self) -> List[BaseConfig]:
        """At most `max_trials`, in the sampler's order."""
        configs = list(ConfigLoader(self.config_set, self.sampler))[: self.max_trials]
        if not configs:
            raise InvalidArgumentError("TuningConfig: there is no configuration to try (max_trials, config_set)")
        return configs
