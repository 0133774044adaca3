"""What scripts name by the graph of a model as it was given."""

import os
import re
from typing import Any, Collection, Dict, List, Mapping

from bitpress._files import Model, bytes_of, existing
from bitpress.compat import _fates


def model_of(model: Model) -> Any:
    """The onnx.ModelProto, without the data that lie in other files."""
    import onnx  # takes a while

    if isinstance(model, (str, os.PathLike)):
        return onnx.load(os.fspath(existing(model, "model")), load_external_data=False)
    return model if isinstance(model, onnx.ModelProto) else onnx.load_from_string(bytes_of(model))


def graph_of(model: Model) -> Any:
    return model_of(model).graph


def kept_float(model: Model, producers: Mapping[str, Collection[str]]) -> List[Dict[str, Any]]:
    """Rules that leave float what some nodes give.

    Args:
        producers: operator types by the script's word for them that ends in "OpTypes...", and names of nodes by other words.
    """
    if not any(producers.values()):
        return []
    graph = graph_of(model)
    values = []
    for word, given in producers.items():
        of = "op_type" if "OpTypes" in word else "name"
        for name in sorted(set(given) - {getattr(node, of) for node in graph.node}):
            _fates.say(f"extra_options: {word}: the model has no '{name}'")
        values += [value for node in graph.node if getattr(node, of) in given for value in node.output if value]
    return [{"tensors": [re.escape(value) for value in dict.fromkeys(values)], "exclude": True, "optional": True}] if values else []
