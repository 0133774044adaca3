"""Tests the data of the page of `bitpress report` and `quantize --report`, and the page in a real browser."""

import json
from html.parser import HTMLParser

import browser as browsers
import models
import numpy as np
import onnx
import onnxruntime
import pytest
from locations import is_ci
from models import is_as_measured, sqnr_db
from onnx import helper, numpy_helper



def needs_browser(test):
    """Decorates a test: only `./dev test --all` runs it, and where there is no browser it is skipped."""
    is_missing = browsers.find_browser() is None and not is_ci()
    return pytest.mark.browser(pytest.mark.skipif(is_missing, reason="no Chromium is installed (apt-get install chromium)")(test))


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    rng = np.random.default_rng(5)
    for i in range(6):
        np.save(folder / f"{i}.npy", rng.standard_normal((1, *models.CONV_INPUT)).astype(np.float32))
    return folder


@pytest.fixture
def make_report(bitpress, conv_path, samples, tmp_path):
    """make_report(*options of quantize) returns the data of the model's page, with its path under "path"."""

    def make(*options, report=()):
        page, data = tmp_path / "report.html", tmp_path / "report.json"
        bitpress.ok("quantize", conv_path, "-o", tmp_path / "quantized.onnx", *options)
        bitpress.ok("report", tmp_path / "quantized.onnx", "--reference", conv_path, "-o", page, "--json", data, *report)
        return {**json.loads(data.read_text()), "path": page}

    return make


def values_of(path, names, samples, library):
    """Returns values inside a model over all samples, computed by ONNX Runtime."""
    model = onnx.load(path)
    have = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in have)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    runs = [session.run(names, {session.get_inputs()[0].name: np.load(path)}) for path in sorted(samples.iterdir())]
    return {name: np.concatenate([run[i] for run in runs]) for i, name in enumerate(names)}


@pytest.mark.parametrize("options", [["--config", "MX6"], ["--config", "MX6", "--target", "portable"], ["--config", "INT8_DYNAMIC"],
                                     ["--config", "INT4_WEIGHTS"]])
def test_weights_are_compared_as_they_are_stored(options, bitpress, tmp_path):
    """A square weight that a Gemm reads transposed: the operators that take its place read it the other way round."""
    weight = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)
    model = models.make_model([helper.make_node("Gemm", ["x", "w"], ["y"], "fc", transB=1)], [("x", ["N", 64])], [("y", ["N", 64])], {"w": weight})
    path, data = models.save(model, tmp_path / "m.onnx"), tmp_path / "report.json"
    bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", *options)
    bitpress.ok("report", tmp_path / "q.onnx", "--reference", path, "-o", tmp_path / "report.html", "--json", data)
    [layer] = json.loads(data.read_text())["layers"]
    assert layer["weights"][0]["sqnr_db"] > 15


@pytest.mark.quick
def test_the_errors_are_those_of_the_models(make_report, samples, conv_path, bitpress, operator_library, tmp_path):
    report = make_report("--config", "MX6", report=["--data", samples])
    layers = {layer["node"]: layer for layer in report["layers"]}
    assert set(layers) == {"stem", "depthwise", "project", "head"}
    assert all(layer["input_format"] == "mx6" for layer in layers.values())
    assert report["num_layer_samples"] == 6
    assert Elements(report["path"]).data["layers"] == report["layers"]

    # The program itself decodes the weights.
    bitpress.ok("unpack", tmp_path / "quantized.onnx", "-o", tmp_path / "floats.onnx")
    constants = {constant.name: numpy_helper.to_array(constant) for constant in onnx.load(tmp_path / "floats.onnx").graph.initializer}
    original = {constant.name: numpy_helper.to_array(constant) for constant in onnx.load(conv_path).graph.initializer}
    for name in ("depthwise", "project", "head"):
        [weight] = layers[name]["weights"]
        assert weight["tensor"] == f"{name}.weight"
        assert weight["sqnr_db"] == pytest.approx(sqnr_db(original[weight["tensor"]], constants[weight["tensor"]]), abs=1e-6)

    # The outputs inside both networks are compared. The float network's BatchNormalization is folded, which keeps the outputs of
    # layers behind it.
    outputs = [layers[name]["output"] for name in ("depthwise", "project", "head")]
    wanted = values_of(conv_path, outputs, samples, operator_library)
    found = values_of(tmp_path / "quantized.onnx", outputs, samples, operator_library)
    for name in ("depthwise", "project", "head"):
        value = layers[name]["output"]
        assert layers[name]["sqnr_db"] == pytest.approx(sqnr_db(wanted[value], found[value]), abs=0.01)
    assert report["evaluation"]["sqnr_db"] == pytest.approx(layers["head"]["sqnr_db"], abs=0.01)

    # Histograms count every element.
    tensors = {tensor["name"]: tensor for tensor in report["tensors"]}
    weight = tensors["project.weight"]
    assert weight["format"] == "mx6" and sum(weight["histogram"]["counts"]) == sum(weight["quantized"]["counts"]) == 1600
    assert weight["min"] == original["project.weight"].min() and weight["max"] == original["project.weight"].max()
    counts, _ = np.histogram(original["project.weight"], 64, (weight["min"], weight["max"]))
    assert np.abs(np.array(weight["histogram"]["counts"]) - counts).max() <= 1  # an element on the edge of two bins
    image = tensors["image"]
    data = np.stack([np.load(path) for path in samples.iterdir()])
    assert image["elements"] == data.size and sum(image["histogram"]["counts"]) == data.size
    assert image["max"] == data.max() and image["mean"] == pytest.approx(data.mean(), abs=1e-6)


