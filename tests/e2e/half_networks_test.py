"""FP16 writes a FLOAT16 network, as other converters do, that plain ONNX Runtime runs: half the bytes, the interface in FLOAT, and in
FLOAT also the operators that FLOAT16 would harm, with reasons."""

import json

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from models import sqnr_db
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def random(*shape, scale=0.2, seed=5):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def save(path, text, **constants):
    """Saves a network in ONNX's text form, with constants."""
    model = parser.parse_model(text if text.lstrip().startswith("<") else HEAD + text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def run(path, **inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)


@pytest.fixture
def halve(tmp_path, bitpress):
    """halve(path, options...) gives the FLOAT16 network, which is valid ONNX, and the summary."""

    def make(path, *options):
        text = bitpress.ok("quantize", path, "-o", tmp_path / "half.onnx", "--config", "FP16", *options)
        model = onnx.load(tmp_path / "half.onnx")
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        return model, text

    return make


def types_of(model):
    """The element types of constants by name."""
    return {tensor.name: TensorProto.DataType.Name(tensor.data_type) for tensor in model.graph.initializer}


def operators(model):
    return [node.op_type for node in model.graph.node]


ATTENTION = """
net (float[N, 8, 64] x, int64[N, 8] mask) => (float[N, 8, 64] y) {
  m = Cast <to = 1> (mask)
  u = Unsqueeze (m, axes)
  inverse = Sub (one, u)
  penalty = Mul (inverse, lowest)
  q = MatMul (x, wq)
  k = MatMul (x, wk)
  kt = Transpose <perm = [0, 2, 1]> (k)
  s = MatMul (q, kt)
  masked = Add (s, penalty)
  p = Softmax (masked)
  v = MatMul (x, wv)
  a = MatMul (p, v)
  y = LayerNormalization <epsilon = 1e-12> (a, gain, shift)
}
"""


def attention(path):
    return save(path, ATTENTION, wq=random(64, 64), wk=random(64, 64, seed=6), wv=random(64, 64, seed=7), axes=np.array([1]),
                one=np.float32(1), lowest=np.float32(-3.4e38), gain=np.ones(64, np.float32), shift=random(64))


@pytest.mark.quick
def test_a_network_in_half_its_bytes(tmp_path, halve):
    path = attention(tmp_path / "m.onnx")
    model, text = halve(path)
    types = types_of(model)
    assert {types[name] for name in ("wq", "wk", "wv", "one", "lowest")} == {"FLOAT16"} and types["gain"] == "FLOAT"
    interface = [*model.graph.input, *model.graph.output]
    assert [one.type.tensor_type.elem_type for one in interface] == [TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT]
    assert (tmp_path / "half.onnx").stat().st_size < 0.6 * path.stat().st_size
    mask = np.ones((2, 8), np.int64)
    mask[1, 5:] = 0
    inputs = {"x": random(2, 8, 64, scale=1, seed=1), "mask": mask}
    assert sqnr_db(run(path, **inputs)[0], run(tmp_path / "half.onnx", **inputs)[0]) > 60
    assert "1 value of constants beyond 65504, the largest of FLOAT16, became that" in text
    assert "1 Softmax in FLOAT: " in text and "1 LayerNormalization in FLOAT: it sums squares" in text and "nothing was quantized" not in text


def test_a_mask_of_nothing_gives_no_nan(tmp_path, halve):
    path = attention(tmp_path / "m.onnx")
    halve(path)
    inputs = {"x": random(1, 8, 64, scale=1), "mask": np.zeros((1, 8), np.int64)}
    assert np.isfinite(run(tmp_path / "half.onnx", **inputs)[0]).all()


def test_powers_and_small_constants_keep_float(tmp_path, halve):
    """The powers of a spectrum leave the range of FLOAT16, and 1e-12 would be zero."""
    path = save(tmp_path / "m.onnx", """
net (float[N, 64] x) => (float[N, 32] y, float[N, 64] z) {
  p = Mul (x, x)
  mel = MatMul (p, bank)
  floored = Max (mel, least)
  y = Log (floored)
  norm = ReduceL2 <axes = [1], keepdims = 1> (x)
  safe = Add (norm, least)
  z = Div (x, safe)
}
""", bank=np.abs(random(64, 32, scale=1)), least=np.float32(1e-12))
    model, text = halve(path)
    assert "MatMul in FLOAT: a logarithm follows" in text and "1e-12 is too small for FLOAT16" in text
    inputs = {"x": random(4, 64, scale=1000)}
    inputs["x"][0] = 0
    for wanted, found in zip(run(path, **inputs), run(tmp_path / "half.onnx", **inputs)):
        assert np.isfinite(found).all() and sqnr_db(wanted, found) > 60
    assert types_of(model)["bank"] == "FLOAT16"  # the bytes are halved, a Cast to FLOAT stands behind them


def test_operators_that_onnxruntime_reduces_in_float_only_keep_float(tmp_path, halve):
    path = save(tmp_path / "m.onnx", """
net (float[8, 64] x) => (float[8, 32] y) {
  sums = ScatterND <reduction = "add"> (x, rows, values)
  placed = ScatterND (sums, rows, values)
  y = MatMul (placed, w)
}
""", rows=np.array([[1], [1], [5]]), values=random(3, 64, scale=1), w=random(64, 32))
    _, text = halve(path)
    assert "1 ScatterND in FLOAT: ONNX Runtime adds, multiplies and compares what it scatters in FLOAT only" in text
    inputs = {"x": random(8, 64, scale=1)}
    assert sqnr_db(run(path, **inputs)[0], run(tmp_path / "half.onnx", **inputs)[0]) > 60


def test_positions_and_sizes_keep_float(tmp_path, halve):
    """FLOAT16 counts to 2048, and angles of thousands of turns would be noise."""
    path = save(tmp_path / "m.onnx", """
net (float[N, 3, H, W] x, int64[N, 4] place) => (float[N, 4, 8] cosines, float[N, 3, P, Q] large) {
  p = Cast <to = 1> (place)
  column = Unsqueeze (p, last)
  angles = MatMul (column, frequencies)
  cosines = Cos (angles)
  size = Shape (x)
  wide = Cast <to = 1> (size)
  scaled = Mul (wide, factors)
  rounded = Floor (scaled)
  sizes = Cast <to = 7> (rounded)
  large = Resize <mode = "linear"> (x, , , sizes)
}
""", last=np.array([2]), frequencies=(1 / 10 ** np.arange(8, dtype=np.float32))[None], factors=np.array([1, 1, 2, 341.25], np.float32))
    model, text = halve(path)
    inputs = {"x": random(1, 3, 4, 9, scale=1), "place": np.array([[1, 2047, 4099, 60001]])}
    wanted, found = run(path, **inputs), run(tmp_path / "half.onnx", **inputs)
    assert found[1].shape == (1, 3, 8, 3071)
    assert all(sqnr_db(a, b) > 60 for a, b in zip(wanted, found))
    assert "it computes angles" in text and "Resize in FLOAT: it computes positions" in text


ROUNDS = """
net (float[N, 64] x) => (float[N, 64] y) {{
  h = MatMul (x, w)
  shifted = Sub (h, least)
  looked = Gather <axis = 1> (shifted, order)
  e = Exp (looked)
  scaled = Mul (e, length)
  {rounded}
  c = Clip (r, zero, most)
  s = CumSum (c, last)
  y = MatMul (s, v)
}}
"""
ROUNDINGS = {"Ceil": "r = Ceil (scaled)", "Floor": "r = Floor (scaled)", "Round": "r = Round (scaled)",
             "Mod": "r = Mod <fmod = 1> (scaled, one)", "Cast": "i = Cast <to = 7> (scaled) r = Cast <to = 1> (i)"}


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_what_is_rounded_keeps_float(tmp_path, halve, rounding):
    """Durations of a speech synthesis, for example: a number that is a little off becomes the next whole number, and all that follows moves."""
    path = save(tmp_path / "m.onnx", ROUNDS.format(rounded=ROUNDINGS[rounding]), w=random(64, 64, scale=0.05), v=random(64, 64, seed=6),
                order=np.random.default_rng(1).permutation(64), least=np.float32(-2), length=np.float32(1.3), zero=np.float32(0),
                most=np.float32(100), last=np.array(1), one=np.float32(1))
    model, text = halve(path)
    producers = {node.output[0]: node for node in model.graph.node}
    [node] = [node for node in model.graph.node if node.op_type == rounding and (rounding != "Cast" or node.attribute[0].i == TensorProto.INT64)]
    chain = []
    while node.op_type != "MatMul":
        chain.append(node.op_type)
        node = producers[node.input[0]]
    # The only Cast from FLOAT16 stands behind the product.
    assert chain == [rounding, "Mul", "Exp", "Gather", "Sub", "Cast"]
    assert "1 Gather in FLOAT: it computes numbers that become integers" in text and types_of(model)["w"] == "FLOAT16"


TYPED = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
net (float[N, 16] x, bool choice) => (float[N, 16] y, float[N, 16] eye, float[4] filled, float[N, 16] noise)
<float two = {2}> {
  h = MatMul (x, w)
  r = own.Twice (h)
  chosen = If (choice) <
    then_branch = yes () => (float[N, 16] a) <float half = {0.5}> { b = Mul (h, half) c = MatMul (b, w2) a = Add (c, r) },
    else_branch = no () => (float[N, 16] d) { d = Tanh (h) }>
  e = EyeLike (chosen)
  eye = Mul (e, two)
  shape = Constant <value_ints = [4]> ()
  f = ConstantOfShape <value = float[1] {3}> (shape)
  filled = Mul (f, two)
  n = RandomNormalLike <seed = 7.0, dtype = 1> (chosen)
  z = Mul (n, zero)
  noise = Add (z, chosen)
  q = MatMul (chosen, w3)
  y = Add (q, r)
}
<domain: "own", opset_import: ["" : 17]>
Twice (a) => (b) { t = Constant <value_float = 2.0> () b = Mul (a, t) }
"""


def test_bodies_attributes_and_functions_keep_their_types(tmp_path, halve):
    path = save(tmp_path / "m.onnx", TYPED, w=random(16, 16), w2=random(16, 16, seed=6), w3=random(16, 16, seed=7),
                zero=np.zeros(1, np.float32))
    for options in ([], ["--as-is"]):
        model, _ = halve(path, *options)
        assert {types_of(model)[name] for name in ("w", "w2", "w3")} == {"FLOAT16"}
        for choice in (True, False):
            inputs = {"x": random(3, 16, scale=1, seed=1), "choice": np.array(choice)}
            wanted, found = run(path, **inputs), run(tmp_path / "half.onnx", **inputs)
            assert all(a.dtype == b.dtype and a.shape == b.shape for a, b in zip(wanted, found))
            assert all(sqnr_db(a, b) > 60 for a, b in zip(wanted, found))


LOOP = """
net (float[2, 16] x, int64 turns) => (float[2, 16] last, float[T, 2, 16] all) {
  yes = Constant <value_int = 1> ()
  go = Cast <to = 9> (yes)
  last, all = Loop (turns, go, x) <body = step (int64 i, bool c, float[2, 16] state) => (bool on, float[2, 16] next, float[2, 16] given) {
    on = Identity (c)
    product = MatMul (state, w)
    next = Tanh (product)
    given = Add (next, b)
  }>
}
"""


def test_states_of_loops_stay_float(tmp_path, halve):
    path = save(tmp_path / "m.onnx", LOOP, w=random(16, 16, scale=0.3), b=random(16))
    model, text = halve(path)
    assert types_of(model)["w"] == "FLOAT16" and "Loop in FLOAT: its bodies exchange FLOAT values" in text
    inputs = {"x": random(2, 16, scale=1), "turns": np.array(5)}
    assert all(sqnr_db(a, b) > 55 for a, b in zip(run(path, **inputs), run(tmp_path / "half.onnx", **inputs)))


def test_excluded_nodes_keep_exact_constants(tmp_path, halve):
    text = "net (float[N, 64] x) => (float[N, 64] y) { h = MatMul (x, w) y = MatMul (h, v) }"
    path = save(tmp_path / "m.onnx", text, w=random(64, 64), v=random(64, 64, seed=6))
    model, summary = halve(path, "--set", "exclude_nodes=.*y.*")
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert constants["w"].dtype == np.float16 and np.array_equal(constants["v"], random(64, 64, seed=6))
    assert "1 MatMul in FLOAT: excluded by name" in summary


def test_plans_and_other_formats_go_with_it(tmp_path, bitpress):
    text = "net (float[N, 64] x) => (float[N, 64] y) { h = MatMul (x, w) y = MatMul (h, v) }"
    path = save(tmp_path / "m.onnx", text, w=random(64, 64), v=random(64, 64, seed=6))
    bitpress.ok("plan", path, "-o", tmp_path / "plan.json", "--config", "FP16")
    assert json.loads((tmp_path / "plan.json").read_text())["config"]["network"] == "float16"
    bitpress.ok("quantize", path, "-o", tmp_path / "planned.onnx", "--plan", tmp_path / "plan.json")
    bitpress.ok("quantize", path, "-o", tmp_path / "half.onnx", "--config", "fp16")
    assert (tmp_path / "planned.onnx").read_bytes() == (tmp_path / "half.onnx").read_bytes()
    bitpress.ok("quantize", path, "-o", tmp_path / "mixed.onnx", "--config", "FP16", "--weights", "mx9", "--target", "portable")
    x = random(4, 64, scale=1)
    assert sqnr_db(run(path, x=x)[0], run(tmp_path / "mixed.onnx", x=x)[0]) > 35
    assert "network=float16" in bitpress.error("quantize", path, "-o", tmp_path / "q.onnx", "--config", "INT8_DYNAMIC", "--set",
                                               "network=float16")
    again = bitpress.ok("quantize", tmp_path / "half.onnx", "-o", tmp_path / "again.onnx", "--config", "FP16")
    assert "the network is FLOAT16 already" in again


def test_the_simulation_keeps_quantizers(tmp_path, bitpress):
    path = attention(tmp_path / "m.onnx")
    bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "FP16_SIMULATED")
    model = onnx.load(tmp_path / "q.onnx")
    assert "QuantizeDequantize_fp16" in operators(model)
    assert helper.tensor_dtype_to_np_dtype(model.graph.output[0].type.tensor_type.elem_type) == np.float32


@pytest.mark.parametrize("first", ["Identity", "Squeeze", "GRU", "LSTM", "RNN"])
def test_what_is_moved_to_a_product_loads(tmp_path, bitpress, first):
    """ONNX Runtime 1.31 crashes where a MatMul of FLOAT16 reads a Transpose of what was cast."""
    rng = np.random.default_rng(3)
    constants = {"m": (rng.standard_normal((8, 6)) / 3).astype(np.float32)}
    if first in ("GRU", "LSTM", "RNN"):
        rows = {"GRU": 3, "LSTM": 4, "RNN": 1}[first] * 8
        constants |= {"w": (rng.standard_normal((1, rows, 8)) / 3).astype(np.float32), "r": (rng.standard_normal((1, rows, 8)) / 3).astype(np.float32)}
        nodes = [helper.make_node(first, ["x", "w", "r"], ["states"], hidden_size=8), helper.make_node("Squeeze", ["states", "one"], ["a"])]
        constants["one"] = np.array([1], np.int64)
    elif first == "Squeeze":
        nodes = [helper.make_node("Unsqueeze", ["x", "zero"], ["more"]), helper.make_node("Squeeze", ["more", "zero"], ["a"])]
        constants["zero"] = np.array([0], np.int64)
    else:
        nodes = [helper.make_node(first, ["x"], ["a"])]
    nodes += [helper.make_node("Transpose", ["a"], ["t"], perm=[1, 0, 2]), helper.make_node("MatMul", ["t", "m"], ["y"])]
    path = models.save(models.make_model(nodes, [("x", ["A", "B", 8])], [("y", ["B", "A", 6])], constants), tmp_path / "m.onnx")
    bitpress.ok("quantize", path, "-o", tmp_path / "half.onnx", "--config", "FP16", "--check", "on")
    x = rng.standard_normal((5, 3, 8)).astype(np.float32)
    float_y, half_y = (onnxruntime.InferenceSession(str(file)).run(None, {"x": x})[0] for file in (path, tmp_path / "half.onnx"))
    assert sqnr_db(float_y, half_y) > 50


WIDE = """
net (float[N, 64] x) => (float[N, 64] y) {
    h = MatMul(x, w1)
    r = Relu(h)
    z = MatMul(r, w2)
    y = MatMul(z, w3)
}"""


def test_values_beyond_the_range_in_samples_keep_float(tmp_path, halve, bitpress):
    path = save(tmp_path / "wide.onnx", WIDE, w1=random(64, 64, scale=3000), w2=random(64, 64, scale=3e-5, seed=6), w3=random(64, 64, seed=7))
    rng = np.random.default_rng(8)
    samples = models.save_arrays(tmp_path / "samples", (rng.standard_normal((1, 64)).astype(np.float32) for _ in range(4)))
    x = rng.standard_normal((16, 64)).astype(np.float32)
    wanted = run(path, x=x)[0]
    assert np.abs(wanted).max() < 1000  # only values in between are large

    def strictly(model):
        """What a processor with FLOAT16 computes: ONNX Runtime leaves Casts between its operators of FLOAT away."""
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(model).run(None, {"x": x})[0]

    assert not np.isfinite(strictly(halve(path)[0])).all()  # without samples nobody knows
    model, text = halve(path, "--data", samples, "--verbose")
    assert "2 MatMul in FLOAT: samples bring its values near the end of FLOAT16's range" in text
    assert sqnr_db(wanted, strictly(model)) > 50
    assert types_of(model)["w3"] == "FLOAT16"

    bitpress.ok("plan", path, "--config", "FP16", "-o", tmp_path / "plan.json")
    bitpress.ok("quantize", path, "-o", tmp_path / "planned.onnx", "--plan", tmp_path / "plan.json", "--data", samples)
    assert types_of(onnx.load(tmp_path / "planned.onnx")) == types_of(model)


CLIPPED = """
net (float[N, 16, 8, 8] x) => (float[N, 16, 8, 8] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1)
    b = Clip (a, zero, six)
    c = Conv <pads = [1, 1, 1, 1]> (b, w2)
    y = Clip (c, zero, six)
}"""


def test_clips_in_float_are_fused_on_a_cpu(tmp_path, halve):
    """ONNX Runtime fuses no Clips of FLOAT16 whose limits are equal. The report counts them, and without them all of it is computed in FLOAT."""
    path = save(tmp_path / "clipped.onnx", CLIPPED, w1=random(16, 16, 3, 3), w2=random(16, 16, 3, 3, seed=6), zero=np.float32(0), six=np.float32(6))

    def clips(*options):
        halve(path, *options, "--json", tmp_path / "report.json")
        session = onnxruntime.SessionOptions()
        session.log_severity_level = 3
        session.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        onnxruntime.InferenceSession(str(tmp_path / "half.onnx"), session, providers=["CPUExecutionProvider"])
        count = json.loads((tmp_path / "report.json").read_text())["rewrites"]["narrowed"]["num_clips_behind_convs"]
        return count, operators(onnx.load(tmp_path / "optimized.onnx")).count("Clip")

    count, left = clips()
    assert count == 2 and left > 0
    assert clips("--set", "exclude_op_types=Clip") == (0, 0)
