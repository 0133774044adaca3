"""Changes to networks that cannot be compared as they lie in their packages. Each function reads one file and writes another."""

import onnx
import onnx.utils
import onnx.version_converter
import onnxruntime


def free_sizes(source, target):
    """CenterFace declares an input of 10x3x32x32. Its package makes the sizes dynamic before it loads the model, and so do we."""
    model = onnx.load(source)
    constants = {constant.name for constant in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    for value in [*inputs, *model.graph.output]:
        for axis, symbol in ((0, "B"), (2, f"H{value.name}"), (3, f"W{value.name}")):
            value.type.tensor_type.shape.dim[axis].dim_param = symbol
    del model.graph.value_info[:]
    onnx.save(model, target)


def logits(source, target):
    """Wake words answer nearly 0 to speech without the word, where decibels mean little. So the sigmoid at the end goes."""
    model = onnx.load(source)
    last = model.graph.node[-1]
    if last.op_type != "Sigmoid":
        raise ValueError(f"{source} ends with {last.op_type}, not with Sigmoid")
    model.graph.output[0].name = last.input[0]
    del model.graph.node[-1]
    onnx.save(model, target)


PIPER_LATENT = "/Mul_7_output_0"


def piper_decoder(source, target):
    """Piper rounds durations: a quantized network speaks faster or slower, and its samples cannot be compared. Its decoder's can."""
    onnx.utils.extract_model(str(source), str(target), [PIPER_LATENT], ["output"])


def opset_23(source, target):
    onnx.save(onnx.version_converter.convert_version(onnx.load(source), 23), target)


def free_sizes_7(source, target):
    free_sizes(source, target)
    onnx.save(onnx.version_converter.convert_version(onnx.load(target), 7), target)


def from_ort(source, target):
    """A file in ONNX Runtime's own form, as ONNX."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(target)
    options.add_session_config_entry("session.save_model_format", "ONNX")
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
