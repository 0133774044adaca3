"""`--storage qdq` writes weights as the ONNX standard has them: codes in its own types behind a DequantizeLinear or a Cast, with the
values of the format. onnx's own reference computes them here."""

import json

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

# The operator set and the type of codes and scales of each format.
FORMS = {
    "fp16": (17, "FLOAT16", None), "bf16": (17, "BFLOAT16", None),
    "fp8_e4m3": (19, "FLOAT8E4M3FN", "FLOAT"), "fp8_e5m2": (19, "FLOAT8E5M2", "FLOAT"),
    "mxfp8_e4m3": (21, "FLOAT8E4M3FN", "FLOAT"), "mxfp8_e5m2": (21, "FLOAT8E5M2", "FLOAT"),
    "mxfp4_e2m1": (24, "FLOAT4E2M1", "FLOAT8E8M0"), "nvfp4": (23, "FLOAT4E2M1", "FLOAT8E4M3FN"),
    "mxint8": (21, "INT8", "FLOAT"), "mx4": (21, "INT4", "FLOAT"), "mx6": (21, "INT8", "FLOAT"), "mx9": (21, "INT16", "FLOAT"),
    "bfp16": (21, "INT8", "FLOAT"), "bfp(bits=20,block=32)": (21, "INT16", "FLOAT"), "mxfp6_e2m3": (21, "INT8", "FLOAT"),
    "mxfp6_e3m2": (21, "INT16", "FLOAT"), "int4": (21, "INT4", "FLOAT"), "int3": (21, "INT4", "FLOAT"), "uint2": (25, "UINT2", "FLOAT"),
}
DECODED = {"mxfp4_e2m1", "nvfp4"}  # no kernel in ONNX Runtime


@pytest.fixture(scope="module")
def odd_path(tmp_path_factory):
    return models.save(models.odd_model(), tmp_path_factory.mktemp("standard") / "odd.onnx")


def quantize(bitpress, source, target, weights, storage, *options):
    blocks = ("--set", "weight_granularity=per_block") if "int" in weights and not weights.startswith("mx") else ()
    return bitpress.checking.ok("quantize", source, "-o", target, "--config", "none", "--weights", weights, "--storage", storage,
                       "--target", "portable", *blocks, *options)


def weight_values(model):
    """The values that DequantizeLinear and Cast of constants give, by name."""
    constants = {tensor.name for tensor in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type in ("DequantizeLinear", "Cast", "Slice", "Reshape") and constants.issuperset(node.input):
            nodes.append(node)
            constants.update(node.output)
    names = [node.output[0] for node in nodes]
    graph = helper.make_graph(nodes, "weights", [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
                              model.graph.initializer)
    values = ReferenceEvaluator(helper.make_model(graph, opset_imports=model.opset_import)).run(None, {})
    return dict(zip(names, values))


def types(model):
    constants = {tensor.name: TensorProto.DataType.Name(tensor.data_type) for tensor in model.graph.initializer}
    return {tuple(constants.get(name) for name in node.input[:2]) for node in model.graph.node
            if node.op_type in ("DequantizeLinear", "Cast") and node.input[0] in constants}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.quick) if name in ("nvfp4", "mx6") else name for name in FORMS])
def test_values_are_those_of_the_format(name, odd_path, tmp_path, bitpress):
    text = quantize(bitpress, odd_path, tmp_path / "qdq.onnx", name, "qdq")
    quantize(bitpress, odd_path, tmp_path / "simulated.onnx", name, "simulated")
    model = onnx.load(tmp_path / "qdq.onnx")
    onnx.checker.check_model(model, full_check=True)
    opset, codes, scales = FORMS[name]
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": opset}
    assert not model.functions
    found = types(model)
    assert (codes,) in found if scales is None else (codes, None if name == "nvfp4" else scales) in found
    assert name != "nvfp4" or ("FLOAT8E4M3FN", "FLOAT") in found
    assert ("in int3 are stored as INT4" in text) == (name == "int3")
    assert ("decoded, whose types it has no DequantizeLinear for" in text) == (name in DECODED)

    simulated = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "simulated.onnx").graph.initializer}
    values = weight_values(model)
    weights = [value for value in values if value in simulated]
    assert len(weights) >= 5
    for weight in weights:
        if name == "nvfp4":  # scales are rounded before the elements
            np.testing.assert_allclose(values[weight], simulated[weight], rtol=2e-7, err_msg=weight)
        else:
            np.testing.assert_array_equal(values[weight], simulated[weight], err_msg=weight)

    bitpress.checking.ok("unpack", tmp_path / "qdq.onnx", "-o", tmp_path / "floats.onnx")
    floats = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "floats.onnx").graph.initializer}
    if name in DECODED:
        for weight in weights:
            decoded = weight if weight in floats else f"{weight}_rows"
            np.testing.assert_array_equal(floats[decoded], values[decoded], err_msg=weight)


