"""AMD Quark's auto_search: configurations of a space are tried, each with ModelQuantizer, and the best is found."""

import copy
import importlib
import json
import os
import random
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from bitpress._errors import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from bitpress._runtime import get_library_path
from bitpress.compat import _fates
from bitpress.compat import _values as v
from bitpress.compat.quark import _types as t
from bitpress.compat.quark import _words
from bitpress.compat.quark._algorithm_types import AdaQuantConfig, AdaRoundConfig, CLEConfig
from bitpress.compat.quark._quantizer import ModelQuantizer
from bitpress.compat.quark._readers import CachedDataReader
from bitpress.compat.quark._search_metrics import METRICS, SIMILARITIES
from bitpress.compat.quark._search_presets import SEARCHES
from bitpress.compat.quark._spaces import SearchSpace, Settings, generate_all_configs, joined_apart, spread, with_points
from bitpress.compat.quark._translate import translate

__all__ = ["AutoSearch", "AutoSearchConfig", "AutoSearchPro", "SearchSpace", "generate_all_configs", "get_auto_search_config"]

_SEED = 1705472343
_FULL = 2.00e4  # Quark's default tolerance, which takes everything


def get_auto_search_config(config_name: str) -> Dict[str, Any]:
    """A configuration of AutoSearchPro by its name, without the model and the samples."""
    v.one_of(*SEARCHES).needed().check(config_name, "get_auto_search_config: config_name")
    return copy.deepcopy(SEARCHES[config_name])


def _samples_of(data: Any, where: str) -> List[Any]:
    """All samples, to be read again and again."""
    if isinstance(data, CachedDataReader):
        data.reset_iter()
    if hasattr(data, "get_next"):
        return list(iter(data.get_next, None))
    if hasattr(data, "__iter__") and not isinstance(data, (str, bytes, Mapping)):
        return list(data)
    raise ArgumentTypeError(f"{where} is {type(data).__name__}; expected a reader with get_next(), or an iterable of dicts")


class _Again(t.CalibrationDataReader):
    """Samples that are in memory, for one trial."""

    def __init__(self, samples: Sequence[Any]) -> None:
        self._samples = samples
        self.rewind()

    def rewind(self) -> None:
        self._next = iter(self._samples)

    def get_next(self) -> Any:
        return next(self._next, None)


class _Measure:
    """Gives a number for a quantized model; less is better."""

    def __init__(self, model: Any, samples: Optional[Sequence[Any]], metric: str, evaluator: Optional[Callable[[str], float]]) -> None:
        self._evaluator, self._metric, self._samples = evaluator, METRICS[metric], samples
        self._sign = -1 if metric in SIMILARITIES and evaluator is None else 1
        self._base: Any = evaluator(model) if evaluator is not None else self._outputs(model)

    def of(self, path: str) -> Tuple[float, float]:
        """What Quark calls the difference, and the number to compare by."""
        if self._evaluator is not None:
            difference = float(self._base) - float(self._evaluator(path))
            return difference, difference
        value = float(np.mean([self._metric(base, found) for base, found in zip(self._base, self._outputs(path))]))
        return value, self._sign * value

    def _outputs(self, model: Any) -> List[Any]:
        onnxruntime = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.register_custom_ops_library(get_library_path())
        source = model.SerializeToString() if hasattr(model, "SerializeToString") else os.fspath(model)
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        return [np.concatenate([np.ravel(array).astype(np.float32) for array in session.run(None, dict(sample))]) for sample in self._samples or ()]


def _key(config: Any) -> str:
    """Configurations that ask the same of our library have the same key: words that change nothing here are not in it."""
    request = translate(config)
    return repr((sorted(request.settings.items()), request.rules, sorted(request.arguments.items()), request.target, request.measurement,
                 request.only_op_types, request.outputs_kept_float))


