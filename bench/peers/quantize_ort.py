"""quantize_ort.py MODEL OUTPUT SAMPLES CONFIG: by ONNX Runtime's own tool, as its documentation says."""

import sys
import tempfile
from pathlib import Path

import onnx
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from samples_reader import make_reader

model, output, samples, config = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    prepared = str(Path(folder) / "prepared.onnx")
    quant_pre_process(model, prepared, skip_symbolic_shape=True)
    name = onnx.load(model, load_external_data=False).graph.input[0].name
    method = {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile}[config]
    quantize_static(prepared, output, make_reader(CalibrationDataReader, samples, name), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, calibrate_method=method)
