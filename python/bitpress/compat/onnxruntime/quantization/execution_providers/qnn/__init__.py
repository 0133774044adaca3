"""`onnxruntime.quantization.execution_providers.qnn`."""

from bitpress.compat.onnxruntime._names import refusing

__getattr__ = refusing(
    __name__, "get_qnn_qdq_config", "qnn_preprocess_model",
)

__all__ = []
