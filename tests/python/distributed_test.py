"""bitpress.distributed: several workers give the bytes of one process, also when they or the caller are killed."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import decoder
import models
import numpy as np
import onnx
import pytest
from conftest import PACKAGE
from locations import ROOT, cannot_run

import bitpress
from bitpress import distributed

COUNT = 12
IMAGE = "resize=20,crop=20"


@pytest.fixture
def photos(tmp_path):
    models.save_photos(tmp_path / "photos", COUNT)
    return tmp_path / "photos"


@pytest.fixture(scope="module")
def ray():
    try:
        import ray as package
    except ImportError:
        cannot_run("the package ray is not installed")
    yield distributed.Ray(2)
    package.shutdown()


@pytest.fixture(params=["processes", "ray"])
def where(request):
    return distributed.Processes(2) if request.param == "processes" else request.getfixturevalue("ray")


@pytest.mark.parametrize("shards", [0, 1, 5, COUNT])
def test_statistics_are_those_of_one_process(conv_path, photos, tmp_path, where, shards):
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    found = distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=where, shards=shards)
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    assert found.num_samples == COUNT and not (tmp_path / "all.bpc.shards").exists()


def test_evaluations_are_those_of_one_process(conv_path, photos, tmp_path, where):
    bitpress.quantize(conv_path, tmp_path / "mx6.onnx", config="MX6")
    (tmp_path / "labels.csv").write_text("file,class\n" + "".join(f"{path.name},{i % 10}\n" for i, path in enumerate(sorted(photos.iterdir()))))
    arguments = {"reference": conv_path, "image": IMAGE, "labels": tmp_path / "labels.csv"}
    bitpress.evaluate(tmp_path / "mx6.onnx", photos, output=tmp_path / "one.bpe", **arguments)
    found = distributed.evaluate(tmp_path / "mx6.onnx", photos, output=tmp_path / "all.bpe", where=where, **arguments)
    assert (tmp_path / "all.bpe").read_bytes() == (tmp_path / "one.bpe").read_bytes()
    assert found.num_labelled == COUNT and found.to_json() == bitpress.read_evaluation(tmp_path / "one.bpe").to_json()


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


def test_tokens_and_models_in_memory(tmp_path, where):
    model = decoder.make().SerializeToString()
    tokens = bitpress.Tokens(decoder.token_ids(160), sequence=16)
    plain = bitpress.evaluate(model, tokens, batch_size=1)
    found = distributed.evaluate(model, tokens, where=where, shards=4)
    assert found.language.perplexity == plain.language.perplexity and found.num_samples == 10


def test_many_files_are_added_up_by_the_workers(conv_path, photos, tmp_path, where, monkeypatch):
    monkeypatch.setattr(distributed._shards, "_MOST_FILES_OF_A_MERGE", 3)
    monkeypatch.setattr(distributed._shards, "_FILES_OF_A_GROUP", 2)
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    seen = []
    distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=where, shards=11, progress=lambda *step: seen.append(step))
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    assert [total for stage, done, total in seen if stage.startswith("merge") and done == total] == [11, 6]  # 11 files, then 6 sums, then 3


@pytest.fixture
def jobs(conv_path, photos, tmp_path):
    """Returns a function that makes jobs for an engine, and the function of the package that does the same."""
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


def test_an_iterable_is_read_as_workers_need_it(conv_path, tmp_path, where):
    images = models.smooth_images(300, 7)
    bitpress.calibrate(conv_path, [{"image": image[None]} for image in images], tmp_path / "one.bpc", config="INT8", guard="off")
    given = []

    def items():
        for image in images:
            given.append(len(list((tmp_path / "all.bpc.shards").glob("*.bpc"))))
            yield {"image": image[None]}

    distributed.calibrate(conv_path, items(), tmp_path / "all.bpc", where=where, config="INT8", guard="off")
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    assert given[0] == 0 and given[-1] > 0, "the last item was read only after a shard was done"


def test_labels_of_an_iterable(conv_path, tmp_path, where):
    images = models.smooth_images(70, 7)
    classes = [i % 10 for i in range(70)]
    items = [images[i:i + 2] for i in range(0, 70, 2)]
    one = bitpress.evaluate(conv_path, items, labels=classes, output=tmp_path / "one.bpe")
    found = distributed.evaluate(conv_path, iter(items), labels=classes, output=tmp_path / "all.bpe", where=where)
    assert found.num_labelled == 70 and found.top1 == one.top1 and (tmp_path / "all.bpe").read_bytes() == (tmp_path / "one.bpe").read_bytes()
    named = [{"image": item, "class": classes[2 * i:2 * i + 2]} for i, item in enumerate(items)]
    distributed.evaluate(conv_path, named, labels="class", output=tmp_path / "all.bpe", where=where)
    assert (tmp_path / "all.bpe").read_bytes() == (tmp_path / "one.bpe").read_bytes()
    for labels, words in ((classes[:-1], "only 69 labels"), (classes + [0], "71 labels, but only 70 samples"), ("kind", "an item lacks 'kind'")):
        with pytest.raises(bitpress.InvalidArgumentError, match=words):
            distributed.evaluate(conv_path, named, labels=labels, where=where)


def test_a_ray_dataset_is_read_where_it_lies(ray, conv_path, tmp_path):
    from ray import data

    images = models.smooth_images(50, 7)
    classes = np.arange(50) % 10
    one = bitpress.evaluate(conv_path, images, labels=classes, output=tmp_path / "one.bpe")
    dataset = data.from_items([{"image": images[i], "class": int(classes[i])} for i in range(50)], override_num_blocks=6)
    for where in (ray, distributed.Processes(2)):
        seen = []
        found = distributed.evaluate(conv_path, dataset, labels="class", output=tmp_path / "all.bpe", where=where,
                                     progress=lambda *step: seen.append(step))
        assert found.num_labelled == 50 and found.top1 == one.top1
        assert (tmp_path / "all.bpe").read_bytes() == (tmp_path / "one.bpe").read_bytes()
    bitpress.calibrate(conv_path, images[:20], tmp_path / "one.bpc")
    distributed.calibrate(conv_path, dataset, tmp_path / "all.bpc", where=ray, samples=20)
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    with pytest.raises(bitpress.Error, match=r"block \d of the dataset.*lacks 'kind'"):
        distributed.evaluate(conv_path, dataset, labels="kind", where=ray)
    with pytest.raises(bitpress.ArgumentTypeError, match="name of its column"):
        distributed.evaluate(conv_path, dataset, labels=[1], where=ray)


@pytest.fixture
def space(photos):
    return {"data": photos, "candidates": "mx9,mx6", "image": IMAGE, "config": bitpress.Config("MX9", rules=["op_types=Gemm: exclude"])}


@pytest.mark.parametrize("shards", [0, 1, 2, 3])
def test_sensitivities_are_those_of_one_process(conv_path, tmp_path, where, space, shards):
    one = bitpress.sensitivity(conv_path, output=tmp_path / "one.json", method="both", **space)
    found = distributed.sensitivity(conv_path, output=tmp_path / "all.json", where=where, shards=shards, method="both", **space)
    assert (tmp_path / "all.json").read_bytes() == (tmp_path / "one.json").read_bytes() and found == one and found["layers"]
    assert sorted(path.name for path in tmp_path.glob("*.json*")) == ["all.json", "one.json"]


def test_a_search_finds_the_plan_of_one_process(conv_path, tmp_path, where, space):
    bitpress.search(conv_path, output=tmp_path / "one.json", target="sqnr>=20", bind="qkv", **space)
    seen = []
    found = distributed.search(conv_path, output=tmp_path / "all.json", target="sqnr>=20", bind="qkv", where=where,
                               progress=lambda *step: seen.append(step), **space)
    assert (tmp_path / "all.json").read_bytes() == (tmp_path / "one.json").read_bytes() and found.is_reached
    assert any(stage.startswith("sensitivity on 2 workers") for stage, _, _ in seen)
    with pytest.raises(bitpress.InvalidArgumentError, match="measure_time"):
        distributed.sensitivity(conv_path, measure_time=True, **space)
    with pytest.raises(bitpress.ArgumentTypeError, match="every worker reads them"):
        distributed.sensitivity(conv_path, **{**space, "data": []})


@pytest.mark.parametrize("config, arguments", [("MX6", {"finetune": "gptq"}), ("INT8", {"finetune": "adaquant"})])
def test_fine_tuned_models_are_those_of_one_process(conv_path, photos, tmp_path, where, config, arguments):
    bitpress.quantize(conv_path, tmp_path / "one.onnx", config, photos, image=IMAGE, **arguments)
    found = distributed.quantize(conv_path, tmp_path / "all.onnx", config, photos, image=IMAGE, where=where, shards=3, **arguments)
    assert (tmp_path / "all.onnx").read_bytes() == (tmp_path / "one.onnx").read_bytes() and found.layers
    assert sorted(path.name for path in tmp_path.glob("a*")) == ["all.onnx"]
    with pytest.raises(bitpress.ArgumentTypeError, match="every worker reads them"):
        distributed.quantize(conv_path, tmp_path / "no.onnx", config, [], where=where, **arguments)


def workers_of(process):
    """The processes that work for it."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_text().split("\0") if folder.name.isdigit() else []
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1] if "bitpress.distributed._worker" in words else None
        except OSError:
            continue
        if parent == str(process):
            found.append(int(folder.name))
    return found


