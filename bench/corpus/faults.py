"""Finds faults in results of measure.py: errors, crashes, models that do not load, files that grew, results that are far off."""

from networks import NETWORKS

ALLOWED_BYTES = 4096  # more than those of the float file: the configuration is recorded, names grow
ALLOWED_DB = 1.0  # between the operator library and the portable functions, which sum in another order
# 16 bits, and 8 bits for weights or with a scale for few numbers, give most networks more than this. Those whose outputs are
# differences of large numbers have less.
CLOSE_DB = 20.0
CLOSE = ("BF16", "FP16", "MX9", "MXINT8", "INT8_WEIGHTS")
# INT8 may lose 3 dB to INT8_DYNAMIC, whose ranges fit each sample, and need not be better than 20 dB.
INT8_DB, INT8_BELOW_DYNAMIC_DB = 20.0, 3.0


def decibels_of(result):
    """Those of all outputs on the last kind of processor, by the operator library if there is one; None if there are none."""
    rows = [forms.get("library", forms["alone"]) for forms in result["compared"].values()]
    values = list(rows[-1].get("db", {}).values()) if rows else []
    return values or None


def row_faults(network, row):
    if "error" in row:
        yield row["error"][:400]
    if row.get("other_shapes") and not network.has_own_length:
        yield f"an output has another shape in {row['other_shapes']} samples"
    for name, value in row.get("db", {}).items():
        if value <= 0 and not network.has_own_length:
            yield f"output '{name}' has {value:.1f} dB"


def compared_faults(network, compared):
    """Those of all kinds of processors, with and without the operator library, each one once with where it is, unless everywhere."""
    found, num_places = {}, 0
    for kind, forms in compared.items():
        for form, row in forms.items():
            num_places += 1
            for sentence in row_faults(network, row):
                found.setdefault(sentence, []).append(f"{kind}, with{'' if form == 'library' else 'out'} the operator library")
    for sentence, places in found.items():
        yield sentence if len(places) == num_places else f"{sentence} ({'; '.join(places)})"


def faults_of(result):
    """Sentences about one result; those of ONNX Runtime's own tool are no fault of ours, but entries of the table all the same."""
    if "error" in result:
        return [result["error"]]
    network, done, found = NETWORKS[result["network"]], result["quantize"], []
    if done["status"]:
        return [f"{done['status']}: {done['message']}"]
    if network.is_quantized and not result["words"].startswith("ort:") and not done["is_known_as_quantized"]:
        found.append("the tool does not say that the model is already quantized")
    if done["bytes"] > result["float_bytes"] + ALLOWED_BYTES:
        found.append(f"the file grew to {done['bytes'] / result['float_bytes']:.0%} (of {result['float_bytes']} bytes)")
    found += compared_faults(network, result["compared"])
    for kind, forms in result["compared"].items():
        library, alone = forms.get("library", {}).get("db"), forms["alone"].get("db")
        if library and alone and not network.has_own_length:
            gaps = {name: abs(library[name] - alone[name]) for name in library}
            worst = max(gaps, key=gaps.get)
            if gaps[worst] > ALLOWED_DB:
                found.append(f"output '{worst}' has {library[worst]:.1f} dB with the operator library and {alone[worst]:.1f} dB "
                             f"without ({kind})")
    return found


def is_far(result):
    """Returns whether a network is farther from the float one than most are in such a fine format."""
    values = None if NETWORKS[result["network"]].has_own_length else decibels_of(result)
    return bool(values) and result["configuration"] in CLOSE and 0 < min(values) < CLOSE_DB


def int8_fault(results, label="INT8"):
    """A sentence about the results of one network, by configuration, if the one called `label` is far worse than INT8_DYNAMIC; else
    None."""
    found = [results.get(name) for name in (label, "INT8_DYNAMIC")]
    values = [result and decibels_of(result) for result in found]
    if None in values or NETWORKS[found[0]["network"]].has_own_length:
        return None
    static, dynamic = (min(each) for each in values)
    bar = min(INT8_DB, dynamic - INT8_BELOW_DYNAMIC_DB)
    return f"only {static:.1f} dB; INT8_DYNAMIC has {dynamic:.1f} dB" if static < bar else None
