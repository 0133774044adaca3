"""AMD Quark's classes of algorithms: their arguments in Quark's order, with its defaults, as attributes."""

from typing import Any, Dict, Mapping, Set, Tuple, Type

from bitpress._errors import ArgumentTypeError
from bitpress.compat import _fates

REQUIRED = object()


class AlgoConfig:
    """The base of algorithms. Arguments are attributes, by position or by name, which scripts may change before they quantize.

    Attributes:
        name: Quark's word for the algorithm.
        options: the arguments that were given or are another value than Quark's default.
    """

    name = ""
    defaults: Mapping[str, Any] = {}  # of all arguments, in their order
    older: Tuple[str, ...] = ()  # arguments of earlier versions

    def __init__(self, *by_position: Any, **by_name: Any) -> None:
        kind, names = type(self).__name__, list(self.defaults)
        if len(by_position) > len(names):
            raise ArgumentTypeError(f"{kind} takes {len(names)} arguments ({', '.join(names) or 'none'}), not {len(by_position)}")
        given = dict(zip(names, by_position))
        for name, value in by_name.items():
            if name in given:
                raise ArgumentTypeError(f"{kind}: {name} is given twice")
            if name not in self.defaults and name not in self.older:
                raise ArgumentTypeError(_fates.unknown(name, names, kind))
            given[name] = value
        is_older = any(name in given for name in self.older)
        for name, default in self.defaults.items():
            if default is REQUIRED and name not in given and not is_older:
                raise ArgumentTypeError(f"{kind} needs {name}")
            setattr(self, name, given.get(name, None if default is REQUIRED else list(default) if isinstance(default, list) else default))
        self._given: Set[str] = set(given)
        for name in self.older:
            setattr(self, name, given.get(name))

    @property
    def options(self) -> Dict[str, Any]:
        given = {name: getattr(self, name) for name, default in self.defaults.items()
                 if name in self._given or getattr(self, name) != (None if default is REQUIRED else default)}
        return {**given, **{name: getattr(self, name) for name in self.older if getattr(self, name) is not None}}

    def to_dict(self) -> Dict[str, Any]:
        """The name, and the arguments that are another value than Quark's default."""
        from bitpress.compat.quark._dictionaries import plain

        changed = {name: value for name, value in self.options.items() if name not in self.defaults or value != self.defaults[name]}
        return {"name": self.name, **{name: plain(value) for name, value in changed.items()}}

    def get_options(self) -> Dict[str, Any]:
        """The arguments as extra_options of Quark's older interface."""
        from bitpress.compat.quark._words import camel_case

        words = {camel_case(name): getattr(self, name) for name in self.defaults}
        if self.name == "bias_correction":
            return {"BiasCorrection": True}
        if self.name == "smooth_quant":
            return {"SmoothAlpha": words["Alpha"]}
        if self.name == "gptq":
            return {"UseGPTQ": True, "GPTQParams": words}
        if self.name in ("adaround", "adaquant"):
            return {"FastFinetune": {"OptimAlgorithm": self.name, **words}}
        return {"AutoMixprecision": words} if self.name == "auto_mixprecision" else words

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> "AlgoConfig":
        """Returns the algorithm that to_dict was called of."""
        from bitpress.compat.quark._dictionaries import algorithm_from_dict

        return algorithm_from_dict(data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"


class SmoothQuantConfig(AlgoConfig):
    name = "smooth_quant"
    defaults = {"alpha": 0.5}


class CLEConfig(AlgoConfig):
    name = "cle"
    defaults = {"cle_balance_method": "max", "cle_steps": 1, "cle_weight_threshold": 0.5, "cle_scale_append_bias": True,
                "cle_scale_use_threshold": True, "cle_total_layer_diff_threshold": 1.9e-7}


class BiasCorrectionConfig(AlgoConfig):
    name = "bias_correction"


class GPTQConfig(AlgoConfig):
    name = "gptq"
    defaults = {"bits": 8, "block_size": 128, "group_size": -1, "perc_damp": 0.01, "act_order": False, "per_channel": False, "mse": False,
                "weight_symmetric": True}


_LAYERS = ["Conv", "ConvTranspose", "Gemm", "MatMul", "InstanceNormalization", "LayerNormalization"]
_LEARNING: Dict[str, Any] = {
    "optim_device": "cpu", "infer_device": "cpu", "fixed_seed": 1705472343, "data_size": 1000000000, "batch_size": 1, "num_batches": 1,
    "num_iterations": 1000, "learning_rate": 0.1, "early_stop": False, "output_index": 0, "lr_adjust": None, "target_op_type": _LAYERS,
    "selective_update": False, "update_bias": False, "output_qdq": False, "drop_ratio": 1.0, "mem_opt_level": 1, "cache_dir": None,
    "log_period": 100, "ref_model_path": None, "dynamic_batch": False, "parallel": False, "reg_param": 0.01, "beta_range": (20, 2),
    "warm_start": 0.2, "select_max_mem_layer": False, "num_workers": 1, "pin_memory": False, "use_gds": False}


class AdaRoundConfig(AlgoConfig):
    name = "adaround"
    defaults = _LEARNING


class AdaQuantConfig(AlgoConfig):
    name = "adaquant"
    defaults = {**_LEARNING, "num_iterations": 3000, "learning_rate": 1e-5}


class QuarotConfig(AlgoConfig):
    name = "quarot"
    defaults = {"r_matrix_dim": 4096, "use_random_had": False, "r_config_path": None}


class AutoMixprecisionConfig(AlgoConfig):
    name = "auto_mixprecision"
    defaults = {"target_layer_config": REQUIRED, "target_op_type": ("Conv", "ConvTranspose", "Gemm", "MatMul"), "subgraph_json": None,
                "include_layers": None, "exclude_layers": None, "data_size": 0, "metric_output_index": 0, "metric_distance_fn": None,
                "metric_evaluate_fn": None, "metric_default": "l2", "metric_threshold": 0, "metric_optimize_object": "speed",
                "sensitivity_cache_file": None, "worker_num": 1, "dual_quant_nodes": False, "no_input_qdq_shared": False,
                "shared_param_mode": "propagate"}
    older = ("target_quant_type", "act_target_quant_type", "weight_target_quant_type", "bias_target_quant_type", "output_index", "l2_target",
             "top1_acc_target", "num_target", "evaluate_function")


ALGORITHMS: Dict[str, Type[AlgoConfig]] = {kind.name: kind for kind in AlgoConfig.__subclasses__()}
