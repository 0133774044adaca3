"""Scripts as in AMD Quark's documentation work with other import lines."""

import contextlib
import re
import warnings

import numpy as np
import onnx
import onnxruntime.quantization as ort
import pytest
from models import is_as_measured
from package_helpers import Reader, outputs, sqnr_db

import bitpress
from bitpress.compat import Fate, Notice, quark
from bitpress.compat.quark import _presets, _words
from bitpress.compat.quark._translate import translate
from bitpress.compat.quark.onnx import ModelQuantizer, QConfig, QLayerConfig
from bitpress.compat.quark.onnx.quantization.config.config import Config, QuantizationConfig
from bitpress.compat.quark.onnx.quantization.config.custom_config import get_default_config

pytestmark = [pytest.mark.filterwarnings("ignore::bitpress.compat.Notice"), pytest.mark.usefixtures("one_thread")]


def run(config, model, tmp_path, data=None, operators="quark", **keywords):
    """Makes a model with ModelQuantizer, checks it with ONNX, and returns its path."""
    path = tmp_path / "out.onnx"
    assert ModelQuantizer(config, operators=operators).quantize_model(str(model), str(path), data, **keywords) is None
    onnx.checker.check_model(str(path), full_check=True)
    return path


def formats_of(path):
    return {weight.name: weight.held_format or weight.format for weight in bitpress.inspect(path).constants}


def quantizers_of(path):
    return bitpress.inspect(path).quantizers


PAIR = {"com.amd.quark::ExtendedQuantizeLinear", "com.amd.quark::ExtendedDequantizeLinear"}


def number_of(path, name):
    """Returns how many quantizers and products of a format a model has."""
    return sum(count for operator, count in bitpress.inspect(path).operators.items() if name in operator and "Unpack" not in operator)


@pytest.mark.quick
def test_the_microscaling_example(tmp_path, conv_path, images):
    from bitpress.compat.quark.onnx import ExtendedQuantFormat, ExtendedQuantType

    def configure(**attributes):
        return Config(global_quant_config=QuantizationConfig(
            calibrate_method=ort.CalibrationMethod.MinMax, quant_format=ExtendedQuantFormat.QDQ,
            activation_type=ExtendedQuantType.QMX, weight_type=ExtendedQuantType.QMX, **attributes))

    settings = {"MXAttributes": {"element_dtype": "fp8_e4m3", "axis": 1, "block_size": 32, "rounding_mode": 2}}
    path = run(configure(extra_options=settings), conv_path, tmp_path, Reader(images, "image"))
    x = {"image": images}
    wanted = outputs(conv_path, x)[0]
    assert is_as_measured(sqnr_db(wanted, outputs(path, x)[0]), 23.0)
    # Quark places quantizers around every operator, not only at the inputs of the four products.
    assert quantizers_of(path)["com.amd.quark::MXQuantizeDequantize"] > 6
    assert run(configure(), conv_path, tmp_path, operators="bitpress")
    assert "bitpress::QuantizeDequantize_mxint8" in quantizers_of(tmp_path / "out.onnx")
    plain = outputs(run(configure(extra_options=settings), conv_path, tmp_path), x)[0]
    tuning = {"DataSize": 100, "FixedSeed": 1705472343, "BatchSize": 2, "NumIterations": 1000, "LearningRate": 1e-5,
              "OptimAlgorithm": "adaquant", "OptimDevice": "cuda:0", "InferDevice": "cpu", "EarlyStop": True}
    tuned = run(configure(include_fast_ft=True, extra_options={**settings, "FastFinetune": tuning}), conv_path, tmp_path,
                Reader(images, "image"))
    assert sqnr_db(wanted, outputs(tuned, x)[0]) > sqnr_db(wanted, plain)


def test_the_bf16_example(tmp_path, conv_path, images):
    path = run(Config(global_quant_config=get_default_config("BF16")), conv_path, tmp_path)
    assert set(quantizers_of(path)) == PAIR
    assert formats_of(path)["project.weight"] == "bf16"
    cast = get_default_config("BF16")
    cast.extra_options["BF16QDQToCast"] = True
    path = run(Config(cast), conv_path, tmp_path)
    assert bitpress.inspect(path).operators["Cast"] > 4 and not quantizers_of(path)
    wanted = outputs(conv_path, {"image": images})[0]
    assert is_as_measured(sqnr_db(wanted, outputs(path, {"image": images})[0]), 50.8)