def test_killed_workers_are_replaced(conv_path, photos, tmp_path):
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    chance = random.Random(3)
    killed = []
    is_over = threading.Event()

    def kill():
        while not is_over.wait(chance.uniform(0.1, 0.4)):
            for worker in workers_of(os.getpid())[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for _ in range(40):
            try:
                distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=distributed.Processes(2), shards=COUNT)
            except bitpress.ExecutionError as error:  # one shard was hit three times; what was finished stays
                assert "its worker died 3 times (signal 9)" in str(error)
            else:
                assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
            if len(killed) >= 5:
                break
    finally:
        is_over.set()
        killer.join()
    assert len(killed) >= 5
    distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, shards=COUNT)
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()


def test_killed_actors_are_started_anew(ray, conv_path, photos, tmp_path):
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    killed = []
    is_over = threading.Event()

    def actors():
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and (folder / "cmdline").read_text().startswith("ray::_Worker"):
                    yield int(folder.name)
            except OSError:
                continue

    def kill():
        while len(killed) < 2 and not is_over.wait(0.02):
            for worker in [worker for worker in actors() if worker not in killed][:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=ray, shards=COUNT)
    finally:
        is_over.set()
        killer.join()
    assert killed and (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()


def test_a_killed_caller_goes_on_where_it_was(conv_path, photos, tmp_path):
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    script = ("import sys; from bitpress import distributed as d; model, photos, output = sys.argv[1:]; "
              f"d.calibrate(model, photos, output, image='{IMAGE}', where=d.Processes(1), shards={COUNT})")
    output, folder = tmp_path / "all.bpc", tmp_path / "all.bpc.shards"
    finished = {}
    for wanted in (1, 5, 9):
        with subprocess.Popen([sys.executable, "-c", script, conv_path, photos, output], env={**os.environ, "PYTHONPATH": str(PACKAGE)}) as caller:
            while caller.poll() is None and len(list(folder.glob("*.bpc"))) < wanted:
                time.sleep(0.002)
            workers = workers_of(caller.pid)
            caller.kill()
        for _ in range(500):  # its workers end by themselves
            if not any(Path(f"/proc/{worker}").exists() for worker in workers):
                break
            time.sleep(0.02)
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
        now = {path: path.stat().st_mtime_ns for path in folder.glob("*.bpc")}
        assert now.items() >= finished.items() and len(now) >= wanted, "a finished shard was done twice"
        finished = now
    distributed.calibrate(conv_path, photos, output, image=IMAGE, where=distributed.Processes(2))  # with other workers
    assert output.read_bytes() == (tmp_path / "one.bpc").read_bytes()


@pytest.mark.parametrize("most_bytes, words", [(6_000, r"shard \d+ of 12 \(samples \d+ to \d+\): .*conv.onnx"), (40_000, r"cannot write '.*': File too large")])
def test_a_full_disk_is_one_error(conv_path, photos, tmp_path, most_bytes, words):
    """The first limit is too small for what a worker writes, the second one for what the calling process does."""
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    assert (tmp_path / "one.bpc").stat().st_size > 40_000
    script = ("import resource, sys; from bitpress import distributed as d; model, photos, output = sys.argv[1:4]; "
              f"resource.setrlimit(resource.RLIMIT_FSIZE, ({most_bytes}, resource.RLIM_INFINITY)); "
              f"d.calibrate(model, photos, output, image='{IMAGE}', where=d.Processes(2), shards={COUNT})")
    found = subprocess.run([sys.executable, "-c", script, conv_path, photos, tmp_path / "all.bpc"], env={**os.environ, "PYTHONPATH": str(PACKAGE)},
                           capture_output=True, text=True, check=False)
    error = found.stderr.splitlines()[-1]
    assert found.returncode == 1 and re.match(rf"bitpress\._errors\.\w+Error: {words}", error), found.stderr
    assert not (tmp_path / "all.bpc").exists() and not list(tmp_path.glob("**/*.part"))
    distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, shards=COUNT)
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()