class AutoSearchConfig:
    """How AutoSearch goes; scripts change attributes, or have a class of their own with some of them."""

    search_space: Dict[str, Any] = {
        "calibrate_method": [t.PowerOfTwoMethod.MinMSE, t.PowerOfTwoMethod.NonOverflow, t.CalibrationMethod.MinMax, t.CalibrationMethod.Entropy,
                             t.CalibrationMethod.Percentile, t.LayerWiseMethod.LayerWisePercentile],
        "activation_type": [t.QuantType.QInt8, t.QuantType.QInt16], "weight_type": [t.QuantType.QInt8, t.QuantType.QInt16],
        "include_cle": [True, False], "include_fast_ft": [False, True], "include_sq": [False, True],
        "extra_options": {"ActivationSymmetric": [True, False], "WeightSymmetric": [True, False], "CalibMovingAverage": [True, False],
                          "Percentile": [99.99, 99.999], "SmoothAlpha": [0.5, 0.6],
                          "FastFinetune": {"DataSize": [500, 1000], "NumIterations": [100, 1000], "OptimAlgorithm": ["adaround", "adaquant"]}}}
    search_metric: str = "L2"
    search_algo: str = "grid_search"
    search_evaluator: Optional[Callable[[str], float]] = None
    search_metric_tolerance: float = _FULL
    search_cache_dir: str = "./"
    search_output_dir: str = "./"
    search_log_path: str = "./auto_search.log"
    two_stage_search: bool = False
    advanced_fastft_search: bool = False
    advanced_fastft_params: Dict[str, Any] = {"sampler_algo": "TPE", "direction": "minimize", "n_trials": 10}
    n_jobs: int = 1
    search_devices: str = "cpu"
    search_stop_condition: Dict[str, Any] = {"find_n_candidates": 1e3, "find_best_candidate": -1, "iteration_limit": 1e5,
                                             "time_limit": 30 * 24 * 3600}


class _Trials:
    """Quantizes with one configuration after the other; those that ask the same of our library are made once."""

    def __init__(self, model: Any, samples: Optional[Sequence[Any]], path: Any, folder: str, measure: _Measure) -> None:
        self._model, self._samples, self._path, self._folder, self._measure = model, samples, path, folder, measure
        self._known: Dict[str, Tuple[float, float]] = {}
        os.makedirs(folder, exist_ok=True)

    def run(self, config: Any, file: str) -> Tuple[float, float]:
        """Returns the difference, and the number to compare by. The model stays in `file`, unless an equal one was made before."""
        key = _key(config)
        if key not in self._known:
            output = os.path.join(self._folder, file)
            ModelQuantizer(config).quantize_model(self._model, output, None if self._samples is None else _Again(self._samples), self._path)
            self._known[key] = self._measure.of(output)
        return self._known[key]


