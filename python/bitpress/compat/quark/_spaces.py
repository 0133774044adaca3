"""Spaces of AMD Quark's auto_search: dictionaries of lists, and the configurations that they hold."""

import itertools
import math
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from bitpress._errors import ArgumentTypeError, InvalidArgumentError
from bitpress.compat import _fates
from bitpress.compat.quark import _words

Settings = Dict[str, Any]
_NUM_POINTS = 5  # of a range without steps


def _list(values: Any, where: str) -> List[Any]:
    if not isinstance(values, (list, tuple)):
        raise ArgumentTypeError(f"{where} is {type(values).__name__}; expected a list of values to try")
    if not values:
        raise InvalidArgumentError(f"{where} has no values to try")
    return list(values)


def products(space: Mapping[str, Any], where: str) -> Iterator[Settings]:
    """Every combination of one value of each list, the last word's values first."""
    lists = [_list(values, f"{where}: {word}") for word, values in space.items()]
    for values in itertools.product(*lists):
        yield dict(zip(space, values))


class SearchSpace:
    """The configurations of a space of the older interface: fields, `extra_options` and in it `FastFinetune`, with lists of values."""

    def __init__(self, conf: Mapping[str, Any], logger: Any = None) -> None:
        if not isinstance(conf, Mapping):
            raise ArgumentTypeError(f"SearchSpace: conf is {type(conf).__name__}; expected a dict of lists")
        self.raw_search_space = conf
        self.all_configs: List[Settings] = []

    def get_all_configs(self) -> List[Settings]:
        fields = {word: values for word, values in self.raw_search_space.items() if word != "extra_options"}
        options = dict(self.raw_search_space.get("extra_options") or {})
        tuning = options.pop("FastFinetune", None) or {}
        for given, known, where in ((fields, {*_words.FIELDS}, "search_space"), (options, {*_words.OPTIONS}, "search_space: extra_options"),
                                    (tuning, {*_words.FAST_FINETUNE, "NumIterLR"}, "search_space: FastFinetune")):
            for word in given:
                if word not in known:
                    raise InvalidArgumentError(_fates.unknown(word, known, where))
        self.all_configs = []
        for field_values, option_values, tuning_values in itertools.product(
                products(fields, "search_space"), products(options, "search_space: extra_options"),
                products(tuning, "search_space: FastFinetune")):
            made: Settings = dict(field_values)
            extra = dict(option_values)
            if tuning_values:
                extra["FastFinetune"] = joined_apart(tuning_values, "NumIterLR", "NumIterations", "LearningRate")
            if extra:
                made["extra_options"] = extra
            self.all_configs.append(made)
        return self.all_configs


def joined_apart(values: Mapping[str, Any], word: str, *words: str) -> Settings:
    """A pair of values as its two words: NumIterLR is NumIterations and LearningRate."""
    values = dict(values)
    pair = values.pop(word, None)
    if pair is not None:
        if not isinstance(pair, (list, tuple)) or len(pair) != len(words):
            raise ArgumentTypeError(f"search_space: {word}={pair!r}: expected [number of iterations, learning rate]")
        values.update(zip(words, pair))
    return values


def _is_met(condition: Any, settings: Mapping[str, Any]) -> bool:
    if isinstance(condition, str):
        return settings.get(condition) is not None
    if isinstance(condition, Mapping):
        return all(settings.get(word) == value for word, value in condition.items())
    raise ArgumentTypeError(f"search_space: only_if={condition!r}: expected a word, or a dict of word -> value")


def generate_all_configs(search_space: Mapping[str, Any]) -> List[Settings]:
    """The configurations of a space of the newer interface: lists, and dicts of lists that count `only_if` another word has a value."""
    if not isinstance(search_space, Mapping):
        raise ArgumentTypeError(f"search_space is {type(search_space).__name__}; expected a dict")
    groups = {word: value for word, value in search_space.items() if isinstance(value, Mapping)}
    made = list(products({word: value for word, value in search_space.items() if word not in groups}, "search_space"))
    for word, group in groups.items():
        if "only_if" not in group:
            raise InvalidArgumentError(f"search_space: {word} has no 'only_if', the word that it belongs to")
        choices = {key: values for key, values in group.items() if key != "only_if"}
        made = [{**settings, **({word: choice} if choice else {})} for settings in made
                for choice in (products(choices, f"search_space: {word}") if _is_met(group["only_if"], settings) else [{}])]
    return made


def _points(given: Any, where: str) -> Any:
    """A range {"type", "low", "high"} as a list; lists as they are."""
    if not isinstance(given, Mapping):
        return given
    low, high, kind = given.get("low"), given.get("high"), given.get("type")
    if kind not in ("int", "float") or not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or not low <= high:
        raise InvalidArgumentError(f"{where}={given!r}: expected 'type' int or float, and 'low' of at most 'high'")
    if kind == "int" and given.get("step", 1) >= 1:
        step = max(int(given.get("step", 1)), math.ceil((high - low + 1) / 100))
        return list(range(int(low), int(high) + 1, step))
    if given.get("log") and low > 0:
        return [low * (high / low) ** (i / (_NUM_POINTS - 1)) for i in range(_NUM_POINTS)]
    return [low + (high - low) * i / (_NUM_POINTS - 1) for i in range(_NUM_POINTS)]


def with_points(search_space: Mapping[str, Any]) -> Dict[str, Any]:
    """The space with lists in place of ranges."""
    return {word: {key: values if key == "only_if" else _points(values, f"search_space: {word}: {key}") for key, values in value.items()}
            if isinstance(value, Mapping) else value for word, value in search_space.items()}


def spread(items: Sequence[Any], count: Optional[int]) -> List[Any]:
    """So many items, evenly over all of them; the first and the last are there."""
    if count is None or count >= len(items):
        return list(items)
    return [items[round(i * (len(items) - 1) / max(count - 1, 1))] for i in range(count)]
