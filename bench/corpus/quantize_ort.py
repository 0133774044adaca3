#!/usr/bin/env python3
"""quantize_ort.py MODEL OUTPUT SAMPLES MODE: by ONNX Runtime's own tool, per channel. MODE is static or dynamic, with _rr for a reduced
range of the weights."""

import sys
import tempfile
from pathlib import Path

import onnx
import onnx.version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from samples import load

PER_CHANNEL_OPSET = 13  # scales of an axis need it


class Reader(CalibrationDataReader):
    def __init__(self, folder):
        self.samples = load(folder)

    def get_next(self):
        return next(self.samples, None)


def main():
    source, output, samples, mode = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        prepared = str(Path(folder) / "prepared.onnx")
        model = onnx.load(source)
        if next(entry.version for entry in model.opset_import if entry.domain == "") < PER_CHANNEL_OPSET:
            onnx.save(onnx.version_converter.convert_version(model, PER_CHANNEL_OPSET), prepared)
            source = prepared
        quant_pre_process(source, prepared, skip_symbolic_shape=True)
        options = {"per_channel": True, "reduce_range": mode.endswith("_rr"), "weight_type": QuantType.QInt8}
        if mode.startswith("dynamic"):
            quantize_dynamic(prepared, output, **options)
        else:
            quantize_static(prepared, output, Reader(samples), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
                            **options)


main()
