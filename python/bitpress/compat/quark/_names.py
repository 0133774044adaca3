"""Names of Quark's modules that are its insides: they can be imported, and using them is an error that says what to do instead."""

from typing import Any, Callable

from bitpress.compat import _stand_ins
from bitpress.compat._fates import refused, table

_CALIBRATION = "ranges are measured by the library"
_STEPS = "it is a step inside ModelQuantizer"
_INSTEAD = "ModelQuantizer(config).quantize_model(...)"
_OF_SEARCH = "it is a part of the search"

# Every public name of Quark that cannot be used.
NAMES = table([
    *[refused(name, _CALIBRATION, "bitpress.calibrate")
      for name in ("CalibraterBase", "MinMaxCalibrater", "create_calibrator_float_scale", "create_calibrator_power_of_two", "calibrate_model",
                   "fake_calibration", "run_calibration", "nearest_non_passthrough_ancestor_mapping", "update_tensors_range_with_dependencies")],
    refused("write_calibration_table", "it is ONNX Runtime's", "onnxruntime.quantization.write_calibration_table, or bitpress.calibrate"),
    refused("save_tensor_hist_fig", "no figures are drawn", "bitpress.report, a page with histograms"),
    refused("dump_model", "it reads files with FixNeuron nodes", "bitpress.report with the float model as reference, a page with the errors of every layer"),
    refused("VitisExtendedQuantizer", "it is named in Quark's list and is not there either", _INSTEAD),
    refused("get_legacy_torch_library_path", "there is no PyTorch", "get_library_path"),
    *[refused(name, _STEPS, _INSTEAD) for name in (
        "GptqProcessor", "apply_AutoMixedPrecision", "apply_BiasCorrection", "apply_CLE", "apply_FastFinetune", "apply_GPTQ", "apply_QuaRot",
        "apply_SmoothQuant", "apply_post_quant_algorithms", "apply_pre_quant_algorithms", "auto_mixprecision", "bias_correction",
        "cle_transforms", "fast_finetune", "rotation_transforms", "smooth_transforms", "stem_equalize_transforms", "MixingStrategy",
        "Optimizer", "optimize_model", "optimize_model_using_onnxrt", "optimize_model_using_onnxslim",
        "adjust_quantize_info", "align_quantize_info", "apply_post_optimization_after_algo", "apply_post_optimization_before_algo",
        "apply_post_process", "apply_post_quantization_algorithms", "refine_block_axis", "simulate_transforms",
        "apply_pre_optimization_after_algo", "apply_pre_optimization_before_algo", "apply_pre_process", "apply_pre_quantization_algorithms",
        "create_dynamic_quantizer", "create_matmul_nbits_quantizer", "create_static_quantizer", "get_dynamic_op_types", "get_static_op_types",
        "run_dynamic_quantization", "run_matmul_nbits_quantization", "run_static_quantization", "apply_align_eltwise_quant_type",
        "prune_stale_tensor_quant_overrides", "_algo_flag", "add_method_to_subclasses")],
    *[refused(name, _OF_SEARCH, "AutoSearch, AutoSearchPro") for name in (
        "AssembleIdxs", "buildin_eval_func", "logger_config", "split_config_levels", "replace_keys", "validate_keys")],
])


STAND_INS = _stand_ins.stand_ins(NAMES)


def refusing(module: str, *names: str) -> Callable[[str], Any]:
    """A module's __getattr__ for the names of NAMES that Quark's module has."""
    return _stand_ins.refusing(STAND_INS, module, *names)
