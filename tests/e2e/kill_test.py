"""If `bitpress quantize` is killed with SIGKILL at any moment, the old model or the new one is there, whole, and never a model
beside the data of another one. A complete run afterwards succeeds."""

import os
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

SEED = 20261121
LARGE, SMALL = 2048, 512  # widths of weights of 16 MiB and 1 MiB
NUM_WEIGHTS = 6
KILLS = 4  # in each scenario


def save_model(path, size):
    """A chain of MatMuls with external data, `path`.data."""
    rng = np.random.default_rng(SEED)
    base = (rng.standard_normal((size, size)) / 50).astype(np.float32)
    tensors, nodes = [], []
    with open(f"{path}.data", "wb") as file:
        for i in range(NUM_WEIGHTS):
            tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=base.shape, data_location=TensorProto.EXTERNAL)
            for key, text in (("location", f"{path.name}.data"), ("offset", str(file.tell())), ("length", str(base.nbytes))):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, text
            file.write(np.roll(base, i, axis=0).tobytes())
            tensors.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], name=f"m{i}"))
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["N", size])],
        [helper.make_tensor_value_info(f"h{NUM_WEIGHTS}", TensorProto.FLOAT, ["N", size])], tensors)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())


def content(path):
    """Returns the bytes of the model and of its data, without the name of the data file and the offsets in it."""
    model = onnx.load(path, load_external_data=False)
    data = []
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        where = {entry.key: entry.value for entry in tensor.external_data}
        with open(path.parent / where["location"], "rb") as file:
            file.seek(int(where["offset"]))
            data.append(file.read(int(where["length"])))
        assert len(data[-1]) == int(where["length"]), f"{path}: the data of '{tensor.name}' are cut off"
        del tensor.external_data[:]
    return model.SerializeToString(deterministic=True), data


def check_runs(path):
    onnx.checker.check_model(str(path))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class Run:
    """Starts `bitpress quantize` in the background."""

    def __init__(self, program, temporary, model, output, weights, *options):
        self.output = output
        command = [program, "quantize", model, "-o", output, "--config", "MX6", "--weights", weights, "--activations", "none",
                   "--storage", "simulated", "--threads", "2", *options]
        self.process = subprocess.Popen([str(word) for word in command], env={**os.environ, "TMPDIR": str(temporary)},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def finish(self):
        assert self.process.wait(timeout=60) == 0, self.process.stderr.read().decode()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=60)
        return self.process.returncode == -signal.SIGKILL


def data_files(output):
    return {path.name for path in output.parent.iterdir() if path.name.startswith(output.name) and path.suffix == ".data"}


def wait_for(run, moment, seconds):
    """Waits until `seconds` after the start, or after the new data file is there. At that moment the pair could break."""
    if moment == "start":
        time.sleep(seconds)
        return
    before = data_files(run.output)
    while run.process.poll() is None and data_files(run.output) == before:
        pass
    time.sleep(seconds)


@pytest.fixture(scope="module")
def pieces(request, tmp_path_factory, program):
    """The float model of the given width, and for each kind of output two complete models, an old and a new one."""
    folder = tmp_path_factory.mktemp("complete")
    save_model(folder / "model.onnx", request.param)
    complete = {"seconds": []}
    for options in ((), ("--external-data",)):
        for age, weights in (("old", "bf16"), ("new", "mxfp8_e4m3")):
            output = folder / f"{age}{len(options)}" / "out.onnx"
            output.parent.mkdir()
            start = time.monotonic()
            Run(program, folder, folder / "model.onnx", output, weights, *options).finish()
            complete["seconds"].append(time.monotonic() - start)
            check_runs(output)
            complete[options, age] = output
    complete["model"] = folder / "model.onnx"
    yield complete
    shutil.rmtree(folder)  # a gigabyte


def copy_pair(source, target):
    for path in source.parent.iterdir():
        if path.name == source.name or (path.suffix == ".data" and path.name.startswith(source.name)):
            # The copy keeps the file's name, because the model holds the name of its data file.
            shutil.copyfile(path, target.parent / path.name)


EXTERNAL = ("--external-data",)


def scenario(name, before, options, size=LARGE):
    return pytest.param(before, options, size, id=name, marks=pytest.mark.kills if size == LARGE else ())


@pytest.mark.parametrize("before, options, pieces", [
    scenario("small over a pair", "pair", EXTERNAL, SMALL), scenario("inline", "nothing", ()), scenario("external", "nothing", EXTERNAL),
    scenario("over a file", "inline", ()), scenario("over a pair", "pair", EXTERNAL), scenario("over the input", "input", EXTERNAL)],
                         indirect=["pieces"])
def test_killed(before, options, pieces, program, tmp_path):
    rng = random.Random(f"{SEED} {before} {options}")
    new = content(pieces[options, "new"])
    old = {"nothing": None, "input": pieces["model"]}.get(before, pieces[options, "old"])
    model = pieces["model"]
    output = tmp_path / "out.onnx"
    if before == "input":
        model = output = tmp_path / model.name
    old_content = content(old) if old else None
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    outcomes = []
    for number in range(KILLS):
        # Files that earlier kills left behind stay. Only the output itself is removed.
        output.unlink(missing_ok=True)
        if old:
            copy_pair(old, output)
        run = Run(program, temporary, model, output, "mxfp8_e4m3", *options)
        moment = "data" if options and number % 2 == 1 else "start"
        usual = sorted(pieces["seconds"])[1]
        seconds = rng.uniform(0, usual) if number == 0 else rng.uniform(usual / 2, 1.5 * usual)
        if moment == "data":  # the rest takes milliseconds
            seconds = 0 if number == 1 else rng.uniform(0, 0.01)
        wait_for(run, moment, seconds)
        was_killed = run.kill()
        what = f"kill {number}, {seconds:.3f} s after {moment}, seed {SEED}"
        if not output.exists():
            assert old is None and was_killed, what
            outcomes.append("absent")
            continue
        found = content(output)
        assert found in (new, old_content), f"{what}: neither the old model nor the new one"
        assert was_killed or found == new, what
        check_runs(output)
        outcomes.append("new" if found == new else "old")
    print(f"{before} {options}: {outcomes}")

    Run(program, temporary, pieces["model"], output, "mxfp8_e4m3", *options).finish()
    assert content(output) == new
    check_runs(output)
    shutil.rmtree(tmp_path)