def test_the_mixed_precision_examples(tmp_path, conv_path, images):
    int8, int16 = quark.Int8Spec(), quark.Int16Spec()
    general = QLayerConfig(input_tensors=int8, weight=int8)
    special = QLayerConfig(input_tensors=int16, weight=int16, bias=int16, output_tensors=int16)
    cases = {
        "element-wise": (QConfig(QLayerConfig(int16, int8)), {"int16"}, {"int8"}),
        "by type": (QConfig(general, layer_type_config={special: ["Gemm"]}), {"int8", "int16"}, {"int8", "int16"}),
        "by layer": (QConfig(general, specific_layer_config={special: ["project", "^stem.*"]}), {"int8", "int16"}, {"int8", "int16"}),
        "by subgraph": (QConfig(general, specific_layer_config={special: [(["depthwise"], ["clip"])]}), {"int8", "int16"},
                        {"int8", "int16"}),
        "by tensor": (QConfig(general, extra_options={"TensorQuantOverrides": {"pooled": [{"quant_type": ort.QuantType.QInt16}]}}),
                      {"int8", "int16"}, {"int8"}),
        "excluded": (QConfig(general, layer_type_config={None: ["Gemm"]}, exclude=["^dep.*"]), {"int8"}, {"int8"}),
    }
    for name, (config, activations, weights) in cases.items():
        path = run(config, conv_path, tmp_path, Reader(images, "image"))
        plan = bitpress.plan(conv_path, quark._quantizer._config(translate(config)))
        found = {role: {row["format"] for row in plan.tensors if row["role"] == role} - {"none"} for role in ("activation", "weight")}
        assert (found["activation"], found["weight"]) == (activations, weights), name
        # 39.8 to 43.8 dB were measured. Quark's int8 weights may saturate on some processors, where quantizing says so.
        found = outputs(path, {"image": images}, on_integers=False)[0]
        assert is_as_measured(sqnr_db(outputs(conv_path, {"image": images})[0], found), 41.8), name


def test_automatic_mixed_precision_without_a_target(tmp_path, conv_path, images):
    legacy = get_default_config("BF16_MIXED_BFP16")
    path = run(Config(legacy), conv_path, tmp_path)
    assert set(quantizers_of(path)) == {*PAIR, "com.amd.quark::BFPQuantizeDequantize"}
    target = QLayerConfig(activation=quark.BFP16Spec(), weight=quark.BFP16Spec())
    config = QConfig(QLayerConfig(quark.BFloat16Spec(), quark.BFloat16Spec()),
                     algo_config=[quark.AutoMixprecisionConfig(target_layer_config=target, target_op_type=("Conv",), exclude_layers=["stem"])])
    assert set(quantizers_of(run(config, conv_path, tmp_path))) == set(quantizers_of(path))
    legacy.extra_options["AutoMixprecision"]["Top1AccTarget"] = 0.1
    with pytest.raises(bitpress.InvalidArgumentError, match="Top1AccTarget needs EvaluateFunction"):
        ModelQuantizer(Config(legacy))


def test_automatic_mixed_precision_with_a_target(tmp_path, conv_path, images):
    legacy = get_default_config("BF16_MIXED_BFP16")
    everything = number_of(run(Config(legacy), conv_path, tmp_path), "BFPQuantizeDequantize")
    legacy.extra_options["AutoMixprecision"]["L2Target"] = 0.09  # other targets: quark_mixed_test.py
    assert everything > number_of(run(Config(legacy), conv_path, tmp_path, Reader(images, "image")), "BFPQuantizeDequantize") > 0
    target = QLayerConfig(activation=quark.BFP16Spec(), weight=quark.BFP16Spec())
    amp = quark.AutoMixprecisionConfig(target_layer_config=target, metric_default="sqnr", metric_threshold=-25, data_size=8)
    path = run(QConfig(QLayerConfig(quark.BFloat16Spec(), quark.BFloat16Spec()), algo_config=[amp]), conv_path, tmp_path,
               Reader(images, "image"))
    assert sqnr_db(outputs(conv_path, {"image": images})[0], outputs(path, {"image": images})[0]) > 24
    for options, text in [({"target_op_type": ["Relu"]}, "Relu among"),
                          ({"target_layer_config": {target: ["stem"], QLayerConfig(weight=quark.MX6Spec()): []}}, "several target_layer")]:
        given = {"target_layer_config": target, "metric_threshold": 1, **options}
        with pytest.raises(bitpress.UnsupportedError, match=text):
            config = QConfig(QLayerConfig(quark.BFloat16Spec(), quark.BFloat16Spec()), algo_config=[quark.AutoMixprecisionConfig(**given)])
            run(config, conv_path, tmp_path, Reader(images, "image"))


