"""`onnxruntime.quantization.quant_utils`."""

from bitpress.compat._enums import QuantFormat, QuantType, QuantizationMode
from bitpress.compat.onnxruntime._names import refusing

__getattr__ = refusing(
    __name__, "BiasToQuantize", "DEQUANT_OP_NAME", "DEQUANT_OUTPUT_SUFFIX", "FLOAT8_DISTRIBUTIONS", "FLOAT8_TYPES",
    "MODEL_SIZE_THRESHOLD", "ONNX_INT_TYPE_RANGE", "ONNX_INT_TYPE_REDUCED_RANGE", "ONNX_INT_TYPE_SYMMETRIC_RANGE",
    "ONNX_TYPE_TO_NP_TYPE", "QUANT_INPUT_SUFFIX", "QUANT_OP_NAME", "QuantizedInitializer", "QuantizedValue", "QuantizedValueType",
    "TENSOR_NAME_QUANT_SUFFIX", "add_dequant_input_suffix", "add_dequant_output_suffix", "add_dequant_suffix", "add_infer_metadata",
    "add_pre_process_metadata", "add_quant_input_suffix", "add_quant_output_suffix", "add_quant_suffix", "apply_plot",
    "attribute_to_kwarg", "compute_data_quant_params", "compute_scale_zp", "compute_scale_zp_blocked", "compute_scale_zp_float8",
    "find_by_name", "generate_identified_filename", "get_elem_index", "get_mul_node", "get_opset_version", "get_qmin_qmax_for_qType",
    "get_qrange_for_qType", "load_model_with_shape_infer", "model_has_external_data", "model_has_infer_metadata",
    "model_has_pre_process_metadata", "normalize_axis", "optimize_model", "pack_bytes_to_4bit", "quantize_data", "quantize_nparray",
    "quantize_onnx_initializer", "save_and_reload_model_with_shape_infer", "smooth_distribution", "snap_zero_point_to_uint8",
    "tensor_proto_to_array", "update_opset_version", "write_calibration_table",
)

__all__ = ["QuantFormat", "QuantType", "QuantizationMode"]
