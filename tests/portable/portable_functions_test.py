"""The functions that quantized models carry give the same bits as the operators of our library, in every version of the
standard operator set, for every format, scale choice, rounding, shape and axis."""

import itertools
import subprocess
from dataclasses import dataclass

import inputs
import numpy as np
import onnx
import onnxruntime
import pytest
from locations import built
from onnx import TensorProto, helper

DOMAIN = "bitpress"
OPSETS = [13, 17, 18, 21]
FLOAT_FORMATS = ["fp16", "bf16", "fp8_e4m3", "fp8_e5m2"]
FLOAT_BLOCKS = ["mxfp8_e5m2", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1"]
INTEGER_BLOCKS = ["mxint8", "bfp16", "mx4", "mx6", "mx9"]
BFP_SIZES = [(16, 8, 8), (13, 32, 8), (10, 7, 8), (32, 5, 8), (9, 4, 4), (6, 3, 2), (11, 1, 5)]
SCALE_CHOICES = ["floor", "ceil", "even", "mse"]
ROUNDINGS = ["half_to_even", "half_away_from_zero", "half_up"]


@dataclass(frozen=True)
class Quantizer:
    format: str
    scale_choice: str = "floor"
    rounding: str = "half_to_even"
    sizes: tuple = ()  # of bfp: bits, block, exponent bits

    def __str__(self):
        return "-".join([self.format, *map(str, self.sizes), self.scale_choice, self.rounding])

    @property
    def is_blocked(self):
        return self.format not in FLOAT_FORMATS

    @property
    def op_type(self):
        return f"QuantizeDequantize_{self.format}"

    def node(self, axis=1, source="x", target="y"):
        attributes = dict(zip(("bits", "block_size", "exponent_bits"), self.sizes))
        if self.is_blocked:
            attributes |= {"axis": axis, "scale_choice": self.scale_choice}
        return helper.make_node(self.op_type, [source], [target], f"make_{target}", domain=DOMAIN,
                                rounding_mode=self.rounding, **attributes)


# Formats of integers in blocks, with every second of the twelve pairs of a scale choice and a rounding, which are independent parts
# of a function. The next format has the other pairs.
INTEGERS = [Quantizer(name, choice, rounding, sizes)
            for number, (name, sizes) in enumerate([*((name, ()) for name in INTEGER_BLOCKS), *(("bfp", sizes) for sizes in BFP_SIZES)])
            for i, choice in enumerate(SCALE_CHOICES) for j, rounding in enumerate(ROUNDINGS) if (number + i + j) % 2 == 0]
FLOAT_SCALES = [Quantizer("nvfp4", "even")]
ALL = ([Quantizer(name) for name in FLOAT_FORMATS]
       + [Quantizer(name, choice) for name, choice in itertools.product(FLOAT_BLOCKS, SCALE_CHOICES)] + INTEGERS + FLOAT_SCALES)
# Each format once, for what depends on operators and not on numbers: scale choices and roundings take turns.
EACH = ([Quantizer(name) for name in FLOAT_FORMATS] + [Quantizer(name, choice) for name, choice in zip(FLOAT_BLOCKS, SCALE_CHOICES * 2)]
        + [INTEGERS[6 * number + number % 6] for number in range(len(INTEGERS) // 6)] + FLOAT_SCALES)
# One of each way of doing things, for what depends on neither.
SOME = [Quantizer("bf16"), Quantizer("fp8_e4m3"), Quantizer("mxfp8_e4m3", "even"), Quantizer("mxint8", rounding="half_up"),
        Quantizer("bfp", "mse", sizes=(13, 5, 8)), Quantizer("mx6", "ceil", "half_away_from_zero"), Quantizer("mx9", "mse")]


def model_of(nodes, opset, shape, element_type=TensorProto.FLOAT):
    graph = helper.make_graph(nodes, "portable", [helper.make_tensor_value_info("x", element_type, shape)],
                              [helper.make_tensor_value_info("y", element_type, shape)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)],
                             ir_version=8)


class Maker:
    """Models with functions, written by the pass."""

    def __init__(self, program, folder):
        self.program, self.folder, self.count = program, folder, 0

    def run(self, paths):
        result = subprocess.run([str(self.program), *map(str, paths)], capture_output=True, text=True, timeout=300, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def add_functions(self, models):
        """The models with functions, and what the pass says of operators that got none."""
        paths = []
        for model in models:
            self.count += 1
            paths.append(self.folder / f"{self.count}.onnx")
            paths[-1].write_bytes(model.SerializeToString(deterministic=True))
        said = self.run(paths)
        return [onnx.load(path) for path in paths], said


@pytest.fixture(scope="module")
def maker(tmp_path_factory):
    return Maker(built("add_portable_functions"), tmp_path_factory.mktemp("portable"))


@pytest.fixture(scope="module")
def vectors(maker):
    """quantizer, opset -> the model that quantizes a vector."""
    keys = [*((quantizer, 18) for quantizer in ALL), *itertools.product(EACH, OPSETS)]
    models, said = maker.add_functions([model_of([q.node(axis=-1)], opset, ["n"]) for q, opset in keys])
    assert said == ""
    return dict(zip(keys, models))


def session(model, library=None, optimized=True):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
    if library is not None:
        options.register_custom_ops_library(str(library))
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(model, x, library=None, optimized=True):
    return session(model, library, optimized).run(None, {"x": x})[0]


def expect_same(portable, expected, x, what):
    assert portable.dtype == expected.dtype and portable.shape == expected.shape, what
    bits = f"u{expected.dtype.itemsize}"
    same = (portable.view(bits) == expected.view(bits)) | (np.isnan(portable) & np.isnan(expected))
    if not same.all():
        first = np.argwhere(~same)[:3]
        values = [(tuple(map(int, at)), float(x[tuple(at)]), float(portable[tuple(at)]), float(expected[tuple(at)]))
                  for at in first]
        raise AssertionError(f"{what}: {np.count_nonzero(~same)} of {same.size} differ: (place, x, function, operator) {values}")


MANY = inputs.exhaustive(np.random.default_rng(8))
FEW = inputs.battery(np.random.default_rng(2), 40)


@pytest.fixture(scope="module")
def expected(operator_library):
    """{quantizer: outputs of its operator for MANY and for FEW}, from one session, because our library takes a while to register."""
    nodes = [quantizer.node(-1, "x", f"y{i}") for i, quantizer in enumerate(ALL)]
    graph = helper.make_graph(nodes, "operators", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, ["n"]) for node in nodes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)], ir_version=8)
    operators = session(model, operator_library)
    return dict(zip(ALL, zip(operators.run(None, {"x": MANY}), operators.run(None, {"x": FEW}), strict=True), strict=True))


def compare(model, x, library, what, levels=(True, False)):
    expected = run(model, x, library)
    for optimized in levels:
        expect_same(run(model, x, optimized=optimized), expected, x, f"{what}, optimized={optimized}")


@pytest.mark.parametrize("quantizer", ALL, ids=str)
def test_all_numbers(quantizer, vectors, expected):
    # What ONNX Runtime makes of a function follows from its operators.
    for optimized in (True, False) if quantizer in EACH else (True,):
        found = run(vectors[quantizer, 18], MANY, optimized=optimized)
        expect_same(found, expected[quantizer][0], MANY, f"optimized={optimized}")


@pytest.mark.parametrize("quantizer", EACH, ids=str)
def test_every_operator_set(quantizer, vectors, expected):
    for opset in OPSETS:
        model = vectors[quantizer, opset]
        assert [(f.domain, f.name) for f in model.functions] == [(DOMAIN, quantizer.op_type)]
        onnx.checker.check_model(model, full_check=True)
        expect_same(run(model, FEW), expected[quantizer][1], FEW, f"opset {opset}")


def to_moderate(x, rng):
    """Most values with exponents near each other, so that blocks are not one value and zeros."""
    return np.where(rng.random(x.shape) < 0.9, inputs.to_float32(rng.standard_normal(x.shape)), x)


SHAPES = [(1,), (31,), (33,), (70,), (1, 1), (5, 7), (3, 40), (2, 33, 3), (3, 1, 65), (2, 5, 6, 7), (1, 64, 3, 3), (2, 3, 2, 5, 3)]
EMPTY = [(0,), (0, 6), (6, 0), (2, 0, 5, 6), (2, 3, 5, 0), (0, 0, 4)]


# Below operator set 14 no size may be 0. Formats without blocks have no axis.
@pytest.mark.parametrize("quantizer, opset", [*((quantizer, 21) for quantizer in SOME), (SOME[2], 13), (SOME[5], 13)], ids=str)
def test_every_axis(quantizer, opset, maker, operator_library):
    rng = np.random.default_rng(3)
    shapes = SHAPES + (EMPTY if opset >= 14 else [])
    cases = [(shape, axis) for shape in shapes for axis in (range(-len(shape), len(shape)) if quantizer.is_blocked else (-1, 0))]
    # All blocks are cut off by the same operators, but for sub-blocks. Other formats have every third case.
    if quantizer.is_blocked and quantizer not in (SOME[2], SOME[5]):
        cases = cases[::3]
    nodes = [quantizer.node(axis, f"x{i}", f"y{i}") for i, (_, axis) in enumerate(cases)]
    # Sizes known when the model is loaded, and not.
    known = [shape if axis >= 0 else [f"d{i}_{place}" for place in range(len(shape))] for i, (shape, axis) in enumerate(cases)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "axes", [info(f"x{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(known)],
                              [info(f"y{i}", TensorProto.FLOAT, shape) for i, shape in enumerate(known)])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    [model], said = maker.add_functions([helper.make_model(graph, opset_imports=opsets, ir_version=8)])
    assert said == "" and len(model.functions) == 1
    feeds = {f"x{i}": to_moderate(rng.choice(MANY, shape), rng) for i, (shape, _) in enumerate(cases)}
    portable, wanted = (session(model, library).run(None, feeds) for library in (None, operator_library))
    for case, x, *results in zip(cases, feeds.values(), portable, wanted, strict=True):
        expect_same(*results, x, f"shape and axis {case}")


@pytest.mark.parametrize("quantizer", SOME, ids=str)
def test_scalars(quantizer, maker, operator_library):
    [model], _ = maker.add_functions([model_of([quantizer.node(1)], 18, [])])
    for value in [1.2345, -0.0, -1e-40, np.inf, np.nan]:
        compare(model, np.array(value, np.float32), operator_library, str(value))


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("quantizer", SOME, ids=str)
def test_float16(quantizer, opset, maker, operator_library):
    [model], _ = maker.add_functions([model_of([quantizer.node(0)], opset, ["n", 16], TensorProto.FLOAT16)])
    onnx.checker.check_model(model, full_check=True)
    # All values in order, and in another.
    x = np.concatenate([inputs.ALL_HALVES, np.random.default_rng(4).permutation(inputs.ALL_HALVES)]).reshape(-1, 16)
    compare(model, x, operator_library, "all float16 values")


@pytest.mark.parametrize("quantizer", SOME, ids=str)
def test_symbolic_dimensions_survive(quantizer, maker):
    model = model_of([quantizer.node(1, "x", "a"), helper.make_node("Transpose", ["a"], ["y"], perm=[0, 2, 1])], 17,
                     ["N", 40, 6])
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None, None]))
    [model], _ = maker.add_functions([model])
    assert session(model).get_outputs()[0].shape == ["N", 6, 40]


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("quantizer", SOME, ids=str)
def test_no_shape_has_unknown_sizes(quantizer, axis, maker, tmp_path):
    """ONNX Runtime looks for a buffer to reuse for each of them among all of a model, which takes long."""
    [model], _ = maker.add_functions([model_of([quantizer.node(axis)], 21, ["N", 6, 40])])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inferred = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "optimized.onnx"), data_prop=True).graph
    shapes = {value.name: [size.dim_value if size.HasField("dim_value") else size.dim_param for size in value.type.tensor_type.shape.dim]
              for value in inferred.value_info if value.type.tensor_type.HasField("shape")}
    assert len(inferred.node) > 5 and shapes
    assert not [shape for shape in shapes.values() if "" in shape or any(str(size).startswith("unk") for size in shape)], shapes