def test_functions_measure_outputs(tmp_path, conv_path, images):
    """Layers get narrower formats as long as the user's function accepts the outputs of all samples."""
    wanted = outputs(conv_path, {"image": images})[0]
    shapes = []

    def closeness(output):
        shapes.append(output.shape)
        return -float(np.abs(output - wanted).mean())

    def narrow(loss):
        legacy = get_default_config("BF16_MIXED_BFP16")
        legacy.extra_options["AutoMixprecision"].update(Top1AccTarget=loss, EvaluateFunction=closeness, L2Target=1, DataSize=12)
        with pytest.warns(Notice, match="L2Target changes nothing"):
            quantizer = ModelQuantizer(Config(legacy))
        quantizer.quantize_model(str(conv_path), str(tmp_path / "out.onnx"), Reader(images, "image"))
        assert closeness(outputs(tmp_path / "out.onnx", {"image": images})[0]) >= -loss - 1e-6
        return number_of(tmp_path / "out.onnx", "BFPQuantizeDequantize")

    everything = number_of(run(Config(get_default_config("BF16_MIXED_BFP16")), conv_path, tmp_path), "BFPQuantizeDequantize")
    bound = -0.75 * closeness(outputs(tmp_path / "out.onnx", {"image": images})[0])
    assert everything > narrow(bound) > 0
    assert set(shapes) == {wanted.shape}
    target = QLayerConfig(activation=quark.BFP16Spec(), weight=quark.BFP16Spec())
    for function in ({"metric_evaluate_fn": closeness}, {"metric_distance_fn": lambda reference, output: np.abs(reference - output).mean()}):
        amp = quark.AutoMixprecisionConfig(target_layer_config=target, metric_threshold=bound, **function)
        path = run(QConfig(QLayerConfig(quark.BFloat16Spec(), quark.BFloat16Spec()), algo_config=[amp]), conv_path, tmp_path,
                   Reader(images, "image"))
        assert closeness(outputs(path, {"image": images})[0]) >= -bound - 1e-6
        assert 0 < number_of(path, "BFPQuantizeDequantize") < everything
    with pytest.warns(Notice, match="metric_distance_fn without metric_threshold changes nothing"):
        translate(QConfig(algo_config=[quark.AutoMixprecisionConfig(target_layer_config=target, metric_distance_fn=len)]))
    amp.metric_output_index = 3
    with pytest.raises(bitpress.InvalidArgumentError, match="no output 3; the model has 1"):
        run(QConfig(QLayerConfig(quark.BFloat16Spec(), quark.BFloat16Spec()), algo_config=[amp]), conv_path, tmp_path, Reader(images, "image"))


def test_integers_with_a_target_read_a_reader_once(tmp_path, conv_path, images):
    legacy = get_default_config("S16S16_MIXED_S8S8")
    legacy.extra_options["AutoMixprecision"]["L2Target"] = 1e3
    formats = set(formats_of(run(Config(legacy), conv_path, tmp_path, Reader(images, "image"))).values())
    assert "INT8" in formats and "INT16" in formats


# TUNED has, of names with a suffix, one of each kind of formats, scales and interface; a suffix adds the same words to all.
TUNED = {"XINT8_ADAROUND", "S8S8_AAWS_ADAROUND", "A16W8_ADAROUND", "S16S16_MIXED_S8S8_ADAROUND", "INT8_CNN_ACCURATE", "XINT8_ADAQUANT",
         "A8W8_ADAQUANT", "INT16_CNN_DEFAULT_ADAQUANT", "FP16_ADAQUANT", "BF16_ADAQUANT", "BFP16_ADAQUANT", "MX4_ADAQUANT",
         "MXFP8E4M3_ADAQUANT", "MXINT8_ADAQUANT", "BF16_MIXED_BFP16_ADAQUANT", "MX9_INT8_ADAQUANT", "A8W8_ADAROUND_QCONFIG",
         "XINT8_ADAQUANT_QCONFIG"}


