"""bitpress.distributed: several workers give the bytes of one process, also when they or the caller are killed."""

import os
import random
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
from locations import cannot_run

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


def test_an_iterable_is_read_as_workers_need_it(conv_path, tmp_path, where):
    images = models.smooth_images(100, 7)
    bitpress.calibrate(conv_path, [{"image": image[None]} for image in images], tmp_path / "one.bpc", config="INT8", guard="off")
    given = []

    def items():
        for image in images:
            given.append(len(list((tmp_path / "all.bpc.shards").glob("*.bpc"))))
            yield {"image": image[None]}

    distributed.calibrate(conv_path, items(), tmp_path / "all.bpc", where=where, config="INT8", guard="off")
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    assert given[0] == 0 and given[-1] > 0, "the last item was read only after a shard was done"


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
