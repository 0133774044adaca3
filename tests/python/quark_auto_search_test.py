"""AutoSearch, SearchSpace and AutoSearchPro of Quark's scripts."""

import json

import numpy as np
import pytest
from package_helpers import Reader, outputs, sqnr_db

import bitpress
from bitpress.compat import Notice
from bitpress.compat.quark import _search_metrics
from bitpress.compat.quark import onnx as q
from bitpress.compat.quark._spaces import spread, with_points

pytestmark = [pytest.mark.filterwarnings("ignore::bitpress.compat.Notice"), pytest.mark.filterwarnings("ignore::bitpress.QuantizationWarning"),
              pytest.mark.usefixtures("one_thread")]


@pytest.mark.quick
def test_a_space_of_the_older_interface():
    space = {"calibrate_method": [q.CalibrationMethod.MinMax, q.PowerOfTwoMethod.MinMSE], "include_fast_ft": [True],
             "extra_options": {"ActivationSymmetric": [True, False], "FastFinetune": {"NumIterLR": [[10, 0.1], [20, 0.2]]}}}
    made = q.SearchSpace(space).get_all_configs()
    assert len(made) == 8
    assert made[0] == {"calibrate_method": q.CalibrationMethod.MinMax, "include_fast_ft": True, "extra_options": {
        "ActivationSymmetric": True, "FastFinetune": {"NumIterations": 10, "LearningRate": 0.1}}}
    assert made[-1]["extra_options"] == {"ActivationSymmetric": False, "FastFinetune": {"NumIterations": 20, "LearningRate": 0.2}}
    assert q.SearchSpace({"per_channel": [True, False]}).get_all_configs() == [{"per_channel": True}, {"per_channel": False}]


@pytest.mark.quick
def test_a_space_of_the_newer_interface():
    space = {"activation": ["Int8Spec"], "activation_params": {"symmetric": [True, False], "only_if": "activation"},
             "cle_algo": ["cle", None], "cle_params": {"cle_steps": [-1, 1], "only_if": {"cle_algo": "cle"}}}
    made = q.generate_all_configs(space)
    assert len(made) == 6 and sum("cle_params" in item for item in made) == 4
    assert made[0] == {"activation": "Int8Spec", "cle_algo": "cle", "activation_params": {"symmetric": True}, "cle_params": {"cle_steps": -1}}
    ranges = {"adaround_params": {"num_iterations": {"type": "int", "low": 100, "high": 300, "step": 100},
                                  "learning_rate": {"type": "float", "low": 0.01, "high": 1, "log": True}, "only_if": {}}}
    points = with_points(ranges)["adaround_params"]
    assert points["num_iterations"] == [100, 200, 300] and points["learning_rate"] == pytest.approx([0.01, 0.0316, 0.1, 0.316, 1], rel=1e-2)
    assert spread(list(range(11)), 3) == [0, 5, 10] and spread([1, 2], 5) == [1, 2] and spread([1, 2], 1) == [1]
    assert set(q.get_auto_search_config("A8W8_SEARCH")["search_space"]["activation_params"]["calibration_method"]) == {
        "MinMax", "Percentile", "LayerwisePercentile"}


class Searching(q.AutoSearch):
    """AutoSearch of the tests: `settings` are attributes of its AutoSearchConfig."""

    def __init__(self, model, folder, images, config=None, **settings):
        wanted = type("MyConfig", (), {"search_output_dir": str(folder), **settings})()
        super().__init__(str(model), config or q.Config(q.QuantizationConfig(include_cle=False)), wanted,
                         calibration_data_reader=Reader(images, "image"))


SPACE = {"weight_type": [q.ExtendedQuantType.QInt8, q.ExtendedQuantType.QInt16], "activation_type": [q.ExtendedQuantType.QInt16]}


def test_candidates_within_a_tolerance(tmp_path, conv_path, images):
    search = Searching(conv_path, tmp_path, images, search_space=SPACE)
    found = search.search_model()
    assert [item["config_index"] for item in found] == [0, 1] and found[0]["difference"] > found[1]["difference"] > 0
    assert all(set(bitpress.inspect(item["model_path"]).operators) for item in found)
    wanted = outputs(conv_path, {"image": images})[0]
    mse = np.mean(np.square(wanted - outputs(found[0]["model_path"], {"image": images})[0]))
    assert found[0]["difference"] == pytest.approx(mse, rel=0.05)
    bound = (found[0]["difference"] + found[1]["difference"]) / 2
    search = Searching(conv_path, tmp_path / "some", images, search_space=SPACE, search_metric_tolerance=bound)
    assert [item["config_index"] for item in search.search_model()] == [1]
    assert not (tmp_path / "some" / "iter_0.onnx").exists() and len(search.searched_space) == 2


def test_spaces_are_joined_and_searches_end(tmp_path, conv_path, images):
    search = Searching(conv_path, tmp_path, images, search_space=SPACE, search_algo="random", search_stop_condition={"iteration_limit": 3})
    search.all_configs = search.build_all_configs({"per_channel": [True, False]}) + search.all_configs
    assert len(search.search_model()) == 3 == search.iterations
    search = Searching(conv_path, tmp_path, images, search_space=SPACE, search_stop_condition={"find_n_candidates": 1})
    assert len(search.search_model()) == 1


