#!/usr/bin/env python3
"""Fine-tunes networks of the corpus with 1 to 100 samples and compares them with the same ones untuned. See README.md here.

    python tuning.py [--only NAME,...] [--skip NAME,...] [--samples 1,2,4,8,100] [CONFIGURATION ...]

CONFIGURATION is one of RECIPES below, by default each of them. A result is a file in CACHE/tuning, and what is there is not measured
again. page.py makes a table of them.
"""

import argparse
import datetime
import functools
import sys

import measure
import samples
from networks import NETWORKS, model_of

RECIPES = {"MX6": "adaquant", "INT8": "adaquant", "INT4_WEIGHTS": "gptq"}
COUNTS = [1, 2, 4, 8, 100]
FOLDER = "tuning"
ALLOWED_DB = 0.5  # that tuning may take
# Nothing is learned in these, or they are the same network in another version of ONNX.
WITHOUT = {"surfaces_trees", "ppocr_cls_23", "centerface_7", *(name for name, network in NETWORKS.items() if network.is_quantized)}


def first_samples(cache, name, count):
    """A folder with so many samples to learn from."""
    folder = cache / "samples" / name / f"first_{count}"
    samples.write(folder, NETWORKS[name].maker(cache, "calibration"), count)
    return folder


def decibels(arguments, name, words, training):
    """Returns, for the network with these words, {output: dB} or an error, the seconds of the processor for quantizing, and how
    the network's outputs validated what was learned."""
    folder = arguments.cache / "quantized" / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"{name}.onnx"
    done = measure.quantize(arguments, words, model_of(arguments.cache, name), training, output)
    if done["status"]:
        return f"{done['status']}: {done['message']}", done["seconds"], ""
    said = output.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    verdict = next((line.partition("network:")[2].strip() for line in said if line.startswith("  network:")), "")
    spec = {"model": str(model_of(arguments.cache, name)), "samples": str(measure.samples_of(arguments.cache, name, "validation")),
            "quantized": str(output), "is_timed": False, "wanted": str(arguments.cache / "wanted" / f"{name}.tuning.npz"),
            "libraries": {"library": str(arguments.program.resolve().with_name("libbitpress_ops.so"))}}
    row = measure.compare(arguments, {}, spec, output.with_suffix(".json"))["library"]
    for file in folder.glob(output.stem + ".*"):
        file.unlink()
    return row.get("db") or row.get("error", "it has no float output"), done["seconds"], verdict


def loss_of(result):
    """The dB that tuning took from the worst output, negative if it gained; None if something failed."""
    untuned, tuned = result["untuned"], result["tuned"]
    return None if isinstance(untuned, str) or isinstance(tuned, str) else min(untuned.values()) - min(tuned.values())


def other_losses(result):
    """(output, dB untuned, dB tuned) of outputs that lost although they are not the worst one."""
    if loss_of(result) is None:
        return []
    untuned, tuned = result["untuned"], result["tuned"]
    return [(name, untuned[name], tuned[name]) for name in tuned
            if untuned[name] - tuned[name] > ALLOWED_DB and tuned[name] > min(tuned.values())]


def worst(values):
    return values if isinstance(values, str) else f"{min(values.values()):.1f}"


def configuration_of(text):
    if text not in RECIPES:
        raise argparse.ArgumentTypeError(f"'{text}' is none of {', '.join(RECIPES)}")
    return text


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configurations", nargs="*", type=configuration_of, metavar="CONFIGURATION")
    measure.add_common_options(parser)
    parser.add_argument("--samples", type=lambda text: [int(word) for word in text.split(",")], default=COUNTS, metavar="N,...",
                        help=f"numbers of samples (default: {','.join(map(str, COUNTS))})")
    return measure.parse_common(parser)


def main() -> int:
    arguments = parse()
    # Only INT8 has ranges, which follow from the samples.
    rounded = functools.cache(lambda name, label, count: decibels(arguments, name, f"--config {label}",
                                                                  first_samples(arguments.cache, name, count)))
    for name in arguments.only:
        for label in arguments.configurations or RECIPES:
            for count in arguments.samples:
                path = arguments.cache / FOLDER / f"{name}.{label}.{count}.json"
                if name in WITHOUT or name in arguments.skip or path.is_file():
                    continue
                result = {"network": name, "configuration": label, "samples": count, "date": datetime.date.today().isoformat(),
                          "program": arguments.version}
                try:
                    training = first_samples(arguments.cache, name, count)
                    result["untuned"], *_ = rounded(name, label, count if label == "INT8" else COUNTS[0])
                    result["tuned"], result["seconds"], result["verdict"] = decibels(
                        arguments, name, f"--config {label} --finetune {RECIPES[label]}", training)
                except Exception as error:  # the makers use many packages; a network without inputs must not end the run of the others
                    result["untuned"], result["tuned"], result["seconds"] = f"{type(error).__name__}: {error}", "", 0
                loss = loss_of(result)
                print(f"{name:16} {label:13} {count:4} {worst(result['untuned'])} -> {worst(result['tuned'])} dB, {result['seconds']:.1f} s"
                      + (f"  lost {loss:.1f} dB" if loss is not None and loss > ALLOWED_DB else "")
                      + "".join(f"  '{output}' {before:.1f} -> {after:.1f} dB" for output, before, after in other_losses(result)),
                      flush=True)
                measure.write_result(path, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