def test_sizes_reasons_and_commands(make_report):
    report = make_report("--config", "MXFP4E2M1", "--set", "weight_scale=floor", "--rule", "names=head: exclude")
    assert report["config"] == "MXFP4E2M1" and report["evaluation"] is None and report["num_layer_samples"] == 0
    assert sum(size["bytes"] for size in report["sizes"]) == report["file_bytes"]
    assert {size["format"] for size in report["sizes"] if size["is_quantized"]} == {"mxfp4_e2m1"}
    kept = {tensor["name"]: tensor["reason"] for tensor in report["kept_float"]}
    assert "head.weight" in kept and "head" in kept["head.weight"]
    assert "project.bias" in kept and "project.weight" not in kept
    commands = dict(report["commands"])
    assert "--config MXFP4E2M1" in commands["Quantize"] and "--set weight_scale=floor" in commands["Quantize"]
    assert commands["This page"].startswith("bitpress report ")
    head = next(layer for layer in report["layers"] if layer["node"] == "head")
    assert head["input_format"] == "float" and head["weights"][0]["sqnr_db"] == "identical" and head["sqnr_db"] is None


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_integers_have_the_range_of_their_scale(form, make_report, samples):
    report = make_report("--config", "INT8", "--data", samples, "--form", form, report=["--data", samples])
    assert all(layer["input_format"] == "uint8" for layer in report["layers"])
    assert all(weight["sqnr_db"] > 30 for layer in report["layers"] for weight in layer["weights"])
    image = next(tensor for tensor in report["tensors"] if tensor["name"] == "image")
    assert image["format"] == "uint8"
    low, high = image["range"]
    step = (high - low) / 255
    assert low <= image["min"] + step and high >= image["max"] - step


@pytest.mark.parametrize("options, of_weight, of_output", [
    (["--config", "INT8_DYNAMIC"], 42.5, 40.8), (["--config", "INT4_WEIGHTS", "--target", "onnxruntime"], 22.4, 22.3),
    (["--config", "MX9", "--storage", "simulated"], 46.8, 43.8), (["--config", "MX6", "--set", "operators=quark"], 28.4, 25.2),
    (["--config", "FP16_SIMULATED", "--set", "operators=cast"], 73.6, 70.5)], ids=lambda value: "-".join(value[1::2]) if isinstance(value, list) else "")
def test_every_way_to_store_a_weight_is_read(options, of_weight, of_output, bitpress, matmul_path, tmp_path):
    bitpress.ok("quantize", matmul_path, "-o", tmp_path / "quantized.onnx", *options)
    rng = np.random.default_rng(3)
    np.save(tmp_path / "x.npy", rng.standard_normal((4, 12, 48)).astype(np.float32))
    (tmp_path / "data").mkdir()
    (tmp_path / "x.npy").rename(tmp_path / "data" / "x.npy")
    bitpress.ok("report", tmp_path / "quantized.onnx", "--reference", matmul_path, "-o", tmp_path / "page.html", "--json", tmp_path / "page.json",
             "--data", tmp_path / "data")
    layers = {layer["node"]: layer for layer in json.loads((tmp_path / "page.json").read_text())["layers"]}
    for name in ("make_query", "make_key"):
        assert is_as_measured(layers[name]["weights"][0]["sqnr_db"], of_weight), layers[name]
        assert is_as_measured(layers[name]["sqnr_db"], of_output)
        assert layers[name]["note"] == ""


