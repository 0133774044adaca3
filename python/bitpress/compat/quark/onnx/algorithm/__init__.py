"""`quark.onnx.algorithm`."""

from bitpress.compat.quark._names import refusing

__getattr__ = refusing(
    __name__, "GptqProcessor", "apply_AutoMixedPrecision", "apply_BiasCorrection", "apply_CLE",
    "apply_FastFinetune", "apply_GPTQ", "apply_QuaRot", "apply_SmoothQuant", "apply_post_quant_algorithms",
    "apply_pre_quant_algorithms", "auto_mixprecision", "bias_correction", "cle_transforms", "fast_finetune",
    "rotation_transforms", "smooth_transforms", "stem_equalize_transforms",
)
