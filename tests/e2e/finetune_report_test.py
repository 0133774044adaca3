"""Fine-tuning reports how many samples it learned from, which layers were left alone, and what is missing or wrong."""

import models
import numpy as np
import onnx
import onnxruntime
from models import smooth_images as images
from onnx import helper, numpy_helper


def test_options_of_other_tools(conv_path, photos, tmp_path, bitpress):
    arguments = ["quantize", conv_path, "-o", tmp_path / "q.onnx", "--config", "MX6", "--data", photos]
    options = ["OptimAlgorithm=adaquant", "num_iterations=3", "TargetOpType=Gemm", "LearningRate=1e-5"]
    text = bitpress.ok(*arguments, *[word for option in options for word in ("--finetune-option", option)])
    assert "Conv is not in finetune_op_types" in text and "LearningRate=1e-5 changes nothing" in text
    failed = bitpress.run(*arguments, "--finetune-option", "RefModelPath=x.onnx")
    assert failed.returncode == 1 and "is the reference" in failed.stderr


def test_a_layer_that_never_runs_keeps_its_weights(tmp_path, bitpress, photos):
    """The layer's input is empty, so that no position reaches it."""
    model = models.conv_model()
    node = helper.make_node
    model.graph.initializer.extend([
        numpy_helper.from_array(np.array([0], np.int64), "begin"),
        numpy_helper.from_array(np.ones((4, 1200), np.float32), "idle.weight"),
    ])
    model.graph.node.extend([
        node("Flatten", ["image"], ["row"], "make_row"),
        node("Slice", ["row", "begin", "begin", "begin"], ["nothing"], "slice"),
        node("Gemm", ["nothing", "idle.weight"], ["idle"], "idle", transB=1),
    ])
    model.graph.output.append(helper.make_tensor_value_info("idle", onnx.TensorProto.FLOAT, ["rows", 4]))
    path = models.save(model, tmp_path / "idle.onnx")
    result = bitpress.ok("quantize", path, "-o", tmp_path / "q.onnx", "--config", "MX6", "--finetune", "gptq", "--data", photos)
    assert "'idle': not tuned: it never ran" in result


def test_a_nan_in_one_sample_is_left_out(conv_path, photos, tmp_path, bitpress):
    broken = np.load(photos / "00.npy")
    broken[0, 1, 3, 3] = np.nan
    np.save(photos / "00.npy", broken)
    result = bitpress.ok("quantize", conv_path, "-o", tmp_path / "q.onnx", "--config", "MX6", "--finetune", "gptq", "--data", photos)
    assert "positions with NaN, infinity or numbers above 7e16 left out" in result
    session = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), providers=["CPUExecutionProvider"])
    assert np.isfinite(session.run(None, {"image": images(2, 8)})[0]).all()


def test_the_validation_samples_are_said(conv_path, photos, tmp_path, bitpress):
    def quantize(*arguments):
        report = tmp_path / "page.html"
        text = bitpress.ok("quantize", conv_path, "-o", tmp_path / "q.onnx", "--config", "MX4", "--finetune", "gptq", "--data",
                           photos, "--report", report, *arguments)
        return text, report.read_text().replace(" ", "")

    for arguments, samples, said in [(["--samples", "7"], "halves", "the other half of the samples"), ([], "held_back", "held-back samples"),
                                   (["--set", "finetune_hold_back=0"], "learned", "4 of 4 layers were validated on the samples that they learned from only")]:
        text, page = quantize(*arguments)
        assert said in text and f'"validated_on":"{samples}"' in page
        assert samples == "learned" or "network:     SQNR of its outputs +" in text


def test_what_is_missing_or_wrong_is_said(conv_path, photos, tmp_path, bitpress):
    output = tmp_path / "q.onnx"
    failed = bitpress.run("quantize", conv_path, "-o", output, "--config", "MX6_ADAQUANT")
    assert failed.returncode == 1 and "give samples (--data; for photos also --image)" in failed.stderr
    failed = bitpress.run("quantize", conv_path, "-o", output, "--config", "BF16_ADAROUND", "--data", photos)
    assert failed.returncode == 1 and "no rounding to learn" in failed.stderr
    failed = bitpress.run("quantize", conv_path, "-o", output, "--config", "MX6", "--data", photos, "--finetune", "adaquan")
    assert failed.returncode == 1 and "did you mean 'adaquant'" in failed.stderr
    failed = bitpress.run("quantize", conv_path, "-o", output, "--config", "MX7_ADAQUANT", "--data", photos)
    assert failed.returncode == 1 and "MX7" in failed.stderr
    assert not output.exists()
