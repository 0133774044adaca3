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
        raise InvalidArgumentError(f"there is no execution provider '{name}'; it is one of {', '.join(DEVICES)}")
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
