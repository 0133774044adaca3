#!/usr/bin/env python3
"""Writes the public words of the peers from their wheels: names, arguments, methods, options, presets.

    pip download --no-deps amd-quark==0.13 onnx-neural-compressor==1.0 onnxruntime==1.31.1
    python tools/make_peer_words.py amd_quark-0.13-*.whl onnx_neural_compressor-1.0-*.whl onnxruntime-1.31.1-*.whl

One JSON file a wheel goes to tests/data/peer_words/, which tests compare with the tables of fates: a new version of a peer
shows what is missing. The sources are parsed and never imported; nothing but words and default values is kept.
"""

import argparse
import ast
import json
import re
import sys
import zipfile
from pathlib import Path

OUTPUT = Path(__file__).resolve().parents[1] / "tests" / "data" / "peer_words"

# Of each wheel: the package, and modules whose public definitions count though they have no `__all__`.
PEERS = {
    "amd_quark": ("quark", "quark.onnx", [
        "quark.onnx.calibration.data_readers", "quark.onnx.calibration.methods",
        "quark.onnx.quantization.api", "quark.onnx.quantization.quantize",
        "quark.onnx.quantization.config.algorithm", "quark.onnx.quantization.config.config",
        "quark.onnx.quantization.config.custom_config", "quark.onnx.quantization.config.data_type",
        "quark.onnx.quantization.config.legacy", "quark.onnx.quantization.config.spec",
        "quark.onnx.quantization.auto_search.auto_search_pro", "quark.onnx.quantization.auto_search.auto_search_v1"]),
    "onnx_neural_compressor": ("neural_compressor", "onnx_neural_compressor", [
        "onnx_neural_compressor", "onnx_neural_compressor.data_reader", "onnx_neural_compressor.quantization",
        *[f"onnx_neural_compressor.quantization.{name}" for name in (
            "config", "matmul_4bits_quantizer", "matmul_nbits_quantizer", "quant_utils", "quantize", "tuning")]]),
    "onnxruntime": ("onnxruntime", "onnxruntime.quantization", [
        "onnxruntime.quantization",
        *[f"onnxruntime.quantization.{name}" for name in (
            "base_quantizer", "calibrate", "cuda_quantizer", "execution_providers.qnn", "matmul_bnb4_quantizer", "matmul_nbits_quantizer",
            "onnx_quantizer", "qdq_loss_debug", "qdq_quantizer", "quant_utils", "quantize", "registry", "shape_inference",
            "tensor_quant_overrides")]]),
}
OPTION = re.compile(r"[A-Z][A-Za-z0-9]+")


def _constants(node):
    """The words of a list, tuple or set of texts, or None."""
    items = getattr(node, "elts", None)
    if items is None or not all(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in items):
        return None
    return [item.value for item in items]