class AutoSearch:
    """Tries the configurations of a space of the older interface.

    Args:
        model_input: the float model.
        config: what all configurations have in common.
        auto_search_config: an AutoSearchConfig, or any object with some of its attributes.
        eval_dataloader: samples to compare outputs with (default: those of calibration).
    """

    def __init__(self, model_input: Any, config: t.Config, auto_search_config: Any = None, eval_dataloader: Any = None,
                 calibration_data_reader: Any = None, calibration_data_path: Any = None) -> None:
        if not isinstance(config, t.Config):
            raise ArgumentTypeError(f"AutoSearch: config is {type(config).__name__}; expected a Config")
        self.model_input, self.config = model_input, config
        self.auto_search_config = auto_search_config if auto_search_config is not None else AutoSearchConfig()
        self._calibration = None if calibration_data_reader is None else _samples_of(calibration_data_reader, "AutoSearch: calibration_data_reader")
        self._path = calibration_data_path
        self._evaluation = self._calibration if eval_dataloader is None else _samples_of(eval_dataloader, "AutoSearch: eval_dataloader")
        for word, kind in _words.SEARCH_KINDS.items():
            kind.check(self._requested(word), f"AutoSearchConfig: {word}")
        if self._requested("search_evaluator") is None and self._evaluation is None:
            raise InvalidArgumentError("AutoSearch compares outputs: give calibration_data_reader, eval_dataloader or a search_evaluator")
        for word, neutral in (("search_devices", "cpu"), ("n_jobs", 1)):
            if self._requested(word) != neutral:
                _fates.say(f"AutoSearchConfig: {word}={self._requested(word)!r} changes nothing here: models run on the CPU, one after the other")
        self.all_configs = self.build_all_configs(self._requested("search_space"))
        self.candidates: List[Dict[str, Any]] = []
        self.searched_space: Dict[int, float] = {}
        self.iterations = 0

    def _requested(self, word: str) -> Any:
        value = getattr(self.auto_search_config, word, None)
        return getattr(AutoSearchConfig, word) if value is None else value

    def build_all_configs(self, search_space_config: Mapping[str, Any]) -> List[Settings]:
        """The configurations of a space, for `all_configs`."""
        return SearchSpace(search_space_config).get_all_configs()

    def _config(self, settings: Mapping[str, Any]) -> t.QuantizationConfig:
        made = copy.deepcopy(self.config.global_quant_config)
        for word, value in settings.items():
            if word != "extra_options":
                setattr(made, word, value)
        options = dict(settings.get("extra_options") or {})
        tuning = options.pop("FastFinetune", None)
        made.extra_options = {**(made.extra_options or {}), **options}
        if tuning is not None and made.include_fast_ft:
            made.extra_options["FastFinetune"] = {**(made.extra_options.get("FastFinetune") or {}), **tuning}
        return made

    def _is_candidate(self, difference: float) -> bool:
        tolerance = self._requested("search_metric_tolerance")
        is_similarity = self._requested("search_metric") in SIMILARITIES and self._requested("search_evaluator") is None
        return bool(tolerance == _FULL or (difference >= tolerance if is_similarity else difference <= tolerance))

    def _try(self, configs: Sequence[Settings], is_limited: bool = False) -> int:
        """Tries the configurations, and returns the position of the best."""
        stop, begin, best = self._requested("search_stop_condition") if is_limited else {}, time.monotonic(), (float("inf"), 0)
        for i, settings in enumerate(configs):
            file = f"iter_{i}.onnx"
            difference, order = self._trials.run(self._config(settings), file)
            self.searched_space[i], best, self.iterations = difference, min(best, (order, i)), i + 1
            path = os.path.join(self._requested("search_output_dir"), file)
            if self._is_candidate(difference):
                self.candidates.append({"config_index": i, "difference": difference, "model_path": path})
            elif os.path.exists(path):
                os.remove(path)
            limits = ((len(self.candidates), "find_n_candidates"), (i + 1, "iteration_limit"), (time.monotonic() - begin, "time_limit"))
            if any(0 <= stop.get(word, -1) <= reached for reached, word in limits):
                break
        return best[1]

    def search_model(self) -> Any:
        """Tries the configurations.

        Returns:
            The candidates within the tolerance, each with config_index, difference and model_path. With two_stage_search a list of the
            best configuration, with advanced_fastft_search the best values.
        """
        self.candidates, self.searched_space = [], {}
        if not self.all_configs:
            raise InvalidArgumentError("AutoSearch: all_configs is empty; there is nothing to try")
        measure = _Measure(self.model_input, self._evaluation, self._requested("search_metric"), self._requested("search_evaluator"))
        self._trials = _Trials(self.model_input, self._calibration, self._path, self._requested("search_output_dir"), measure)
        if self._requested("two_stage_search"):
            return [self._two_stages()]
        if self._requested("advanced_fastft_search"):
            return self._best_tuning()
        configs = list(self.all_configs)
        if self._requested("search_algo") == "random":
            random.Random(_SEED).shuffle(configs)
        self._try(configs, is_limited=True)
        return self.candidates

    def _two_stages(self) -> Settings:
        """First everything but fine-tuning, then fine-tuning with the best of it."""
        first: List[Settings] = []
        tunings: List[Settings] = []
        for settings in self.all_configs:
            options = dict(settings.get("extra_options") or {})
            tuning = options.pop("FastFinetune", None)
            plain = {**settings, "extra_options": options, "include_fast_ft": False}
            first += [plain] if plain not in first else []
            tunings += [tuning] if tuning is not None and tuning not in tunings else []
        if not tunings:
            raise InvalidArgumentError("AutoSearch: two_stage_search=True, and search_space has no extra_options['FastFinetune']")
        best = first[self._try(first)]
        self.candidates, self.searched_space = [], {}
        second = [{**best, "include_fast_ft": True, "extra_options": {**best["extra_options"], "FastFinetune": tuning}} for tuning in tunings]
        return second[self._try(second)]

    def _best_tuning(self) -> Settings:
        """Values of NumIterations and LearningRate between the least and the most that the space has."""
        tuning = (self._requested("search_space").get("extra_options") or {}).get("FastFinetune") or {}
        words = [word for word in ("NumIterations", "LearningRate") if word in tuning]
        others = [word for word in tuning if word not in words]
        if others or not words:
            raise UnsupportedError(f"AutoSearch: advanced_fastft_search with FastFinetune words {', '.join(others) or 'missing'} is refused: it is about "
                                   "NumIterations and LearningRate. Instead: these, or two_stage_search")
        kinds = {"NumIterations": {"type": "int", "step": 1000}, "LearningRate": {"type": "float", "log": True}}
        space = {"tuning": {"only_if": {}, **{word: {**kinds[word], "low": min(tuning[word]), "high": max(tuning[word])} for word in words}}}
        values = [item.get("tuning", {}) for item in generate_all_configs(with_points(space))]
        values = spread(values, self._requested("advanced_fastft_params").get("n_trials", 10))
        return dict(values[self._try([{"include_fast_ft": True, "extra_options": {"FastFinetune": item}} for item in values])])


