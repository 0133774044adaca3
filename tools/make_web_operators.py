#!/usr/bin/env python3
"""Writes the operators that ONNX Runtime's CPU build computes, which is what onnxruntime-web compiles to WebAssembly.

    .deps/venv/bin/python tools/make_web_operators.py

The source is the list of kernels in the installed `onnxruntime`, and ONNX's own list of operators that are functions of others,
which ONNX Runtime replaces by these. src/ops/web_operators.inc is written; it says the versions.
"""

import datetime
from pathlib import Path

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

OUTPUT = Path(__file__).resolve().parents[1] / "src" / "ops" / "web_operators.inc"
# The layout that ONNX Runtime's optimizer writes for one machine, and no model holds.
NO_MODELS = ("com.microsoft.nchwc",)


def operators():
    """(domain, name) of every operator with a kernel, sorted."""
    found = {(kernel.domain, kernel.op_name) for kernel in state.get_all_opkernel_def()
             if kernel.provider == "CPUExecutionProvider" and kernel.domain not in NO_MODELS}
    functions = {(schema.domain, schema.name) for schema in onnx.defs.get_all_schemas()
                 if (schema.has_function or schema.has_context_dependent_function) and schema.domain == ""}
    return sorted(found | functions | {("", "Constant")})


def main():
    lines = [
        "// The operators that onnxruntime-web's WebAssembly build computes: it compiles ONNX Runtime's CPU kernels.",
        f"// Made by tools/make_web_operators.py of onnxruntime {onnxruntime.__version__} (its kernels) and onnx {onnx.__version__} (operators that",
        f"// are functions of others) on {datetime.date.today()}. Do not edit.",
        f'BITPRESS_WEB_RUNTIME("{onnxruntime.__version__}")',
        *(f'BITPRESS_WEB_OPERATOR("{domain}", "{name}")' for domain, name in operators()),
    ]
    OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{OUTPUT}: {len(lines) - 4} operators")


if __name__ == "__main__":
    main()
