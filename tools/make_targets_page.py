#!/usr/bin/env python3
"""Writes docs/targets.md from what `bitpress targets` prints.

    python tools/make_targets_page.py [--check] --program build/bitpress      (--check: only says whether it is up to date)
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

from made_page import cell, main

PAGE = Path("docs/targets.md")
HEAD = """# Targets

This page has the rules of the runtimes that a model can be written for, with their sources, and says how to write a target of
your own. It is for people who deploy a model. `tools/make_targets_page.py` makes it from `bitpress targets`.

```sh
bitpress quantize model.onnx -o model_q.onnx --config INT8 --target qnn --data samples    # what the target takes
bitpress check model_from_elsewhere.onnx --target qnn                                     # what it would not take, and why
```

`quantize`, `plan` and `auto` give a configuration the settings of the target, and refuse a plan that breaks a rule, naming tensor,
rule, what to do and source. `check` names every tensor and node of any model that breaks one. A rule that is marked *advice* is about
what the runtime takes, and is slower or less exact with: `check` prints it as "legal and slow", and the exit status stays zero.
Rules about the model as a whole, such as fixed sizes, count in `check` only.

Only OpenVINO, ONNX Runtime on the CPU, and CUDA were run ([OpenVINO](benchmarks/openvino.md), [CUDA](cuda.md)). For the others the rules are
what their documentation and maintainers say.

## A target of your own

`bitpress targets qnn > phone.json` prints a target as a file. Change it, and give its path to `--target`. With `like`, a file begins with
everything that another one has:

```json
{
  "bitpress_target": 1,
  "name": "phone",
  "like": "qnn",
  "tensor_rules": [
    {
      "if": {"op_types": ["Conv"], "roles": ["weight"]},
      "wants": {"formats": ["int8"]},
      "says": "takes int8 weights of convolutions",
      "remedy": "weights=int8",
      "source": "our board's manual, 3.2"
    }
  ]
}
```

A rule is broken by what meets everything in `if` and not everything in `wants`; without `wants`, by what meets `if`. What is not known,
such as the scale of an activation before calibration, breaks no rule.

| key | meaning |
|---|---|
| `bitpress_target` | version of the form ([versions](versions.md)) |
| `name`, `meaning`, `runtime` | what messages call the target; what `bitpress targets` says; who runs the model, if it is not ONNX Runtime on this processor |
| `like` | a built-in target whose settings and rules come first |
| `storage` | `packed`, `simulated` or `qdq`, as `--storage`, in place of the default |
| `contributed`, `products` | weights whose codes MatMulNBits and GatherBlockQuantized, or our own operators, read at run time: `none`, `integers`, `quick`, `all` |
| `no_qmoe` | why mixtures of experts keep their decoders, if they do: QMoE is another contributed operator |
| `settings` | settings of the configuration: `key`, `to`, and `from` if only that value is replaced |
| `config_rules` | `rule`: a rule of a configuration; `from`: only where a setting has this value |
| `tensor_rules`, `node_rules`, `model_rules` | `if`, `wants`, `says` (continues "it ..."), `remedy`, `source`, `advice` |

Three kinds of `wants` are also decisions. One scale and one zero point: activations that meet its `if` get them in the plan. Whole blocks: weights
behind a DequantizeLinear get codes of 0 that fill up their last block, and a Slice that takes them away. Ranges of shifts and of bits behind
the point: `quantize` changes power-of-two scales that miss them, and says which: the weight's, or that of the bias, the output or the finest
input. Scales that a plan gives stay.

"""
SUBJECTS = {"tensor_rules": "tensors", "node_rules": "nodes", "model_rules": "the model"}


def printed(program: Path, *words: str) -> str:
    return subprocess.run([str(program), "targets", *words], capture_output=True, text=True, check=True).stdout


def conditions(program: Path) -> List[str]:
    lines = []
    for line in printed(program, "--conditions").splitlines():
        if line.endswith(":") and not line.startswith(" "):
            lines += ["", f"| in `{line[:-1]}` | argument | meaning |", "|---|---|---|"]
            continue
        key, _, rest = line.strip().partition(" (")
        argument, _, meaning = rest.partition("): ")
        lines.append(f"| `{key}` | {argument} | {cell(meaning)} |")
    return lines


def about(rule: Dict[str, Any]) -> str:
    found = []
    for word in ("if", "wants"):
        for key, value in rule.get(word, {}).items():
            found.append(f"{'' if word == 'if' else 'wants '}`{key}` {json.dumps(value)[1:-1] if isinstance(value, list) else json.dumps(value)}".replace('"', ""))
    return cell("; ".join(found)).replace("\\_", "_") if found else ""


def section(profile: Dict[str, Any]) -> List[str]:
    lines = ["", f"## {profile['name']}", "", cell(profile.get("meaning", "")) + "."]
    if "like" in profile:
        lines.append(f"Its rules begin with those of [{profile['like']}](#{profile['like']}).")
    settings = [f"`{one['key']}={one['to']}`" + (f" in place of {one['from']}" if one.get("from") else "") for one in profile.get("settings", [])]
    settings += [f"`{json.dumps(one['rule'])}` where `{one['from']}`" for one in profile.get("config_rules", [])]
    if settings:
        lines.append(f"Settings: {', '.join(settings)}.")
    rows = [(subject, rule) for key, subject in SUBJECTS.items() for rule in profile.get(key, [])]
    if rows:
        lines += ["", "| it ... | about | what to do | source |", "|---|---|---|---|"]
    for subject, rule in rows:
        says = cell(rule["says"]) + (" (*advice*)" if rule.get("advice") else "")
        lines.append(f"| {says} | {subject}: {about(rule)} | {cell(rule.get('remedy', ''))} | {cell(rule['source'])} |")
    return lines


def page_text(program: Path) -> str:
    names = [line.split()[0] for line in printed(program).splitlines()]
    lines = [HEAD.rstrip(), *conditions(program)]
    for name in names:
        lines += section(json.loads(printed(program, name)))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(PAGE, "tools/make_targets_page.py", page_text))