def _assigned(tree):
    """Yields each name that a module assigns, and what."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            if isinstance(target, ast.Name) and node.value is not None:
                yield target.id, node.value


def public_names(tree, module, package):
    """`__all__`, or what a module defines and, of a package, imports from itself."""
    for name, value in _assigned(tree):
        if name == "__all__":
            return sorted(_constants(value))
    names = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    names |= {name for name, _ in _assigned(tree) if name.isupper() or name.endswith("Registry")}
    if module.is_package:
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith(package)):
                names |= {item.asname or item.name for item in node.names}
    return sorted(name for name in names if not name.startswith("_"))


def arguments(function):
    """Argument -> text of its default, or None."""
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args)]
    defaults = [None] * (len(names) - len(given.defaults)) + [ast.unparse(value) for value in given.defaults]
    found = dict(zip(names, defaults))
    found.update({item.arg: None if value is None else ast.unparse(value) for item, value in zip(given.kwonlyargs, given.kw_defaults)})
    return {name: value for name, value in found.items() if name != "self" and not name.startswith("_")}


def classes(tree):
    """Of each public class its arguments (a dataclass's are its fields) and methods or, of an enumeration, its members; of each
    function its arguments."""
    found, members, methods = {}, {}, {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            found[node.name] = arguments(node)
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        if any("Enum" in ast.unparse(base) for base in node.bases):
            members[node.name] = [name for name, _ in _assigned(node)]
            continue
        defined = [item for item in node.body if isinstance(item, ast.FunctionDef)]
        init = [item for item in defined if item.name == "__init__"]
        methods[node.name] = sorted({item.name for item in defined if not item.name.startswith("_")})
        is_data = any("dataclass" in ast.unparse(item) for item in node.decorator_list)
        if init:
            found[node.name] = arguments(init[0])
        elif is_data:
            found[node.name] = {item.target.id: None if item.value is None else ast.unparse(item.value)
                                for item in node.body if isinstance(item, ast.AnnAssign)}
    return found, members, methods


def _group(node):
    """The dictionary of options that an expression reads: "" is extra_options, a word the dictionary at that word of it; None: another."""
    if isinstance(node, ast.Name):
        return "" if node.id == "extra_options" else None
    if isinstance(node, ast.Attribute):
        return "" if node.attr == "extra_options" else None
    key = None
    if isinstance(node, ast.Subscript):
        key, inner = node.slice, node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        key, inner = node.args[0], node.func.value
    if isinstance(key, ast.Constant) and isinstance(key.value, str) and _group(inner) == "":
        return key.value
    return None


def read_options(tree, found):
    """Adds the keys that are read from, written to or looked up in extra_options and the dictionaries in it."""
    def add(group, key):
        if group is not None and isinstance(key, ast.Constant) and isinstance(key.value, str) and OPTION.fullmatch(key.value):
            found.setdefault(group, set()).add(key.value)

    def add_literal(group, node):
        for key, value in zip(node.keys, node.values):
            add(group, key)
            if group == "" and isinstance(value, ast.Dict) and isinstance(key, ast.Constant):
                add_literal(key.value, value)

    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            add(_group(node.value), node.slice)
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            add(_group(node.comparators[0]), node.left)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop", "setdefault") and node.args:
                add(_group(node.func.value), node.args[0])
            for keyword in node.keywords:
                if keyword.arg == "extra_options" and isinstance(keyword.value, ast.Dict):
                    add_literal("", keyword.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and "extra_options" in node.targets[0].id:
            for pair in getattr(node.value, "elts", ()):  # a list of pairs of an option and the name of an argument
                for item in getattr(pair, "elts", ()):
                    add("", item)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript) and isinstance(node.value, ast.Dict):
            group = _group(node.targets[0])
            if group is not None:
                add_literal(group, node.value)


def words(wheel, package, prefix, public):
    """All words of a wheel."""
    made = {"names": {}, "arguments": {}, "members": {}, "methods": {}, "options": {}, "presets": []}
    options = {}
    with zipfile.ZipFile(wheel) as archive:
        for path in sorted(archive.namelist()):
            if not path.endswith(".py") or not path.startswith(prefix.replace(".", "/") + "/"):
                continue
            tree = ast.parse(archive.read(path))
            name = path[:-3].replace("/", ".").removesuffix(".__init__")
            if any(part.startswith("_") for part in name.split(".")) or name.endswith("_test"):
                continue
            module = argparse.Namespace(is_package=path.endswith("__init__.py"))
            assigned = dict(_assigned(tree))
            if "__all__" in assigned or name in public:
                made["names"][name] = public_names(tree, module, package)
            if name in public:
                for kind, found in zip(("arguments", "members", "methods"), classes(tree)):
                    made[kind].update({f"{name}.{key}": value for key, value in found.items() if value or kind == "arguments"})
            read_options(tree, options)
            # Lists of all options, and of presets, that the peer keeps itself.
            options.setdefault("", set()).update(word for word in _constants(assigned.get("QCONFIG_ALL_PARAMS")) or ()
                                                 if OPTION.fullmatch(word))
            if isinstance(assigned.get("DefaultConfigMapping"), ast.Dict):
                made["presets"] = sorted(key.value for key in assigned["DefaultConfigMapping"].keys)
    made["options"] = {group or "extra_options": sorted(found) for group, found in sorted(options.items()) if found}
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the public words of the peers.")
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    for wheel in given.wheels:
        distribution, version = wheel.name.split("-")[:2]
        if distribution not in PEERS:
            print(f"{wheel}: neither of {', '.join(PEERS)}", file=sys.stderr)
            return 1
        name, package, public = PEERS[distribution]
        made = {"source": f"{distribution} {version}", **words(wheel, package, package, public)}
        given.output.mkdir(parents=True, exist_ok=True)
        (given.output / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        print(f"{wheel.name}: {sum(map(len, made['names'].values()))} names, {sum(map(len, made['arguments'].values()))} arguments, "
              f"{sum(map(len, made['options'].values()))} options, {len(made['presets'])} presets")
    return 0


if __name__ == "__main__":
    sys.exit(main())
