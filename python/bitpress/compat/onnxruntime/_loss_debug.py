"""Comparing a quantized model with the float one tensor by tensor, as `onnxruntime.quantization.qdq_loss_debug` does."""

import importlib
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

import bitpress
from bitpress._errors import InvalidArgumentError
from bitpress._files import PathLike, existing

Arrays = Union[Any, Sequence[Any]]
# Bitpress calls an activation so that went through its codes.
_QUANTIZED = "_quantized"


def modify_model_output_intermediate_tensors(input_model_path: PathLike, output_model_path: PathLike, op_types_for_saving: Optional[Sequence[str]] = None,
                                             save_as_external_data: bool = False) -> None:
    """Writes a model whose intermediate tensors are outputs as well.

    Args:
        op_types_for_saving: outputs of these operators; all by default.
    """
    import onnx

    model = onnx.load(os.fspath(existing(input_model_path, "model")))
    there = {value.name for value in model.graph.output}
    constants = {node.output[0] for node in model.graph.node if node.op_type == "Constant"}
    for node in model.graph.node:
        if op_types_for_saving and node.op_type not in op_types_for_saving:
            continue
        for name in node.output:
            if name and name not in there | constants:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
    onnx.save(model, os.fspath(output_model_path), save_as_external_data=save_as_external_data)


def collect_activations(augmented_model: str, input_reader: Any, session_options: Any = None,
                        execution_providers: Optional[Sequence[str]] = None) -> Dict[str, List[Any]]:
    """Runs a model of modify_model_output_intermediate_tensors on samples: the arrays of each output, in the order of the samples."""
    onnxruntime = importlib.import_module("onnxruntime")
    options = session_options
    if options is None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.register_custom_ops_library(bitpress.get_library_path())
    session = onnxruntime.InferenceSession(os.fspath(augmented_model), options, providers=list(execution_providers or ("CPUExecutionProvider",)))
    names = [value.name for value in session.get_outputs()]
    found: Dict[str, List[Any]] = {name: [] for name in names}
    while (sample := input_reader.get_next()) is not None:
        for name, array in zip(names, session.run(names, dict(sample))):
            found[name].append(array)
    if not any(found.values()):
        raise InvalidArgumentError("collect_activations: input_reader gives no samples")
    return found


def create_activation_matching(qdq_activations: Mapping[str, Sequence[Any]],
                               float_activations: Optional[Mapping[str, Sequence[Any]]] = None) -> Dict[str, Dict[str, Sequence[Any]]]:
    """Of each quantized activation "pre_qdq", "post_qdq" and, with the float model's arrays, "float"."""
    matched: Dict[str, Dict[str, Sequence[Any]]] = {}
    for name, post in qdq_activations.items():
        value = name.removesuffix(_QUANTIZED)
        if value == name:
            continue
        pre = qdq_activations.get(value)
        if pre is not None:
            matched[value] = {"pre_qdq": pre, "post_qdq": post}
            if float_activations is not None and value in float_activations:
                matched[value]["float"] = float_activations[value]
    return matched


def _spread(numbers: Any, shape: Sequence[int], axis: int, block_size: int) -> Any:
    """Scales or zero points as they stand beside the codes."""
    if numbers.ndim == 0 or numbers.size == 1:
        return numbers.reshape(())
    if numbers.ndim == 1:
        return numbers.reshape([-1 if dim == axis % len(shape) else 1 for dim in range(len(shape))])
    return np.repeat(numbers, block_size, axis).take(range(shape[axis]), axis)


def create_weight_matching(float_model_path: str, qdq_model_path: str) -> Dict[str, Dict[str, Any]]:
    """Of each weight that both models have "float", and "dequantized": the floats that its codes mean."""
    import onnx

    floats = {item.name: onnx.numpy_helper.to_array(item) for item in onnx.load(os.fspath(existing(float_model_path, "model"))).graph.initializer}
    model = onnx.load(os.fspath(existing(qdq_model_path, "model")))
    constants = {item.name: onnx.numpy_helper.to_array(item) for item in model.graph.initializer}
    matched: Dict[str, Dict[str, Any]] = {}
    for node in model.graph.node:
        name = node.output[0]
        if node.op_type != "DequantizeLinear" or node.input[0] not in constants or name not in floats:
            continue
        given = {item.name: item.i for item in node.attribute}
        codes, scale = (constants[word].astype(np.float32) for word in node.input[:2])
        zero = constants[node.input[2]].astype(np.float32) if len(node.input) > 2 and node.input[2] else np.float32(0)
        axis, size = given.get("axis", 1), given.get("block_size", 0)
        if codes.shape == floats[name].shape:
            matched[name] = {"float": floats[name],
                             "dequantized": (codes - _spread(np.asarray(zero), codes.shape, axis, size)) * _spread(scale, codes.shape, axis, size)}
    return matched


def compute_signal_to_quantization_noice_ratio(x: Arrays, y: Arrays) -> float:
    """The distance in dB between an array, or several, and its quantized form; infinity if they are equal."""
    arrays = [[np.asarray(item, np.float64).ravel() for item in (given if isinstance(given, (list, tuple)) else [given])] for given in (x, y)]
    if [item.size for item in arrays[0]] != [item.size for item in arrays[1]]:
        raise InvalidArgumentError("compute_signal_to_quantization_noice_ratio: x and y have arrays of different sizes")
    wanted, found = (np.concatenate(given) for given in arrays)
    noise = float(np.linalg.norm(wanted - found))
    return float("inf") if noise == 0 else float(20 * np.log10(max(np.linalg.norm(wanted), np.finfo(np.float64).tiny) / noise))


def compute_weight_error(weights_match: Mapping[str, Mapping[str, Any]],
                         err_func: Callable[[Any, Any], float] = compute_signal_to_quantization_noice_ratio) -> Dict[str, float]:
    """The error of each weight of create_weight_matching."""
    return {name: err_func(arrays["float"], arrays["dequantized"]) for name, arrays in weights_match.items()}


def compute_activation_error(activations_match: Mapping[str, Mapping[str, Sequence[Any]]],
                             err_func: Callable[[Any, Any], float] = compute_signal_to_quantization_noice_ratio) -> Dict[str, Dict[str, float]]:
    """Of each activation "qdq_err", what its own rounding costs, and "xmodel_err", how far it is from the float model's."""
    errors: Dict[str, Dict[str, float]] = {}
    for name, arrays in activations_match.items():
        errors[name] = {"qdq_err": err_func(arrays["pre_qdq"], arrays["post_qdq"])}
        if "float" in arrays:
            errors[name]["xmodel_err"] = err_func(arrays["float"], arrays["post_qdq"])
    return errors
