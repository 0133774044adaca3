"""Models that were made to read other files, to read beyond a file's end or to fill memory are refused: with one line that
names the tensor or node, an exit code that is not 0, and nothing left behind."""

import itertools
import os
import resource
import subprocess

import onnx
import pytest
from locations import is_sanitized
from onnx import TensorProto

import models

COMMANDS = [["inspect"], ["quantize", "-o", "out.onnx", "--config", "MX6"], ["unpack", "-o", "out.onnx"]]
PACKED_COMMANDS = [["inspect"], ["unpack", "-o", "out.onnx"]]
WEIGHT_BYTES = 48 * 48 * 4
MEMORY_BYTES = 3 << 30  # of address space, far above what the small models here need


def in_turn(commands, *axes):
    """Returns all combinations of the axes' values as parameters, each with one of the commands, whose code to read models is the
    same. An axis of several parameters has tuples."""
    cases = []
    for places in itertools.product(*(range(len(axis)) for axis in axes)):
        values = [axis[place] for axis, place in zip(axes, places)]
        command = commands[sum(places) % len(commands)]
        parameters = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
        cases.append(pytest.param(*parameters, command, id=ascii(f"{values} {command[0]}")[1:60]))
    return cases


@pytest.fixture
def refused(program, tmp_path):
    """refused(words, model, command) checks that the command fails with one line that has the words, changes nothing, and takes
    little memory and time."""

    def limit():
        if not is_sanitized():  # a sanitizer reserves more for itself
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    def check(words, model, command):
        before = sorted(os.listdir(tmp_path))
        arguments = [command[0], model, *(tmp_path / word if word == "out.onnx" else word for word in command[1:])]
        result = subprocess.run([str(word) for word in [program, *arguments]], capture_output=True, text=True, errors="replace",
                                timeout=20, check=False, stdin=subprocess.DEVNULL, preexec_fn=limit)
        assert result.returncode > 0, f"{arguments}: {result.returncode}\n{result.stdout}\n{result.stderr}"
        lines = result.stderr.strip().splitlines()
        assert len(lines) == 1, result.stderr
        for word in words:
            assert word in lines[0], f"'{word}' is not in: {lines[0]}"
        assert "secret" not in result.stdout
        assert sorted(os.listdir(tmp_path)) == before, "a file was left behind"

    return check


def external_model(path, **entries):
    """Returns a model whose weight 'query' is external data, described by `entries`. The other weights are in the file."""
    model = models.matmul_model()
    (tensor,) = [tensor for tensor in model.graph.initializer if tensor.name == "query"]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def house(tmp_path):
    """A folder for the model with good data in it, and beside it a secret file that is just as long."""
    folder = tmp_path / "house"
    (folder / "rooms").mkdir(parents=True)
    (folder / "data.bin").write_bytes(bytes(WEIGHT_BYTES))
    (folder / "short.bin").write_bytes(bytes(WEIGHT_BYTES - 1))
    (folder / "empty.bin").write_bytes(b"")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.bin").write_bytes(b"secret!!" * (WEIGHT_BYTES // 8))
    (folder / "link.bin").symlink_to("../outside/secret.bin")
    (folder / "absolute_link.bin").symlink_to(tmp_path / "outside" / "secret.bin")
    (folder / "second_link.bin").symlink_to("link.bin")
    (folder / "linked").symlink_to("../outside")
    (folder / "loop.bin").symlink_to("loop.bin")
    os.mkfifo(folder / "pipe")
    return folder


def test_the_data_itself_is_fine(house, bitpress):
    bitpress.ok("inspect", external_model(house / "model.onnx", location="data.bin", offset="0", length=str(WEIGHT_BYTES)))


@pytest.mark.parametrize("location, command", in_turn(COMMANDS, [
    "../outside/secret.bin", "../../etc/passwd", "rooms/../../outside/secret.bin", "./../outside/secret.bin", "/etc/passwd",
    "//etc/passwd", "link.bin", "absolute_link.bin", "second_link.bin", "linked/secret.bin", "rooms/../linked/secret.bin",
    "loop.bin", "", ".", "..", "/", "rooms", "rooms/", "pipe", "/dev/zero", "/proc/self/mem", "missing.bin", "data.bin/",
    "data.bin/more", "data.bin\0", "\0", "data.bin\0../outside/secret.bin", "x" * 5000, "file:///etc/passwd", "#bitpress",
    "#bitpress\n", "two\nlines", "..\\outside\\secret.bin", "%2e%2e/outside/secret.bin", "~/secret.bin", "short.bin", "empty.bin"]))
