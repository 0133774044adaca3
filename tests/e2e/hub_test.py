"""`bitpress hub`: a model folder gets the files that transformers.js, sentence-transformers and ONNX Runtime GenAI look for."""

import json
import shutil

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

WORDS, WIDTH = 300, 64
NAMES = {"fp16": "model_fp16", "q8": "model_quantized", "int8": "model_int8", "uint8": "model_uint8", "q4": "model_q4", "q4f16": "model_q4f16",
         "qint8_avx512_vnni": "model_qint8_avx512_vnni", "qint8_arm64": "model_qint8_arm64", "quint8_avx2": "model_quint8_avx2"}


def encoder(extra=()):
    """A small network of sentence embeddings: a table of words, two products with a Gelu between them, the mean of the tokens."""
    rng = np.random.default_rng(3)
    weights = {"table": (WORDS, WIDTH), "up": (WIDTH, 2 * WIDTH), "down": (2 * WIDTH, WIDTH)}
    constants = [onnx.numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(shape[0 if name != "table" else 1])).astype(np.float32), name)
                 for name, shape in weights.items()]
    constants += [onnx.numpy_helper.from_array(np.array(value, kind), name) for name, value, kind in
                  (("axes", [1], np.int64), ("last", [2], np.int64), ("tiny", 1e-6, np.float32), ("half", 0.5, np.float32), ("one", 1, np.float32),
                   ("root", 2**0.5, np.float32))]
    nodes = [
        ("Gather", ["table", "input_ids"], "words"), ("MatMul", ["words", "up"], "wide"), ("Div", ["wide", "root"], "scaled"), ("Erf", ["scaled"], "erf"),
        ("Add", ["erf", "one"], "shifted"), ("Mul", ["wide", "shifted"], "twice"), ("Mul", ["twice", "half"], "active"), *extra,
        ("MatMul", ["active", "down"], "narrow"), ("Add", ["narrow", "words"], "last_hidden_state"), ("Cast", ["attention_mask"], "mask"),
        ("Unsqueeze", ["mask", "last"], "column"), ("Mul", ["last_hidden_state", "column"], "masked"), ("ReduceSum", ["masked", "axes"], "sum"),
        ("ReduceSum", ["column", "axes"], "count"), ("Add", ["count", "tiny"], "number"), ("Div", ["sum", "number"], "pooled"),
        ("Squeeze", ["pooled", "axes"], "sentence_embedding")]
    made = [helper.make_node(kind, inputs, [output], output, **({"to": TensorProto.FLOAT} if kind == "Cast" else {})) for kind, inputs, output in nodes]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask")]
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", WIDTH]),
               helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", WIDTH])]
    graph = helper.make_graph(made, "encoder", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def folder(tmp_path):
    """A model folder as Optimum exports it, with a file in another format and files that are no models."""
    place = tmp_path / "minilm"
    (place / "onnx").mkdir(parents=True)
    models.save(encoder(), place / "onnx" / "model.onnx")
    (place / "onnx" / "model_bnb4.onnx").write_bytes(b"another format")
    (place / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": WORDS}), encoding="utf-8")
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text("{}", encoding="utf-8")
    (place / "tokenizer.json").write_text("{}", encoding="utf-8")
    return place


def session(path):
    """A session without our library, as a browser has it."""
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_every_name_and_what_it_holds(bitpress, folder, tmp_path):
    out = tmp_path / "out"
    report = json.loads(bitpress.ok("hub", folder, "-o", out, "--dtypes", "fp32," + ",".join(NAMES), "--json", "-"))
    assert [item["file"] for item in report["files"]] == ["onnx/model.onnx", *(f"onnx/{name}.onnx" for name in NAMES.values())]
    assert sorted(path.name for path in (out / "onnx").iterdir()) == sorted(["model.onnx", *(f"{name}.onnx" for name in NAMES.values())])
    assert report["copied"] == ["1_Pooling/config.json", "config.json", "tokenizer.json"] and (out / "1_Pooling" / "config.json").is_file()
    assert report["left_out"] == ["onnx/model_bnb4.onnx"] and report["are_samples_random"]
    ids = np.random.default_rng(0).integers(0, WORDS, (2, 16))
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    wanted = session(folder / "onnx" / "model.onnx").run(["sentence_embedding"], feeds)[0]
    bars = {"fp16": 55, "q4": 14, "q4f16": 14}
    for item in report["files"]:
        assert item["missing_in_web"] == [] and item["num_samples"] == 8, item
        found = session(out / item["file"]).run(["sentence_embedding"], feeds)[0]
        assert found.dtype == np.float32
        assert models.sqnr_db(wanted, found) > bars.get(item["dtype"], 30), item
        assert item["sqnr_db"] is None or item["sqnr_db"] > bars.get(item["dtype"], 30) - 3, item
        assert item["num_bytes"] == (out / item["file"]).stat().st_size
    sizes = {item["dtype"]: item["num_bytes"] / item["float_bytes"] for item in report["files"]}
    assert sizes["fp16"] < 0.6 and sizes["q8"] < 0.4 and sizes["q4"] < 0.3 and sizes["q4f16"] < 0.3
    types = {dtype: {node.op_type for node in onnx.load(out / "onnx" / f"{NAMES[dtype]}.onnx").graph.node} for dtype in ("q8", "q4", "q4f16")}
    assert "MatMulInteger" in types["q8"] and "MatMulNBits" in types["q4"] and "MatMulNBits" in types["q4f16"]
    halves = {item.data_type for item in onnx.load(out / "onnx" / "model_q4f16.onnx").graph.initializer}
    assert TensorProto.FLOAT16 in halves
    whole = session(out / "onnx" / "model_quantized.onnx")
    padded = {"input_ids": np.pad(ids, ((0, 0), (0, 8))), "attention_mask": np.pad(np.ones_like(ids), ((0, 0), (0, 8)))}
    alone = whole.run(["sentence_embedding"], {name: value[:1] for name, value in feeds.items()})[0]
    np.testing.assert_allclose(whole.run(["sentence_embedding"], padded)[0][:1], alone, rtol=0, atol=1e-6)  # one vector for one text
    vnni, arm = ((out / "onnx" / f"model_qint8_{name}.onnx").read_bytes() for name in ("avx512_vnni", "arm64"))
    assert vnni == arm  # one file is right on every processor


def test_in_place_with_a_text_table(bitpress, folder):
    text = bitpress.ok("hub", folder, "-o", folder, "--dtypes", "q8,q4")
    assert "onnx/model_quantized.onnx" in text and "onnx/model_q4.onnx" in text and "compared on random tokens" in text
    assert "left out: onnx/model_bnb4.onnx" in text
    assert (folder / "onnx" / "model.onnx").is_file() and (folder / "onnx" / "model_q4.onnx").is_file()
    bitpress.ok("hub", folder, "-o", folder, "--dtypes", "q8")  # the new files are no float models
    assert len(list((folder / "onnx").iterdir())) == 4


def test_samples_are_given(bitpress, folder, tmp_path):
    np.save(tmp_path / "ids.npy", np.random.default_rng(1).integers(0, WORDS, (4, 12)))
    report = json.loads(bitpress.ok("hub", folder, "-o", tmp_path / "out", "--dtypes", "q8", "--tokens", tmp_path / "ids.npy", "--json", "-"))
    assert not report["are_samples_random"] and report["files"][0]["num_samples"] == 4
    (folder / "config.json").write_text("{}", encoding="utf-8")
    report = json.loads(bitpress.ok("hub", folder, "-o", tmp_path / "out", "--dtypes", "q8", "--json", "-"))
    assert report["files"][0]["sqnr_db"] is None and "no samples" in report["files"][0]["why_not_compared"]


def test_several_models_are_one_job(bitpress, folder, tmp_path):
    (folder / "onnx" / "model.onnx").rename(folder / "onnx" / "encoder_model.onnx")
    models.save(encoder(), folder / "onnx" / "decoder_model_merged.onnx")
    report = json.loads(bitpress.ok("hub", folder, "-o", tmp_path / "out", "--dtypes", "q8,q4", "--json", "-"))
    assert [item["file"] for item in report["files"]] == [
        f"onnx/{name}_{suffix}.onnx" for name in ("decoder_model_merged", "encoder_model") for suffix in ("quantized", "q4")]


def test_a_budget_takes_one_file_for_each_model(bitpress, folder, tmp_path):
    (folder / "onnx" / "model.onnx").rename(folder / "onnx" / "encoder_model.onnx")
    models.save(encoder(), folder / "onnx" / "decoder_model.onnx")
    command = ["hub", folder, "-o", tmp_path / "out", "--dtypes", "fp32,q8,q4"]
    report = json.loads(bitpress.ok(*command, "--json", "-", "--budget", "loss<=0.1%"))
    files = {item["file"]: item for item in report["files"]}
    choice = report["choice"]
    assert choice["files"] == [f"onnx/{name}_quantized.onnx" for name in ("decoder_model", "encoder_model")]
    assert choice["num_bytes"] == sum(files[name]["num_bytes"] for name in choice["files"])
    assert choice["sqnr_db"] == min(files[name]["sqnr_db"] for name in choice["files"]) > 30
    text = bitpress.ok(*command, "--budget", f"bytes<={choice['num_bytes']}")
    assert 'for transformers.js: dtype: {"decoder_model": "q8", "encoder_model": "q8"}' in text
    assert "WARNING: bytes<=1%: no choice of these dtypes keeps it" in bitpress.ok(*command, "--budget", "bytes<=1%")
    shutil.rmtree(tmp_path / "out")
    assert "hub measures no times" in bitpress.error(*command, "--budget", "time<=1")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_genai_keeps_its_names(bitpress, folder, tmp_path):
    (folder / "genai_config.json").write_text(json.dumps({"model": {"decoder": {"filename": "decoder.onnx"}}}), encoding="utf-8")
    (folder / "onnx" / "model.onnx").rename(folder / "decoder.onnx")
    report = json.loads(bitpress.ok("hub", folder, "-o", tmp_path / "out", "--dtypes", "q4", "--json", "-"))
    assert [item["file"] for item in report["files"]] == ["decoder.onnx"] and "genai_config.json" in report["copied"]
    assert "MatMulNBits" in {node.op_type for node in onnx.load(tmp_path / "out" / "decoder.onnx").graph.node}
    assert "give one dtype" in bitpress.error("hub", folder, "-o", tmp_path / "out")


@pytest.mark.parametrize("name", ["../outside.onnx", "/outside.onnx", "a/../../outside.onnx", "..\\outside.onnx", "C:\\outside.onnx"])
def test_a_configuration_names_no_model_outside_the_folder(bitpress, folder, tmp_path, name):
    (folder / "genai_config.json").write_text(json.dumps({"model": {"decoder": {"filename": name}}}), encoding="utf-8")
    (folder / "onnx" / "model.onnx").rename(tmp_path / "outside.onnx")
    error = bitpress.error("hub", folder, "-o", tmp_path / "out" / "hub", "--dtypes", "q4")
    assert name in error and "expected a relative path inside the folder" in error
    assert not (tmp_path / "out" / "outside.onnx").exists()


def test_an_output_inside_the_folder_is_not_copied_into_itself(bitpress, folder):
    for _ in range(2):
        bitpress.ok("hub", folder, "-o", folder / "out", "--dtypes", "fp16")
        assert sorted(path.name for path in (folder / "out").iterdir()) == ["1_Pooling", "config.json", "onnx", "tokenizer.json"]


def test_what_a_browser_lacks_is_named(bitpress, folder, tmp_path, operator_library):
    model = encoder()
    model.opset_import.append(helper.make_opsetid("com.amd.quark", 1))
    model.graph.node[6].output[0] = "before"
    model.graph.node.insert(7, helper.make_node("MXQuantizeDequantize", ["before"], ["active"], "rounding", domain="com.amd.quark"))
    models.save(model, folder / "onnx" / "model.onnx")
    error = bitpress.error("hub", folder, "-o", tmp_path / "out", "--dtypes", "fp16")
    assert not (tmp_path / "out" / "onnx" / "model_fp16.onnx").exists()
    assert "'onnx/model_fp16.onnx': " in error and "com.amd.quark.MXQuantizeDequantize" in error


@pytest.mark.parametrize("arguments, text", [
    (["--dtypes", "q5"], "dtype 'q5' is not one of fp32, fp16, q8"),
    (["--dtypes", "bnb4"], "dtype 'bnb4' is not made: use q4"),
])
def test_wrong_use(bitpress, folder, tmp_path, arguments, text):
    assert text in bitpress.error("hub", folder, "-o", tmp_path / "out", *arguments)
    assert not (tmp_path / "out").exists()
    (folder / "onnx" / "model.onnx").unlink()
    assert "holds no float model" in bitpress.error("hub", folder, "-o", tmp_path / "out")
    assert "there is no folder" in bitpress.error("hub", tmp_path / "nowhere", "-o", tmp_path / "out")


def test_a_quantized_file_is_no_float_model(bitpress, folder, tmp_path):
    place = folder / "onnx"
    bitpress.ok("quantize", place / "model.onnx", "-o", place / "model_new8bit.onnx", "--config", "INT8_DYNAMIC")
    models.save(encoder(), place / "model_float.onnx")
    bitpress.ok("hub", folder, "-o", tmp_path / "out", "--dtypes", "fp32,fp16", "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert "onnx/model_new8bit.onnx" in report["left_out"]
    assert sorted({file["model"] for file in report["files"]}) == ["onnx/model.onnx", "onnx/model_float.onnx"]
    # Alone it is taken, and what it is is said.
    (place / "model_new8bit.onnx").replace(place / "model.onnx")
    (place / "model_float.onnx").unlink()
    text = bitpress.ok("hub", folder, "-o", tmp_path / "again", "--dtypes", "fp32")
    assert "already quantized: this is no float file" in text
