"""bitpress.distributed: several workers give the bytes of one process. Here they are processes; distributed_ray_test.py has actors."""

import decoder
import models
import numpy as np
import onnx
import pytest
from package_helpers import COUNT, IMAGE, expect_an_iterable_is_read_as_workers_need_it

import bitpress
from bitpress import distributed

WORKERS = distributed.Processes(2)


# By default there are as many shards as samples, if these are few.
@pytest.mark.parametrize("shards", [0, 5])
def test_statistics_are_those_of_one_process(conv_path, photos, tmp_path, shards):
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    seen = []
    found = distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=WORKERS, shards=shards,
                                  progress=lambda *step: seen.append(step))
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    assert found.num_samples == COUNT and not (tmp_path / "all.bpc.shards").exists()
    # Progress counts the samples of all workers.
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen) and seen[-1][1:] == (COUNT, COUNT)
    assert all(stage.startswith("calibrate on 2 workers") for stage, _, _ in seen) and "left" in seen[0][0]


def test_evaluations_are_those_of_one_process(conv_path, photos, tmp_path):
    bitpress.quantize(conv_path, tmp_path / "mx6.onnx", config="MX6")
    (tmp_path / "labels.csv").write_text("file,class\n" + "".join(f"{path.name},{i % 10}\n" for i, path in enumerate(sorted(photos.iterdir()))))
    arguments = {"reference": conv_path, "image": IMAGE, "labels": tmp_path / "labels.csv", "task": "classes"}
    bitpress.evaluate(tmp_path / "mx6.onnx", photos, output=tmp_path / "one.bpe", **arguments)
    found = distributed.evaluate(tmp_path / "mx6.onnx", photos, output=tmp_path / "all.bpe", where=WORKERS, **arguments)
    assert (tmp_path / "all.bpe").read_bytes() == (tmp_path / "one.bpe").read_bytes()
    assert found.num_labelled == COUNT and found.task.task == "classes"
    assert found.to_json() == bitpress.read_evaluation(tmp_path / "one.bpe").to_json()


def test_shards_by_hand(conv_path, photos, tmp_path):
    bitpress.evaluate(conv_path, photos, output=tmp_path / "one.bpe", image=IMAGE)
    parts = [tmp_path / f"{k}.bpe" for k in (2, 3, 1)]
    for part in parts:
        bitpress.evaluate(conv_path, photos, output=part, image=IMAGE, shard=f"{part.stem}/3")
    found = bitpress.merge(parts, tmp_path / "all.bpe")
    assert isinstance(found, bitpress.EvaluationReport) and found.num_samples == COUNT and not found.has_times
    assert (tmp_path / "all.bpe").read_bytes() == (tmp_path / "one.bpe").read_bytes()
    with pytest.raises(bitpress.InvalidArgumentError, match="batch_size=4: with output"):
        bitpress.evaluate(conv_path, photos, output=tmp_path / "no.bpe", image=IMAGE, batch_size=4)
    with pytest.raises(bitpress.InvalidArgumentError, match="'4/3' is no shard"):
        bitpress.calibrate(conv_path, photos, tmp_path / "no.bpc", image=IMAGE, shard="4/3")
    with pytest.raises(bitpress.ArgumentTypeError, match="shard is for files"):
        bitpress.calibrate(conv_path, models.smooth_images(2, 1), tmp_path / "no.bpc", shard="1/2")


def test_tokens_and_models_in_memory():
    model = decoder.make().SerializeToString()
    tokens = bitpress.Tokens(decoder.token_ids(160), sequence=16)
    plain = bitpress.evaluate(model, tokens, batch_size=1)
    found = distributed.evaluate(model, tokens, where=WORKERS, shards=4)
    assert found.language.perplexity == plain.language.perplexity and found.num_samples == 10


def test_many_files_are_added_up_by_the_workers(conv_path, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed._shards, "_MOST_FILES_OF_A_MERGE", 3)
    monkeypatch.setattr(distributed._shards, "_FILES_OF_A_GROUP", 2)
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    seen = []
    distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=distributed.Processes(1), shards=11,
                          progress=lambda *step: seen.append(step))
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    assert [total for stage, done, total in seen if stage.startswith("merge") and done == total] == [11, 6]  # 11 files, then 6 sums, then 3


@pytest.fixture
def jobs(conv_path, photos, tmp_path, monkeypatch):
    """Returns a function that makes jobs for an engine, and the function of the package that does the same."""
    monkeypatch.setattr(distributed._jobs, "_open", None)  # and so it will be again, without an engine that outlives the test
    arrays = tmp_path / "arrays"
    arrays.mkdir()
    for i in range(3):  # a shard begins and ends within a file
        np.save(arrays / f"{i}.npy", models.smooth_images(4, i))

    def make(shard, data=arrays, image=""):
        engine = {"model": conv_path, "config": None, "per_channel": False, "as_is": False, "most_failures": 0, "num_threads": 1}
        job = distributed._jobs.EngineJob("a job", "1", "calibrate", engine, {"data": data, "image": image, "shard": shard})
        bitpress.calibrate(conv_path, data, tmp_path / "one.bpc", image=image, shard=shard)
        return job, (tmp_path / "one.bpc").read_bytes()

    return make


