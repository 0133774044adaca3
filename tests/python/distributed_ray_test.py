"""bitpress.distributed on Ray: what is not the same as with processes, whose tests are distributed_test.py and distributed_failures_test.py.

That is how jobs get to actors and results and errors back, actors that die, and datasets. All of it is in one file, because a cluster
takes seconds to start.
"""

import os
import signal
import threading
from pathlib import Path

import models
import numpy as np
import pytest
from locations import ROOT, cannot_run
from package_helpers import COUNT, IMAGE, expect_a_killed_worker_is_replaced, expect_an_iterable_is_read_as_workers_need_it

import bitpress
from bitpress import distributed


@pytest.fixture(scope="module")
def ray():
    """The place of two actors."""
    try:
        import ray as package
    except ImportError:
        cannot_run("the package ray is not installed")
    yield distributed.Ray(2)
    package.shutdown()


def test_statistics_are_those_of_one_process(ray, conv_path, photos, tmp_path):
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    seen = []
    found = distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=ray, shards=5,
                                  progress=lambda *step: seen.append(step))
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    assert found.num_samples == COUNT and not (tmp_path / "all.bpc.shards").exists()
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen) and seen[-1][1:] == (COUNT, COUNT)


def test_moments_are_those_of_one_process(ray, conv_path, photos, tmp_path):
    """Unlike those of statistics, these jobs call functions of the package, as those of sensitivities and of layers do."""
    samples = {"data": photos, "config": "MX6", "finetune": "gptq", "image": IMAGE}
    bitpress.moments(conv_path, output=tmp_path / "one.bpm", **samples)
    distributed.moments(conv_path, output=tmp_path / "all.bpm", where=ray, shards=3, **samples)
    assert (tmp_path / "all.bpm").read_bytes() == (tmp_path / "one.bpm").read_bytes()


def test_an_iterable_is_read_as_workers_need_it(ray, conv_path, tmp_path):
    expect_an_iterable_is_read_as_workers_need_it(ray, conv_path, tmp_path)
    # An error in the items is raised where they are read, and it comes back.
    with pytest.raises(bitpress.InvalidArgumentError, match="only 39 labels"):
        distributed.evaluate(conv_path, models.smooth_images(300, 7)[:40, None], labels=[0] * 39, where=ray)


def test_a_dataset_is_read_where_it_lies(ray, conv_path, tmp_path):
    from ray import data

    images = models.smooth_images(50, 7)
    classes = np.arange(50) % 10
    one = bitpress.evaluate(conv_path, images, labels=classes, output=tmp_path / "one.bpe")
    dataset = data.from_items([{"image": images[i], "class": int(classes[i])} for i in range(50)], override_num_blocks=6)
    for where in (ray, distributed.Processes(2)):
        found = distributed.evaluate(conv_path, dataset, labels="class", output=tmp_path / "all.bpe", where=where)
        assert found.num_labelled == 50 and found.top1 == one.top1
        assert (tmp_path / "all.bpe").read_bytes() == (tmp_path / "one.bpe").read_bytes()
    bitpress.calibrate(conv_path, images[:20], tmp_path / "one.bpc")
    distributed.calibrate(conv_path, dataset, tmp_path / "all.bpc", where=ray, samples=20)
    assert (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    with pytest.raises(bitpress.Error, match=r"block \d of the dataset.*lacks 'kind'"):
        distributed.evaluate(conv_path, dataset, labels="kind", where=ray)
    with pytest.raises(bitpress.ArgumentTypeError, match="name of its column"):
        distributed.evaluate(conv_path, dataset, labels=[1], where=ray)


def test_a_worker_s_error_names_shard_and_sample(ray):
    items = [{"x": np.full((1, 4), 9 if i in (5, 40) else i % 8, np.float32)} for i in range(70)]
    with pytest.raises(bitpress.Error, match=r"shard (1 \(items 0 to 31\): .*sample 5|2 \(items 32 to 63\): .*sample 40): .*Gather"):
        distributed.evaluate(ROOT / "tests" / "data" / "runtime" / "fragile.onnx", items, where=ray)


def test_a_killed_actor_is_replaced(ray, conv_path, tmp_path):
    expect_a_killed_worker_is_replaced(ray, conv_path, tmp_path)


@pytest.mark.kills
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
