"""How Sphinx makes a site of docs/; tools/make_site.py runs it."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The order is that in which people read: who deploys a model (Guides, From other tools), who compares formats (Formats, Benchmarks),
# then what everyone looks up (Reference), and who changes the code (Inside). It stands here because a code host would show it as
# text if it stood in index.md, where Sphinx looks for it.
NAVIGATION = {
    "Guides": {
        "Install": "install",
        "From a model to the right file": "guides/auto",
        "Ten tasks": "guides/tasks/index",
        "Image classification": "guides/tasks/classification",
        "Detection": "guides/tasks/detection",
        "Face detection": "guides/tasks/faces",
        "Matting and segmentation": "guides/tasks/matting",
        "Text recognition": "guides/tasks/text_recognition",
        "Speech recognition": "guides/tasks/speech_recognition",
        "Speech synthesis": "guides/tasks/speech_synthesis",
        "Sentence embeddings": "guides/tasks/embeddings",
        "Language model": "guides/tasks/language_model",
        "Tables": "guides/tasks/tabular",
        "A tour": "tour",
        "Static INT8": "guides/static_int8",
        "Dynamic INT8": "guides/dynamic_int8",
        "Weights only": "guides/weight_only",
        "Block formats": "guides/block_formats",
        "Language models": "guides/language_models",
        "Model folders": "guides/model_folders",
        "Weights that others quantized": "guides/imported_weights",
        "Evaluate and check": "guides/evaluate",
        "In the terms of a task": "guides/task_measures",
        "Fine-tuning": "finetuning",
        "Mixed precision": "mixed_precision",
        "Deploy in ONNX Runtime": "guides/deploy",
        "Integers on every processor": "integer_kernels",
        "The report": "report",
        "Target check": "target_check",
        "Targets": "targets",
        "Python": "python",
        "Many workers": "scale_out",
    },
    "From other tools": {
        "AMD Quark": "migrate_quark",
        "ONNX Neural Compressor": "migrate_neural_compressor",
        "ONNX Runtime": "migrate_onnxruntime",
    },
    "Formats": {
        "Common properties": "formats",
        "BF16, FP16": "formats/float16",
        "FP8": "formats/fp8",
        "Integers": "formats/integers",
        "BFP": "formats/bfp",
        "MX4, MX6, MX9": "formats/mx",
        "MXFP8, MXFP6, MXFP4": "formats/mxfp",
        "MXINT8": "formats/mxint8",
        "NVFP4": "formats/nvfp4",
    },
    "Benchmarks": {
        "How to read them": "benchmarks/index",
        "Accuracy": "benchmarks/accuracy",
        "Many real networks": "benchmarks/corpus",
        "Side by side": "benchmarks/peers",
        "Integers": "benchmarks/integers",
        "Weights and tables": "benchmarks/weights",
        "Fine-tuning": "benchmarks/finetuning",
        "What auto chooses": "benchmarks/auto",
        "Mixed precision": "benchmarks/mixed_precision",
        "Language models": "benchmarks/language_models",
        "Imported weights": "benchmarks/imported_weights",
        "Speed": "benchmarks/speed",
        "Products from codes": "benchmarks/products",
        "Sizes and loading": "benchmarks/packed_models",
        "Calibration": "benchmarks/calibration",
        "Many workers": "benchmarks/scale_out",
        "CUDA": "benchmarks/cuda",
        "OpenVINO": "benchmarks/openvino",
        "Mixtures of experts": "benchmarks/experts",
        "Quantized models of others": "benchmarks/public_models",
    },
    "Reference": {
        "Command line": "reference_cli",
        "Python package": "reference_python",
        "Error messages": "errors",
        "Presets": "presets",
        "The plan": "plan",
        "Calibration": "calibration",
        "Range methods": "range_methods",
        "Equalization": "equalization",
        "SmoothQuant": "smooth_quant",
        "Rotations": "rotation",
        "Packed models": "packed_models",
        "Products from codes": "products",
        "Operators": "operators",
        "CUDA and ROCm": "cuda",
        "Versions": "versions",
    },
    "Inside": {
        "The house": "design",
        "Changing the code": "development",
    },
}

project = "Bitpress"
release = re.search(r"project\(bitpress VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
version = ".".join(release.split(".")[:2])

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "autoapi.extension"]
exclude_patterns = ["site"]
highlight_language = "text"
smartquotes = False  # quotes in prose are often those of a command
suppress_warnings = ["misc.highlighting_failure"]  # JSON in examples leaves things out, with ...
myst_heading_anchors = 6  # links name headings as code hosts do

# AutoAPI reads the package without importing it, so that types keep the names that they have in the source, and the compiled
# module is known from its stub. reference_python.md says what is shown. Docstrings name code in single backticks.
autoapi_dirs = [str(ROOT / "build" / "python" / "bitpress")]
autoapi_file_patterns = ["*.pyi", "*.py"]
autoapi_ignore = ["*/compat/*"]
autoapi_generate_api_docs = False
autoapi_options = ["members", "undoc-members", "imported-members"]
autodoc_member_order = "bysource"
default_role = "code"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False  # what stands before a colon is rarely a type; types are annotated
add_module_names = False
maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
html_title = f"Bitpress {release}"
html_favicon = "static/favicon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
templates_path = ["templates"]
html_context = {"navigation": NAVIGATION}
html_sidebars = {"**": ["pages.html"]}
html_copy_source = False
html_use_index = False
html_theme_options = {
    "logo": {"text": "Bitpress", "image_light": "static/favicon.svg", "image_dark": "static/favicon.svg"},
    "navbar_start": ["navbar-logo", "version.html"],
    "navbar_center": ["sections.html"],
    "navbar_end": ["theme-switcher"],
    "primary_sidebar_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "article_header_start": [],
    "footer_start": [],
    "footer_end": [],
    "show_toc_level": 2,
    "search_bar_text": "Search",
}


def add_navigation(_app, page, source):
    """The navigation where Sphinx looks for it: in the text of the first page."""
    if page == "index":
        for caption, pages in NAVIGATION.items():
            entries = "\n".join(f"{title} <{name}>" for title, name in pages.items())
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def hide_modules(_app, _what, _name, _object, _options, *signature):
    """A type is known by its name; the module of ours that defines it is nobody's business."""
    return [text and re.sub(r"\bbitpress\._\w+\.", "", text) for text in signature]


def set_dashes(_app, doctree):
    """Between a parameter and its description, where Sphinx sets two hyphens for smart quotes to make a dash of."""
    for text in list(doctree.findall(lambda node: isinstance(node, str) and node == " -- ")):
        text.parent.replace(text, type(text)(" \N{EN DASH} "))


def setup(app):
    app.connect("source-read", add_navigation)
    app.connect("autodoc-process-signature", hide_modules)
    app.connect("doctree-read", set_dashes)