def test_mxfp8_has_scales_of_one_byte_where_they_are_asked_for(odd_path, tmp_path, bitpress):
    quantize(bitpress, odd_path, tmp_path / "float.onnx", "mxfp8_e4m3", "qdq")
    quantize(bitpress, odd_path, tmp_path / "byte.onnx", "mxfp8_e4m3", "qdq", "--opset", "24")
    wide, narrow = (onnx.load(tmp_path / name) for name in ("float.onnx", "byte.onnx"))
    assert ("FLOAT8E4M3FN", "FLOAT8E8M0") in types(narrow)
    values = weight_values(narrow)
    for name, value in weight_values(wide).items():
        np.testing.assert_array_equal(values[name], value, err_msg=name)


def test_the_check_says_which_weights_it_decoded(odd_path, tmp_path, bitpress):
    quantize(bitpress, odd_path, tmp_path / "q.onnx", "nvfp4", "qdq", "--json", tmp_path / "q.json")
    report = json.loads((tmp_path / "q.json").read_text())
    assert report["check"]["is_run"] and report["check"]["num_decoded"] >= 5
    assert report["check"]["speed"] is None
    assert report["not_standard"] == []
    (tmp_path / "samples").mkdir()
    np.savez(tmp_path / "samples" / "one.npz", **models.odd_inputs())
    refused = bitpress.error("evaluate", tmp_path / "q.onnx", "--reference", odd_path, "--data", tmp_path / "samples")
    assert "bitpress unpack" in refused


def test_a_weight_without_such_a_form_is_packed_and_named(tmp_path, bitpress):
    source = models.save(models.odd_model(dtype=np.float16), tmp_path / "half.onnx")
    text = quantize(bitpress, source, tmp_path / "q.onnx", "mx6", "qdq", "--json", tmp_path / "q.json")
    report = json.loads((tmp_path / "q.json").read_text())
    assert len(report["not_standard"]) >= 5
    assert {weight["reason"] for weight in report["not_standard"]} == {"it is FLOAT16, too coarse for scales"}
    assert "the ONNX standard has no form of them: it is FLOAT16" in text


def test_scales_that_do_not_fit_are_one_error(odd_path, tmp_path, bitpress):
    quantize(bitpress, odd_path, tmp_path / "q.onnx", "mxfp4_e2m1", "qdq")
    model = onnx.load(tmp_path / "q.onnx")
    scale = next(tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT8E8M0 and len(tensor.dims) > 1)
    del scale.dims[:]
    scale.dims.append(len(scale.raw_data))
    onnx.save(model, tmp_path / "damaged.onnx")
    message = bitpress.error("unpack", tmp_path / "damaged.onnx", "-o", tmp_path / "floats.onnx")
    assert "the dimensions of its scales do not fit its codes" in message


