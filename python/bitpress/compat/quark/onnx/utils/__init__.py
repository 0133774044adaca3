"""`quark.onnx.utils`."""