def test_a_location_that_leaves_the_folder_or_is_no_data(location, command, house, refused):
    refused(["model.onnx", "'query'"], external_model(house / "model.onnx", location=location), command)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("location", ["../outside/secret.bin", "link.bin", "pipe", "missing.bin", "short.bin"])
def test_every_command_refuses_it(location, command, house, refused):
    refused(["model.onnx", "'query'"], external_model(house / "model.onnx", location=location), command)


@pytest.mark.parametrize("offset, length, command", in_turn(COMMANDS, [
    ("-1", None), ("-9223372036854775808", None), ("1", None), ("18446744073709551615", None), ("18446744073709551616", None),
    (str(2**64 - WEIGHT_BYTES), None), (str(2**63), str(WEIGHT_BYTES)), ("0x0", None), ("1e3", None), (" 0", None), ("+0", None),
    ("0 ", None), ("zero", None), ("0\0", None), (str(WEIGHT_BYTES), None), ("0", "0"), ("0", "-1"), ("0", str(WEIGHT_BYTES - 1)),
    ("0", str(WEIGHT_BYTES + 1)), ("0", "18446744073709551615"), ("0", str(2**64 + WEIGHT_BYTES)), ("4096", "18446744073709547520")]))
def test_a_place_outside_the_file(offset, length, command, house, refused):
    entries = {"location": "data.bin", "offset": offset} | ({"length": length} if length else {})
    refused(["model.onnx", "'query'"], external_model(house / "model.onnx", **entries), command)


@pytest.mark.parametrize("dims, command", in_turn(
    COMMANDS, [[1 << 62, 4], [1 << 31, 1 << 31], [-1, 48], [1 << 40], [48, 48, 2], [(1 << 63) - 1] * 3]))
def test_external_data_of_a_tensor_that_does_not_fit(dims, command, house, refused):
    path = external_model(house / "model.onnx", location="data.bin")
    model = onnx.load(path, load_external_data=False)
    (tensor,) = [tensor for tensor in model.graph.initializer if tensor.name == "query"]
    tensor.dims[:] = dims
    path.write_bytes(model.SerializeToString())
    refused(["model.onnx", "'query'"], path, command)


def test_external_data_without_a_location(house, refused):
    refused(["model.onnx", "'query'"], external_model(house / "model.onnx", offset="0"), ["inspect"])


@pytest.mark.quick
def test_external_data_inside_a_node(house, refused):
    """A tensor that is the attribute of a node, and one in the body of a function."""
    for place in ("node", "function"):
        model = models.matmul_model()
        tensor = TensorProto(name="query", data_type=TensorProto.FLOAT, dims=[48, 48], data_location=TensorProto.EXTERNAL)
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", "../outside/secret.bin"
        (old,) = [constant for constant in model.graph.initializer if constant.name == "query"]
        model.graph.initializer.remove(old)
        constant = onnx.helper.make_node("Constant", [], ["query"], value=tensor)
        if place == "function":
            opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("local", 1)]
            model.functions.append(onnx.helper.make_function("local", "Query", [], ["query"], [constant], opsets))
            model.opset_import.append(opsets[1])
            constant = onnx.helper.make_node("Query", [], ["query"], domain="local")
        model.graph.node.insert(0, constant)
        (house / "model.onnx").write_bytes(model.SerializeToString())
        for command in COMMANDS:
            refused(["model.onnx", "'query'"], house / "model.onnx", command)


@pytest.fixture(scope="module")
def packed_model(bitpress, tmp_path_factory):
    """packed_model(format) returns a packed model with the weights 'query' and 'key'."""
    folder = tmp_path_factory.mktemp("packed")
    models.save(models.matmul_model(), folder / "matmul.onnx")

    def pack(weight_format):
        path = folder / f"{weight_format}.onnx"
        if not path.exists():
            bitpress.ok("quantize", folder / "matmul.onnx", "-o", path, "--as-is", "--config", "MX6", "--weights", weight_format,
                        "--activations", "none", "--target", "portable")
        return onnx.load(path)

    return pack