class AutoSearchPro:
    """Tries the configurations of a space of the newer interface.

    Args:
        config: get_auto_search_config(...) with `model_input` and `calib_data_reader`; docs/migrate_quark.md has every word.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        v.MAPPING.needed().check(config, "AutoSearchPro: config")
        self.config = _nearest_words(config, _words.AUTO_SEARCH_PRO, "AutoSearchPro")
        _fates.check(self.config, _words.AUTO_SEARCH_PRO, "AutoSearchPro")
        for word in ("model_input", "calib_data_reader"):
            if self.config.get(word) is None:
                raise InvalidArgumentError(f"AutoSearchPro: there is no {word}")
        self._space = _nearest_words(self._requested("search_space"), _words.SEARCH_SPACE, "AutoSearchPro: search_space")
        self._calibration = _samples_of(self.config["calib_data_reader"], "AutoSearchPro: calib_data_reader")
        given = self.config.get("eval_data_reader")
        self._evaluation = self._calibration if given is None else _samples_of(given, "AutoSearchPro: eval_data_reader")
        self._num_files = 0

    def _requested(self, word: str) -> Any:
        value = self.config.get(word)
        return SEARCHES["ADVANCED_SEARCH"][word] if value is None else value

    def _config(self, settings: Mapping[str, Any]) -> t.QConfig:
        given = copy.deepcopy(dict(settings))
        layer = t.QLayerConfig(input_tensors=_spec(given, "activation"), weight=_spec(given, "weight"))
        algorithms: List[Any] = []
        tuning, cle = given.pop("algorithms", None), given.pop("cle_algo", None)
        for name, kind in (("adaround", AdaRoundConfig), ("adaquant", AdaQuantConfig)):
            values = given.pop(f"{name}_params", {})
            if tuning == name:
                algorithms.append(kind(**joined_apart(values, "NumIterLR", "num_iterations", "learning_rate")))
        values = given.pop("cle_params", {})
        if cle is not None:
            algorithms.append(CLEConfig(**values))
        named = {word: given.pop(word, None) for word in ("specific_layer_config", "layer_type_config", "exclude")}
        return t.QConfig(layer, named["specific_layer_config"], named["layer_type_config"], named["exclude"], algorithms,
                         bool(given.pop("use_external_data_format", False)), given)

    def _best(self, configs: Sequence[Settings]) -> Settings:
        best: Optional[Tuple[float, int]] = None
        for i, settings in enumerate(configs):
            _, order = self._trials.run(self._config(settings), f"quantized_model{self._num_files}.onnx")
            self._num_files += 1
            best = (order, i) if best is None else min(best, (order, i))
        if best is None:
            raise InvalidArgumentError("AutoSearchPro: search_space is empty; there is nothing to try")
        return configs[best[1]]

    def run(self) -> Settings:
        """Returns the best configuration; with another search_algo than Grid the words of groups begin with the group's, as in Quark."""
        measure = _Measure(self.config["model_input"], self._evaluation, self._requested("search_metric") or "L2", self.config.get("search_evaluator"))
        self._trials = _Trials(self.config["model_input"], self._calibration, None, self._requested("output_dir"), measure)
        space = with_points(self._space)
        if self.config.get("two_stage_search"):
            tuning: Dict[str, Any] = {word: space.pop(word) for word in ("algorithms", "adaround_params", "adaquant_params") if word in space}
            best = self._best(generate_all_configs(space))
            if not tuning:
                return best
            space = {**{word: {**{key: [item] for key, item in value.items()}, "only_if": {}} if isinstance(value, dict) else [value]
                        for word, value in best.items()}, **tuning}
        best = self._best(spread(generate_all_configs(space), self._requested("n_trials")))
        if self._requested("search_algo") == "Grid":
            return best
        flat = {key: item for word, value in best.items()
                for key, item in ({f"{word}_{name}": part for name, part in value.items()} if isinstance(value, dict) else {word: value}).items()}
        with open(os.path.join(self._requested("output_dir"), "best_params.json"), "w", encoding="utf-8") as file:
            json.dump(flat, file, indent=2, default=str)
        return flat