@pytest.mark.quick
def test_several_axes_share_one_function(maker, operator_library):
    quantizer = Quantizer("mxfp4_e2m1", "even")
    nodes = [quantizer.node(1, "x", "a"), quantizer.node(-1, "a", "b"), quantizer.node(0, "b", "y")]
    [model], said = maker.add_functions([model_of(nodes, 17, ["n", 35, 33])])
    assert said == "" and len(model.functions) == 1
    x = np.random.default_rng(5).choice(MANY, (40, 35, 33))
    compare(model, x, operator_library, "three axes")


@pytest.mark.quick
def test_least_error_at_the_end_of_the_vector_code(maker, operator_library):
    [model], _ = maker.add_functions([model_of([Quantizer("bfp", "mse", sizes=(12, 8, 8)).node(0)], 18, ["n"])])
    rng = np.random.default_rng(9)
    x = inputs.to_float32(np.clip(rng.standard_normal(80000), -1.99, 1.99) * 2.0**-63)
    compare(model, x, operator_library, "largest magnitudes of 2^-63")


def test_the_operator_wins(operator_library):
    """With the library the function is not run: here it would give something else."""
    quantizer = Quantizer("mx6")
    model = model_of([quantizer.node(0)], 18, ["n"])
    wrong = helper.make_function(DOMAIN, quantizer.op_type, ["x"], ["y"], [helper.make_node("Neg", ["x"], ["y"])],
                                 [helper.make_opsetid("", 18)], attributes=["axis"])
    model.functions.append(wrong)
    x = np.ones(16, np.float32)
    assert (run(model, x) == -1).all()
    assert (run(model, x, operator_library) == 1).all()


