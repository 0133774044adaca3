"""bitpress.distributed.moments and .tune: the two steps of fine-tuning over several workers, alone."""

import models
import pytest

import bitpress
from bitpress import distributed

IMAGE = "resize=20,crop=20"


@pytest.fixture
def photos(tmp_path):
    models.save_photos(tmp_path / "photos", 6)
    return tmp_path / "photos"


def test_moments_and_journals_are_those_of_one_process(conv_path, photos, tmp_path):
    where = distributed.Processes(2)
    samples = {"data": photos, "image": IMAGE}
    bitpress.moments(conv_path, output=tmp_path / "one.bpm", config="MX6", finetune="gptq", **samples)
    found = distributed.moments(conv_path, output=tmp_path / "all.bpm", config="MX6", finetune="gptq", where=where, shards=4, **samples)
    assert (tmp_path / "all.bpm").read_bytes() == (tmp_path / "one.bpm").read_bytes()
    assert found.num_samples == found.num_samples_of_all == 6

    # The same moments serve another recipe, and no samples are needed.
    recipe = {"config": "MX6", "finetune": "clip_search+gptq"}
    layers = distributed.tune(conv_path, tmp_path / "all.bpm", tmp_path / "all.onnx.journal", where=where, shards=2, **recipe)
    assert layers == found.num_layers
    bitpress.quantize(conv_path, tmp_path / "one.onnx", **recipe, **samples)
    report = bitpress.quantize(conv_path, tmp_path / "all.onnx", **recipe, **samples)
    assert (tmp_path / "all.onnx").read_bytes() == (tmp_path / "one.onnx").read_bytes()
    assert report.layers and not list(tmp_path.glob("*.shards"))


def test_what_is_missing_is_named(conv_path, photos, tmp_path):
    where = distributed.Processes(2)
    with pytest.raises(bitpress.ArgumentTypeError, match="give data"):
        distributed.moments(conv_path, None, tmp_path / "all.bpm", "MX6", where=where, finetune="gptq")
    with pytest.raises(bitpress.InvalidArgumentError, match="neither config nor plan"):
        distributed.moments(conv_path, photos, tmp_path / "all.bpm", image=IMAGE, where=where)
    with pytest.raises(bitpress.MissingFileError, match="no.bpm"):
        distributed.tune(conv_path, tmp_path / "no.bpm", tmp_path / "all.journal", "MX6", where=where, finetune="gptq")
    assert not list(tmp_path.glob("all*"))
    with pytest.raises(bitpress.InvalidArgumentError, match="shard"):  # which part is for the function to say
        distributed.moments(conv_path, photos, tmp_path / "all.bpm", "MX6", image=IMAGE, where=where, finetune="gptq", shard="1/2")
