"""Names of ONNX Runtime's modules that are its insides: they can be imported, and using them is an error that says what to do instead."""

from typing import Any, Callable

from bitpress.compat import _stand_ins
from bitpress.compat._fates import refused, table

_CALIBRATION = "ranges are measured by the library"
_STEPS = "it is a step inside quantize_static and quantize_dynamic"
_INSTEAD = "quantize_static, quantize_dynamic"
_REGISTRY = "which operators are quantized follows from the plan"
_CODES = "it is a step of the computation"
_TENSORRT = "TensorRT's tables of ranges are not written"
_DEVICE = "weights of one device are not written"
_WEIGHTS = "it is a step inside MatMulNBitsQuantizer"

# Every public name of the tool that cannot be used.
NAMES = table([
    *[refused(name, _CALIBRATION, "bitpress.calibrate") for name in (
        "CalibraterBase", "MinMaxCalibrater", "HistogramCalibrater", "EntropyCalibrater", "PercentileCalibrater", "DistributionCalibrater",
        "create_calibrator", "CalibrationDataCollector", "HistogramCollector", "CalibrationCacheEncoder", "rel_entr", "entropy")],
    *[refused(name, "ranges are in files of bitpress.calibrate", "bitpress.read_calibration, or calibration_cache_path") for name in (
        "TensorData", "TensorsData", "save_tensors_data", "load_tensors_data")],
    refused("write_calibration_table", _TENSORRT, "bitpress.quantize with target=\"tensorrt\""),
    *[refused(name, _STEPS, _INSTEAD) for name in (
        "QDQQuantizer", "check_static_quant_arguments",
        "QuantizedValueType", "QuantizedInitializer", "QuantizedValue", "BiasToQuantize", "load_model_with_shape_infer", "optimize_model",
        "save_and_reload_model_with_shape_infer", "update_opset_version", "get_opset_version", "model_has_external_data",
        "add_pre_process_metadata", "model_has_pre_process_metadata", "add_infer_metadata", "model_has_infer_metadata")],
    *[refused(name, _CODES, "bitpress.formats.quantize_dequantize") for name in (
        "quantize_nparray", "compute_scale_zp", "snap_zero_point_to_uint8", "compute_scale_zp_float8", "compute_scale_zp_blocked",
        "compute_data_quant_params", "quantize_data", "quantize_onnx_initializer", "get_qmin_qmax_for_qType", "get_qrange_for_qType",
        "normalize_axis", "pack_bytes_to_4bit", "smooth_distribution")],
    *[refused(name, _STEPS, "the onnx package") for name in (
        "attribute_to_kwarg", "find_by_name", "get_elem_index", "get_mul_node", "generate_identified_filename", "tensor_proto_to_array",
        "add_quant_suffix", "add_quant_input_suffix", "add_quant_output_suffix", "add_dequant_suffix", "add_dequant_input_suffix",
        "add_dequant_output_suffix", "MODEL_SIZE_THRESHOLD", "DEQUANT_OP_NAME", "DEQUANT_OUTPUT_SUFFIX", "QUANT_INPUT_SUFFIX", "QUANT_OP_NAME",
        "TENSOR_NAME_QUANT_SUFFIX", "ONNX_TYPE_TO_NP_TYPE", "ONNX_INT_TYPE_RANGE", "ONNX_INT_TYPE_REDUCED_RANGE",
        "ONNX_INT_TYPE_SYMMETRIC_RANGE", "FLOAT8_TYPES", "FLOAT8_DISTRIBUTIONS")],
    refused("apply_plot", "no figures are drawn", "bitpress.report, a page with histograms"),
    *[refused(name, _REGISTRY, "op_types_to_quantize with the names of operators") for name in (
        "CommonOpsRegistry", "CreateDefaultOpQuantizer", "CreateOpQuantizer", "CreateQDQQuantizer", "IntegerOpsRegistry",
        "QDQRegistry", "QLinearOpsRegistry")],
    *[refused(name, _STEPS, _INSTEAD) for name in (
        "BaseQuantizer", "ONNXQuantizer", "QDQBiasQuantInfo", "QDQQuantParamProvider", "QDQQuantTensorType", "QDQScaleZpInitializers",
        "QDQTensorQuantInfo", "QDQTensorQuantParams", "QDQTensorQuantizedValue", "QDQTensorScaleZpInitializers",
        "QuantizationParams")],
    *[refused(name, _STEPS, "extra_options with TensorQuantOverrides") for name in ("QuantTypeInfo", "TensorQuantOverridesHelper")],
    *[refused(name, _DEVICE, "MatMulNBitsQuantizer") for name in ("CudaQuantizer", "has_cuda_weight_prepacking")],
    refused("MatMulBnb4Quantizer", "FP4 and NF4 of bitsandbytes are not written", "MatMulNBitsQuantizer, or the format MXFP4E2M1"),
    refused("NVAWQWeightOnlyQuantConfig", "it runs NVIDIA's tool", "bitpress.quantize with finetune=\"awq\""),
    *[refused(name, _WEIGHTS, "MatMulNBitsQuantizer") for name in (
        "HQQWeightOnlyQuantizer", "DefaultWeightOnlyQuantizer", "NVAWQWeightOnlyQuantizer", "is_divisible", "get_initializer",
        "transpose_packed_int4_matrix", "ort_convert_str_to_bool", "parse_key_value_pair", "parse_args")],
    *[refused(name, "QNN's rules are not those of a general model", "get_qdq_config, and bitpress check --target qnn") for name in (
        "get_qnn_qdq_config", "qnn_preprocess_model")],
])
STAND_INS = _stand_ins.stand_ins(NAMES)


def refusing(module: str, *names: str) -> Callable[[str], Any]:
    """A module's __getattr__ for the names of NAMES that ONNX Runtime's module has."""
    return _stand_ins.refusing(STAND_INS, module, *names)