def test_blocks_are_filled_up_for_targets_that_want_them_whole(odd_path, tmp_path, bitpress):
    """77 rows in blocks of 32 become 96, of which a Slice takes 77; axes shorter than a block are one block."""
    for name in ("mxfp4_e2m1", "mx4", "int4"):
        quantize(bitpress, odd_path, tmp_path / "plain.onnx", name, "qdq")
        blocks = ("--set", "weight_granularity=per_block") if name == "int4" else ()
        bitpress.ok("quantize", odd_path, "-o", tmp_path / "whole.onnx", "--config", "none", "--weights", name, "--target", "openvino", *blocks)
        plain, whole = onnx.load(tmp_path / "plain.onnx"), onnx.load(tmp_path / "whole.onnx")
        onnx.checker.check_model(whole, full_check=True)
        shapes = {tensor.name: list(tensor.dims) for tensor in whole.graph.initializer}
        for node in whole.graph.node:
            if node.op_type == "DequantizeLinear" and len(node.attribute) > 1:
                axis, block_size = (next(item.i for item in node.attribute if item.name == key) for key in ("axis", "block_size"))
                assert shapes[node.input[0]][axis] % block_size == 0, node.output[0]
        assert any(node.op_type == "Slice" for node in whole.graph.node)
        wanted = weight_values(plain)
        for weight, values in weight_values(whole).items():
            if weight in wanted:
                np.testing.assert_array_equal(values, wanted[weight], err_msg=weight)


def test_a_target_refuses_what_only_a_function_can_hold(tmp_path, bitpress):
    source = models.save(models.odd_model(dtype=np.float16), tmp_path / "half.onnx")
    message = bitpress.error("quantize", source, "-o", tmp_path / "q.onnx", "--config", "none", "--weights", "mx6", "--target", "openvino")
    assert "target openvino does not take the quantized model" in message and "Unpack_mx6" in message
    assert not (tmp_path / "q.onnx").exists()


def test_rules_about_the_whole_model_are_warnings(odd_path, tmp_path, bitpress):
    text = bitpress.checking.ok("quantize", odd_path, "-o", tmp_path / "q.onnx", "--config", "INT8_WEIGHTS", "--set",
                                "weight_granularity=per_tensor", "--target", "qnn", "--json", tmp_path / "q.json")
    (rule,) = json.loads((tmp_path / "q.json").read_text())["broken_rules"]
    assert "has a size that is not fixed (N); it takes fixed shapes" in rule
    assert f"WARNING: {rule}" in text


LPBQ = ("--config", "none", "--weights", "int4", "--set", "weight_granularity=per_block", "--set", "weight_block_size=16", "--set",
        "weight_scale_kind=lpbq", "--target", "portable")


def lpbq_model(path):
    """Layers whose blocks lie along either axis, one with a block and a channel of zeros, and a convolution."""
    rng = np.random.default_rng(4)
    constants = {"a": rng.standard_normal((64, 48)) * rng.uniform(0.1, 2, (1, 48)), "b": rng.standard_normal((32, 48)) * 3,
                 "c": rng.standard_normal((8, 32, 3, 3))}
    constants["a"][:16, 3] = constants["a"][:, 7] = 0
    constants["shape"] = np.array([-1, 32, 4, 4], np.int64)
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"], "first"), helper.make_node("Gemm", ["h", "b"], ["g"], "second", transB=1),
             helper.make_node("Transpose", ["g"], ["t"], perm=[1, 0]), helper.make_node("Reshape", ["t", "shape"], ["image"]),
             helper.make_node("Conv", ["image", "c"], ["y"], "third", pads=[1, 1, 1, 1])]
    return models.save(models.make_model(nodes, [("x", [16, 64])], [("y", [1, 8, 4, 4])],
                                         {name: value if name == "shape" else value.astype(np.float32) for name, value in constants.items()}), path)


@pytest.mark.quick
def test_lpbq_has_multiples_of_the_scales_of_channels(tmp_path, bitpress, run_model):
    source = lpbq_model(tmp_path / "float.onnx")
    for storage in ("qdq", "simulated", "packed"):
        bitpress.ok("quantize", source, "-o", tmp_path / f"{storage}.onnx", *LPBQ, "--storage", storage)
    model = onnx.load(tmp_path / "qdq.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert not model.functions
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    simulated = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "simulated.onnx").graph.initializer}
    for name, axis, channel in (("a", 0, 1), ("b", 1, 0), ("c", 1, 0)):
        multiples, channels = constants[f"{name}_block_scale"], constants[f"{name}_scale"]
        assert multiples.dtype == np.uint8 and multiples.min() >= 1 and channels.shape == (multiples.shape[channel],)
        others = tuple(i for i in range(multiples.ndim) if i != channel)
        is_zero = (simulated[name] == 0).all(others)
        assert (multiples.max(others)[~is_zero] == 16).all() and multiples.shape[axis] == simulated[name].shape[axis] // 16
    values = weight_values(model)
    for name in ("a", "b", "c"):
        np.testing.assert_array_equal(values[name], simulated[name])
    x = np.random.default_rng(5).standard_normal((16, 64)).astype(np.float32)
    outputs = [run_model(tmp_path / f"{storage}.onnx", {"x": x})[0] for storage in ("simulated", "qdq", "packed")]
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], rtol=1e-5, atol=1e-4 * np.abs(outputs[0]).max())
    bitpress.ok("quantize", source, "-o", tmp_path / "free.onnx", *LPBQ[:8], *LPBQ[-2:])
    float_output = run_model(source, {"x": x})[0]
    loss = models.sqnr_db(float_output, run_model(tmp_path / "free.onnx", {"x": x})[0]) - models.sqnr_db(float_output, outputs[1])
    assert loss < 2.5  # free scales also have either sign


