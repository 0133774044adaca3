// The reports that the functions of the module return: the C++ structs, read-only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings.h"
#include "calibrate/calibration_table.h"
#include "deploy/check_target.h"
#include "evaluate/evaluate.h"
#include "tasks/inspect.h"
#include "tasks/optimize.h"
#include "tasks/quantize.h"
#include "tasks/tuning.h"
#include "tasks/unpack.h"
#include "tasks/verdict.h"

namespace bitpress::python {
namespace {

using calibrate::CalibrationTable;
using calibrate::TensorStatistics;

void BindQuantizeReport(nb::module_& module) {
  using weights::WeightStatistics;
  nb::class_<WeightStatistics>(module, "WeightReport", "The quantization of one weight.")
      .def_ro("name", &WeightStatistics::value)
      .def_ro("format", &WeightStatistics::format)
      .def_ro("unpacked_reason", &WeightStatistics::unpacked_reason,
              "Why it is stored as floats that hold quantized values. '' if it is packed.")
      .def_ro("num_elements", &WeightStatistics::num_elements)
      .def_ro("stored_bytes", &WeightStatistics::stored_bytes)
      .def_ro("mean_squared_error", &WeightStatistics::mean_squared_error)
      .def_ro("sqnr_db", &WeightStatistics::sqnr_db, "Infinite without any error.");
  using finetune::TunedLayerReport;
  nb::class_<TunedLayerReport>(module, "LayerReport", "The fine-tuning of one layer.")
      .def_ro("node", &TunedLayerReport::node)
      .def_ro("op_type", &TunedLayerReport::op_type)
      .def_ro("weight", &TunedLayerReport::weight)
      .def_ro("format", &TunedLayerReport::format)
      .def_ro("error_before", &TunedLayerReport::error_before,
              "Noise over signal of its output on the samples that judge.")
      .def_ro("error_after", &TunedLayerReport::error_after)
      .def_prop_ro(
          "judged_by", [](const TunedLayerReport& self) { return finetune::JudgeName(self.judge); },
          "The samples that the errors were measured on. 'held_back': samples that it did not "
          "learn from. 'halves': each half of the samples, for what the other half taught. "
          "'positions': each half of the positions of one sample, likewise. 'learned': samples "
          "that "
          "it learned from, because finetune_hold_back is 0. '': none, because it never ran or "
          "nothing could judge.")
      .def_ro("taken_from", &TunedLayerReport::taken_from,
              "The pass whose weights it has. '' if it stays as rounded.")
      .def_ro("choice", &TunedLayerReport::choice,
              "The ridges and shares that were chosen for it. '' if it stays as rounded.")
      .def_ro("is_tuned", &TunedLayerReport::is_tuned)
      .def_ro("note", &TunedLayerReport::note);
  using tasks::QuantizeReport;
  nb::class_<QuantizeReport>(module, "QuantizeReport", "The results of quantize.")
      .def_ro("input_bytes", &QuantizeReport::input_bytes)
      .def_ro("output_bytes", &QuantizeReport::output_bytes)
      .def_prop_ro(
          "plan", [](const QuantizeReport& self) { return plan::ToJson(self.plan); },
          "The plan that was carried out, as JSON.")
      .def_ro("unmatched_words", &QuantizeReport::unmatched_words,
              "What words of optional rules fit nothing in the model.")
      .def_ro("already_quantized", &QuantizeReport::already_quantized,
              "The operators that quantized or read codes before, with their numbers. Empty for a "
              "float model.")
      .def_ro("left_float", &QuantizeReport::left_float,
              "Activations with an integer format that stayed float, with the reason.")
      .def_prop_ro(
          "left_in_form",
          [](const QuantizeReport& self) {
            std::vector<std::pair<std::string, std::string>> left = self.transform.native.omissions;
            const auto& integers = self.transform.integer.omissions;
            left.insert(left.end(), integers.begin(), integers.end());
            return left;
          },
          "The nodes and weights that form=qoperator or a target has no operator for, with the "
          "reason: they keep the form of the default.")
      .def_prop_ro("weights",
                   [](const QuantizeReport& self) {
                     std::vector<WeightStatistics> weights;
                     for (const auto& weight : self.transform.weights) weights.push_back(*weight);
                     return weights;
                   })
      .def_prop_ro(
          "layers", [](const QuantizeReport& self) { return self.finetune.layers; },
          "The fine-tuned layers. Empty without fine-tuning.")
      .def_ro("target", &QuantizeReport::target,
              "What ONNX Runtime makes of the model; None if it was not checked.")
      .def_ro("why_not_checked", &QuantizeReport::why_not_checked,
              "Why the model was not checked although that was asked for; empty otherwise.")
      .def_prop_ro(
          "warnings",
          [](const QuantizeReport& self) {
            std::vector<std::pair<std::string, std::string>> warnings;
            for (const tasks::Warning& warning : tasks::VerdictOf(self).warnings) {
              warnings.emplace_back(warning.kind, AsPythonSpells(warning.text));
            }
            return warnings;
          },
          "What a user of the model should know, each as (kind, text): that it is slower, larger "
          "or farther from the given model than it should be, that it holds NaN, that nothing was "
          "quantized.")
      .def("__str__", [](const QuantizeReport& self) {
        return AsPythonSpells(tasks::Describe(tasks::VerdictOf(self)));
      });
}

void BindProcessorReport(nb::module_& module) {
  using evaluate::SaturatingNode;
  nb::class_<SaturatingNode>(module, "SaturatingNode",
                             "An operator whose sums of 8-bit products saturate on x86 without "
                             "VNNI for some activations.")
      .def_ro("name", &SaturatingNode::name)
      .def_ro("op_type", &SaturatingNode::op_type)
      .def_ro("num_pairs", &SaturatingNode::num_pairs, "Pairs of weights that can saturate.")
      .def_ro("num_all_pairs", &SaturatingNode::num_all_pairs);
  using evaluate::ProcessorReport;
  nb::class_<ProcessorReport>(module, "ProcessorReport",
                              "The difference between processors with and without VNNI.")
      .def_prop_ro("saturates",
                   [](const ProcessorReport& self) {
                     return self.processor == evaluate::ProcessorKind::kSaturating;
                   })
      .def_ro("is_simulated", &ProcessorReport::is_simulated,
              "The figures are for another kind of processor than this machine's.")
      .def_ro("nodes", &ProcessorReport::nodes)
      .def_ro("num_samples", &ProcessorReport::num_samples, "Samples whose outputs were compared.")
      .def_ro("sqnr_db", &ProcessorReport::sqnr_db,
              "SQNR in dB of saturated against exact outputs. Infinite if they are the same, None "
              "if they were not compared.")
      .def_ro("not_simulated", &ProcessorReport::not_simulated);
}

void BindEvaluationReport(nb::module_& module) {
  using evaluate::OutputReport;
  nb::class_<OutputReport>(module, "OutputReport",
                           "The closeness of one output to the reference's.")
      .def_ro("name", &OutputReport::name)
      .def_ro("num_values", &OutputReport::num_values)
      .def_ro("sqnr_db", &OutputReport::sqnr_db, "Infinite without any error.")
      .def_ro("cosine", &OutputReport::cosine);
  using evaluate::DecodingReport;
  nb::class_<DecodingReport>(module, "DecodingReport",
                             "Greedy decoding, one token after another with the cache.")
      .def_ro("prompt_length", &DecodingReport::prompt_length)
      .def_ro("num_tokens", &DecodingReport::num_tokens)
      .def_ro("tokens_per_s", &DecodingReport::tokens_per_s)
      .def_ro("reference_tokens_per_s", &DecodingReport::reference_tokens_per_s)
      .def_ro("num_same", &DecodingReport::num_same,
              "Number of tokens from the first on that both models decode alike.");
  using evaluate::LanguageReport;
  nb::class_<LanguageReport>(module, "LanguageReport", "How well tokens are predicted.")
      .def_ro("num_tokens", &LanguageReport::num_tokens)
      .def_ro("perplexity", &LanguageReport::perplexity)
      .def_ro("reference_perplexity", &LanguageReport::reference_perplexity)
      .def_ro("mean_divergence", &LanguageReport::mean_divergence,
              "Kullback-Leibler divergence from the reference's prediction, in nats.")
      .def_ro("divergence_99", &LanguageReport::divergence_99,
              "What the divergence stays below for 99 % of the tokens.")
      .def_ro("agreement", &LanguageReport::agreement,
              "Share of the tokens for which both find the same next token likeliest.")
      .def_ro("prompt_tokens_per_s", &LanguageReport::prompt_tokens_per_s)
      .def_ro("reference_prompt_tokens_per_s", &LanguageReport::reference_prompt_tokens_per_s)
      .def_ro("decoding", &LanguageReport::decoding, "None if the model has no cache.");
  using evaluate::EvaluationReport;
  nb::class_<EvaluationReport>(module, "EvaluationReport",
                               "The results of evaluate. Accuracies are from 0 to 1.")
      .def_ro("num_samples", &EvaluationReport::num_samples)
      .def_ro("left_out", &EvaluationReport::left_out,
              "Names of the samples that were left out because they failed.")
      .def_ro("num_labelled", &EvaluationReport::num_labelled)
      .def_ro("batch_size", &EvaluationReport::batch_size)
      .def_ro("class_output", &EvaluationReport::class_output)
      .def_ro("top1", &EvaluationReport::top1)
      .def_ro("top5", &EvaluationReport::top5)
      .def_ro("reference_top1", &EvaluationReport::reference_top1)
      .def_ro("reference_top5", &EvaluationReport::reference_top5)
      .def_ro("agreement", &EvaluationReport::agreement,
              "Share of the samples for which both models rank the same class first.")
      .def_ro("sqnr_db", &EvaluationReport::sqnr_db, "Infinite if the outputs are identical.")
      .def_ro("cosine", &EvaluationReport::cosine)
      .def_ro("outputs_identical", &EvaluationReport::outputs_identical)
      .def_ro("outputs", &EvaluationReport::outputs)
      .def_ro("num_nonfinite_values", &EvaluationReport::num_nonfinite_values)
      .def_ro("processor", &EvaluationReport::processor)
      .def_ro("depends_on_processor", &EvaluationReport::depends_on_processor,
              "Some integer products can saturate on processors without VNNI.")
      .def_ro("has_times", &EvaluationReport::has_times,
              "False for evaluations of parts of the samples: their times are 0 or None.")
      .def_ro("time_ms", &EvaluationReport::time_ms)
      .def_ro("reference_time_ms", &EvaluationReport::reference_time_ms)
      .def_ro("time_ratio", &EvaluationReport::time_ratio)
      .def_ro("language", &EvaluationReport::language, "None unless the data are text or tokens.")
      .def_ro("load_ms", &EvaluationReport::load_ms)
      .def_ro("reference_load_ms", &EvaluationReport::reference_load_ms)
      .def_ro("memory_bytes", &EvaluationReport::memory_bytes,
              "What loading and the first run took from the system.")
      .def_ro("reference_memory_bytes", &EvaluationReport::reference_memory_bytes)
      .def_ro("file_bytes", &EvaluationReport::file_bytes)
      .def_ro("reference_file_bytes", &EvaluationReport::reference_file_bytes)
      .def("to_json", [](const EvaluationReport& self) { return evaluate::ToJson(self).dump(2); })
      .def("__repr__", [](const EvaluationReport& self) {
        return "EvaluationReport(" + evaluate::ToJson(self).dump() + ")";
      });
}

void BindTargetReport(nb::module_& module) {
  using deploy::FloatNode;
  nb::class_<FloatNode>(module, "FloatNode", "An operator that computes in float, and why.")
      .def_ro("name", &FloatNode::name)
      .def_ro("op_type", &FloatNode::op_type)
      .def_ro("reason", &FloatNode::reason);
  using deploy::OutputCloseness;
  nb::class_<OutputCloseness, evaluate::OutputReport>(
      module, "OutputCloseness",
      "The closeness of one output to that of the model that was quantized. Samples count alike.")
      .def_ro("worst_db", &OutputCloseness::worst_db, "SQNR of the worst sample.")
      .def_ro("num_lost", &OutputCloseness::num_lost,
              "Values that are NaN or infinite where that model gives numbers.")
      .def_ro("varies", &OutputCloseness::varies,
              "False if that model gives the same for several different samples.");
  using deploy::Closeness;
  nb::class_<Closeness>(module, "Closeness",
                        "How close the outputs are to those of the model that was quantized.")
      .def_ro("num_runs", &Closeness::num_runs, "The samples, or fixed batches, that were run.")
      .def_ro("num_equal_runs", &Closeness::num_equal_runs,
              "Samples that are equal to others, which count once.")
      .def_ro("num_constant_runs", &Closeness::num_constant_runs,
              "Samples that are one number everywhere.")
      .def_ro("wanted_db", &Closeness::wanted_db, "The SQNR that the formats should give.")
      .def_ro("outputs", &Closeness::outputs)
      .def_ro("other_shapes", &Closeness::other_shapes,
              "Names of outputs that had another shape in a run.")
      .def_ro("why_not", &Closeness::why_not, "Why nothing was compared. '' if something was.");
  using deploy::TargetReport;
  nb::class_<TargetReport>(module, "TargetReport", "The results of check.")
      .def_ro("runtime", &TargetReport::runtime)
      .def_ro("is_loaded", &TargetReport::is_loaded)
      .def_ro("is_run", &TargetReport::is_run)
      .def_ro("is_made_up", &TargetReport::is_made_up, "No sample was given.")
      .def_ro("error", &TargetReport::error,
              "The error of loading or running. '' if there was none.")
      .def_ro("integer_operators", &TargetReport::integer_operators)
      .def_ro("float_nodes", &TargetReport::float_nodes)
      .def_ro("processor", &TargetReport::processor)
      .def_ro("library_operators", &TargetReport::library_operators)
      .def_ro("closeness", &TargetReport::closeness,
              "The outputs beside those of the model that was quantized. None without samples.")
      .def("to_json", [](const TargetReport& self) { return deploy::ToJson(self).dump(2); })
      .def("__repr__", [](const TargetReport& self) {
        return "TargetReport(" + deploy::ToJson(self).dump() + ")";
      });
}

void BindCalibration(nb::module_& module) {
  nb::class_<TensorStatistics>(module, "TensorStatistics",
                               "Statistics of one value over all samples. min, max, mean and "
                               "standard_deviation are NaN if it had no finite element.")
      .def_prop_ro("num_elements", &TensorStatistics::num_elements)
      .def_prop_ro("num_nan", &TensorStatistics::num_nan)
      .def_prop_ro("num_finite", &TensorStatistics::num_finite)
      .def_prop_ro("min",
                   [](const TensorStatistics& self) {
                     return self.is_empty() ? std::nan("") : double{self.min()};
                   })
      .def_prop_ro("max",
                   [](const TensorStatistics& self) {
                     return self.is_empty() ? std::nan("") : double{self.max()};
                   })
      .def_prop_ro(
          "mean",
          [](const TensorStatistics& self) { return self.is_empty() ? std::nan("") : self.Mean(); })
      .def_prop_ro("standard_deviation",
                   [](const TensorStatistics& self) {
                     return self.is_empty() ? std::nan("") : self.StandardDeviation();
                   })
      .def_prop_ro(
          "num_channels",
          [](const TensorStatistics& self) {
            const auto& axis = self.axis_statistics();
            return axis ? axis->slices.size() : 0;
          },
          "Channels with statistics of their own (`per_channel`). 0: none.");
  nb::class_<CalibrationTable>(module, "Calibration", "Statistics of the activations of a model.")
      .def_ro("model_name", &CalibrationTable::model_name)
      .def_ro("num_samples", &CalibrationTable::num_samples)
      .def_ro("left_out", &CalibrationTable::left_out,
              "Names of the samples that were left out because they failed.")
      .def_ro("tensors", &CalibrationTable::tensors);
}

void BindInspectReport(nb::module_& module) {
  using weights::StoredConstant;
  nb::class_<StoredConstant>(module, "ConstantReport", "A constant of a model.")
      .def_ro("name", &StoredConstant::name)
      .def_ro("format", &StoredConstant::format)
      .def_ro("dims", &StoredConstant::dims)
      .def_ro("num_bytes", &StoredConstant::num_bytes)
      .def_ro(
          "held_format", &StoredConstant::held_format,
          "The format whose values a float constant holds, or gets by an operator behind it. '' "
          "if it is none.")
      .def_ro("reason", &StoredConstant::reason, "Why a float constant is one, where it is known.");
  using tasks::InspectReport;
  const auto names = [](const std::vector<tasks::NamedValue>& values) {
    std::vector<std::string> result;
    for (const tasks::NamedValue& value : values) result.push_back(value.name);
    return result;
  };
  const auto shapes = [](const std::vector<tasks::NamedValue>& values) {
    std::map<std::string, std::vector<int64_t>> result;
    for (const tasks::NamedValue& value : values) {
      std::vector<int64_t>& dims = result[value.name];
      for (const graph::Dimension& dim : value.info.shape) dims.push_back(dim.value);
    }
    return result;
  };
  nb::class_<InspectReport>(module, "InspectReport", "The content of a model file.")
      .def_ro("file_bytes", &InspectReport::file_bytes)
      .def_ro("ir_version", &InspectReport::ir_version)
      .def_ro("opset_imports", &InspectReport::opset_imports)
      .def_ro("metadata", &InspectReport::metadata)
      .def_prop_ro("inputs", [names](const InspectReport& self) { return names(self.inputs); })
      .def_prop_ro(
          "input_shapes", [shapes](const InspectReport& self) { return shapes(self.inputs); },
          "Shapes of the inputs. -1: the dimension is not known.")
      .def_prop_ro("outputs", [names](const InspectReport& self) { return names(self.outputs); })
      .def_prop_ro(
          "output_shapes", [shapes](const InspectReport& self) { return shapes(self.outputs); },
          "The same for the outputs.")
      .def_ro("operators", &InspectReport::operators,
              "Number of operators by type, 'Conv' or 'domain::Op'.")
      .def_ro("quantizers", &InspectReport::quantizers)
      .def_ro("constants", &InspectReport::constants)
      .def_ro("functions", &InspectReport::functions);
}

void BindTuning(nb::module_& module) {
  using tasks::MomentsSummary;
  nb::class_<MomentsSummary>(module, "MomentsReport", "The content of a file of moments.")
      .def_prop_ro(
          "num_samples", [](const MomentsSummary& self) { return self.origin.num_runs(); },
          "Samples that are in the sums (runs, where the model fixes the samples of a run).")
      .def_prop_ro(
          "num_samples_of_all",
          [](const MomentsSummary& self) { return self.origin.num_runs_of_all; },
          "Samples of the whole work. 0: not known before its end.")
      .def_prop_ro(
          "num_layers",
          [](const MomentsSummary& self) {
            size_t num_layers = 0;
            for (const finetune::MomentsEntry& entry : self.entries) {
              num_layers += entry.layers.size();
            }
            return num_layers;
          },
          "Layers whose moments are in it. Layers that read one activation may share them.")
      .def_ro("num_bytes", &MomentsSummary::num_bytes, "Size of the file.");
  using tasks::TuneReport;
  nb::class_<TuneReport>(module, "TuneReport", "The results of tune.")
      .def_ro("num_layers", &TuneReport::num_layers, "Layers of this part.")
      .def_ro("num_tuned", &TuneReport::num_tuned, "Layers that have learned weights.")
      .def_ro("num_resumed", &TuneReport::num_resumed, "Layers that the journal had already.");
}

}  // namespace

void BindReports(nb::module_& module) {
  BindTuning(module);
  BindProcessorReport(module);
  BindEvaluationReport(module);  // before the types that derive from its own
  BindTargetReport(module);
  BindQuantizeReport(module);
  BindCalibration(module);
  BindInspectReport(module);
  using tasks::UnpackReport;
  nb::class_<UnpackReport>(module, "UnpackReport", "The results of unpack.")
      .def_ro("num_weights", &UnpackReport::num_weights)
      .def_ro("num_quantizers", &UnpackReport::num_quantizers, "Quantizers that were removed.")
      .def_ro("input_bytes", &UnpackReport::input_bytes)
      .def_ro("output_bytes", &UnpackReport::output_bytes)
      .def_ro("why_not_checked", &UnpackReport::why_not_checked,
              "Why the model was not checked although that was asked for; empty otherwise.");
  using tasks::OptimizeReport;
  nb::class_<OptimizeReport>(module, "OptimizeReport", "The results of optimize.")
      .def_ro("machine", &OptimizeReport::machine)
      .def_ro("input_bytes", &OptimizeReport::input_bytes)
      .def_ro("output_bytes", &OptimizeReport::output_bytes)
      .def_ro("why_not_checked", &OptimizeReport::why_not_checked,
              "Why the model was not checked although that was asked for; empty otherwise.");
}

}  // namespace bitpress::python
