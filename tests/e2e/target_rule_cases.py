"""A model that breaks each rule of each built-in target, and one that keeps it.

CASES maps (target, what the rule says) to (breaking model, keeping model), as functions that make them. Other rules may be
broken by either.
"""

import functools

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROWS, INNER, CHANNELS, SIZE = 4, 64, 8, 6


def _model(nodes, shape, constants, opset=21, functions=(), output_type=TensorProto.FLOAT, input_type=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes, "rules", [helper.make_tensor_value_info("x", input_type, shape)], [helper.make_tensor_value_info("y", output_type, None)],
        [array if isinstance(array, TensorProto) else numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    domains = {node.domain for node in nodes} | {function.domain for function in functions}
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in sorted(domains - {""})]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=functions)


def _codes(name, kind, shape):
    """A constant of codes; 4-bit ones and bf16 are packed by `onnx`."""
    return helper.make_tensor(name, getattr(TensorProto, kind.upper()), shape, np.ones(np.prod(shape, dtype=int), np.int64).tolist())


class _Layer:
    """x -> Q -> DQ -> layer -> Q -> DQ -> y, every part of which can be changed or left out."""

    def __init__(self, op="MatMul", activation="uint8", weight="int8", bias=None, bias_scale=None, axis=None, block=0, zero=None,
                 weight_zero=None, scale=0.25, weight_scale=0.25, out_scale=0.25, through=None, behind=None, dynamic=False, shape=None,
                 opset=21, extra=(), functions=()):
        self.__dict__.update(locals())

    def __call__(self):
        conv = self.op in ("Conv", "ConvTranspose")
        shape = self.shape or ((1, CHANNELS, SIZE, SIZE) if conv else (ROWS, INNER))
        weight_shape = (CHANNELS, CHANNELS, 3, 3) if conv else (INNER, INNER)
        constants, nodes, value = {}, [], "x"
        if self.through:
            nodes.append(helper.make_node(self.through, [value], ["through"]))
            value = "through"
        if self.dynamic:
            nodes += [helper.make_node("DynamicQuantizeLinear", [value], ["dq", "ds", "dz"]), helper.make_node("DequantizeLinear", ["dq", "ds", "dz"], ["xq"])]
            value = "xq"
        elif self.activation:
            value = self._pair(value, "xq", self.activation, self.scale, self.zero, nodes, constants)
        inputs = [value, "w"]
        self._weight(weight_shape, nodes, constants)
        if self.bias:
            constants["b_quantized"] = _codes("b_quantized", self.bias, (weight_shape[0 if conv else 1],))
            constants["b_scale"] = np.float32(self.bias_scale or self.scale * self.weight_scale)
            nodes.append(helper.make_node("DequantizeLinear", ["b_quantized", "b_scale"], ["b"]))
            inputs.append("b")
        nodes.append(helper.make_node(self.op, inputs, ["product"], name="layer"))
        value = "product"
        if self.behind:
            nodes.append(helper.make_node(self.behind, [value], ["behind"]))
            value = "behind"
        if self.activation and self.out_scale:
            value = self._pair(value, "pq", self.activation, self.out_scale, self.zero, nodes, constants)
        nodes += [*self.extra, helper.make_node("Identity", [value], ["y"])]
        return _model(nodes, shape, constants, self.opset, self.functions)

    def _pair(self, value, name, kind, scale, zero, nodes, constants):
        zero = zero if zero is not None else {"uint8": 128, "uint16": 32768}.get(kind, 0)
        constants[f"{name}_scale"] = np.float32(scale)
        constants[f"{name}_zero"] = helper.make_tensor(f"{name}_zero", getattr(TensorProto, kind.upper()), (), [zero])
        nodes += [helper.make_node("QuantizeLinear", [value, f"{name}_scale", f"{name}_zero"], [f"{name}_codes"]),
                  helper.make_node("DequantizeLinear", [f"{name}_codes", f"{name}_scale", f"{name}_zero"], [name])]
        return name

    def _weight(self, shape, nodes, constants):
        if self.weight is None:
            constants["w"] = np.ones(shape, np.float32)
            return
        scale_shape, attributes = (), {}
        if self.block:
            blocks = -(-shape[0] // self.block)
            scale_shape, attributes = (blocks, *shape[1:]), {"axis": 0, "block_size": self.block}
        elif self.axis is not None:
            scale_shape, attributes = (shape[self.axis],), {"axis": self.axis}
        constants["w_quantized"] = _codes("w_quantized", self.weight, shape)
        constants["w_scale"] = np.full(scale_shape, self.weight_scale, np.float32)
        inputs = ["w_quantized", "w_scale"]
        if self.weight_zero is not None:
            constants["w_zero"] = helper.make_tensor("w_zero", getattr(TensorProto, self.weight.upper()), scale_shape,
                                                     [self.weight_zero] * int(np.prod(scale_shape, dtype=int)))
            inputs.append("w_zero")
        nodes.append(helper.make_node("DequantizeLinear", inputs, ["w"], **attributes))


def _op(op_type, domain="", function=False, **attributes):
    """One operator with one input."""
    node = helper.make_node(op_type, ["x"], ["y"], name="op", domain=domain, **attributes)
    body = helper.make_function(domain, op_type, ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 21)])
    return lambda: _model([node], (ROWS, INNER), {}, functions=[body] if function else ())


