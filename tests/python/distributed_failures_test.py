"""bitpress.distributed: what is written, said and kept if workers or the caller are killed, or if samples, disks or arguments fail.

Workers are processes here; distributed_ray_test.py has actors.
"""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from locations import PACKAGE, ROOT
from package_helpers import COUNT, IMAGE, expect_a_killed_worker_is_replaced

import bitpress
from bitpress import distributed

WORKERS = distributed.Processes(2)


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


def test_a_killed_worker_is_replaced(conv_path, tmp_path):
    expect_a_killed_worker_is_replaced(WORKERS, conv_path, tmp_path)


@pytest.mark.kills
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


# How many shards are finished when the caller is killed.
@pytest.mark.parametrize("moments", [(5,), pytest.param((1, 5, 9), marks=pytest.mark.kills)], ids=["once", "again and again"])
def test_a_killed_caller_goes_on_where_it_was(moments, conv_path, photos, tmp_path):
    bitpress.calibrate(conv_path, photos, tmp_path / "one.bpc", image=IMAGE)
    script = ("import sys; from bitpress import distributed as d; model, photos, output = sys.argv[1:]; "
              f"d.calibrate(model, photos, output, image='{IMAGE}', where=d.Processes(1), shards={COUNT})")
    output, folder = tmp_path / "all.bpc", tmp_path / "all.bpc.shards"
    finished = {}
    for wanted in moments:
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


class Fatal(dict):
    """A sample that kills the worker that reads it."""

    def __reduce__(self):
        return eval, ("__import__('os').kill(__import__('os').getpid(), 9)",)


def test_a_sample_that_kills_every_worker_is_one_error(conv_path, tmp_path):
    with pytest.raises(bitpress.ExecutionError, match=r"shard 1 \(items 0 to 0\): its worker died 3 times \(signal 9\)"):
        distributed.calibrate(conv_path, [Fatal()], tmp_path / "all.bpc", where=distributed.Processes(1))
    assert not (tmp_path / "all.bpc").exists()


def test_a_worker_s_error_names_shard_and_sample(conv_path, photos, tmp_path):
    bad = sorted(photos.iterdir())[7]
    bad.write_bytes(b"no picture")
    with pytest.raises(bitpress.Error, match=rf"shard 8 of {COUNT} \(samples 7 to 7\): .*{bad.name}"):
        distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=WORKERS, shards=COUNT)
    assert not (tmp_path / "all.bpc").exists() and list((tmp_path / "all.bpc.shards").glob("*.bpc"))
    # The samples are others now: nothing of those shards may count.
    bad.unlink()
    with pytest.raises(bitpress.InvalidArgumentError, match="shards of another call"):
        distributed.calibrate(conv_path, photos, tmp_path / "all.bpc", image=IMAGE, where=WORKERS)


def test_samples_that_fail_are_left_out_and_named(tmp_path):
    model = ROOT / "tests" / "data" / "runtime" / "fragile.onnx"
    items = [{"x": np.full((1, 4), 9 if i in (5, 40) else i % 8, np.float32)} for i in range(70)]
    items[66] = {"y": items[0]["x"]}
    with pytest.warns(UserWarning, match="3 samples failed and were left out: 'sample 40', 'sample 5', 'sample 66'"):
        one = bitpress.calibrate(model, items, tmp_path / "one.bpc", most_failures=3)
    assert one.num_samples == 67 and one.left_out == ["sample 40", "sample 5", "sample 66"]
    with pytest.warns(UserWarning, match="'sample 66'"):
        found = distributed.calibrate(model, iter(items), tmp_path / "all.bpc", where=WORKERS, most_failures=3)
    assert found.left_out == one.left_out and (tmp_path / "all.bpc").read_bytes() == (tmp_path / "one.bpc").read_bytes()
    # Two fail in the first shards and one in another: only their sum is too much.
    with pytest.raises(bitpress.InvalidArgumentError, match="3 samples failed, but at most 2 may: 'sample 40', 'sample 5', 'sample 66'"):
        distributed.calibrate(model, items, tmp_path / "no.bpc", where=WORKERS, most_failures=2)
    with pytest.raises(bitpress.Error, match=r"shard (1 \(items 0 to 31\): .*sample 5|2 \(items 32 to 63\): .*sample 40): .*Gather"):
        distributed.evaluate(model, items, where=WORKERS)
    with pytest.raises(bitpress.InvalidArgumentError, match="most_failures=-1"):
        distributed.evaluate(model, items, where=WORKERS, most_failures=-1)
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
