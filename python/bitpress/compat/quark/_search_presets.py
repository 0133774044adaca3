"""The named searches of AMD Quark's AutoSearchPro."""

from typing import Any, Dict

# Quark's devices are GPUs.
_PAIRS = {"optim_device": ["cpu"], "infer_device": ["cpu"], "batch_size": [2], "early_stop": [True]}
_MANY, _SOME = {**_PAIRS, "data_size": [3000]}, {**_PAIRS, "data_size": [1000]}


def _tuning(rounds: int, most_rate: float, size: Dict[str, Any], of_adaround: Dict[str, Any]) -> Dict[str, Any]:
    iterations = {"type": "int", "low": 3000, "high": rounds, "step": 3000}
    return {
        "cle_algo": ["cle", None], "cle_params": {"cle_steps": [-1, 1], "only_if": {"cle_algo": "cle"}},
        "algorithms": ["adaround", "adaquant"],
        "adaquant_params": {"num_iterations": iterations, "learning_rate": {"type": "float", "low": 1e-6, "high": most_rate, "log": True},
                            **size, "only_if": {"algorithms": "adaquant"}},
        "adaround_params": {"num_iterations": iterations, "learning_rate": {"type": "float", "low": 1e-2, "high": 1e-1, "log": True},
                            **of_adaround, "only_if": {"algorithms": "adaround"}}}


def _search(activation: str, activations: Dict[str, Any], weight: str, weights: Dict[str, Any], tuning: Dict[str, Any],
            **options: Any) -> Dict[str, Any]:
    space = {
        "activation": [activation], "activation_params": {**activations, "only_if": "activation"},
        "weight": [weight], "weight_params": {"symmetric": [True], **weights, "only_if": "weight"}, **tuning,
        "specific_layer_config": [None], "layer_type_config": [None], "exclude": [None], "use_external_data_format": [False],
        "OptimizeModel": [True], **options}
    return {"search_space": space, "n_trials": 20, "n_jobs": 1, "output_dir": "./output", "temp_dir": "./temp_dir", "search_algo": "TPE",
            "search_evaluator": None, "search_metric": None, "direction": "minimize", "base_framework": "onnx",
            "study_storage_db": "auto_search.db", "load_study_if_exists": True, "study_name": "AutoSearch", "model_input": None,
            "calib_data_reader": None, "eval_data_reader": None, "two_stage_search": True, "plot_results": False}


_TENSOR = {"quant_granularity": ["Tensor"]}
_ALIGNED = {"AlignSlice": [False], "FoldRelu": [True], "AlignConcat": [True]}
_BOTH = [True, False]

SEARCHES: Dict[str, Dict[str, Any]] = {
    "ADVANCED_SEARCH": _search(
        "Int8Spec", {"symmetric": _BOTH, "calibration_method": ["MinMax", "Percentile", "LayerwisePercentile"], "scale_type": ["Float32"], **_TENSOR},
        "Int8Spec", {"calibration_method": ["MinMax", "MinMSE"]}, _tuning(30000, 1e-3, _MANY, _MANY)),
    "XINT8_SEARCH": _search("XInt8Spec", {"symmetric": [True], "calibration_method": ["MinMSE"]}, "XInt8Spec", _TENSOR,
                            _tuning(20000, 1e-4, _SOME, {})),
    "A8W8_SEARCH": _search(
        "Int8Spec", {"symmetric": _BOTH, "calibration_method": ["MinMax", "Percentile", "LayerwisePercentile"]}, "Int8Spec", _TENSOR,
        _tuning(20000, 1e-4, _SOME, {}), **_ALIGNED,
        PercentileCandidates=[[99.99, 99.999, 99.9999], [99.0, 99.9, 99.99, 99.999, 99.9999]]),
    "A16W8_SEARCH": _search("Int16Spec", {"symmetric": _BOTH, "calibration_method": ["MinMax", "Percentile"]}, "Int8Spec", _TENSOR,
                            _tuning(20000, 1e-4, _SOME, {}), **_ALIGNED, AlignEltwiseQuantType=[True])}