def _integer_op(op_type):
    """An operator on codes of the standard."""
    conv = op_type in ("ConvInteger", "QLinearConv")
    weight = np.ones((CHANNELS, CHANNELS, 3, 3) if conv else (INNER, INNER), np.int8)
    constants = {"w": weight, "s": np.float32(1), "z": np.uint8(0), "zw": np.int8(0)}
    inputs = {"MatMulInteger": ["x", "w"], "ConvInteger": ["x", "w"]}.get(op_type, ["x", "s", "z", "w", "s", "zw", "s", "z"])
    shape = (1, CHANNELS, SIZE, SIZE) if conv else (ROWS, INNER)
    kind = TensorProto.INT32 if op_type.endswith("Integer") else TensorProto.UINT8
    return lambda: _model([helper.make_node(op_type, inputs, ["y"], name="op")], shape, constants, output_type=kind, input_type=TensorProto.UINT8)


def _int8_product():
    return _model([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], (ROWS, INNER), {"w": np.ones((INNER, INNER), np.int8)},
                  output_type=TensorProto.INT32, input_type=TensorProto.INT8)


def _nbits(accuracy_level=4, float_zeros=False, block=32, bits=4):
    blocks = INNER // block
    constants = {"w_Q4": np.zeros((INNER, blocks, block * bits // 8), np.uint8), "s": np.ones(INNER * blocks, np.float32)}
    inputs = ["x", "w_Q4", "s"]
    if float_zeros:
        constants["z"] = np.zeros(INNER * blocks, np.float32)
        inputs.append("z")
    level = {} if accuracy_level is None else {"accuracy_level": accuracy_level}
    node = helper.make_node("MatMulNBits", inputs, ["y"], domain="com.microsoft", name="op", K=INNER, N=INNER, bits=bits, block_size=block, **level)
    return _model([node], (ROWS, INNER), constants)


def _dynamic(rows):
    return _model([helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])],
                  (rows, INNER), {})


def _by_hand(is_cast=True):
    """A weight of codes behind Cast, Sub and Mul, or behind a DequantizeLinear."""
    constants = {"w_codes": np.ones((INNER, INNER), np.int8), "w_scale": np.full(INNER, 0.25, np.float32), "zero": np.float32(1)}
    nodes = [helper.make_node("Cast", ["w_codes"], ["floats"], to=TensorProto.FLOAT), helper.make_node("Sub", ["floats", "zero"], ["moved"]),
             helper.make_node("Mul", ["moved", "w_scale"], ["w"])]
    if not is_cast:
        nodes = [helper.make_node("DequantizeLinear", ["w_codes", "w_scale"], ["w"], axis=1)]
    return _model([*nodes, helper.make_node("MatMul", ["x", "w"], ["y"], name="layer")], (ROWS, INNER), constants)


def _biased(bias_scale, behind=None):
    """A Gemm whose products have scale 2**-4 and whose output has 2**-2."""
    return _Layer(op="Gemm", bias="int8", bias_scale=bias_scale, behind=behind)


def _quantized(value, name, exponent, nodes, constants):
    """A Q/DQ pair with a scale that is a power of two."""
    return _Layer()._pair(value, name, "uint8", 2.0**exponent, None, nodes, constants)


def _pairs(op_type, inputs, output):
    """An operator between pairs; the numbers are the exponents of their scales."""
    nodes, constants, values = [], {}, []
    for i, exponent in enumerate(inputs):
        nodes.append(helper.make_node("Abs" if i else "Neg", ["x"], [f"value{i}"]))
        values.append(_quantized(f"value{i}", f"value{i}_q", exponent, nodes, constants))
    nodes.append(helper.make_node(op_type, values, ["made"], name="op"))
    nodes.append(helper.make_node("Identity", [_quantized("made", "made_q", output, nodes, constants)], ["y"]))
    return lambda: _model(nodes, (ROWS, INNER), constants)


def _swish(output):
    """x * HardSigmoid(x) on codes."""
    nodes, constants = [], {}
    value = _quantized("x", "x_q", -2, nodes, constants)
    nodes.append(helper.make_node("HardSigmoid", [value], ["gate"], alpha=1 / 6, beta=0.5))
    gate = _quantized("gate", "gate_q", -7, nodes, constants)
    nodes.append(helper.make_node("Mul", [value, gate], ["made"], name="op"))
    nodes.append(helper.make_node("Identity", [_quantized("made", "made_q", output, nodes, constants)], ["y"]))
    return lambda: _model(nodes, (ROWS, INNER), constants)


def _our_product():
    return _model([helper.make_node("MatMul_mx6", ["x", "w"], ["y"], domain="bitpress", name="op")], (ROWS, INNER), {"w": np.ones((INNER, INNER), np.uint8)})


_partial = functools.partial
_int8, _fp = _Layer(), _op("Relu")
_symmetric = _Layer(activation="int8")
_per_axis = _Layer(op="Conv", axis=0)
_blocks = _Layer(activation=None, weight="int4", block=32)
_SIGMOID = {"op": "MatMul", "through": "Sigmoid", "zero": 0}
_TANH = {"op": "MatMul", "through": "Tanh"}

_OWN = {"registers no operator libraries": (_op("Special", "mine"), _fp)}
_FUNCTION = (_op("Special", "mine", function=True), _fp)

CASES = {(target, says): models for target, rules in {
    "onnxruntime": {
        "is fast where accuracy_level is 4, which rounds activations to 8 bits": (_partial(_nbits, None), _nbits),
        "has its fast kernels for packed integer zero points only": (_partial(_nbits, float_zeros=True), _nbits),
        "decodes these codes at every run": (_Layer(op="Conv", activation=None), _Layer(op="Conv")),
        "decodes these codes when it loads the model, and computes in float": (_by_hand, _partial(_by_hand, False)),
        "chooses the scale of a sample by all that are in its batch": (_partial(_dynamic, ROWS), _partial(_dynamic, 1)),
    },
    "genai": _OWN | {"takes blocks of 16, 32, 64, 128 or 256": (_Layer(activation=None, weight="int4", block=8), _blocks)},
    "web": {
        "takes no operator libraries": (_op("Special", "mine"), _op("Special", "mine", function=True)),
        "computes this on the CPU, between two copies, in a session on WebGPU": (_int8, _nbits),
    },
    "tensorrt": {
        "takes int8 and fp8_e4m3, and weights of int4 or nvfp4 in blocks": (_Layer(weight="uint8"), _symmetric),
        "takes int8 and fp8_e4m3": (_int8, _symmetric),
        "takes zero points of 0": (_Layer(activation="int8", zero=3), _symmetric),
        "adds float biases": (_Layer(op="Gemm", activation="int8", bias="int32"), _symmetric),
        "takes constant scales": (_Layer(dynamic=True, out_scale=None), _symmetric),
        "has the standard operators": (_op("Special", "mine"), _fp),
        "takes integers between Q and DQ": (_integer_op("MatMulInteger"), _symmetric),
    },
    "cuda": {
        "multiplies the integers of such scales on the CPU, between two copies: MatMulInteger of int8 by int8 only":
            (_Layer(dynamic=True, out_scale=None), _int8),
        "computes products of int8 by int8, and others on the CPU, between two copies": (_integer_op("MatMulInteger"), _int8_product),
        "computes operators on codes on the CPU, between two copies": (_integer_op("QLinearConv"), _int8),
        "computes it on the CPU, between two copies, where our library is registered": (_our_product, _int8),
        "decodes blocks of int4 and uint4 only, and fails at others when it runs":
            (_Layer(activation=None, weight="int8", block=32), _Layer(activation=None, weight="int4", block=32)),
        "computes a QMoE of float32 on the CPU, between two copies": (_op("QMoE", "com.microsoft"), _int8),
    },
    "openvino": {
        "takes activations of integers, and expands no functions of a model": (_Layer(activation="float8e4m3fn"), _int8),
        "takes integers of 4, 8 and 16 bits": (_Layer(activation=None, weight="uint2", opset=25), _Layer(activation=None, weight="float8e4m3fn")),
        "takes blocks that divide their axis": (_Layer(activation=None, weight="int4", block=24), _blocks),
        "expands no functions of a model": _FUNCTION,
        "does not read this operator on codes": (_integer_op("QLinearMatMul"), _int8),
    },
    "qnn": _OWN | {
        "takes activations of 8 and 16 bits": (_Layer(activation="float8e4m3fn"), _int8),
        "takes weights of 8 or 4 bits, also beside activations of 16 bits": (_Layer(activation="uint16", weight="int16"), _Layer(activation="uint16")),
        "takes int32 biases, or float ones": (_Layer(op="Conv", bias="int8"), _Layer(op="Conv", bias="int32")),
        "takes constant scales": (_Layer(dynamic=True, out_scale=None), _int8),
        "takes scales for channels without zero points": (_Layer(op="Conv", axis=0, weight_zero=3), _per_axis),
        "takes scales for channels of convolutions": (_Layer(axis=1), _per_axis),
        "takes scales of a Conv along axis 0": (_Layer(op="Conv", axis=1), _per_axis),
        "takes scales of a ConvTranspose along axis 1": (_Layer(op="ConvTranspose", axis=0), _Layer(op="ConvTranspose", axis=1)),
        "takes blocks of 4-bit weights of a multiple of 8": (_Layer(activation=None, weight="int4", block=4), _blocks),
        "takes blocks of 8-bit weights of a multiple of 4": (_Layer(activation=None, block=2), _Layer(activation=None, block=32)),
        "takes ranges of 0.0001 and more": (_Layer(scale=1e-9), _int8),
        "takes a Sigmoid of 16 bits with the scale 1/65536 and zero point 0":
            (_Layer(activation="uint16", **_SIGMOID), _Layer(activation="uint16", scale=1 / 65536, **_SIGMOID)),
        "takes a Sigmoid of 16 bits with the scale 1/32768 and zero point 0":
            (_Layer(activation="int16", **_SIGMOID), _Layer(activation="int16", scale=1 / 32768, **_SIGMOID)),
        "takes a Tanh of 16 bits with the scale 1/32768 and the middle as zero point":
            (_Layer(activation="uint16", **_TANH), _Layer(activation="uint16", scale=1 / 32768, **_TANH)),
        "takes a Tanh of 16 bits with the scale 1/32768 and zero point 0":
            (_Layer(activation="int16", **_TANH), _Layer(activation="int16", scale=1 / 32768, **_TANH)),
        "compiles no functions of a model": _FUNCTION,
        "takes integers between Q and DQ": (_integer_op("QLinearConv"), _int8),
        "takes fixed shapes; other nodes fall to the CPU": (_Layer(shape=("N", INNER)), _int8),
    },
    "ryzenai": {
        "takes activations of 8 and 16 bits, and BF16": (_Layer(activation="float8e4m3fn"), _int8),
        "takes int8 and BF16 weights": (_Layer(weight="uint8"), _int8),
        "takes zero points of 0, or the middle of unsigned codes": (_Layer(zero=3), _int8),
        "takes one scale for a tensor": (_per_axis, _Layer(op="Conv")),
        "takes constant scales": (_Layer(dynamic=True, out_scale=None), _int8),
        "shifts products with power-of-two scales by 0 to 16 bits": (_Layer(op="Conv", out_scale=1 / 1024), _Layer(op="Conv")),
        "shifts biases with power-of-two scales by -16 to 15 bits": (_biased(2.0**13), _biased(2.0**11)),
        "shifts biases in front of a LeakyRelu by 0 to 15 bits": (_biased(2.0**-5, "LeakyRelu"), _biased(2.0**-5, "Relu")),
        "takes biases that are finer than the output by 16 bits at most": (_biased(2.0**-19), _biased(2.0**-18)),
        "adds values whose power-of-two scales differ by 7 bits at most": (_pairs("Add", (0, 8), 0), _pairs("Sub", (0, 7), 0)),
        "shifts sums by -7 to 25 bits": (_pairs("Add", (0, -1), -8), _pairs("Add", (0, -1), -7)),
        "shifts products of two activations by 0 to 32 bits": (_pairs("Mul", (-1, -2), -4), _pairs("Mul", (-1, -2), -3)),
        "shifts the products of a HardSwish by 0 to 15 bits": (_swish(7), _swish(6)),
        "takes inputs of a HardSigmoid with 0 to 15 bits behind the point": (_pairs("HardSigmoid", (1,), -8), _pairs("HardSigmoid", (0,), -8)),
        "gives outputs of a HardSigmoid with at least 7 bits behind the point": (_pairs("HardSigmoid", (-2,), -6),
                                                                               _pairs("HardSigmoid", (-2,), -7)),
        "shifts what a HardSigmoid computes by -14 to 17 bits": (_pairs("HardSigmoid", (-1,), -16), _pairs("HardSigmoid", (-1,), -15)),
        "computes it on the CPU": (_nbits, _int8),
        "takes fixed shapes; others run on the CPU as a whole": (_Layer(shape=("N", INNER)), _int8),
        "takes no operators added behind opset 22": (_Layer(opset=23), _int8),
        "is recommended opset 17, and supports all operators up to 20": (_int8, _Layer(opset=17)),
    },
    "directml": _OWN | {
        "takes integers of 4 and 8 bits, and FLOAT16": (_Layer(activation="uint16"), _int8),
        "supports operators up to opset 20, and computes others poorly; 4-bit integers need 21": (_int8, _Layer(opset=17)),
        "computes faster with sizes that are known at load": (_Layer(shape=("N", INNER)), _int8),
    },
}.items() for says, models in rules.items()}
