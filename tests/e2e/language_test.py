"""Language models: token ids are all that a user gives, and evaluate tells how well tokens are predicted."""

import json

import decoder
import models
import numpy as np
import onnx
import pytest


@pytest.fixture
def float_path(tmp_path):
    return models.save(decoder.make(), tmp_path / "decoder.onnx")


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.npy"
    np.save(path, decoder.token_ids(200))
    return path


# With more threads the results are the same, and these small models take longer.
ONE_THREAD = ["--threads", "1"]


def report(bitpress, tmp_path, *arguments):
    path = tmp_path / "report.json"
    bitpress.ok("evaluate", *arguments, "--json", path, *ONE_THREAD)
    return json.loads(path.read_text())


def log_probabilities(run_model, path, pieces):
    """The logarithms of the predictions for each token but the first of a piece, by our own arithmetic."""
    logits = run_model(path, decoder.feeds(pieces))[0].astype(np.float64)[:, :-1]
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def next_ones(logs, pieces):
    return np.take_along_axis(logs, pieces[:, 1:, None], -1)


@pytest.mark.quick
def test_perplexity_and_divergence_are_the_stated_ones(float_path, tokens, tmp_path, bitpress, run_model):
    quantized = tmp_path / "mx6.onnx"
    bitpress.ok("quantize", float_path, "-o", quantized, "--config", "MX6")
    found = report(bitpress, tmp_path, quantized, "--reference", float_path, "--tokens", tokens, "--sequence", 16)
    pieces = np.load(tokens)[:192].reshape(12, 16)
    wanted, logs = (log_probabilities(run_model, path, pieces) for path in (float_path, quantized))
    divergence = np.sort((np.exp(wanted) * (wanted - logs)).sum(-1).ravel())
    language = found["language"]
    assert found["num_samples"] == 12
    assert language["num_tokens"] == 12 * 15
    assert language["perplexity"] == pytest.approx(np.exp(-next_ones(logs, pieces).mean()), rel=1e-4)
    assert language["reference_perplexity"] == pytest.approx(np.exp(-next_ones(wanted, pieces).mean()), rel=1e-5)
    assert language["mean_divergence"] == pytest.approx(divergence.mean(), rel=1e-3)
    assert language["divergence_99"] == pytest.approx(divergence[int(np.ceil(0.99 * 180)) - 1], rel=1e-3)
    assert language["agreement"] == pytest.approx((logs.argmax(-1) == wanted.argmax(-1)).mean())
    assert 0 < language["mean_divergence"] < language["divergence_99"]
    assert found["sqnr_db"] > 5 and len(found["outputs"]) == 1 + 2 * decoder.LAYERS


def test_decoding_continues_the_prompt_with_the_cache(float_path, tokens, tmp_path, bitpress, sessions):
    decoding = report(bitpress, tmp_path, float_path, "--reference", float_path, "--tokens", tokens,
                      "--sequence", 100)["language"]["decoding"]
    assert decoding["prompt_length"] == 50 and decoding["num_tokens"] == decoding["num_same"] == 50
    assert decoding["tokens_per_s"] > 0
    quantized = tmp_path / "mx4.onnx"
    bitpress.ok("quantize", float_path, "-o", quantized, "--config", "MX4")
    decoding = report(bitpress, tmp_path, quantized, "--reference", float_path, "--tokens", tokens,
                      "--sequence", 100)["language"]["decoding"]

    def continued(path):
        session, ids = sessions(path)[0], np.load(tokens)[None, :50]
        for _ in range(50):  # without a cache
            ids = np.append(ids, session.run(None, decoder.feeds(ids))[0][:, -1:].argmax(-1), axis=1)
        return ids[0, 50:]

    same = continued(float_path) == continued(quantized)
    assert not same.all()
    assert decoding["num_same"] == int(np.argmin(same))


def test_the_text_report_says_it(float_path, tokens, bitpress):
    text = bitpress.ok("evaluate", float_path, "--tokens", tokens, "--sequence", 32, "--samples", 3)
    assert "3 samples" in text and "of 93 tokens" in text and "decoding" in text and "memory" in text


def test_every_step_takes_tokens(float_path, tokens, tmp_path, bitpress):
    stats, plan = tmp_path / "stats.bpc", tmp_path / "plan.json"
    bitpress.ok("calibrate", float_path, "--tokens", tokens, "--sequence", 20, "-o", stats)
    assert "10 samples" in bitpress.ok("inspect", stats)
    tuned, learned = tmp_path / "tuned.onnx", tmp_path / "learn.npy"
    np.save(learned, decoder.token_ids(2000, seed=8))
    arguments = ["--config", "MX4", "--activations", "none", "--tokens", learned, "--sequence", 20, *ONE_THREAD]
    bitpress.ok("quantize", float_path, "-o", tuned, *arguments, "--finetune", "gptq")
    rounded = tmp_path / "rounded.onnx"
    bitpress.ok("quantize", float_path, "-o", rounded, *arguments)
    losses = [report(bitpress, tmp_path, path, "--reference", float_path, "--tokens", tokens, "--sequence", 20)["language"]["mean_divergence"]
              for path in (tuned, rounded)]
    assert losses[0] < losses[1]
    page = tmp_path / "search.json"
    bitpress.ok("search", float_path, "--candidates", "mx9,mx4", "--target", "divergence<=0.02", "-o", plan, "--tokens", tokens,
                "--sequence", 20, "--json", page, *ONE_THREAD)
    found = [point["measured"] for point in json.loads(page.read_text())["front"] if point.get("measured")]
    assert any(point["divergence"] <= 0.02 for point in found) and all(0 < point["agreement"] <= 1 for point in found)
    bitpress.ok("check", tuned, "--tokens", tokens)
    bitpress.ok("report", tuned, "--reference", float_path, "-o", tmp_path / "page.html", "--tokens", tokens, "--sequence", 20,
                *ONE_THREAD)