class Poison(dict):
    """A sample that kills the worker that reads it."""

    def __reduce__(self):
        return eval, ("__import__('os').kill(__import__('os').getpid(), 9)",)


def test_a_sample_that_kills_every_worker_is_one_error(conv_path, tmp_path):
    with pytest.raises(bitpress.ExecutionError, match=r"shard 1 \(items 0 to 0\): its worker died 3 times \(signal 9\)"):
        distributed.calibrate(conv_path, [Poison()], tmp_path / "all.bpc", where=distributed.Processes(1))
    assert not (tmp_path / "all.bpc").exists()


def test_a_worker_s_error_names_shard_and_sample(conv_path, photos, tmp_path, where):
    bad = sorted(photos.iterdir())[7]
    bad.write_bytes(b"no picture")
    with pytest.raises(bitpress.Error, match=rf"shard 8 of {COUNT} \(samples 7 to 7\): .*{bad.name}"):
        distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=where, shards=COUNT)
    assert not (tmp_path / "all.bpc").exists() and list((tmp_path / "all.bpc.shards").glob("*.bpc"))
    # The samples are others now: nothing of those shards may count.
    bad.unlink()
    with pytest.raises(bitpress.InvalidArgumentError, match="shards of another call"):
        distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=where)


def test_samples_that_fail_are_left_out_and_named(tmp_path, where):
    model = ROOT / "tests" / "data" / "runtime" / "fragile.onnx"
    items = [{"x": np.full((1, 4), 9 if i in (5, 40) else i % 8, np.float32)} for i in range(70)]
    items[66] = {"y": items[0]["x"]}
    with pytest.warns(UserWarning, match="3 samples failed and were left out: 'sample 40', 'sample 5', 'sample 66'"):
        one = bitpress.calibrate(model, items, tmp_path / "one.bpc", most_failures=3)
    assert one.num_samples == 67 and one.left_out == ["sample 40", "sample 5", "sample 66"]
    with pytest.warns(UserWarning, match="'sample 66'"):
        found = distributed.calibrate(model, iter(items), tmp_path / "all.bpc", where=where, most_failures=3)
    assert found.left_out == one.left_out and (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    # Two fail in the first shards and one in another: only their sum is too much.
    with pytest.raises(bitpress.InvalidArgumentError, match="3 samples failed, but at most 2 may: 'sample 40', 'sample 5', 'sample 66'"):
        distributed.calibrate(model, items, tmp_path / "no.bpc", where=where, most_failures=2)
    with pytest.raises(bitpress.Error, match=r"shard (1 \(items 0 to 31\): .*sample 5|2 \(items 32 to 63\): .*sample 40): .*Gather"):
        distributed.evaluate(model, items, where=where)
    with pytest.raises(bitpress.InvalidArgumentError, match="most_failures=-1"):
        distributed.evaluate(model, items, where=where, most_failures=-1)
    assert not (tmp_path / "no.bpc").exists()


def test_weights_that_changed_beside_the_model_are_another_call(conv_path, photos, tmp_path):
    model = onnx.load(conv_path)
    onnx.save(model, tmp_path / "external.onnx", save_as_external_data=True, location="weights.data", size_threshold=0)
    bad = sorted(photos.iterdir())[-1]
    bad.write_bytes(b"no picture")
    arguments = {"image": IMAGE, "where": distributed.Processes(1), "shards": COUNT}
    with pytest.raises(bitpress.Error, match=bad.name):
        distributed.calibrate(tmp_path / "external.onnx", photos, tmp_path / "all.bpc", **arguments)
    weights = bytearray((tmp_path / "weights.data").read_bytes())
    weights[2] ^= 1
    (tmp_path / "weights.data").write_bytes(weights)
    assert list((tmp_path / "all.bpc.shards").glob("*.bpc"))
    with pytest.raises(bitpress.InvalidArgumentError, match="shards of another call, or its model"):
        distributed.calibrate(tmp_path / "external.onnx", photos, tmp_path / "all.bpc", **arguments)


def test_what_cannot_be_is_one_error(conv_path, photos, tmp_path):
    output = tmp_path / "all.bpc"
    for error, words, arguments in (
            (bitpress.InvalidArgumentError, "12 samples, too few for 13 shards", {"shards": 13}),
            (bitpress.InvalidArgumentError, "shards=-1", {"shards": -1}),
            (bitpress.InvalidArgumentError, "weights changes a configuration", {"weights": "int8"}),
            (bitpress.InvalidArgumentError, "files that are no shards", {"folder": photos}),
            (bitpress.MissingFileError, "no file of labels", {"labels": "none.csv"})):
        with pytest.raises(error, match=words):
            distributed.calibrate(conv_path, photos, output, image=IMAGE, **arguments)
    with pytest.raises(bitpress.MissingFileError, match="no folder"):
        distributed.calibrate(conv_path, photos, tmp_path / "none" / "all.bpc", image=IMAGE)
    with pytest.raises(bitpress.ArgumentTypeError, match="for folders"):
        distributed.calibrate(conv_path, [{}], output, image=IMAGE)
    with pytest.raises(bitpress.ArgumentTypeError, match="a CSV file"):
        distributed.evaluate(conv_path, photos, image=IMAGE, labels=[1])
    with pytest.raises(bitpress.InvalidArgumentError, match="no samples"):
        distributed.calibrate(conv_path, [], tmp_path / "empty.bpc")
    with pytest.raises(bitpress.InvalidArgumentError, match="workers=-1"):
        distributed.Processes(-1)
    assert not output.exists()


def test_progress_counts_the_samples_of_all_workers(conv_path, photos, tmp_path):
    seen = []
    distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, shards=5, where=distributed.Processes(2),
                          progress=lambda *step: seen.append(step))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen) and seen[-1][1:] == (COUNT, COUNT)
    assert all(stage.startswith("calibrate on 2 workers") for stage, _, _ in seen) and "left" in seen[0][0]