def unpack_node(model):
    return next(node for node in model.graph.node if node.op_type.startswith("Unpack_"))


HUGE = 1 << 62


@pytest.mark.parametrize("weight_format, shape, blocks, command", in_turn(
    PACKED_COMMANDS, ["mxfp4_e2m1", "mx6", "mxfp8_e4m3", "int4", "uint16"], [
    (None, []), (None, [1, 48]), (None, [1, 2, 24, 48, 1]), ([], None), ([48], None), ([-48, -48], None), ([48, -1], None),
    ([48, 48], [1, -2, -24, 48]), ([48, 48], [-1, 2, -24, 48]), ([-48, 48], [1, -2, 24, 48]), ([1 << 20, 1 << 20], None),
    ([1 << 20, 1 << 20], [1, 1 << 15, 32, 1 << 20]), ([HUGE, 4], [1, HUGE, 4, 1]), ([0], [0, 1, 1, 1]), ([0], [0, HUGE, HUGE, 1]),
    ([0, HUGE, HUGE], [1, 0, 32, HUGE]), ([1 << 34], [1, 1 << 29, 32, 1]), ([1 << 60], [1, 1 << 55, 32, 1]),
    ([96, 48], [1, 4, 24, 48]), ([24, 48], [1, 1, 24, 48])]))
def test_packed_weights_of_a_wrong_size(shape, blocks, weight_format, command, packed_model, tmp_path, refused):
    model = packed_model(weight_format)
    node = unpack_node(model)
    for attribute in node.attribute:
        wanted = {"shape": shape, "blocks": blocks}.get(attribute.name)
        if wanted is not None:
            attribute.ints[:] = wanted
    path = tmp_path / "packed.onnx"
    path.write_bytes(model.SerializeToString())
    refused(["packed.onnx", node.op_type], path, command)


@pytest.mark.parametrize("weight_format, damage, command", [
    ("bf16", "codes from the caller", ["inspect"]),  # it has one part, whose shape is the weight's
    *in_turn(PACKED_COMMANDS, ["mxfp4_e2m1", "mx6", "mxfp8_e4m3", "bfp(bits=13, block=32)", "int4", "uint16", "int32"],
             ["shorter codes", "longer codes", "shorter scales", "no scales", "codes swapped with scales",
              "codes from the caller", "codes without a name"])])
