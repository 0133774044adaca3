"""With truncated and bit-flipped models and plans the program ends by itself, with a result or with one line of error."""

import json
import random

import onnx
import pytest

SEED = 20261121
NUM_FLIPS = {"anywhere": 60, "structure": 150}
NUM_CUTS = 40
NUM_PLANS = 60


def check(bitpress, folder, *arguments, check="off"):
    """A success leaves a model that ONNX accepts, a failure leaves no file and says why in one line."""
    output = folder / "out.onnx"
    result = bitpress.run("quantize", *arguments, "-o", output, "--check", check)
    others = {path.name for path in folder.iterdir()} - {"damaged.onnx", "conv.onnx", "plan.json", "out.onnx"}
    assert not others, f"left behind: {others}"
    if result.returncode == 0:
        onnx.load(output)
        output.unlink()
        return True
    assert not output.exists()
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    return False


def test_truncated_models(conv_path, tmp_path, bitpress_process):
    content = conv_path.read_bytes()
    rng = random.Random(SEED)
    sizes = [1, 2, 3, 10, 100, len(content) - 1, len(content) - 2, len(content) - 10]
    sizes += [rng.randrange(len(content)) for _ in range(NUM_CUTS - len(sizes))]
    for size in sizes:
        (tmp_path / "damaged.onnx").write_bytes(content[:size])
        succeeded = check(bitpress_process, tmp_path, tmp_path / "damaged.onnx", "--config", "MX6")
        assert not succeeded, f"the first {size} of {len(content)} bytes were taken for a model"


@pytest.mark.parametrize("part", ["anywhere", "structure"])
def test_flipped_bits(part, conv_path, tmp_path, bitpress_process):
    content = conv_path.read_bytes()
    rng = random.Random(f"{SEED} {part}")
    # Most bytes are weights, where a flip gives just another number. Names, sizes and attributes are outside of them.
    model = onnx.load(conv_path)
    spans = [(content.index(tensor.raw_data), len(tensor.raw_data)) for tensor in model.graph.initializer
             if len(tensor.raw_data) > 64]
    structure = [i for i in range(len(content)) if not any(start <= i < start + size for start, size in spans)]
    positions = structure if part == "structure" else range(len(content))
    num_errors = 0
    for number in range(NUM_FLIPS[part]):
        damaged = bytearray(content)
        for _ in range(rng.choice([1, 1, 1, 4])):
            damaged[rng.choice(positions)] ^= 1 << rng.randrange(8)
        (tmp_path / "damaged.onnx").write_bytes(damaged)
        # Some are given to ONNX Runtime, too.
        checks = "on" if number % 15 == 0 else "off"
        num_errors += not check(bitpress_process, tmp_path, tmp_path / "damaged.onnx", "--config", "MX6", check=checks)
    if part == "structure":
        assert num_errors > NUM_FLIPS[part] // 4, "hardly any damage was noticed"


def test_damaged_plans(conv_path, tmp_path, bitpress_process):
    text = bitpress_process.ok("plan", conv_path, "--config", "MX6")
    json.loads(text)
    rng = random.Random(SEED)
    for _ in range(NUM_PLANS):
        damaged = bytearray(text.encode())
        position = rng.randrange(len(damaged))
        action = rng.choice(["flip", "cut", "delete", "repeat"])
        if action == "flip":
            damaged[position] ^= 1 << rng.randrange(8)
        elif action == "cut":
            del damaged[position:]
        elif action == "delete":
            del damaged[position : position + rng.randrange(1, 40)]
        else:
            damaged[position:position] = damaged[position : position + rng.randrange(1, 40)]
        (tmp_path / "plan.json").write_bytes(damaged)
        check(bitpress_process, tmp_path, conv_path, "--plan", tmp_path / "plan.json")


def test_a_damaged_model_cannot_be_inspected_or_planned(conv_path, tmp_path, bitpress_process):
    content = conv_path.read_bytes()
    (tmp_path / "damaged.onnx").write_bytes(content[: len(content) // 2])
    for command in ("inspect", "plan"):
        config = ["--config", "MX6"] if command == "plan" else []
        assert "damaged.onnx" in bitpress_process.error(command, tmp_path / "damaged.onnx", *config)