def test_quantize_writes_it_too_and_says_what_was_learned(bitpress, conv_path, samples, tmp_path):
    page = tmp_path / "page.html"
    said = bitpress.ok("quantize", conv_path, "-o", tmp_path / "q.onnx", "--config", "MX6_ADAQUANT", "--data", samples, "--report", page)
    assert "page.html" in said
    data = Elements(page).data
    learned = [layer["learned"] for layer in data["layers"] if layer["learned"]]
    assert learned and all(after >= before for before, after in learned)
    assert data["commands"][0][1].startswith("bitpress quantize ") and "--report" in data["commands"][0][1]


def test_the_same_inputs_give_the_same_page(bitpress, make_report, conv_path, tmp_path):
    first = make_report("--config", "MX9")["path"].read_bytes()
    bitpress.ok("report", tmp_path / "quantized.onnx", "--reference", conv_path, "-o", tmp_path / "again.html", "--json", tmp_path / "report.json",
             "--threads", "1")
    again = (tmp_path / "again.html").read_text().replace("again.html", "report.html").replace(" --threads 1", "")
    assert again == first.decode()


class Elements(HTMLParser):
    """The elements of a page before its scripts run, and the data that they show."""

    def __init__(self, page):
        super().__init__()
        self.names, self.data, self._has_data = [], None, False
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self._has_data = dict(attrs).get("id") == "data"

    def handle_data(self, data):
        if self._has_data:
            self.data, self._has_data = json.loads(data), False


@pytest.fixture
def evil_page(bitpress, tmp_path):
    """A page of a model whose names are elements, and such a name."""
    name = "</script><img src=x onerror=\"document.title='hacked'\">"
    weight = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", name], [f"y{name}"], f"node{name}")
    model = models.make_model([node], [("x", ["N", 32])], [(f"y{name}", ["N", 32])], {name: weight})
    models.save(model, tmp_path / "evil.onnx")
    bitpress.ok("quantize", tmp_path / "evil.onnx", "-o", tmp_path / "q.onnx", "--config", "MX6")
    bitpress.ok("report", tmp_path / "q.onnx", "--reference", tmp_path / "evil.onnx", "-o", tmp_path / "page.html")
    return tmp_path / "page.html", name


def test_names_of_a_model_are_no_elements(evil_page):
    path, name = evil_page
    page = Elements(path)
    assert "script" in page.names and "img" not in page.names
    assert page.data["layers"][0]["node"] == f"node{name}"


@pytest.mark.parametrize("options, words", [
    (["--search", "{model}"], ["is no result of a search"]),
    (["--calibration", "{model}"], ["calibration"]),
    (["--plan", "{model}"], ["plan"]),
    (["--layer-samples", "0"], ["--layer-samples"]),
    (["--data", "{missing}"], ["missing"]),
], ids=["search", "calibration", "plan", "samples", "data"])
def test_bad_input_leaves_nothing(options, words, bitpress, conv_path, tmp_path):
    bitpress.ok("quantize", conv_path, "-o", tmp_path / "q.onnx", "--config", "MX6")
    texts = [option.format(model=conv_path, missing=tmp_path / "missing") for option in options]
    before = sorted(tmp_path.iterdir())
    message = bitpress.error("report", tmp_path / "q.onnx", "--reference", conv_path, "-o", tmp_path / "page.html", *texts)
    assert all(word in message for word in words), message
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_is_not_written_over(bitpress, conv_path, tmp_path):
    model = tmp_path / "q.onnx"
    assert "--report" in bitpress.error("quantize", conv_path, "-o", model, "--config", "MX6", "--report", model)
    assert "--report" in bitpress.error("quantize", conv_path, "-o", conv_path, "--config", "MX6", "--report", tmp_path / "page.html")
    bitpress.ok("quantize", conv_path, "-o", model, "--config", "MX6")
    before = model.read_bytes(), conv_path.read_bytes()
    for written in (model, conv_path):
        assert written.name in bitpress.error("report", model, "--reference", conv_path, "-o", written)
    assert "q.onnx" in bitpress.error("report", model, "--reference", conv_path, "-o", tmp_path / "page.html", "--json", model)
    assert before == (model.read_bytes(), conv_path.read_bytes()) and not (tmp_path / "page.html").exists()


@pytest.fixture(scope="module")
def browser():
    with browsers.Browser() as running:
        yield running


