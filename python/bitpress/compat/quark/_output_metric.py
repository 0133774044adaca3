"""Functions of the user that measure outputs, as the metric of a search."""

import importlib
from typing import Any, List, Mapping, Optional

import numpy as np

from bitpress._errors import InvalidArgumentError
from bitpress._runtime import get_library_path
from bitpress._samples import SharedSamples
from bitpress.compat.quark._algorithms import MetricFunction


class OutputMetric:
    """Runs a model on the samples and gives what the function says of its output; larger is better.

    The model that comes first is the reference of distances.
    """

    def __init__(self, metric: MetricFunction, samples: SharedSamples, limit: int) -> None:
        self._metric, self._samples, self._limit = metric, samples, limit
        self._reference: Optional[Any] = None

    def __call__(self, model: str) -> float:
        output = self._run(model)
        if not self._metric.is_distance:
            return float(self._metric.function(output))
        if self._reference is None:
            self._reference = output
        return -float(self._metric.function(self._reference, output))

    def _run(self, model: str) -> Any:
        onnxruntime = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(get_library_path())
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        index = self._metric.output_index
        outputs = session.get_outputs()
        if not 0 <= index < len(outputs):
            raise InvalidArgumentError(f"automatic mixed precision: there is no output {index}; the model has {len(outputs)}")
        names = [value.name for value in session.get_inputs()]
        found: List[Any] = []
        num_rows = 0
        self._samples.rewind()
        while (sample := self._samples.get_next()) is not None and (not self._limit or num_rows < self._limit):
            inputs = sample if isinstance(sample, Mapping) else {names[0]: sample}
            (array,) = session.run([outputs[index].name], dict(inputs))
            found.append(array)
            num_rows += len(array) if np.ndim(array) else 1
        if not found:
            raise InvalidArgumentError("automatic mixed precision: there are no samples to measure outputs of")
        whole = np.concatenate(found) if np.ndim(found[0]) else np.asarray(found)
        return whole[: self._limit] if self._limit else whole
