"""TensorQuantOverrides gives single tensors types, and scales and zero points as numbers: one, or one for each channel of a weight."""

import models
import numpy as np
import onnx
import pytest
from package_helpers import Rewinding

import bitpress
from bitpress.compat import Notice
from bitpress.compat.quark.onnx import ExtendedQuantType, ModelQuantizer
from bitpress.compat.quark.onnx.quantization.config.config import QuantizationConfig

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("one_thread")]
Q = ExtendedQuantType
CLASSES = models.NUM_CLASSES


def made(overrides, model, images, **fields):
    config = QuantizationConfig(activation_type=Q.QUInt8, weight_type=Q.QInt8, extra_options={"TensorQuantOverrides": overrides}, **fields)
    graph = ModelQuantizer(config).quantize_model(str(model), None, Rewinding(images, "image")).graph
    return {item.name: onnx.numpy_helper.to_array(item) for item in graph.initializer}


def gemm_weight(model):
    """The name and number of channels of the weight of the last product."""
    row = next(row for row in bitpress.plan(model, "int8").tensors if row["role"] == "weight" and row["uses"][0]["op_type"] == "Gemm")
    return row["value"]


def test_one_scale(conv_path, images):
    found = made({"pooled": [{"scale": 0.125, "zero_point": 7}]}, conv_path, images)
    assert (found["pooled_scale"], found["pooled_zero_point"]) == (np.float32(0.125), 7)
    found = made({"pooled": [{"rmin": -1.0, "rmax": 4.1}]}, conv_path, images)
    assert (found["pooled_scale"], found["pooled_zero_point"]) == (np.float32(5.1 / 255), 50)
    found = made({"pooled": [{"quant_type": Q.QInt8, "symmetric": True, "rmin": -1.0, "rmax": 2.54}]}, conv_path, images)
    assert (found["pooled_scale"], found["pooled_zero_point"]) == (np.float32(2 * 2.54 / 254), 0)


def test_scales_of_channels(conv_path, images):
    weight = gemm_weight(conv_path)
    scales = [2.0**-(4 + channel % 3) for channel in range(CLASSES)]
    found = made({weight: [{"scale": scale, "zero_point": 0} for scale in scales]}, conv_path, images)
    np.testing.assert_array_equal(found[f"{weight}_scale"], np.array(scales, np.float32))
    ranges = [{"rmin": -scale, "rmax": scale, "symmetric": True} for scale in scales]
    np.testing.assert_allclose(made({weight: ranges}, conv_path, images)[f"{weight}_scale"], np.array(scales) / 127, rtol=1e-6)


@pytest.mark.parametrize("overrides, text", [
    ([{"scale": 0.5}], "expected both scale and zero_point, or both rmin and rmax"),
    ([{"scale": 0.5, "zero_point": 0, "rmax": 1}], "expected both scale and zero_point"),
    ([{"scale": 0.5, "zero_point": 0}, {"symmetric": True}], "expected both scale and zero_point"),
    ([{"symmetric": True}, {"symmetric": True}], "2 dicts, one for each channel, need numbers"),
    ([{"scale": "0.5", "zero_point": 0}], "scale='0.5' is str"),
    ([{"scale": -1, "zero_point": 0}], "scale=-1 is not allowed"),
])
def test_numbers_come_in_pairs(overrides, text):
    with pytest.raises(bitpress.Error, match=r"TensorQuantOverrides\['pooled'\].*" + text):
        ModelQuantizer(QuantizationConfig(extra_options={"TensorQuantOverrides": {"pooled": overrides}}))


def test_tensors_that_the_model_has_not_are_said(conv_path, images):
    with pytest.warns(Notice, match="passed over: TensorQuantOverrides: the model has no 'poled' in integers"):
        made({"poled": [{"scale": 0.5, "zero_point": 0}]}, conv_path, images)
    bias = next(row["value"] for row in bitpress.plan(conv_path, "int8").tensors if row["role"] == "bias")
    with pytest.warns(Notice, match=f"passed over: TensorQuantOverrides: '{bias}' is a bias, whose scale is that of the products"):
        made({bias: [{"scale": 0.5, "zero_point": 0}]}, conv_path, images)
