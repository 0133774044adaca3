"""`quark.onnx.postprocess`."""

from bitpress.compat.quark._names import refusing

__getattr__ = refusing(
    __name__, "adjust_quantize_info", "align_quantize_info", "apply_post_optimization_after_algo",
    "apply_post_optimization_before_algo", "apply_post_process", "apply_post_quantization_algorithms",
    "refine_block_axis", "simulate_transforms",
)
