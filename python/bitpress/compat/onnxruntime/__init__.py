"""ONNX Runtime's quantization tool: its scripts run after a change of their import lines.

`onnxruntime.quantization` becomes `bitpress.compat.onnxruntime.quantization`. docs/migrate_onnxruntime.md lists the fate of
every word.
"""