@pytest.fixture(scope="module")
def full_report(bitpress, samples, tmp_path_factory):
    """A page with everything on it."""
    tmp_path = tmp_path_factory.mktemp("report")
    conv_path = models.save(models.conv_model(), tmp_path / "conv.onnx")
    candidates = ["--weight-candidates", "mx9,mx6,mxfp4_e2m1", "--activation-candidates", "mx9,mx6"]
    bitpress.ok("search", conv_path, *candidates, "--data", samples, "--budget", "bits<=11", "-o", tmp_path / "plan.json", "--json",
             tmp_path / "search.json", "--measure", "3")
    bitpress.ok("quantize", conv_path, "--plan", tmp_path / "plan.json", "-o", tmp_path / "mixed.onnx")
    bitpress.ok("report", tmp_path / "mixed.onnx", "--reference", conv_path, "-o", tmp_path / "page.html", "--json", tmp_path / "page.json", "--data",
             samples, "--plan", tmp_path / "plan.json", "--search", tmp_path / "search.json")
    return tmp_path / "page.html", json.loads((tmp_path / "page.json").read_text())


@needs_browser
def test_the_page_in_a_browser(full_report, browser):
    path, data = full_report
    page = browser.open(path)
    assert page.evaluate("document.querySelector('h1').textContent") == "mixed.onnx"

    # The charts show the data: one dot for each layer and series, at heights in the order of the values.
    dots = page.evaluate("[...document.querySelectorAll('#network circle.outputs')].map((dot) => [+dot.dataset.layer, +dot.getAttribute('cy')])")
    values = {i: layer["sqnr_db"] for i, layer in enumerate(data["layers"])}
    assert [i for i, _ in dots] == list(values)
    by_height = sorted(dots, key=lambda dot: -dot[1])
    assert [values[i] for i, _ in by_height] == sorted(values.values())
    assert page.evaluate("document.querySelectorAll('#network circle.weights').length") == len(values)
    assert page.evaluate("document.querySelectorAll('#layers tbody tr').length") == len(values)
    measured = [point for i, point in enumerate(data["search"]["front"]) if point["measured"] or i == data["search"]["chosen"]]
    assert page.evaluate("document.querySelectorAll('#front circle').length") == len(measured) >= 3
    shares = page.evaluate("[...document.querySelectorAll('#size-bar rect')].map((part) => [part.dataset.part, +part.getAttribute('width')])")
    assert [name for name, _ in shares] == [size["format"] for size in data["sizes"]]
    widths = [width for _, width in shares]
    assert widths == sorted(widths, reverse=True)

    # A click shows ranges and histograms of the layer.
    page.click("#layers tr[data-layer='0'] button")
    layer = data["layers"][0]
    shown = page.evaluate("[...document.querySelectorAll('#detail .panel')].map((panel) => panel.dataset.tensor)")
    assert shown == [layer["input"], *(weight["tensor"] for weight in layer["weights"]), layer["output"]]
    weight = next(tensor for tensor in data["tensors"] if tensor["name"] == layer["weights"][0]["tensor"])
    bars = page.evaluate(f"""[...document.querySelectorAll('#detail [data-tensor="{weight['name']}"] rect.bar')].map((bar) => +bar.dataset.count)""")
    assert bars == [count for count in weight["histogram"]["counts"] if count]
    # The chart can be clicked too, and used with the keyboard.
    page.click("#network circle.outputs[data-layer='2']")
    assert data["layers"][2]["node"] in page.evaluate("document.querySelector('#detail .layer-title').textContent")
    page.press("ArrowLeft")
    assert data["layers"][1]["node"] in page.evaluate("document.querySelector('#detail .layer-title').textContent")
    page.hover("#network circle.outputs[data-layer='3']")
    assert data["layers"][3]["node"] in page.evaluate("document.querySelector('#tip').textContent")
    # Any tensor can be chosen by its name.
    page.evaluate("""(() => { const input = document.querySelector('#tensor-name'); input.value = 'sum';
        input.dispatchEvent(new Event('change')); })()""")
    assert page.evaluate("document.querySelector('#detail .panel').dataset.tensor") == "sum"
    # The table can be sorted by the outputs' errors.
    page.click("#layers th:nth-child(6) button")
    order = page.evaluate("[...document.querySelectorAll('#layers tbody tr')].map((row) => +row.dataset.layer)")
    assert [values[i] for i in order] == sorted(values.values())
    assert page.problems() == []


@needs_browser
@pytest.mark.parametrize("width", [360, 1100])
def test_nothing_is_wider_than_the_screen(width, full_report, browser):
    page = browser.open(full_report[0], width=width, height=700, is_phone=width < 500)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.pdf().startswith(b"%PDF")
    assert page.problems() == []


@needs_browser
def test_names_of_a_model_stay_text(evil_page, browser):
    path, name = evil_page
    page = browser.open(path)
    assert page.evaluate("document.title") == "q.onnx: Bitpress report"
    assert page.evaluate("document.images.length") == 0
    assert page.evaluate("document.querySelector('#layers tbody button').textContent") == f"node{name}"
    assert page.problems() == []
