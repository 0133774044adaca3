"""moments() and tune(): fine-tuning in parts, with the bytes of quantize() alone."""

import models
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
