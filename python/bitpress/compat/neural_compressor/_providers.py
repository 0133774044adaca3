"""Execution providers: which there are, and what each asks of a model."""

import importlib
from typing import Any, Dict, List, Optional

import bitpress
from bitpress._errors import InvalidArgumentError, UnsupportedError
from bitpress._files import Model

# In the order of preference: NPUs and GPUs before CPUs.
DEVICES = {
    "DmlExecutionProvider": "npu",
    "TensorrtExecutionProvider": "gpu",
    "CUDAExecutionProvider": "gpu",
    "DnnlExecutionProvider": "cpu",
    "CPUExecutionProvider": "cpu",
}


def available() -> List[str]:
    """Those of the installed onnxruntime, preferred ones first."""
    offered = importlib.import_module("onnxruntime").get_available_providers()
    return [name for name in DEVICES if name in offered]


def auto_detect_ep() -> str:
    """The preferred provider of this machine."""
    return next(iter(available()), "CPUExecutionProvider")


def needs_pairs(provider: Optional[str]) -> bool:
    """Returns whether a provider reads integers as pairs of QuantizeLinear and DequantizeLinear only."""
    return (provider or auto_detect_ep()) == "TensorrtExecutionProvider"


def settings_for(provider: Optional[str], model: Model) -> Dict[str, Any]:
    """Returns the settings that a provider needs in an integer model, beyond the configuration.

    Raises:
        InvalidArgumentError: an unknown provider.
        UnsupportedError: DirectML with another batch size than 1.
    """
    name = provider or auto_detect_ep()
    if name not in DEVICES:
        raise InvalidArgumentError(f"execution_provider='{name}': there is no execution provider '{name}'; it is one of {', '.join(DEVICES)}")
    if name == "TensorrtExecutionProvider":
        return {"activations": "int8", "weights": "int8", "activation_symmetric": True, "weight_symmetric": True}
    if name == "DmlExecutionProvider":
        for value, shape in bitpress.inspect(model).input_shapes.items():
            if shape and shape[0] != 1:
                size = shape[0] if shape[0] > 0 else "free"
                raise UnsupportedError(f"DmlExecutionProvider: the batch size of input '{value}' is {size}; quantized models run with 1 only. "
                                       "Instead: fix it to 1 (onnxruntime.tools.make_dynamic_shape_fixed)")
        return {"weight_granularity": "per_tensor"}
    return {}


# The operator types that ONNX Neural Compressor quantizes by itself, by provider. They order its trials; without a list here all
# operators are quantized that can be.
_EVERYWHERE = ("FusedConv Conv Gather MatMul Gemm EmbedLayerNormalization Attention Relu Clip LeakyRelu Sigmoid MaxPool GlobalAveragePool Pad "
               "Split Squeeze Reshape Concat AveragePool Unsqueeze Transpose Resize").split()
_CUDA = [*_EVERYWHERE, *"Abs Shrink Sign Flatten Expand Slice Mod ReduceMax ReduceMin".split()]
_PAIRS = {
    "CPUExecutionProvider": [*_CUDA, *"GatherElements GatherND Tile CenterCropPad".split()],
    "CUDAExecutionProvider": _CUDA,
    "DnnlExecutionProvider": _EVERYWHERE,
    "DmlExecutionProvider": "Conv MatMul Relu Clip MaxPool".split(),
    "TensorrtExecutionProvider": [*(name for name in _EVERYWHERE if name not in ("FusedConv", "Relu", "Clip")), "Add"],
}
OP_TYPES = [*_PAIRS["CPUExecutionProvider"], "Mul", "Add", "ArgMax", "LSTM"]
DYNAMIC_TYPES = "FusedConv Conv EmbedLayerNormalization MatMul Gather Attention LSTM".split()


def static_types(provider: Optional[str], on_codes: bool) -> List[str]:
    """The types for a provider; operators on codes are more than those between pairs."""
    name = provider or auto_detect_ep()
    if name not in DEVICES:
        raise InvalidArgumentError(f"execution_provider='{name}': there is no execution provider '{name}'; it is one of {', '.join(DEVICES)}")
    of_codes = {"DmlExecutionProvider": ["Mul", "Add"], "TensorrtExecutionProvider": []}.get(name, ["Mul", "Add", "ArgMax"])
    return [*_PAIRS[name], *(of_codes if on_codes else [])]
