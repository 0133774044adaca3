"""Measures of AMD Quark's auto_search: what a quantized model's output is beside the float model's."""

from typing import Any, Callable, Dict

import numpy as np

_RANGE = 255.0  # of the pixels that psnr and ssim are made for


def l2_metric(base_input: Any, ref_input: Any) -> float:
    return float(np.mean(np.square(base_input - ref_input)))


def l1_metric(base_input: Any, ref_input: Any) -> float:
    return float(np.mean(np.abs(base_input - ref_input)))


def cos_metric(base_input: Any, ref_input: Any) -> float:
    """From 0, opposite, to 1."""
    x, y = np.ravel(base_input), np.ravel(ref_input)
    norm = float(np.linalg.norm(x) * np.linalg.norm(y))
    return 0.5 + 0.5 * float(np.dot(x, y)) / norm if norm else 0.0


def psnr_metric(base_input: Any, ref_input: Any) -> float:
    error = l2_metric(base_input, ref_input)
    return 100.0 if error < 1e-10 else 20 * float(np.log10(_RANGE / np.sqrt(error)))


def ssim_metric(base_input: Any, ref_input: Any) -> float:
    c1, c2 = (0.01 * _RANGE) ** 2, (0.03 * _RANGE) ** 2
    x, y = float(np.mean(base_input)), float(np.mean(ref_input))
    of_x, of_y = float(np.var(base_input)), float(np.var(ref_input))
    return float((2 * x * y + c1) * (2 * np.sqrt(of_x * of_y) + c2) / ((x * x + y * y + c1) * (of_x + of_y + c2)))


METRICS: Dict[str, Callable[[Any, Any], float]] = {"L2": l2_metric, "L1": l1_metric, "cos": cos_metric, "psnr": psnr_metric, "ssim": ssim_metric}
SIMILARITIES = ("cos", "psnr", "ssim")  # better the larger they are
