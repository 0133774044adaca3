"""Names of ONNX Neural Compressor's modules and classes that are its insides: asking for one is an error that says what to do instead."""

from typing import Any, Callable

from bitpress._errors import UnsupportedError
from bitpress.compat._fates import refused, table

_CONFIG = "what an algorithm takes is the library's"
_STEPS = "it is a step inside autotune"
_CHECKS = "providers are checked inside quantize"

NAMES = table([
    refused("ExtraOptions", "options are a dict", "extra_options={...}"),
    *[refused(name, _CONFIG, "the configurations of this module") for name in ("ParamLevel", "TuningParam", "register_config", "register_supported_configs")],
    *[refused(f"{kind}_{provider}_check", _CHECKS, "execution_provider of the configuration")
      for kind in ("static", "dynamic") for provider in ("basic", "cpu", "cuda", "dml", "dnnl", "trt")],
    *[refused(name, _CHECKS, "execution_provider of the configuration") for name in ("STATIC_CHECK_FUNC_LIST", "DYNAMIC_CHECK_FUNC_LIST")],
    *[refused(name, _STEPS, "autotune") for name in ("EvaluationFuncWrapper", "TuningLogger", "TuningMonitor", "init_tuning")],
])
# These are words of configurations.
METHODS = table([
    *[refused(name, "which operators get what is decided in the library", "bitpress.plan, which says what becomes of every tensor")
      for name in ("to_config_mapping", "config_mapping", "global_config")],
    *[refused(name, _CONFIG, "to_dict()") for name in ("build_tuning_param", "get_the_default_value_of_param", "validate")],
    NAMES["register_supported_configs"],
    refused("get_config_set_for_tuning", "each algorithm has its own", "that of RTNConfig, GPTQConfig, ..."),
])


def refuse(words: Any, where: str, name: str) -> Any:
    """Raises what asking for a name is: an error with what to do instead, or Python's own for names that nobody has."""
    if name in words:
        raise UnsupportedError(f"{where}: {name} is refused: {words[name].text}. Instead: {words[name].nearest}")
    raise AttributeError(f"{where} has no attribute '{name}'")


def refusing(module: str) -> Callable[[str], Any]:
    """Returns a module's __getattr__."""
    return lambda name: refuse(NAMES, module.rsplit(".", 1)[-1], name)
