"""Key-value caches: integers that GroupQueryAttention holds, their scales, and other formats where positions enter a cache of floats."""

import json

import make_decoder
import numpy as np
import onnx
import onnxruntime
import pytest
from tiny_decoders import HEAD_SIZE, KV_HEADS, LAYERS, TinyDecoder

SIDES = ("key", "value")
BITS = {"int8": 8, "int4": 4}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    make_decoder.make(TinyDecoder("llama").save_checkpoint(folder / "checkpoint"), folder / "made")
    return folder / "made"


def caches(model, ids):
    """The caches behind tokens, by "layer.side"."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    types = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8}
    feeds = {}
    for entry in session.get_inputs():
        if entry.name.startswith("past"):
            feeds[entry.name] = np.zeros((1, entry.shape[1], 0, entry.shape[3]), types[entry.type])
        else:
            feeds[entry.name] = {"input_ids": ids[None], "attention_mask": np.ones((1, len(ids)), np.int64),
                                 "position_ids": np.arange(len(ids))[None]}[entry.name]
    names = [f"present.{i}.{side}" for i in range(LAYERS) for side in SIDES]
    return {name[len("present."):]: value for name, value in zip(names, session.run(names, feeds))}


def scales_in(model):
    """The scales of a model, [heads, 1, channels] or a number, by "layer.side"."""
    found = {}
    for entry in onnx.load(model).graph.initializer:
        if entry.name.startswith("present.") and entry.name.endswith("_scale"):
            values = onnx.numpy_helper.to_array(entry)
            found[entry.name[len("present."):-len("_scale")]] = values.reshape(KV_HEADS, 1, HEAD_SIZE) if values.size > 1 else values
    return found


def unpack(codes, bits):
    """Two's complement of 4 bits has an offset of 8 in ONNX Runtime's bytes, the first code in the low bits."""
    if bits == 8:
        return codes.astype(np.float32)
    return np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1).astype(np.float32) - 8


def quantize(bitpress, made, output, tokens, *arguments, form="genai"):
    return bitpress.ok("quantize", made / f"{form}.onnx", "-o", output, "--config", "none", *arguments, *(["--tokens", tokens] if tokens else []))


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("granularity", ["per_axis", "per_tensor"])
def test_codes_are_those_of_the_scales(made, tokens, kind, granularity, tmp_path, bitpress):
    output = tmp_path / "model.onnx"
    text = quantize(bitpress, made, output, tokens, "--set", f"kv_cache={kind}", "--set", f"kv_cache_granularity={granularity}")
    assert f"{2 * LAYERS} {kind}" in text
    scales = scales_in(output)
    assert len(scales) == 2 * LAYERS
    ids = np.load(tokens)[0]
    wanted, found = caches(made / "genai.onnx", ids), caches(output, ids)
    # Later layers read what earlier ones rounded.
    for side in SIDES:
        name = f"0.{side}"
        limit = 2 ** (BITS[kind] - 1)
        codes = np.clip(np.rint(wanted[name] / scales[name]), -limit, limit - 1)
        difference = np.abs(unpack(found[name], BITS[kind]) - codes)
        assert difference.max() <= 1 and (difference > 0).mean() < 0.01  # ties of another order of operations


@pytest.mark.quick
def test_scales_have_the_least_squared_error(made, tokens, tmp_path, bitpress):
    quantize(bitpress, made, tmp_path / "mse.onnx", tokens, "--set", "kv_cache=int4")
    quantize(bitpress, made, tmp_path / "max.onnx", tokens, "--set", "kv_cache=int4", "--set", "kv_cache_range=min_max")
    rows = [caches(made / "genai.onnx", row) for row in np.load(tokens)]
    of_mse, of_max = scales_in(tmp_path / "mse.onnx"), scales_in(tmp_path / "max.onnx")

    def error(values, scale):
        return ((np.clip(np.rint(values / scale), -7, 7) * scale - values) ** 2).sum(2)

    for name, scale in of_mse.items():
        values = np.concatenate([row[name] for row in rows], 2)
        np.testing.assert_allclose(of_max[name], np.abs(values).max(2, keepdims=True)[0] / 7, rtol=1e-5)
        # The histogram is coarse: 8 bins for each power of two.
        best = np.min([error(values, of_max[name] * share) for share in np.linspace(0.3, 1, 71)], 0)
        assert (error(values, scale) <= 1.15 * best + 1e-9).all()
        assert error(values, scale).sum() <= error(values, of_max[name]).sum()


@pytest.mark.parametrize("form", ["plain", "attention"])
def test_blocks_round_what_enters_a_cache(made, form, tmp_path, bitpress):
    import bitpress as package

    output = tmp_path / "model.onnx"
    quantize(bitpress, made, output, None, "--set", "kv_cache=mxint8", form=form)
    ids = np.arange(20) * 7 % 256
    wanted, found = caches(made / f"{form}.onnx", ids), caches(output, ids)
    for side in SIDES:
        rounded = package.formats.quantize_dequantize(np.ascontiguousarray(wanted[f"0.{side}"]), "mxint8", axis=3)
        assert (found[f"0.{side}"] == rounded).mean() > 0.999
        assert (rounded != wanted[f"0.{side}"]).any()


def test_statistics_of_a_file_give_the_same_model(made, tokens, tmp_path, bitpress):
    bitpress.ok("calibrate", made / "genai.onnx", "-o", tmp_path / "all.cal", "--tokens", tokens)
    bitpress.ok("calibrate", made / "genai.onnx", "-o", tmp_path / "caches.cal", "--config", "none", "--set", "kv_cache=int8", "--tokens",
                tokens)
    quantize(bitpress, made, tmp_path / "direct.onnx", tokens, "--set", "kv_cache=int8", "--threads", 1)
    for name in ("all", "caches"):
        quantize(bitpress, made, tmp_path / f"{name}.onnx", None, "--set", "kv_cache=int8", "--calibration", tmp_path / f"{name}.cal")
        assert (tmp_path / f"{name}.onnx").read_bytes() == (tmp_path / "direct.onnx").read_bytes()


def test_scales_go_through_a_file(made, tokens, tmp_path, bitpress):
    scales = tmp_path / "scales.json"
    quantize(bitpress, made, tmp_path / "first.onnx", tokens, "--set", "kv_cache=int8", "--save-kv-scales", scales)
    content = json.loads(scales.read_text())
    assert content["qmax"] == 128 and content["layer_ids"] == list(range(LAYERS))
    assert np.shape(content["scales"]["k_scales"]) == (LAYERS, KV_HEADS * HEAD_SIZE)
    quantize(bitpress, made, tmp_path / "second.onnx", None, "--set", "kv_cache=int8", "--kv-scales", scales)
    assert (tmp_path / "first.onnx").read_bytes() == (tmp_path / "second.onnx").read_bytes()
    # For codes of 4 bits the same range has steps that are 16 times larger; layers may come in another order.
    content["layer_ids"].reverse()
    for side in content["scales"].values():
        side.reverse()
    scales.write_text(json.dumps(content))
    quantize(bitpress, made, tmp_path / "int4.onnx", None, "--set", "kv_cache=int4", "--kv-scales", scales)
    of_int8 = scales_in(tmp_path / "first.onnx")
    for name, values in scales_in(tmp_path / "int4.onnx").items():
        np.testing.assert_array_equal(values, of_int8[name] * np.float32(16))


@pytest.mark.parametrize("content, message", [
    ("{", "no JSON of scales"),
    ('{"scales": {"k_scales": [1]}}', "no scales.k_scales and scales.v_scales"),
    ('{"scales": {"k_scales": [1, 1], "v_scales": [1, 1]}}', "'k_scales' has 2 entries, expected one for each of 3 layers"),
    ('{"scales": {"k_scales": [1, 0, 1], "v_scales": [1, 1, 1]}}', "'present.1.key' is 0"),
    ('{"scales": {"k_scales": [1, 1, 1], "v_scales": [[1, 1], 1, 1]}}', "keys and values are alike"),
    ('{"scales": {"k_scales": [[1, 1], 1, 1], "v_scales": [[1, 1], 1, 1]}}', "'present.0.key' has 2 scales, expected 2 heads x 16 channels"),
    ('{"qmax": -1, "scales": {"k_scales": [1, 1, 1], "v_scales": [1, 1, 1]}}', "'qmax' is not positive"),
    ('{"layer_ids": [0, 1, 5], "scales": {"k_scales": [1, 1, 1], "v_scales": [1, 1, 1]}}', "'layer_ids' has no layer 2"),
])
def test_wrong_scales_are_named(made, content, message, tmp_path, bitpress):
    (tmp_path / "scales.json").write_text(content)
    error = bitpress.error("quantize", made / "genai.onnx", "-o", tmp_path / "model.onnx", "--config", "none", "--set", "kv_cache=int8",
                           "--kv-scales", tmp_path / "scales.json")
    assert message in error
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize("form, settings, message", [
    ("genai", ["kv_cache=int8"], "give samples"),
    ("genai", ["kv_cache=int8", "kv_cache_granularity=per_block"], "caches have no blocks"),
    ("genai", ["kv_cache=int8", "kv_cache_range=entropy"], "caches take mse or min_max"),
])
def test_wrong_settings_are_named(made, form, settings, message, tmp_path, bitpress):
    words = [word for setting in settings for word in ("--set", setting)]
    assert message in bitpress.error("quantize", made / f"{form}.onnx", "-o", tmp_path / "model.onnx", "--config", "none", *words)


def test_a_cache_that_stays_float_says_why(made, tmp_path, bitpress):
    text = quantize(bitpress, made, tmp_path / "model.onnx", None, "--set", "kv_cache=int8", form="plain")
    assert f"{2 * LAYERS} float" in text and "Concat takes caches of floats only" in text
    error = bitpress.error("quantize", made / "plain.onnx", "-o", tmp_path / "other.onnx", "--config", "none", "--set", "kv_cache=int8",
                           "--save-kv-scales", tmp_path / "scales.json")
    assert "no cache becomes integers" in error


def test_a_search_keeps_the_caches_of_its_configuration(made, tokens, tmp_path, bitpress):
    plan, out = tmp_path / "plan.json", tmp_path / "search.json"
    text = bitpress.ok("search", made / "genai.onnx", "--weight-candidates", "mx6,mx9", "--activations", "none", "--set", "kv_cache=int4",
                       "--set", "embeddings=none", "--budget", "bits<=7", "--tokens", tokens, "-o", plan, "--json", out, "--threads", "1")
    assert "what no choice is about loses" in text
    found = json.loads(out.read_text())
    # The loss of the caches is measured once, and is a part of every prediction.
    quantize(bitpress, made, tmp_path / "caches.onnx", tokens, "--set", "kv_cache=int4")
    bitpress.ok("evaluate", tmp_path / "caches.onnx", "--reference", made / "genai.onnx", "--tokens", tokens, "--json", tmp_path / "eval.json")
    alone = json.loads((tmp_path / "eval.json").read_text())["language"]["mean_divergence"]
    assert found["rest_divergence"] == pytest.approx(alone, rel=1e-4) and alone > 0
    assert all(point["predicted_divergence"] > alone for point in found["front"])
    assert [cache["format"] for cache in json.loads(plan.read_text())["caches"]] == ["int4"] * 2 * LAYERS
    text = bitpress.ok("quantize", made / "genai.onnx", "-o", tmp_path / "model.onnx", "--plan", plan, "--tokens", tokens)
    assert f"{2 * LAYERS} int4" in text


def test_rules_choose_layers(made, tokens, tmp_path, bitpress):
    plan = tmp_path / "plan.json"
    names = [node.name for node in onnx.load(made / "genai.onnx", load_external_data=False).graph.node
             if node.op_type == "GroupQueryAttention"]
    bitpress.ok("plan", made / "genai.onnx", "--config", "INT8_DYNAMIC", "--set", "kv_cache=int4", "--rule", f"nodes={names[1]}: kv_cache=int8",
                "-o", plan)
    assert [cache["format"] for cache in json.loads(plan.read_text())["caches"]] == ["int4", "int4", "int8", "int8", "int4", "int4"]
    bitpress.ok("quantize", made / "genai.onnx", "-o", tmp_path / "model.onnx", "--plan", plan, "--tokens", tokens)
    types = [caches(tmp_path / "model.onnx", np.arange(9))[f"{i}.key"].dtype for i in range(LAYERS)]
    assert types == [np.uint8, np.int8, np.uint8]


@pytest.mark.parametrize("form", ["genai", "plain", "attention"])
def test_rules_choose_caches_by_the_number_of_the_layer(made, form, tmp_path, bitpress):
    plan = tmp_path / "plan.json"
    bitpress.ok("plan", made / f"{form}.onnx", "--config", "none", "--rule", f"layers=1: kv_cache={'int8' if form == 'genai' else 'mxint8'}",
                "-o", plan)
    made_plan = json.loads(plan.read_text())
    if form == "genai":
        assert [cache["value"] for cache in made_plan["caches"]] == ["present.1.key", "present.1.value"]
    else:
        nodes = {use["node"] for row in made_plan["tensors"] if row["format"] == "mxint8" for use in row["uses"]}
        assert nodes and all("layers.1" in node for node in nodes)
    error = bitpress.error("plan", made / f"{form}.onnx", "--config", "none", "--rule", f"layers={LAYERS}: kv_cache=int8")
    assert f"there is no layer {LAYERS}" in error
