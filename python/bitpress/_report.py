"""A page about a quantized model."""

import json
import tempfile
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Union

from bitpress import _native
from bitpress._api import Plan, _count
from bitpress._files import Model, PathLike, existing, model_file
from bitpress._progress import Progress, Reporting
from bitpress._runtime import use_onnxruntime
from bitpress._samples import Data, sample_arguments
from bitpress._search import SearchResult


def _given(path: Optional[PathLike], what: str) -> Optional[Path]:
    return None if path is None else existing(path, what)


def report(model: Model, output: PathLike, reference: Model, data: Optional[Data] = None, *, image: str = "",
           labels: Union[PathLike, Sequence[int], None] = None, samples: int = 0, layer_samples: int = 16,
           calibration: Optional[PathLike] = None, plan: Union[PathLike, Plan, None] = None,
           search: Union[PathLike, SearchResult, None] = None, quantized: Optional[_native.QuantizeReport] = None,
           task: str = "auto", as_is: bool = False, batch_size: int = 20, threads: int = 0, progress: Progress = None) -> Dict[str, Any]:
    """Writes one HTML page about a quantized model: accuracy, errors layer by layer, ranges and histograms, sizes, what stayed
    float and why. Arguments that are not listed are those of quantize().

    Args:
        model: quantized, by whatever tool.
        output: the page; it needs no other file and no network.
        reference: the float model that it was made from.
        data: as of quantize(); without, the page knows weights and sizes only.
        labels: as of evaluate().
        layer_samples: the first so many samples measure layers and activations.
        calibration: statistics of the activations, a file of calibrate() (default: gathered from the samples).
        plan: the plan that the model was made from, which says why tensors stayed float.
        search: a search whose front is shown.
        task: as of evaluate().
        quantized: what quantize() gave for this model, which knows its plan and what fine-tuning gained.

    Returns:
        What the page shows: `evaluation`, `layers`, `tensors`, `sizes`, `kept_float`, ...
    """
    _count("layer_samples", layer_samples, 1)
    _count("batch_size", batch_size, 1)
    use_onnxruntime()
    with tempfile.TemporaryDirectory(prefix="bitpress-") as folder, model_file(model) as path, \
            model_file(reference) as reference_path, sample_arguments(data, labels, image, samples) as source, \
            Reporting(progress) as callback:
        if isinstance(plan, Plan):
            plan.save(Path(folder) / "plan.json")
            plan = Path(folder) / "plan.json"
        if isinstance(search, SearchResult):
            (Path(folder) / "search.json").write_text(json.dumps(search.data), encoding="utf-8")
            search = Path(folder) / "search.json"
        shown: Dict[str, Any] = json.loads(_native.report(
            path, Path(output), reference_path, source, layer_samples, _given(calibration, "calibration"), _given(plan, "plan"),
            _given(search, "search"), quantized, task, as_is, batch_size, _count("threads", threads), callback))
    return shown
