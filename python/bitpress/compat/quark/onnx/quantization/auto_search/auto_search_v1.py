"""`quark.onnx.quantization.auto_search.auto_search_v1`."""

from bitpress.compat.quark._auto_search import AutoSearch, AutoSearchConfig, SearchSpace
from bitpress.compat.quark._names import refusing
from bitpress.compat.quark._search_metrics import METRICS, cos_metric, l1_metric, l2_metric, psnr_metric, ssim_metric

__getattr__ = refusing(__name__, "AssembleIdxs", "buildin_eval_func", "logger_config", "split_config_levels")

__all__ = [
    "AutoSearch", "AutoSearchConfig", "METRICS", "SearchSpace", "cos_metric", "l1_metric", "l2_metric", "psnr_metric",
    "ssim_metric",
]
