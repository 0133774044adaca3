"""What a model is written with: the nodes that Quark writes, or the small form of bitpress."""

import dataclasses
import re
from typing import Any, Iterable

import bitpress
from bitpress._errors import UnsupportedError
from bitpress._files import Model
from bitpress.compat import _fates
from bitpress.compat.quark._algorithms import Request

_SIDES = ("activations", "weights", "biases")


def _formats(request: Request) -> Iterable[Any]:
    targets = [words for chosen in (request.target, request.measurement) if chosen is not None for words in chosen.variants]
    return (words[side] for words in [request.settings, *request.rules, *targets] for side in _SIDES if side in words)


def write_nodes_of_quark(request: Request) -> None:
    """Quark's operators on activations, weights and biases."""
    if request.arguments.get("target") == "onnxruntime":
        return  # MatMulNBits reads packed codes
    for name in _formats(request):
        exponent = re.search(r"exponent_bits=(\d+)", str(name))
        if exponent and exponent[1] != "8":
            _fates.say(f"BFPAttributes: exponent_bits={exponent[1]}: Quark's operators have shared exponents of 8 bits, so that the "
                       "model has those of bitpress")
            return write_small_form(request)
    request.settings["operators"] = request.settings.get("operators", "quark")
    request.arguments["storage"] = "qdq"


def fitting(request: Request, model: Model) -> Request:
    """The request for this model: Quark's pairs give FLOAT, which operators of a FLOAT16 model do not take."""
    has_pairs = request.settings.get("operators") == "quark" and {"bf16", "fp16"} & set(_formats(request))
    if not has_pairs or all(constant.format != "FLOAT16" for constant in bitpress.inspect(model).constants):
        return request
    _fates.say("the model is FLOAT16, and Quark's pairs of BF16 and FP16 give FLOAT: it has the operators of bitpress")
    arguments = {name: value for name, value in request.arguments.items() if name != "storage"}
    return dataclasses.replace(request, settings={**request.settings, "operators": "bitpress"}, arguments=arguments)


def say_left(request: Request, report: Any) -> None:
    """Says which nodes have another form than the script asks for."""
    if request.arguments.get("form") == "qoperator":
        _fates.say_left(report, "quant_format=QOperator")
    elif request.arguments.get("target") == "onnxruntime":
        _fates.say_left(report, "UseMatMulNBits=True")


def write_small_form(request: Request) -> None:
    """Weights as codes, operators of bitpress."""
    if request.settings.get("operators") != "quark_cast":
        return
    if any(name not in ("bf16", "none") for name in _formats(request)):
        raise UnsupportedError("extra_options: BF16QDQToCast is refused with operators='bitpress': a side is not bfloat16. Instead: "
                               "operators='quark', or leave it out")
    request.settings["operators"] = "cast"
