"""moments() and tune(): fine-tuning in parts, with the bytes of quantize() alone."""

import models
import numpy as np
import onnx
import pytest
from models import smooth_images

import bitpress


def test_python_with_samples_in_memory(conv_path, tmp_path):
    images = [image[None] for image in smooth_images(40, 3)]
    settings = {"config": "MX6", "finetune": "gptq"}
    bitpress.quantize(conv_path, tmp_path / "one.onnx", data=images, samples=40, **settings)
    files = []
    for begin in range(0, 40, 16):
        files.append(tmp_path / f"{begin}.bpm")
        report = bitpress.moments(conv_path, images[begin : begin + 16], files[-1], first=begin, total=40, **settings)
        assert report.num_samples == min(16, 40 - begin) and report.num_samples_of_all == 40 and report.num_layers == 4
    assert bitpress.merge(files, tmp_path / "all.bpm").num_samples == 40
    journals = []
    for k in (1, 2, 3):
        journals.append(tmp_path / f"{k}.journal")
        report = bitpress.tune(conv_path, tmp_path / "all.bpm", journals[-1], layers=f"{k}/3", **settings)
    assert report.num_layers == 2 and report.num_tuned <= 2
    assert bitpress.merge(journals, tmp_path / "q.onnx.journal") == 4
    bitpress.quantize(conv_path, tmp_path / "q.onnx", data=images, samples=40, **settings)
    assert (tmp_path / "q.onnx").read_bytes() == (tmp_path / "one.onnx").read_bytes()
    # Scales that follow from samples would be those of one part.
    with pytest.raises(bitpress.UnsupportedError, match="chooses scales from samples"):
        bitpress.moments(conv_path, images[:16], tmp_path / "x.bpm", "INT8", first=0, total=40, finetune="gptq")
    with pytest.raises(bitpress.InvalidArgumentError, match="shard takes a part"):
        bitpress.moments(conv_path, tmp_path, tmp_path / "x.bpm", first=3, **settings)
    assert not (tmp_path / "x.bpm").exists()


def test_blocks_of_a_stopped_run_are_taken_from_its_journal(tmp_path):
    """A run that was stopped in its third block goes on there, and writes the same bytes."""
    rng, channels = np.random.default_rng(2), 8
    constants = {f"w{i}": (rng.standard_normal((channels, channels, 3, 3)) / 9).astype(np.float32) for i in range(7)}
    nodes = [onnx.helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"x{i + 1}"], f"conv{i}", pads=[1] * 4) for i in range(7)]
    path = models.save(models.make_model(nodes, [("x0", ["N", channels, 8, 8])], [("x7", ["N", channels, 8, 8])], constants), tmp_path / "deep.onnx")
    samples = rng.standard_normal((8, channels, 8, 8)).astype(np.float32)

    def quantize(name, progress=None):
        return bitpress.quantize(path, tmp_path / name, "MXFP4E2M1_BLOCKS", samples, finetune_steps=8, progress=progress, check=False)

    def stop(stage, done, total):
        if stage.startswith("learn blocks: 3 of 3"):
            raise RuntimeError("stopped")

    assert len(quantize("whole.onnx").finetuning.blocks) == 3
    with pytest.raises(RuntimeError, match="stopped"):
        quantize("stopped.onnx", stop)
    assert (tmp_path / "stopped.onnx.journal").exists() and not (tmp_path / "stopped.onnx").exists()
    stages = []
    quantize("stopped.onnx", lambda stage, done, total: stages.append(stage))
    assert {stage.split(",")[0] for stage in stages if ", loss" in stage} == {"learn blocks: 3 of 3"}
    assert (tmp_path / "stopped.onnx").read_bytes() == (tmp_path / "whole.onnx").read_bytes()
    assert not (tmp_path / "stopped.onnx.journal").exists()
