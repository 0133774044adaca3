"""`onnxruntime.quantization.qdq_loss_debug`."""

from bitpress.compat.onnxruntime._loss_debug import (
    collect_activations, compute_activation_error, compute_signal_to_quantization_noice_ratio, compute_weight_error,
    create_activation_matching, create_weight_matching, modify_model_output_intermediate_tensors,
)

__all__ = [
    "collect_activations", "compute_activation_error", "compute_signal_to_quantization_noice_ratio", "compute_weight_error",
    "create_activation_matching", "create_weight_matching", "modify_model_output_intermediate_tensors",
]