def is_always_run(name):
    return name in TUNED or not any(word in name for word in ("ADAROUND", "ADAQUANT", "ACCURATE"))


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if is_always_run(name) else pytest.mark.scripts) for name in _presets.names()])
def test_every_named_configuration_gives_a_model_that_runs(name, tmp_path, conv_path, images):
    config = get_default_config(name)
    path = run(config if isinstance(config, QConfig) else Config(config), conv_path, tmp_path, Reader(images, "image"))
    x = {"image": images}
    wanted, found = outputs(conv_path, x)[0], outputs(path, x)[0]
    assert np.square(wanted - found).sum() < (3 if "4" in name else 0.4) * np.square(wanted).sum()


def test_a_suffix_adds_words_of_learning_to_a_named_configuration():
    names = [name for name in _presets.names() if name.endswith(("_ADAROUND", "_ADAQUANT"))]
    assert len(names) > 40 and TUNED <= set(_presets.names())
    for name in names:
        base, _, algorithm = name.rpartition("_")
        wanted = translate(get_default_config(base))
        wanted.settings |= {"finetune": algorithm.lower(), "finetune_samples": 1000, "finetune_rounds": 1000, "finetune_seed": 1705472343}
        assert translate(get_default_config(name)) == wanted, name


@pytest.mark.quick
def test_names_mean_what_quark_means():
    legacy = translate(get_default_config("MX6")).settings
    assert (legacy["placement"], legacy["scale"], legacy["biases"], legacy["activations"]) == ("all", "floor", "mx6", "mx6")
    assert legacy["equalize"] is True and translate(quark.BFP16_QCONFIG).settings["equalize"] is False
    assert translate(get_default_config("XINT8")).settings["activations"] == "uint8"
    assert translate(quark.XINT8_QCONFIG).settings["activations"] == "int8"
    assert translate(get_default_config("s8s8_aaws_adaround")).settings["activation_range"] == "percentile(99.9999)"
    assert translate(get_default_config("A8W8")).settings["activation_range"] == "min_max"
    assert translate(quark.A8W8_QCONFIG).settings["activation_range"] == "percentile(99.999)"
    with pytest.raises(bitpress.InvalidArgumentError, match="did you mean 'MXFP8E4M3'"):
        get_default_config("MXFP8_E4M3")


@pytest.fixture(scope="module")
def quarks_twin(shared, tmp_path_factory):
    """EfficientNet-Lite0 in MXFP8E4M3, made by Quark and by the same script here, in the small form."""
    path = tmp_path_factory.mktemp("twin") / "mine.onnx"
    config = Config(get_default_config("MXFP8E4M3"))
    ModelQuantizer(config, operators="bitpress").quantize_model(str(shared / "models" / "efficientnet_lite0.onnx"), str(path))
    return shared / "models" / "quark" / "efficientnet_lite0_mxfp8e4m3.onnx", path


def test_weights_equal_quarks_bit_for_bit(quarks_twin, tmp_path):
    quarks, mine = quarks_twin
    bitpress.unpack(mine, tmp_path / "floats.onnx")
    found = {item.name: onnx.numpy_helper.to_array(item) for item in onnx.load(tmp_path / "floats.onnx").graph.initializer}
    model = onnx.load(quarks)
    constants = {item.name: onnx.numpy_helper.to_array(item) for item in model.graph.initializer}
    compared = 0
    for node in model.graph.node:
        if node.op_type != "MXQuantizeDequantize" or node.input[0] not in constants:
            continue
        weight = constants[node.input[0]]
        axis = min(next(item.i for item in node.attribute if item.name == "axis"), weight.ndim - 1)
        wanted = bitpress.formats.quantize_dequantize(weight, "mxfp8_e4m3", axis=axis)
        np.testing.assert_array_equal(found[node.input[0]], wanted, node.input[0])
        compared += 1
    assert compared == 100


