"""Every rule of every built-in target: a model that breaks it is named with the rule, and one that keeps it is not."""

import json

import pytest
from target_rule_cases import CASES

LISTS = ("tensor_rules", "node_rules", "model_rules")


def own_rules(bitpress, name):
    """The rules in the file of a target, without those of the target that it is like."""
    profile = json.loads(bitpress.ok("targets", name))
    return [rule for key in LISTS for rule in profile.get(key, [])]


def test_each_rule_has_its_two_models(bitpress):
    names = [line.split()[0] for line in bitpress.ok("targets").splitlines()]
    rules = [(name, rule["says"]) for name in names for rule in own_rules(bitpress, name)]
    assert len(set(rules)) == len(rules) and sorted(rules) == sorted(CASES)


@pytest.mark.parametrize(("target", "says"), CASES, ids=lambda word: word.replace(" ", "_")[:40])
def test_a_rule_is_named_where_it_is_broken(bitpress, tmp_path, target, says):
    (rule,) = [rule for rule in own_rules(bitpress, target) if rule["says"] == says]
    for make, is_broken in zip(CASES[target, says], (True, False)):
        model, report = tmp_path / f"{is_broken}.onnx", tmp_path / "report.json"
        model.write_bytes(make().SerializeToString())
        bitpress.run("check", model, "--target", target, "--json", report)
        found = json.loads(report.read_text())["advice" if rule.get("advice") else "broken_rules"]
        named = [sentence for sentence in found if f"; it {says}" in sentence]
        assert bool(named) == is_broken, found
        assert all(sentence.endswith(f"({rule['source']})") and rule.get("remedy", "") in sentence for sentence in named)


def test_a_target_of_ones_own_is_read_and_kept(bitpress, conv_path, tmp_path):
    """A printed file is a target as it is; one that is like another has more rules, and mistakes are named."""
    printed, mine = tmp_path / "printed.json", tmp_path / "mine.json"
    printed.write_text(bitpress.ok("targets", "tensorrt"))
    for target in ("tensorrt", printed):
        error = bitpress.error("plan", conv_path, "-o", tmp_path / "plan.json", "--config", "MX6", "--target", target)
        assert "target tensorrt does not take the plan" in error and "format mx6" in error
    rule = {"if": {"op_types": ["Clip"]}, "says": "has no Clip", "source": "me"}
    mine.write_text(json.dumps({"bitpress_target": 1, "name": "phone", "like": "openvino", "node_rules": [rule]}))
    refused = bitpress.run("check", conv_path, "--target", mine)
    assert refused.returncode != 0 and "operator Clip; it has no Clip (me)" in refused.stderr and "rules of target phone" in refused.stderr
    mine.write_text('{"bitpress_target": 1, "name": "phone", "node_rule": []}')
    error = bitpress.error("quantize", conv_path, "-o", tmp_path / "q.onnx", "--config", "INT8", "--target", mine)
    assert f"--target: '{mine}': unknown key 'node_rule' (did you mean 'node_rules'?)" in error
    assert "did you mean 'qnn'?" in bitpress.error("check", conv_path, "--target", "qmn")


def test_the_planner_keeps_the_rules_of_qnn(bitpress, matmul_path, conv_path, tmp_path):
    plan = tmp_path / "plan.json"
    bitpress.ok("plan", conv_path, "-o", plan, "--config", "INT8", "--target", "qnn")
    rows = [row for row in json.loads(plan.read_text())["tensors"] if row.get("granularity") == "per_axis"]
    assert rows and all(use["op_type"] == "Conv" for row in rows for use in row["uses"])
