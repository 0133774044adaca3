"""Modules that suites import and that are not here: the peer's private ones, and packages that only load a model from a hub."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import pkgutil
import sys
import types
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_HIDDEN, _HEADS, _LAYERS, _WORDS = 32, 4, 5, 1000


class PrivateName(Exception):
    """A test used a name of the peer that Bitpress does not have."""


class Private:
    """Stands for a private name: it may be passed around and subclassed, but not called."""

    def __init__(self, path):
        self.__dict__["path"] = path

    def __call__(self, *arguments, **options):
        raise PrivateName(self.path)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Private(f"{self.path}.{name}")

    def __getitem__(self, *arguments):
        raise PrivateName(self.path)

    __iter__ = __contains__ = __setitem__ = __getitem__

    def __mro_entries__(self, bases):
        return (_private_base(self.path),)


def _private_base(path):
    def refuse(self, *arguments, **options):
        raise PrivateName(path)

    return type("Private", (), {"__init__": refuse})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives modules below some names, whose attributes are all private."""

    def __init__(self, *roots):
        self.roots = roots

    def find_spec(self, name, path=None, target=None):
        if any(name == root or name.startswith(root + ".") for root in self.roots):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        def find(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Private(f"{module.__name__}.{name}")

        module.__getattr__ = find


def alias(ours, theirs):
    """Puts our package and its modules under the peer's name; other modules and names of the peer are private."""
    sys.meta_path.append(_Finder(theirs))
    root = importlib.import_module(ours)
    names = [ours, *(found.name for found in pkgutil.walk_packages(root.__path__, ours + ".") if "._" not in found.name)]
    for name in names:
        module = importlib.import_module(name)
        sys.modules[theirs + name[len(ours):]] = module
        _open_to_private_names(module, theirs + name[len(ours):])
    logger = sys.modules[theirs + ".logger"] = types.ModuleType(theirs + ".logger")
    for name in ("debug", "info", "warning", "error", "fatal", "log"):
        setattr(logger, name, getattr(logging.getLogger(theirs), name))
    root.logger = logger
    root.constants = types.SimpleNamespace(DEFAULT_WHITE_LIST="*", EMPTY_WHITE_LIST=None)
    sys.modules[theirs + ".constants"] = root.constants


def _open_to_private_names(module, path):
    """Names that a module does not have are private, also those that it refuses by name."""
    def find(name):
        if name.startswith("__"):
            raise AttributeError(name)
        if "__path__" in vars(module) and not name[:1].isupper():
            return importlib.import_module(f"{path}.{name}")
        return Private(f"{path}.{name}")

    module.__getattr__ = find


class Array(np.ndarray):
    """An array with the few methods of torch's tensors that readers of samples use."""

    def unsqueeze(self, axis):
        return np.expand_dims(self, axis).view(Array)

    def view(self, *shape):
        return np.ndarray.view(self, *shape) if shape and isinstance(shape[0], type) else self.reshape(shape)

    def numpy(self):
        return np.array(self)


def _array(values):
    return np.ndarray.view(np.asarray(values), Array)


def _tokenizer(name):
    """Gives the same few tokens for every text."""
    tokens = _array(np.arange(12, dtype=np.int64)[None] % _WORDS)
    return lambda *texts, **options: {"input_ids": tokens, "attention_mask": _array(np.ones_like(tokens))}


def _layer(add, weight, x, name):
    """One layer of the model, whose attention and MLP read the same normalized values, as in GPT-J."""
    scale, bias = weight(f"{name}.ln.weight", (_HIDDEN,), 1), weight(f"{name}.ln.bias", (_HIDDEN,))
    normal = add("LayerNormalization", [x, scale, bias], f"/{name}/ln_1/LayerNormalization", axis=-1)
    size = _HIDDEN // _HEADS
    split = add("Constant", [], f"/{name}/attn/split", value=numpy_helper.from_array(np.array([0, 0, _HEADS, size], np.int64)))
    joined = add("Constant", [], f"/{name}/attn/joined", value=numpy_helper.from_array(np.array([0, 0, _HIDDEN], np.int64)))
    parts = {}
    for part in ("q_proj", "k_proj", "v_proj"):
        product = add("MatMul", [normal, weight(f"{name}.{part}", (_HIDDEN, _HIDDEN))], f"/{name}/attn/{part}/MatMul")
        heads = add("Reshape", [product, split], f"/{name}/attn/{part}/Reshape")
        parts[part] = add("Transpose", [heads], f"/{name}/attn/{part}/Transpose", perm=[0, 2, 3, 1] if part == "k_proj" else [0, 2, 1, 3])
    scores = add("MatMul", [parts["q_proj"], parts["k_proj"]], f"/{name}/attn/MatMul")
    shares = add("Softmax", [scores], f"/{name}/attn/Softmax", axis=-1)
    mixed = add("Transpose", [add("MatMul", [shares, parts["v_proj"]], f"/{name}/attn/MatMul_1")], f"/{name}/attn/Transpose", perm=[0, 2, 1, 3])
    mixed = add("Reshape", [mixed, joined], f"/{name}/attn/Reshape")
    attended = add("MatMul", [mixed, weight(f"{name}.out_proj", (_HIDDEN, _HIDDEN))], f"/{name}/attn/out_proj/MatMul")
    wide = add("MatMul", [normal, weight(f"{name}.fc_in", (_HIDDEN, 4 * _HIDDEN))], f"/{name}/mlp/fc_in/MatMul")
    wide = add("Add", [wide, weight(f"{name}.fc_in.bias", (4 * _HIDDEN,))], f"/{name}/mlp/fc_in/Add")
    narrow = add("MatMul", [add("Tanh", [wide], f"/{name}/mlp/act/Tanh"), weight(f"{name}.fc_out", (4 * _HIDDEN, _HIDDEN))],
                 f"/{name}/mlp/fc_out/MatMul")
    narrow = add("Add", [narrow, weight(f"{name}.fc_out.bias", (_HIDDEN,))], f"/{name}/mlp/fc_out/Add")
    return add("Add", [add("Add", [attended, narrow], f"/{name}/Add"), x], f"/{name}/Add_1")


def language_model():
    """A transformer of five layers with the inputs, names and number of products of the hub's tiny random GPT-J, and weights of our own."""
    rng = np.random.default_rng(7)
    nodes, weights = [], []

    def weight(name, shape, middle=0):
        weights.append(numpy_helper.from_array((middle + 0.1 * rng.standard_normal(shape)).astype(np.float32), name))
        return name

    def add(op_type, inputs, name, **attributes):
        nodes.append(helper.make_node(op_type, inputs, [name + "_output_0"], name, **attributes))
        return nodes[-1].output[0]

    words = add("Gather", [weight("wte.weight", (_WORDS, _HIDDEN)), "input_ids"], "/wte/Gather")
    x = add("Add", [words, add("Gather", [weight("wpe.weight", (512, _HIDDEN)), "position_ids"], "/wpe/Gather")], "/Add")
    mask = add("Cast", ["attention_mask"], "/Cast", to=TensorProto.FLOAT)
    nothing = add("Constant", [], "/zero", value=numpy_helper.from_array(np.zeros((), np.float32)))
    axis = add("Constant", [], "/axis", value=numpy_helper.from_array(np.array([2], np.int64)))
    x = add("Add", [x, add("Unsqueeze", [add("Mul", [mask, nothing], "/Mul"), axis], "/Unsqueeze")], "/Add_1")
    for number in range(_LAYERS):
        x = _layer(add, weight, x, f"h.{number}")
    final = add("LayerNormalization", [x, weight("ln_f.weight", (_HIDDEN,), 1), weight("ln_f.bias", (_HIDDEN,))], "/ln_f/LayerNormalization")
    nodes.append(helper.make_node("Identity", [final], ["last_hidden_state"], "/Identity"))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask", "position_ids")]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", _HIDDEN])
    graph = helper.make_graph(nodes, "language", inputs, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _export(name, output, **options):
    Path(output).mkdir(parents=True, exist_ok=True)
    onnx.save(language_model(), str(Path(output) / "model.onnx"))


def _loadable(make_model):
    """Models whose suite names no IR version get one that ONNX Runtime loads: onnx may be newer than it."""
    def make(graph, **options):
        return make_model(graph, **{"ir_version": 10, **options})

    return make


def install():
    """Replaces packages that only bring a model from a hub, and gives the rest of them as private names."""
    onnx.helper.make_model = _loadable(onnx.helper.make_model)
    sys.meta_path.append(_Finder(*(name for name in ("optimum", "torch", "transformers") if importlib.util.find_spec(name) is None)))
    given = {"optimum.exporters.onnx": {"main_export": _export},
             "transformers": {"AutoTokenizer": types.SimpleNamespace(from_pretrained=_tokenizer)},
             "torch": {"Tensor": Array, "long": np.int64, "arange": lambda first, last, dtype=None: _array(np.arange(first, last, dtype=dtype)),
                       "randn": lambda shape, **options: _array(np.random.default_rng(7).standard_normal(shape).astype(np.float32))}}
    for name, values in given.items():
        module = importlib.import_module(name)
        for key, value in values.items():
            setattr(module, key, value)