_SPECS = {name: getattr(t, name) for name in ("XInt8Spec", "Int8Spec", "UInt8Spec", "Int16Spec", "UInt16Spec", "BFloat16Spec", "BFP16Spec")}
_ENUMS = {"calibration_method": t.CalibMethod, "scale_type": t.ScaleType, "quant_granularity": t.QuantGranularity, "data_type": t.DataType}


def _spec(given: Dict[str, Any], side: str) -> t.QTensorConfig:
    """Takes the words of a side, and makes its specification."""
    name, values = given.pop(side, None), given.pop(f"{side}_params", {})
    v.one_of(*_SPECS).needed().check(name, f"AutoSearchPro: search_space: {side}")
    for word, kind in _ENUMS.items():
        if word in values:
            v.one_of(*kind.__members__).needed().check(values[word], f"AutoSearchPro: search_space: {side}_params: {word}")
            values[word] = kind[v.name_of(values[word])]
    made: t.QTensorConfig = _SPECS[v.name_of(name)](**values)
    return made


def _nearest_words(given: Mapping[str, Any], known: Iterable[str], where: str) -> Dict[str, Any]:
    """Quark takes a word that it does not have as the nearest that it has."""
    v.MAPPING.needed().check(given, where)
    words: Dict[str, Any] = {}
    for word, value in given.items():
        near = word if word in known else _fates.nearest(word, known)
        if near is None:
            raise InvalidArgumentError(_fates.unknown(word, known, where))
        if near != word:
            _fates.say(f"{where}: '{word}' is taken as '{near}'")
        words[near] = value
    return words