def test_two_stages(tmp_path, conv_path, images):
    space = {**SPACE, "extra_options": {"FastFinetune": {"NumIterations": [1, 5], "OptimAlgorithm": ["adaround"]}}}
    (best,) = Searching(conv_path, tmp_path, images, search_space=space, two_stage_search=True).search_model()
    assert best["weight_type"] is q.ExtendedQuantType.QInt16 and best["include_fast_ft"] is True
    assert best["extra_options"]["FastFinetune"]["NumIterations"] in (1, 5)
    tuning = {"extra_options": {"FastFinetune": {"NumIterations": [10, 4010], "LearningRate": [0.01, 0.1]}}}
    best = Searching(conv_path, tmp_path, images, search_space=tuning, advanced_fastft_search=True,
                     advanced_fastft_params={"n_trials": 4}).search_model()
    assert set(best) == {"NumIterations", "LearningRate"} and 10 <= best["NumIterations"] <= 4010
    with pytest.raises(bitpress.InvalidArgumentError, match="two_stage_search=True, and search_space has no"):
        Searching(conv_path, tmp_path, images, search_space=SPACE, two_stage_search=True).search_model()


def test_an_evaluator_of_the_script_measures(tmp_path, conv_path, images):
    wanted, seen = outputs(conv_path, {"image": images})[0], []

    def evaluate(path):
        seen.append(path)
        return 100 if path == str(conv_path) else sqnr_db(wanted, outputs(path, {"image": images})[0])

    search = Searching(conv_path, tmp_path, images, search_space=SPACE, search_evaluator=staticmethod(evaluate), search_metric_tolerance=50)
    found = search.search_model()
    assert seen[0] == str(conv_path) and len(seen) == 3
    assert [item["config_index"] for item in found] == [1] and found[0]["difference"] < 50 < search.searched_space[0]


def pro(model, images, folder, space, **words):
    return q.AutoSearchPro({"model_input": str(model), "calib_data_reader": Reader(images, "image"), "output_dir": str(folder),
                            "search_space": {"activation": ["Int16Spec"], "weight": ["Int8Spec", "Int16Spec"], **space}, **words})


def test_the_newer_search(tmp_path, conv_path, images):
    best = pro(conv_path, images, tmp_path, {"exclude": [None]}, search_algo="Grid").run()
    assert best == {"activation": "Int16Spec", "weight": "Int16Spec", "exclude": None}
    space = {"weight_params": {"quant_granularity": ["Tensor", "Channel"], "only_if": "weight"}}
    for metric in ("L1", "cos", "ssim"):
        best = pro(conv_path, images, tmp_path, space, search_metric=metric).run()
        assert best["weight"] == "Int16Spec" and set(best) == {"activation", "weight", "weight_params_quant_granularity"}, metric
    assert json.loads((tmp_path / "best_params.json").read_text()) == best
    with pytest.warns(Notice, match="'n_trails' is taken as 'n_trials'"):
        pro(conv_path, images, tmp_path / "one", {}, n_trails=1).run()
    assert len(list((tmp_path / "one").glob("*.onnx"))) == 1


def test_the_newer_search_in_two_stages_makes_equal_trials_once(tmp_path, conv_path, images):
    learning = {"num_iterations": [2], "learning_rate": {"type": "float", "low": 1e-6, "high": 1e-3, "log": True}}
    space = {"algorithms": ["adaround", "adaquant"], "adaround_params": {**learning, "only_if": {"algorithms": "adaround"}},
             "adaquant_params": {**learning, "only_if": {"algorithms": "adaquant"}}}
    best = pro(conv_path, images, tmp_path / "out", space, two_stage_search=True).run()
    assert best["weight"] == "Int16Spec" and best["algorithms"] in ("adaround", "adaquant")
    # Two trials without fine-tuning, and of ten with it one for each algorithm: the learning rate changes nothing here.
    assert len(list((tmp_path / "out").glob("*.onnx"))) == 4


@pytest.mark.scripts
@pytest.mark.parametrize("name", ["XINT8_SEARCH", "A8W8_SEARCH", "A16W8_SEARCH", "ADVANCED_SEARCH"])
def test_named_searches_run(name, tmp_path, conv_path, images):
    config = q.get_auto_search_config(name)
    config.update(model_input=str(conv_path), calib_data_reader=Reader(images, "image"), output_dir=str(tmp_path), n_trials=2)
    assert q.AutoSearchPro(config).run()["activation"] == config["search_space"]["activation"][0]


@pytest.mark.quick
def test_the_module_of_earlier_versions():
    from bitpress.compat.quark.onnx import auto_search

    assert auto_search.AutoSearch is q.AutoSearch


@pytest.mark.quick
def test_measures():
    x, y = np.array([1.0, 2, 3], np.float32), np.array([1.0, 2, 5], np.float32)
    metrics = _search_metrics.METRICS
    assert metrics["L2"](x, y) == pytest.approx(4 / 3) and metrics["L1"](x, y) == pytest.approx(2 / 3)
    assert metrics["cos"](x, x) == pytest.approx(1) and metrics["cos"](x, -x) == pytest.approx(0, abs=1e-6) and metrics["cos"](x, 0 * x) == 0
    assert metrics["psnr"](x, y) == pytest.approx(20 * np.log10(255 / np.sqrt(4 / 3))) and metrics["psnr"](x, x) == 100
    assert metrics["ssim"](x, x) == pytest.approx(1) and metrics["ssim"](x, y) < 1
