"""try_windows.py make|run|compare FOLDER: the parts of try_windows.sh; `run` is for Python for Windows, the others are for this machine's."""

import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
FORMATS = {"MX6": ["--portable", "off"], "INT8": ["--data", "samples"]}


def make(folder: Path) -> None:
    """A model and samples, and what the program for Linux makes of them."""
    import onnx
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "e2e")]
    import models
    onnx.save(models.conv_model(), folder / "model.onnx")
    models.save_arrays(folder / "samples", [image[None] for image in models.smooth_images(8, 3)])
    for name, words in FORMATS.items():
        subprocess.run([ROOT / "build" / "bitpress", "quantize", "model.onnx", "-o", f"linux_{name}.onnx", "--config", name, *words],
                       cwd=folder, check=True, capture_output=True)


def samples(folder: Path) -> "list[np.ndarray]":
    return [np.load(path) for path in sorted((folder / "samples").glob("*.npy"))]


def outputs(folder: Path, library: str) -> np.ndarray:
    """What the model with our operators makes of a sample."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(str(folder / "linux_MX6.onnx"), options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: samples(folder)[0]})[0]


def run(folder: Path) -> None:
    import bitpress
    print(f"Python {sys.version}\nbitpress {bitpress.__version__}, NumPy {np.__version__}")
    for name, options in {"MX6": {"portable": False}, "INT8": {"data": samples(folder)}}.items():
        bitpress.quantize(folder / "model.onnx", folder / f"windows_{name}.onnx", config=name, **options)
    np.save(folder / "windows.npy", outputs(folder, bitpress.get_library_path()))


def compare(folder: Path) -> None:
    for name in FORMATS:
        same = (folder / f"windows_{name}.onnx").read_bytes() == (folder / f"linux_{name}.onnx").read_bytes()
        print(f"{name}: {'the same bytes' if same else 'DIFFERENT bytes'}")
        assert same
    assert np.array_equal(np.load(folder / "windows.npy"), outputs(folder, str(ROOT / "build" / "libbitpress_ops.so")))
    print("a session with our operators: the same bits")


if __name__ == "__main__":
    {"make": make, "run": run, "compare": compare}[sys.argv[1]](Path(sys.argv[2]))