def test_the_second_run_changes_nothing(maker):
    [first], _ = maker.add_functions([model_of([Quantizer("mx9", "mse").node()], 21, ["n", 32])])
    [second], _ = maker.add_functions([first])
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)


@pytest.mark.parametrize("nodes, opset, element_type, words", [
    ([Quantizer("mx6").node()], 12, TensorProto.FLOAT, ["12", "13"]),
    ([Quantizer("mx6").node()], 13, TensorProto.FLOAT16, ["make_y", "float16", "15"]),
    ([Quantizer("mx6", "floor").node(1, "x", "a"), Quantizer("mx6", "ceil").node(1, "a", "y")], 17, TensorProto.FLOAT,
     ["make_a", "make_y", "floor", "ceil"]),
    ([Quantizer("bfp", sizes=(16, 8, 8)).node(1, "x", "a"), Quantizer("bfp", sizes=(13, 8, 8)).node(1, "a", "y")], 17,
     TensorProto.FLOAT, ["bits=16", "bits=13"]),
])
def test_what_has_no_function_has_a_reason(nodes, opset, element_type, words, maker):
    [model], said = maker.add_functions([model_of(nodes, opset, ["n", 32], element_type)])
    assert len(model.functions) == 0
    for word in [nodes[0].op_type, *words]:
        assert word in said