def test_an_engine_takes_any_shards_of_any_samples(jobs, photos):
    engines = set()
    for shard in ("2/5", "1/5", "5/5", "1/1"):
        for data, image in ((photos, IMAGE), (photos.parent / "arrays", "")):
            job, expected = jobs(shard, data, image)
            assert job.run(lambda done: None) == expected
            engines.add(id(distributed._jobs._open[1]))
    assert len(engines) == 1


def test_a_model_that_changed_is_loaded_anew(jobs, conv_path):
    job, expected = jobs("1/2")
    assert job.run(lambda done: None) == expected
    model = onnx.load(conv_path)
    weight = model.graph.initializer[0]
    weight.CopyFrom(onnx.numpy_helper.from_array(2 * onnx.numpy_helper.to_array(weight), weight.name))
    onnx.save(model, conv_path)
    job, changed = jobs("1/2")
    assert job.run(lambda done: None) == changed != expected


def test_an_iterable_is_read_as_workers_need_it(conv_path, tmp_path):
    expect_an_iterable_is_read_as_workers_need_it(WORKERS, conv_path, tmp_path)


def test_labels_of_an_iterable(conv_path, tmp_path):
    images = models.smooth_images(70, 7)
    classes = [i % 10 for i in range(70)]
    items = [images[i:i + 2] for i in range(0, 70, 2)]
    one = bitpress.evaluate(conv_path, items, labels=classes, output=tmp_path / "one.bpe")
    found = distributed.evaluate(conv_path, iter(items), labels=classes, output=tmp_path / "all.bpe", where=WORKERS)
    assert found.num_labelled == 70 and found.top1 == one.top1 and (tmp_path / "all.bpe").read_bytes() == (tmp_path / "one.bpe").read_bytes()
    one_worker = distributed.Processes(1)
    named = [{"image": item, "class": classes[2 * i:2 * i + 2]} for i, item in enumerate(items)]
    distributed.evaluate(conv_path, named, labels="class", output=tmp_path / "all.bpe", where=one_worker)
    assert (tmp_path / "all.bpe").read_bytes() == (tmp_path / "one.bpe").read_bytes()
    for labels, words in ((classes[:-1], "only 69 labels"), (classes + [0], "71 labels, but only 70 samples"), ("kind", "an item lacks 'kind'")):
        with pytest.raises(bitpress.InvalidArgumentError, match=words):
            distributed.evaluate(conv_path, named, labels=labels, where=one_worker)


@pytest.fixture
def space(photos):
    return {"data": photos, "candidates": "mx9,mx6", "image": IMAGE, "config": bitpress.Config("MX9", rules=["op_types=Gemm: exclude"])}


# The model has three layers: two shards take one and two, and by default there are more shards than layers.
@pytest.mark.parametrize("shards", [2, 5])
def test_sensitivities_are_those_of_one_process(conv_path, tmp_path, space, shards):
    one = bitpress.sensitivity(conv_path, output=tmp_path / "one.json", method="both", **space)
    found = distributed.sensitivity(conv_path, output=tmp_path / "all.json", where=WORKERS, shards=shards, method="both", **space)
    assert (tmp_path / "all.json").read_bytes() == (tmp_path / "one.json").read_bytes() and found == one and len(found["layers"]) == 3
    assert sorted(path.name for path in tmp_path.glob("*.json*")) == ["all.json", "one.json"]


def test_a_search_finds_the_plan_of_one_process(conv_path, tmp_path, space):
    bitpress.search(conv_path, output=tmp_path / "one.json", target="sqnr>=20", bind="qkv", **space)
    seen = []
    found = distributed.search(conv_path, output=tmp_path / "all.json", target="sqnr>=20", bind="qkv", where=WORKERS,
                               progress=lambda *step: seen.append(step), **space)
    assert (tmp_path / "all.json").read_bytes() == (tmp_path / "one.json").read_bytes() and found.is_reached
    assert any(stage.startswith("sensitivity on 2 workers") for stage, _, _ in seen)
    with pytest.raises(bitpress.InvalidArgumentError, match="measure_time"):
        distributed.sensitivity(conv_path, measure_time=True, **space)
    with pytest.raises(bitpress.ArgumentTypeError, match="every worker reads them"):
        distributed.sensitivity(conv_path, **{**space, "data": []})


@pytest.mark.parametrize("config, arguments", [("MX6", {"finetune": "gptq"}), ("INT8", {"finetune": "adaquant"})])
def test_fine_tuned_models_are_those_of_one_process(conv_path, photos, tmp_path, config, arguments):
    bitpress.quantize(conv_path, tmp_path / "one.onnx", config, photos, image=IMAGE, **arguments)
    found = distributed.quantize(conv_path, tmp_path / "all.onnx", config, photos, image=IMAGE, where=WORKERS, shards=3, **arguments)
    assert (tmp_path / "all.onnx").read_bytes() == (tmp_path / "one.onnx").read_bytes() and found.layers
    assert sorted(path.name for path in tmp_path.glob("a*")) == ["all.onnx"]
    with pytest.raises(bitpress.ArgumentTypeError, match="every worker reads them"):
        distributed.quantize(conv_path, tmp_path / "no.onnx", config, [], where=WORKERS, **arguments)