def test_lpbq_goes_into_encodings_and_back(tmp_path, bitpress):
    """The files of AIMET 2.0.0 and 2.1.0, and the model itself, decide the same for the network again."""
    source = lpbq_model(tmp_path / "float.onnx")
    bitpress.ok("quantize", source, "-o", tmp_path / "qdq.onnx", *LPBQ, "--storage", "qdq")
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "qdq.onnx").graph.initializer}
    for version in ("2.0.0", "2.1.0"):
        bitpress.ok("plan", tmp_path / "qdq.onnx", "--export", f"aimet-{version}", "-o", tmp_path / f"{version}.json")
        written = json.loads((tmp_path / f"{version}.json").read_text())
        assert written["version"] == version
        entry = {item["name"]: item for item in written["encodings"]}["a"]
        assert (entry["output_dtype"], entry["axis"], entry["block_size"]) == ("int4", 0, 16)
        multiples, channels = ((entry["per_block_int_scale"], np.ravel(entry["per_channel_float_scale"])) if version == "2.0.0" else
                               (entry["y_scale"]["x"], entry["y_scale"]["x_scale"]))
        assert version == "2.0.0" or entry["y_scale"]["axis"] == 1
        np.testing.assert_array_equal(multiples, constants["a_block_scale"])
        np.testing.assert_array_equal(np.float32(channels), constants["a_scale"])
    (tmp_path / "1.0.0.json").write_text(json.dumps({"version": "1.0.0", "activation_encodings": [], "param_encodings": [
        {"name": "a", "enc_type": "LPBQ", "dtype": "INT", "bw": 8, "compressed_bw": 4, "is_sym": True, "block_size": 16, "scale": [0.1] * 48,
         "per_block_int_scale": [16] * 192, "offset": [-128] * 48}]}))
    for decided in ("2.0.0.json", "2.1.0.json", "1.0.0.json", "qdq.onnx"):
        bitpress.ok("plan", source, "--config", "INT4_WEIGHTS", "--set", "weight_range=min_max", "--import", tmp_path / decided, "-o", tmp_path / "plan.json")
        row = next(row for row in json.loads((tmp_path / "plan.json").read_text())["tensors"] if row["value"] == "a")
        assert (row["format"], row["block_size"], row["scale_kind"], row["symmetric"]) == ("int4", 16, "lpbq", True), decided
    bitpress.ok("quantize", source, "-o", tmp_path / "again.onnx", "--plan", tmp_path / "plan.json", "--storage", "qdq", "--target", "portable")
    again = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "again.onnx").graph.initializer}
    for name in ("a_codes", "a_block_scale", "a_scale"):  # that of the file, whose channels have a multiple of 16
        np.testing.assert_array_equal(again[name], constants[name])


@pytest.mark.parametrize("options", [("--set", "weight_granularity=per_axis"), ("--set", "weight_symmetric=false")])
def test_lpbq_is_for_symmetric_blocks(options, tmp_path, bitpress):
    text = bitpress.error("quantize", lpbq_model(tmp_path / "float.onnx"), "-o", tmp_path / "q.onnx", *LPBQ, *options)
    assert "scale kind lpbq is for symmetric weights in blocks, of up to 8 bits" in text