def test_packed_weights_of_wrong_bytes(damage, weight_format, command, packed_model, tmp_path, refused):
    model = packed_model(weight_format)
    node = unpack_node(model)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    scales = next(i for i, name in enumerate(node.input) if name.endswith("_scales")) if weight_format != "bf16" else 0
    part = tensors[node.input[scales if "er scales" in damage else 0]]
    rows = part.dims[0]
    if damage.startswith("shorter"):
        part.raw_data = part.raw_data[: len(part.raw_data) // rows * (rows - 1)]
        part.dims[0] = rows - 1
    elif damage.startswith("longer"):
        part.raw_data += part.raw_data[: len(part.raw_data) // rows]
        part.dims[0] = rows + 1
    elif damage == "no scales":
        del node.input[scales:]
    elif damage.startswith("codes swapped"):
        node.input[0], node.input[scales] = node.input[scales], node.input[0]
    elif damage == "codes from the caller":
        model.graph.initializer.remove(part)
        model.graph.input.append(onnx.helper.make_tensor_value_info(part.name, part.data_type, list(part.dims)))
    else:
        node.input[0] = ""
    path = tmp_path / "packed.onnx"
    path.write_bytes(model.SerializeToString())
    refused(["packed.onnx", node.op_type], path, command)


@pytest.mark.parametrize("command", PACKED_COMMANDS, ids=" ".join)
@pytest.mark.parametrize("word", ["mx7", "", "int9", "int8_symmetric", "float32", "bfp_bits99_block32", "bfp_bits13_block0", "bfp_bits13_block-32",
                                  "bfp_bits99999999999_block32", "bfp_bits13_block2147483647_exponent8", "%s%n", "x" * 2000])
def test_packed_weights_of_a_format_that_does_not_exist(word, command, packed_model, tmp_path, refused):
    model = packed_model("mxfp4_e2m1")
    node = unpack_node(model)
    for user in [*model.graph.node, *model.functions]:
        if user is node:
            user.op_type = f"Unpack_{word}"
    function = onnx.FunctionProto()
    function.CopyFrom(model.functions[0])
    function.name = node.op_type
    model.functions.append(function)
    path = tmp_path / "packed.onnx"
    path.write_bytes(model.SerializeToString())
    refused(["packed.onnx"], path, command)


@pytest.mark.parametrize("weight_format, block_size, command", in_turn(
    PACKED_COMMANDS, ["int4", "uint16"], [0, -1, -(1 << 63), 2, 24, 49, 1 << 40, (1 << 63) - 1]))
def test_packed_integers_of_another_block_size(block_size, weight_format, command, packed_model, tmp_path, refused):
    model = packed_model(weight_format)
    node = unpack_node(model)
    next(attribute for attribute in node.attribute if attribute.name == "block_size").i = block_size
    path = tmp_path / "packed.onnx"
    path.write_bytes(model.SerializeToString())
    refused(["packed.onnx", node.op_type], path, command)


@pytest.mark.parametrize("part", ["input", "output"])
@pytest.mark.parametrize("command", [["inspect"], ["unpack", "-o", "out.onnx"], ["unpack", "--drop-quantizers", "-o", "out.onnx"],
                                     ["quantize", "--as-is", "-o", "out.onnx", "--config", "MX6"]], ids=" ".join)
@pytest.mark.parametrize("operator", ["QuantizeDequantize_mx66", "Unpack_mx6"])
def test_a_node_without_inputs_or_outputs(operator, command, part, tmp_path, program):
    """ONNX's checker does not count the inputs of operators that it does not know. The model is refused, or written without a
    crash."""
    model = models.matmul_model()
    model.opset_import.append(onnx.helper.make_opsetid("bitpress", 1))
    node = onnx.helper.make_node(operator, ["x"], ["q"], "hollow", domain="bitpress")
    node.ClearField(part)
    model.graph.node.insert(0, node)
    path = tmp_path / "hollow.onnx"
    path.write_bytes(model.SerializeToString())
    arguments = [tmp_path / word if word == "out.onnx" else word for word in command[1:]]
    result = subprocess.run([str(word) for word in [program, command[0], path, *arguments]], capture_output=True, text=True,
                            timeout=20, check=False)
    assert result.returncode in (0, 1), result.stderr
    assert len(result.stderr.strip().splitlines()) <= 1, result.stderr


def spying_model(path, place):
    """A model with an operator that only runs of ours put into models: its number would be a place in their memory."""
    spy = onnx.helper.make_node("ObservePass", ["x"], ["s"], "spy", domain="bitpress.observe", id=1 << 40)
    model = models.matmul_model()
    model.opset_import.append(onnx.helper.make_opsetid("bitpress.observe", 1))
    if place == "function":
        model.opset_import.append(onnx.helper.make_opsetid("local", 1))
        model.functions.append(onnx.helper.make_function("local", "f", ["x"], ["s"], [spy], list(model.opset_import)[:3]))
        spy = onnx.helper.make_node("f", ["x"], ["s"], "call", domain="local")
    model.graph.node.insert(0, spy)
    for node in model.graph.node[1:]:
        node.input[:] = ["s" if name == "x" else name for name in node.input]
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("place", ["graph", "function"])
@pytest.mark.parametrize("command", [
    ["quantize", "-o", "out.onnx", "--config", "MX6", "--as-is", "--finetune", "gptq"], ["quantize", "-o", "out.onnx", "--config", "INT8"],
    ["calibrate", "-o", "out.onnx", "--as-is"], ["sensitivity", "-o", "out.onnx", "--as-is", "--candidates", "mx6"]], ids=" ".join)
def test_operators_of_our_own_runs_are_refused(command, place, refused, tmp_path):
    model = spying_model(tmp_path / "spy.onnx", place)
    samples = models.save_noise(tmp_path / "samples", (1, 12, 48), 4)
    refused(["spy.onnx", "ObservePass 'spy'", "bitpress.observe"], model, [*command, "--data", str(samples)])
