"""`onnxruntime.quantization`."""

from bitpress.compat._enums import CalibrationMethod, QuantFormat, QuantType, QuantizationMode
from bitpress.compat.onnxruntime._names import refusing
from bitpress.compat.onnxruntime._quantize import (
    DynamicQuantConfig, StaticQuantConfig, get_qdq_config, quant_pre_process, quantize, quantize_dynamic, quantize_static,
)
from bitpress.compat.onnxruntime._readers import CalibrationDataReader

__getattr__ = refusing(
    __name__, "CalibraterBase", "CudaQuantizer", "MinMaxCalibrater", "QDQQuantizer", "TensorData", "TensorsData", "create_calibrator",
    "load_tensors_data", "save_tensors_data", "write_calibration_table",
)

__all__ = [
    "CalibrationDataReader", "CalibrationMethod", "DynamicQuantConfig", "QuantFormat", "QuantType", "QuantizationMode",
    "StaticQuantConfig", "get_qdq_config", "quant_pre_process", "quantize", "quantize_dynamic", "quantize_static",
]
