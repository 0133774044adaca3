"""`onnxruntime.quantization.calibrate`."""

from bitpress.compat._enums import CalibrationMethod
from bitpress.compat.onnxruntime._names import refusing
from bitpress.compat.onnxruntime._readers import CalibrationDataReader

__getattr__ = refusing(
    __name__, "CalibraterBase", "CalibrationCacheEncoder", "CalibrationDataCollector", "DistributionCalibrater", "EntropyCalibrater",
    "HistogramCalibrater", "HistogramCollector", "MinMaxCalibrater", "PercentileCalibrater", "TensorData", "TensorsData",
    "create_calibrator", "entropy", "load_tensors_data", "rel_entr", "save_tensors_data",
)

__all__ = ["CalibrationDataReader", "CalibrationMethod"]
