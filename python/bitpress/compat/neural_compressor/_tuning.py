"""The configurations that autotune tries, and their order."""

from typing import Any, Iterator, List, Mapping, Optional, Sequence, Union

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
    def from_fwk_configs(cls, fwk_configs: Configs) -> "ConfigSet":
        """All combinations of the values that are lists."""
        configs = fwk_configs if isinstance(fwk_configs, (list, tuple)) else [fwk_configs]
        return cls([expanded for config in configs for expanded in config_of(config, "TuningConfig: config_set").expand()])


class SequentialSampler:
    """The order of a set: each index once."""

    def __init__(self, config_source: Any) -> None:
        self.config_source = config_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.config_source)))

    def __len__(self) -> int:
        return len(self.config_source)


default_sampler = SequentialSampler


class ConfigLoader:
    """The configurations of a set in the order of a sampler, equal ones once."""

    def __init__(self, config_set: Configs, sampler: Any = default_sampler, skip_verified_config: bool = True) -> None:
        self.config_set = ConfigSet.from_fwk_configs(config_set)
        self.skip_verified_config = skip_verified_config
        try:
            self._order = list((default_sampler if sampler is None else sampler)(self.config_set))
            self._ordered = [self.config_set[index] for index in self._order]
        except (TypeError, IndexError) as error:
            raise ArgumentTypeError(f"TuningConfig: sampler={sampler!r}: expected a class whose objects give the indices of the configurations "
                                    f"({error})") from error

    def __iter__(self) -> Iterator[BaseConfig]:
        tried: List[BaseConfig] = []
        for config in self._ordered:
            if not (self.skip_verified_config and config in tried):
                tried.append(config)
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