def test_a_language_model_is_checked_on_made_up_tokens(float_path, tmp_path, bitpress):
    # With all unknown dimensions as 1, the mask would have one column and the keys two positions.
    text = bitpress.checking.ok("quantize", float_path, "-o", tmp_path / "mx6.onnx", "--config", "MX6")
    assert "loads and runs" in text
    bitpress.ok("check", tmp_path / "mx6.onnx", "--json", tmp_path / "check.json")
    found = json.loads((tmp_path / "check.json").read_text())
    assert found["is_run"] and found["is_made_up"]


@pytest.mark.parametrize("arguments, message", [
    (["--tokens", "TOKENS", "--data", "."], "give one of --data, --tokens and --text"),
    (["--text", "a.txt"], "--text needs --tokenizer"),
    (["--tokens", "TOKENS", "--tokenizer", "a.json"], "--tokenizer is for --text"),
    (["--tokens", "TOKENS", "--encoding", "latin-1"], "--encoding is for --text"),
    (["--tokens", "TOKENS", "--image", "crop=2"], "--labels and --image are for --data"),
    (["--data", ".", "--sequence", "16"], "--sequence is for --tokens and --text"),
    (["--tokens", "missing.npy"], "missing.npy"),
    (["--tokens", "TOKENS", "--sequence", "1"], "--sequence"),
    ([], "--data, --tokens or --text is required"),
    (["--text", "a.txt", "--tokenizer", "b.json"], "needs the command of the Python package"),
])
def test_wrong_options_are_named(float_path, tokens, bitpress, arguments, message):
    given = [tokens if argument == "TOKENS" else argument for argument in arguments]
    assert message in bitpress.error("evaluate", float_path, *given)


def test_inputs_that_do_not_follow_are_named(tokens, tmp_path, bitpress):
    model = decoder.make()
    model.graph.input.append(onnx.helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["N", 3]))
    path = tmp_path / "with_image.onnx"
    path.write_bytes(model.SerializeToString())
    assert "input 'image' does not follow from token ids" in bitpress.error("evaluate", path, "--tokens", tokens)


def test_tokens_beyond_the_vocabulary_are_an_error(float_path, tmp_path, bitpress):
    path = tmp_path / "large.npy"
    np.save(path, np.array([1, 2, 500], np.int64))
    assert "500" in bitpress.error("evaluate", float_path, "--tokens", path)


def test_sensitivities_are_the_divergence_of_the_next_token(float_path, tokens, tmp_path, bitpress):
    out = tmp_path / "sensitivity.json"
    text = bitpress.ok("sensitivity", float_path, "--candidates", "mx6,mxfp4_e2m1", "--method", "both", "--tokens", tokens,
                       "--sequence", 16, "-o", out, *ONE_THREAD)
    assert "Divergence of the predicted tokens" in text and "nats" in text
    found = json.loads(out.read_text())
    assert found["num_samples"] == 2
    layer = found["layers"][2]
    assert layer["is_divergence"] and "noise" not in layer["parts"][0]["exact"]
    quantized = tmp_path / "one.onnx"
    others = ";".join(other["node"] for other in found["layers"] if other is not layer)
    bitpress.ok("quantize", float_path, "-o", quantized, "--config", "MXFP4E2M1", "--set", f"exclude_nodes={others}",
                "--set", "embeddings=none")
    np.save(tmp_path / "two.npy", np.load(tokens)[:32])
    language = report(bitpress, tmp_path, quantized, "--reference", float_path, "--tokens", tmp_path / "two.npy", "--sequence", 16)["language"]
    exact = layer["parts"][1]["exact"]
    assert exact["divergence"] == pytest.approx(language["mean_divergence"], rel=1e-4)
    assert exact["agreement"] == pytest.approx(language["agreement"])
    assert layer["parts"][1]["fast"]["divergence"] == pytest.approx(exact["divergence"], rel=0.5)


def test_a_search_predicts_divergence(float_path, tokens, tmp_path, bitpress):
    plan, out, picture = tmp_path / "plan.json", tmp_path / "search.json", tmp_path / "front.svg"
    text = bitpress.ok("search", float_path, "--candidates", "mx9,mx6,mxfp4_e2m1", "--tokens", tokens, "--sequence", 16, "--budget",
                       "bits<=6", "-o", plan, "--json", out, "--svg", picture, *ONE_THREAD)
    assert "nats" in text and "divergence" in picture.read_text()
    found = json.loads(out.read_text())
    chosen = found["front"][found["chosen"]]
    assert chosen["predicted_divergence"] == pytest.approx(chosen["measured"]["divergence"], rel=0.6)
    # Without tokens that are predicted, there is only the error of all outputs.
    assert "predicted_sqnr_db" not in chosen
