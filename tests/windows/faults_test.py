"""What goes wrong on Windows is one clear error, and nothing is lost: files that are read-only, names, long paths, a process that is
killed, external data outside the model's folder. (Files that are open elsewhere: src/base/windows/system_test.cc.)"""

import os
import shutil
import signal
import subprocess
import time

import attacks_test
import models
import onnx
import pytest
import rig

pytestmark = pytest.mark.windows
SECRET = b"secret!!"


@pytest.fixture
def model(tmp_path):
    return models.save(models.conv_model(), tmp_path / "model.onnx")


def quantize(model, output, *words, **options):
    return rig.run("bitpress.exe", "quantize", model, "-o", output, "--config", "MX6", "--check", "off", *words, **options)


def one_error(done):
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_target_that_is_read_only(model, tmp_path):
    target = tmp_path / "out.onnx"
    target.write_bytes(b"old")
    target.chmod(0o444)
    error = one_error(quantize(model, target))
    assert "out.onnx" in error and "read-only" in error
    assert target.read_bytes() == b"old" and sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "out.onnx"]


@pytest.mark.parametrize("name", ["mit Leerzeichen", "Größe ßäöü", "模型", "zug_🚂"])
def test_names(name, tmp_path):
    folder = tmp_path / name
    folder.mkdir()
    model = models.save(models.conv_model(), folder / f"{name}.onnx")
    output = folder / f"{name} out.onnx"
    done = quantize(model, output, "--json", "-")
    assert done.returncode == 0, done.stderr
    assert name in done.stdout
    onnx.checker.check_model(onnx.load(output).graph and str(output))
    missing = folder / f"{name} missing.onnx"
    assert name in one_error(quantize(missing, output))


def test_a_path_of_more_than_260_characters(tmp_path):
    folder = tmp_path
    while len(str(folder)) < 400:
        folder /= "a folder with a name of some length"
    folder.mkdir(parents=True)
    model = models.save(models.conv_model(), folder / "model.onnx")
    done = quantize(model, folder / "out.onnx")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["model.onnx", "out.onnx"]


def test_a_process_that_is_killed_leaves_the_old_file(tmp_path):
    """It is killed at moments that are spread over a run. The old file or the new one is there, whole."""
    model = tmp_path / "model.onnx"
    onnx.save(models.odd_model(), model)
    target = tmp_path / "out.onnx"
    start = time.monotonic()
    assert quantize(model, target).returncode == 0
    seconds, new = time.monotonic() - start, target.read_bytes()
    for part in (0.3, 0.5, 0.7, 0.8, 0.9, 1.0):
        target.write_bytes(b"old")
        command = [rig.WINE, rig.BUILD / "bitpress.exe", "quantize", model, "-o", target, "--config", "MX6", "--check", "off"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(part * seconds)
            process.send_signal(signal.SIGKILL)
        assert target.read_bytes() in (b"old", new)
    assert quantize(model, target).returncode == 0
    assert target.read_bytes() == new


@pytest.mark.parametrize("location", [
    r"..\outside\x", "../outside/x", "C:x", r"C:\x", r"\\server\share\x", r"\\?\C:\x", r"a/..\..\outside\x", "NUL", "nul.txt", "x:stream",
    r"a\..\..\outside\x", r"\outside\x", "COM1", "a/CON", ".. /outside/x"])
def test_external_data_outside_the_folder(location, tmp_path, bitpress):
    house = tmp_path / "house"
    (house / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(SECRET * (attacks_test.WEIGHT_BYTES // len(SECRET)))
    shutil.copy(tmp_path / "outside" / "x", house / "x")
    path = attacks_test.external_model(house / "model.onnx", location=location)
    output = tmp_path / "out.onnx"
    errors = [one_error(quantize(path, output)), bitpress.error("quantize", path, "-o", output, "--config", "MX6")]
    for error in errors:  # a file that leaves the folder there is refused here, too
        assert "model.onnx" in error and "'query'" in error
    assert not output.exists()


def test_the_same_data_inside_the_folder_are_read(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(bytes(attacks_test.WEIGHT_BYTES))
    path = attacks_test.external_model(tmp_path / "model.onnx", location="a/x")
    assert quantize(path, tmp_path / "out.onnx").returncode == 0


def test_text_with_the_line_ends_of_windows(model, tmp_path):
    assert rig.run("bitpress.exe", "plan", model, "-o", tmp_path / "plan.json", "--config", "MX6").returncode == 0
    plan = (tmp_path / "plan.json").read_bytes()
    assert b"\r" not in plan
    (tmp_path / "crlf.json").write_bytes(plan.replace(b"\n", b"\r\n"))
    for name in ("plan", "crlf"):
        assert quantize(model, tmp_path / f"{name}.onnx", "--plan", tmp_path / f"{name}.json").returncode == 0
    assert (tmp_path / "plan.onnx").read_bytes() == (tmp_path / "crlf.onnx").read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_no_space(tmp_path):
    model = tmp_path / "model.onnx"
    onnx.save(models.odd_model(), model)
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        (small / "out.onnx").write_bytes(b"old")
        error = one_error(quantize(model, small / "out.onnx"))
        assert "out.onnx" in error
        assert [(path.name, path.read_bytes()) for path in small.iterdir()] == [("out.onnx", b"old")]
    finally:
        subprocess.run(["umount", small], check=True)
