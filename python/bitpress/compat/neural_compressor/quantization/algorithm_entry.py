"""`onnx_neural_compressor.quantization.algorithm_entry`: one function for each algorithm, which gives the model."""

from typing import Any

from bitpress._files import Model, PathLike
from bitpress.compat.neural_compressor._quantize import quantize


def _entry(model: Model, quant_config: Any, calibration_data_reader: Any = None, model_output: "PathLike | None" = None) -> Any:
    made = quantize(model, None, quant_config, "ORT_DISABLE_ALL", calibration_data_reader)
    if model_output is not None:
        import onnx  # takes a while

        onnx.save_model(made, str(model_output))
    return made


def dynamic_quantize_entry(model: Model, quant_config: Any, model_output: "PathLike | None" = None) -> Any:
    return _entry(model, quant_config, None, model_output)


rtn_quantize_entry = gptq_quantize_entry = awq_quantize_entry = static_quantize_entry = smooth_quant_entry = _entry

__all__ = ["awq_quantize_entry", "dynamic_quantize_entry", "gptq_quantize_entry", "rtn_quantize_entry", "smooth_quant_entry",
           "static_quantize_entry"]