def test_outputs_equal_quarks(quarks_twin, tmp_path):
    quarks, mine = quarks_twin
    recorded = np.load(quarks.with_suffix(".npz"))
    x = {"input": recorded["input"]}
    wanted = outputs(quarks, x)[0]
    # Sums in another order change a rounding now and then, and later layers with it. With ONNX Runtime's convolutions, as in Quark's
    # model, 92.8 % of the logits were equal on 2026-11-22, and all together had 33.5 dB; with ours on a processor with AMX 85.5 % on
    # 2026-11-27. With other scales, places or element types it is at most 6 % and 7.5 dB.
    bitpress.unpack(mine, tmp_path / "floats.onnx")
    for path, least in ((tmp_path / "floats.onnx", 0.9), (mine, 0.8)):
        found = outputs(path, x)[0]
        assert np.mean(found == wanted) > least and sqnr_db(wanted, found) > 30, path
        assert (found.argmax(1) == recorded["logits"].argmax(1)).all()


def test_products_with_weights_in_blocks(tmp_path, matmul_path, sequences):
    path = run(Config(get_default_config("MATMUL_NBITS")), matmul_path, tmp_path)
    assert bitpress.inspect(path).operators["com.microsoft::MatMulNBits"] == 2
    assert is_as_measured(sqnr_db(outputs(matmul_path, {"x": sequences})[0], outputs(path, {"x": sequences})[0]), 11.0)


def test_block_formats_of_attributes():
    def settings(**options):
        config = QuantizationConfig(activation_type=quark.ExtendedQuantType.QBFP, weight_type=quark.ExtendedQuantType.QBFP,
                                    extra_options=options)
        return translate(config).settings

    assert settings()["activations"] == "bfp16"
    prime = {"bfp_method": "to_bfp_prime_shared", "bit_width": 13, "block_size": 16, "sub_block_size": 2, "sub_block_shift_bits": 1}
    assert settings(BFPAttributes=prime)["weights"] == "mx6"
    other = settings(BFPAttributes={"bit_width": 13, "block_size": 32, "rounding_mode": 0})
    assert other["weights"] == "bfp(bits=13, block=32)" and other["weight_rounding"] == "half_away_from_zero"
    assert bitpress.formats.find(other["weights"]).block_size == 32
    for attributes, text in [({"bit_width": 9, "bfp_method": "to_bfp_prime"}, "bit_width=9 is not allowed; expected .* from 10 to 32"), ({"axis": "0"}, "axis='0'"),
                             ({"blocksize": 8}, "did you mean 'block_size'")]:
        with pytest.raises(bitpress.Error, match=text):
            settings(BFPAttributes=attributes)


def test_data_come_in_all_of_quarks_ways(tmp_path, conv_path, images):
    config = Config(get_default_config("A8W8"))
    wanted = run(config, conv_path, tmp_path, Reader(images, "image")).read_bytes()
    folder = tmp_path / "arrays"
    folder.mkdir()
    for i, image in enumerate(images):
        np.save(folder / f"{i:02}.npy", image[None])
    assert run(config, conv_path, tmp_path, calibration_data_path=str(folder)).read_bytes() == wanted
    model = ModelQuantizer(config).quantize_model(onnx.load(conv_path), None, Reader(images, "image"))
    assert model.SerializeToString() == onnx.load_from_string(wanted).SerializeToString()
    random = get_default_config("A8W8")
    random.extra_options.update(UseRandomData=True, RandomDataReaderInputDataRange={"image": [-1, 1]})
    assert run(Config(random), conv_path, tmp_path).read_bytes() != wanted
    random.extra_options["RandomDataReaderInputDataRange"] = {}
    with pytest.raises(bitpress.InvalidArgumentError, match="lacks the input 'image'"):
        run(Config(random), conv_path, tmp_path)


def test_selections(tmp_path, conv_path, images):
    def quantizers(**fields):
        path = run(Config(QuantizationConfig(**{"include_cle": False, **fields})), conv_path, tmp_path, Reader(images, "image"))
        return bitpress.inspect(path).operators.get("QuantizeLinear", 0)

    everything = quantizers()
    for fields in ({"op_types_to_quantize": ["Conv"]}, {"nodes_to_quantize": ["project"]}, {"nodes_to_exclude": ["head", "^dep.*"]},
                   {"subgraphs_to_exclude": [(["depthwise"], ["project"])]}):
        assert 0 < quantizers(**fields) < everything, fields
    everywhere = {"op_types_to_quantize": sorted(bitpress.inspect(conv_path).operators), "nodes_to_exclude": ["hed"]}
    with pytest.warns(Notice, match="passed over: .*'hed' matches no node's name in the model .did you mean 'head'"):
        assert quantizers(**everywhere) == everything
    assert quantizers(extra_options={"WeightsOnly": True}) == 0
    assert "INT8" in formats_of(tmp_path / "out.onnx").values()


