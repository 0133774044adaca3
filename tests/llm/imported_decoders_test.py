"""`quantize --weights-from` on whole decoders: a model made of the float checkpoint takes the codes of a GGUF file, and computes what a
model made of that file computes."""

import make_decoder
import numpy as np
import onnxruntime
import pytest
from gguf import GGMLQuantizationType
from gguf_files import save_gguf
from make_decoder_test import IDS, run
from tiny_decoders import ARCHITECTURES, TinyDecoder


@pytest.mark.parametrize("form", ["plain", "genai", "attention"])
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_decoder_takes_the_codes_of_a_gguf_file(bitpress, tmp_path, kind, form):
    decoder = TinyDecoder(kind)
    make_decoder.make(decoder.save_checkpoint(tmp_path / "checkpoint"), tmp_path / "made")
    source = save_gguf(decoder, tmp_path / "model.gguf", kind_of_blocks=GGMLQuantizationType.Q4_1)
    make_decoder.make(source, tmp_path / "dequantized")
    output = tmp_path / "quantized.onnx"
    text = bitpress.ok("quantize", tmp_path / "made" / f"{form}.onnx", "-o", output, "--weights-from", source, "--target", "onnxruntime",
                       "--accuracy-level", "1")
    # The rows of mlp.down_proj are no whole blocks, and stay float in the file.
    assert "weights with every code of the file" in text and "3 without its codes: F32 as float, the file has floats" in text
    found, wanted = (run(onnxruntime.InferenceSession(str(path)), IDS)[0] for path in (output, tmp_path / "dequantized" / f"{form}.onnx"))
    np.testing.assert_allclose(found, wanted, atol=5e-5)
