"""Documentation and metadata of nodes, values and the model itself outlive every pass that replaces nodes."""

import models
import onnx
import pytest


def documented(model):
    model.doc_string, model.graph.doc_string = "doc of the model", "doc of the graph"
    for thing in [*model.graph.node, *model.graph.input, *model.graph.output]:
        thing.doc_string = f"doc of {thing.name}"
        thing.metadata_props.add(key="from", value=thing.name)
    return model


FORMS = {"MX6": ["--config", "MX6"], "MX6 by our operators": ["--config", "MX6", "--target", "bitpress"],
         "INT4_WEIGHTS by ONNX Runtime's": ["--config", "INT4_WEIGHTS", "--target", "onnxruntime"],
         "INT8": ["--config", "INT8"], "QOperator": ["--config", "INT8", "--form", "qoperator"],
         "INT8_DYNAMIC": ["--config", "INT8_DYNAMIC"]}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("opset", [13, 21])
def test_documentation_stays(bitpress, tmp_path, form, opset):
    model = models.matmul_model()
    model.opset_import[0].version = opset
    given = documented(model)
    path = models.save(given, tmp_path / "model.onnx")
    out = tmp_path / "out.onnx"
    data = models.save_noise(tmp_path / "noise", [d.dim_value or 2 for d in given.graph.input[0].type.tensor_type.shape.dim])
    bitpress.ok("quantize", path, "-o", out, *FORMS[form], "--data", data)
    written = onnx.load(out)
    assert (written.doc_string, written.graph.doc_string) == ("doc of the model", "doc of the graph")
    # Some forms have several nodes in the place of one, and names of their own.
    written_docs = [(node.doc_string, [entry.value for entry in node.metadata_props]) for node in written.graph.node]
    for node in given.graph.node:
        assert (node.doc_string, [node.name]) in written_docs, node.name
    for before, after in zip([*given.graph.input, *given.graph.output], [*written.graph.input, *written.graph.output]):
        assert after.doc_string == before.doc_string