def asking_something(word):
    """A value that a word takes, and that is none of its neutral ones."""
    for value in ("something else", True, False, 7, 0.25, 99.5, ["Conv"], {"Conv": 1}, [99.0, 99.9], "mae", "MostCommon", "HistCenter", "accuracy"):
        with contextlib.suppress(bitpress.Error):
            if word.takes is not None:
                word.takes.check(value, word.name)
            if not any(type(value) is type(asks) and value == asks for asks in word.neutral):
                return value
    return None  # the word takes neutral values only


def test_every_word_has_its_fate():
    """No word is dropped silently: refused words raise, and a notice names those that change nothing."""
    for title, words in _words.TABLES.items():
        for word in words.values():
            assert (word.fate is Fate.REFUSED) == bool(word.nearest), (title, word.name)
            assert word.text, (title, word.name)
    for word in _words.OPTIONS.values():
        value = asking_something(word)
        if value is None:
            assert word.fate is Fate.HONOURED or len(word.neutral) > 1, word.name
            continue
        config = QuantizationConfig(extra_options={word.name: value})
        if word.fate is Fate.REFUSED:
            with pytest.raises(bitpress.UnsupportedError, match=re.escape(f"{word.name}={value!r} is refused") + ".*Instead: "):
                translate(config)
        elif word.fate is Fate.NOTICE:
            with pytest.warns(Notice, match=re.escape(f"{word.name}={value!r} changes nothing here: ")):
                translate(config)
    with pytest.warns(Notice, match="no 'Percentil'; it changes nothing. Did you mean 'Percentile'"):  # a warning in Quark, too
        translate(QuantizationConfig(extra_options={"Percentil": 99}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        translate(QuantizationConfig())
        translate(QConfig())


def test_fine_tuning_words():
    def request(**fields):
        return translate(QuantizationConfig(weight_type=quark.ExtendedQuantType.QBFloat16, **fields))

    given = {"OptimAlgorithm": "adaquant", "DataSize": 100}
    with pytest.warns(Notice, match="without include_fast_ft=True: weights are fine-tuned"):
        tuned = request(extra_options={"FastFinetune": given})
    assert tuned.settings["finetune"] == "adaquant" and tuned.settings["finetune_samples"] == 100
    with pytest.warns(Notice, match="nothing is fine-tuned"):
        assert "finetune" not in request(include_fast_ft=False, extra_options={"FastFinetune": given}).settings
    with pytest.raises(bitpress.UnsupportedError, match="adaround.*bf16.*adaquant"):
        request(include_fast_ft=True, extra_options={"FastFinetune": {"OptimAlgorithm": "adaround"}})
    with pytest.warns(Notice, match="QBloat16 is taken as QBFloat16"):
        translate(QuantizationConfig(activation_type=quark.ExtendedQuantType.QBloat16))


def test_words_of_learning_have_one_table():
    """Options in both spellings are honoured and refused as by `bitpress quantize --finetune-option`, and set the same settings."""
    assert set(_words.FAST_FINETUNE) >= {"NumIterations", "LRAdjust", "OutputQDQ", "UseGDS"}
    assert set(_words.FINETUNE) >= {"num_iterations", "lr_adjust", "output_qdq", "use_gds"}
    for old, new in zip([word for name, word in _words.FAST_FINETUNE.items() if name != "OptimAlgorithm"], _words.FINETUNE.values()):
        assert (old.fate, old.text) == (new.fate, new.text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = {"OptimAlgorithm": "adaquant", "NumIterations": 7, "TargetOpType": ("Conv",), "DataSize": 1_000_000_000, "OptimDevice": "cpu"}
        request = translate(QuantizationConfig(include_fast_ft=True, extra_options={"FastFinetune": given}))
        assert request.settings["finetune_rounds"] == 7 and request.settings["finetune_op_types"] == ["Conv"]
        assert "finetune_samples" not in request.settings
        gptq = quark.GPTQConfig(perc_damp=0.05, act_order=False, mse=True, block_size=128)
        settings = translate(QConfig(algo_config=[gptq])).settings
    assert (settings["finetune_ridge"], settings["finetune_activation_order"]) == (0.05, False)
    assert settings["finetune"] == "clip_search+gptq+bias_correction"
    with pytest.raises(bitpress.UnsupportedError, match="ref_model_path='x.onnx' is refused: the float model.*Instead: quantize that one"):
        translate(QConfig(algo_config=[quark.AdaRoundConfig(ref_model_path="x.onnx")]))


def test_only_what_lies_between_is_quantized(tmp_path, conv_path):
    def count(**fields):
        config = QuantizationConfig(activation_type=quark.ExtendedQuantType.QFloat16, weight_type=quark.ExtendedQuantType.QFloat16, **fields)
        return quantizers_of(run(Config(config), conv_path, tmp_path, operators="bitpress"))["bitpress::QuantizeDequantize_fp16"]

    everything = count()
    behind, before = count(input_nodes=["head"]), count(output_nodes=["stem"])
    assert min(behind, before) > 0 and behind + before < everything
    assert behind + before < count(input_nodes=["stem"], output_nodes=["head"]) <= everything
    with pytest.raises(bitpress.InvalidArgumentError, match="'heads'.*did you mean"):
        count(input_nodes=["heads"])


def test_specifications_by_position():
    wide, narrow = quark.Int16Spec(), quark.Int8Spec()
    layer = QLayerConfig(wide, narrow)  # older versions
    assert (layer.inputs, layer.weight, layer.bias) == (wide, narrow, None)
    layer = QLayerConfig(None, wide, narrow)  # newer ones
    assert (layer.inputs, layer.weight, layer.bias) == (wide, narrow, None)
    layer = QLayerConfig(wide, None, narrow, wide)
    assert (layer.inputs, layer.weight, layer.bias) == (wide, narrow, wide)
    assert vars(QLayerConfig(wide, weight=narrow)) == vars(QLayerConfig(wide, narrow))
    assert QLayerConfig(None, wide, weight=narrow).inputs == wide
    with pytest.raises(TypeError, match="write weight=... or input_tensors=..."):
        QLayerConfig(None, narrow)
    with pytest.raises(ValueError, match="input_tensors and activation"):
        QLayerConfig(wide, narrow, wide)
    for wrong, error in (({"wieght": wide}, "no 'wieght'; did you mean 'weight'"), ({"input_tensors": wide}, "two specifications named")):
        with pytest.raises(TypeError, match=error):
            QLayerConfig(wide, **wrong)
    with pytest.raises(TypeError, match="takes 5"):
        QLayerConfig(*[None] * 6)


def test_configurations_are_plain_data_both_ways():
    layer = QLayerConfig(quark.BFP16Spec(), quark.Int8Spec(quant_granularity=quark.QuantGranularity.Channel))
    config = QConfig(layer, {layer: ["a", (["b"], ["c"])]}, {None: ["Gemm"], layer: ["Conv"]}, ["^x.*"],
                     [quark.AdaQuantConfig(data_size=5)], True, {"Percentile": 99.9}, CalibDataSize=7)
    again = QConfig.from_dict(config.to_dict())
    assert again.to_dict() == config.to_dict() and translate(again) == translate(config)


def test_the_operator_library():
    assert quark.get_library_path("cpu") == bitpress.get_library_path() == quark.get_library_path()
    with pytest.warns(Notice, match="the operators run on the CPU"):
        assert quark.get_library_path("ROCM") == bitpress.get_library_path()
    with pytest.warns(Notice, match="on the GPU in sessions with CUDAExecutionProvider"):
        assert quark.get_library_path("CUDA") == bitpress.get_library_path()
    with pytest.raises(bitpress.InvalidArgumentError, match="CPU, CUDA, ROCM"):
        quark.get_library_path("TPU")


def test_public_names_are_there():
    import importlib

    for module in ("", ".onnx", ".onnx.quantization", ".onnx.quantization.api", ".onnx.quantization.config.spec", ".onnx.calibration",
                   ".onnx.quantization.config.algorithm", ".onnx.quantization.quant_utils", ".onnx.operators.custom_ops"):
        found = importlib.import_module("bitpress.compat.quark" + module)
        assert all(hasattr(found, name) for name in found.__all__)
