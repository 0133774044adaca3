"""The jobs of compare.py. One job writes one model with one tool and one configuration."""

import dataclasses

FORMATS = ["BF16", "BFP16", "MX9", "MX6", "MX4", "MXINT8", "MXFP8E4M3", "MXFP6E2M3", "MXFP4E2M1"]
INTEGERS = ["A8W8", "XINT8"]
TUNABLE = [*INTEGERS, *FORMATS]


@dataclasses.dataclass(frozen=True)
class Tool:
    title: str
    requirements: tuple = ()  # of its environment
    script: str = ""
    extra_index: str = ""  # where pip finds builds without CUDA, if it can be reached
    shown: tuple = ()  # packages whose versions stand below the table


@dataclasses.dataclass(frozen=True)
class Job:
    tool: str
    config: str  # in the tool's words
    shown: str


TOOLS = {
    "bitpress": Tool("Bitpress"),
    "ort": Tool("ONNX Runtime", ("onnxruntime==1.31.1", "onnx==1.23.2", "numpy", "sympy"), "quantize_ort.py", shown=("onnxruntime",)),
    # It names few of the packages that it imports.
    "nc": Tool("ONNX Neural Compressor", ("onnx-neural-compressor", "onnxruntime==1.18.1", "onnx==1.16.2", "numpy<2", "setuptools<81",
                                          "prettytable", "psutil", "py-cpuinfo", "pydantic", "scipy"), "quantize_nc.py",
               shown=("onnx-neural-compressor", "onnxruntime", "onnx")),
    "quark": Tool("AMD Quark", ("amd-quark", "torch", "onnxruntime", "onnx", "numpy", "setuptools", "ninja"), "quantize_quark.py",
                  "https://download.pytorch.org/whl/cpu", ("amd-quark", "torch", "onnxruntime", "onnx")),
    "nncf": Tool("NNCF", ("nncf", "onnx", "onnxruntime", "openvino"), "quantize_nncf.py", shown=("nncf", "onnxruntime")),
    "modelopt": Tool("NVIDIA Model-Optimizer", ("nvidia-modelopt[onnx]",), "quantize_modelopt.py", "https://download.pytorch.org/whl/cpu",
                     ("nvidia-modelopt",)),
    "aimet": Tool("AIMET ONNX", ("aimet-onnx",), "quantize_aimet.py", "https://download.pytorch.org/whl/cpu", ("aimet-onnx", "onnxruntime")),
}


def jobs(only: list, tuned: list) -> list:
    """All jobs of the tools, in the order of the table; those of `tuned` again at the end, with what the tools learn."""
    every = [Job("bitpress", "INT8", "INT8, per channel"), Job("ort", "minmax", "U8S8 QDQ, per channel, MinMax"),
             Job("ort", "percentile", "U8S8 QDQ, per channel, Percentile"), Job("nc", "static", "U8S8 QDQ, per channel, MinMax"),
             Job("nncf", "PERFORMANCE", "preset PERFORMANCE"), Job("nncf", "MIXED", "preset MIXED"),
             Job("modelopt", "entropy", "int8, entropy"), Job("modelopt", "max", "int8, max"),
             Job("aimet", "min_max", "int8, htp_v81, min_max"), Job("aimet", "tf_enhanced", "int8, htp_v81, tf_enhanced")]
    for name in TUNABLE:
        every += [Job("bitpress", name, name), Job("quark", name, name)]
    for name in tuned:
        every += [Job("bitpress", f"{name}_ADAQUANT", f"{name}_ADAQUANT"), Job("quark", f"{name}_ADAQUANT", f"{name}_ADAQUANT")]
    return [job for job in every if job.tool in only]
