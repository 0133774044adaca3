// The reports that the functions of the module return: the C++ structs, read-only. Those that
// describe their fields (base/fields.h) need one line here.
#include <nanobind/nanobind.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "calibrate/calibration_table.h"
#include "deploy/check_target.h"
#include "evaluate/evaluate.h"
#include "field_classes.h"
#include "tasks/hub.h"
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
  BindFields<weights::WeightStatistics>(module, "WeightReport", "The quantization of one weight.");
  BindFields<finetune::TunedLayerReport>(module, "LayerReport", "The fine-tuning of one layer.");
  BindFields<finetune::NetworkValidation>(module, "NetworkReport",
                                          "The network's outputs with all layers that were tuned.");
  BindFields<finetune::TunedBlockReport>(module, "BlockReport", "The fine-tuning of one block.");
  BindFields<finetune::FinetuneReport>(module, "FinetuneReport", "The results of fine-tuning.");
  BindFields<plan::UnsignedWeight>(module, "UnsignedWeight", "A weight that is uint8, not int8.");
  BindFields<plan::GuardReport>(module, "GuardReport", "What the guard of integers measured.");
  BindFields<calibrate::TriedRange>(module, "TriedRange", "A range method that was measured.");
  BindFields<calibrate::WeightRangeReport>(module, "WeightRangeReport",
                                           "How weights with weight_range=auto got their method.");
  BindFields<plan::MeanBits>(module, "MeanBits",
                             "The bits that an operand of a layer has on average.");
  BindFields<calibrate::Unrepresented>(
      module, "UnrepresentedValue",
      "A value that the samples of the calibration do not stand for.");
  BindFields<interop::ImportedWeight>(module, "ImportedWeight",
                                      "A weight of the model that was taken from another tool's "
                                      "file.");
  BindFields<interop::WeightImport>(module, "WeightImport",
                                    "What became of the weights that another tool quantized.");
  BindFields<calibrate::HeldBackReport>(module, "HeldBackReport",
                                        "What the samples held back in calibration show.");
  BindFields<emit::NativeOperators>(module, "NativeOperators",
                                    "Operators of ONNX Runtime that read codes of weights.");
  BindFields<emit::IntegerOperators>(module, "IntegerOperators", "Operators on codes.");
  BindFields<emit::PortableFunctions::Omission>(
      module, "LibraryOperator", "An operator that runs only with the operator library, and why.");
  using tasks::QuantizeReport;
  BindFields<QuantizeReport>(module, "QuantizeReport", "The results of quantize.", "verdict")
      .def_prop_ro(
          "plan", [](const QuantizeReport& self) { return plan::ToJson(self.plan); },
          "The plan that was carried out, as JSON.")
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
      .def_prop_ro(
          "layers", [](const QuantizeReport& self) { return self.finetune.layers; },
          "The fine-tuned layers. Empty without fine-tuning.")
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
      .def("to_json", [](const QuantizeReport& self) { return TextOf(tasks::ToJson(self), 2); })
      .def("__str__", [](const QuantizeReport& self) {
        return AsPythonSpells(tasks::Describe(tasks::VerdictOf(self)));
      });
}

void BindEvaluationReport(nb::module_& module) {
  BindFields<processors::SaturatingNode>(module, "SaturatingNode",
                                         "An operator whose sums of 8-bit products saturate on x86 "
                                         "without VNNI for some activations.");
  BindFields<evaluate::ProcessorReport>(module, "ProcessorReport",
                                        "The difference between processors with and without VNNI.")
      .def_prop_ro("saturates", [](const evaluate::ProcessorReport& self) {
        return self.processor == processors::ProcessorKind::kSaturating;
      });
  BindFields<evaluate::OutputReport>(module, "OutputReport",
                                     "The closeness of one output to the reference's.");
  BindFields<evaluate::HeadReport>(module, "HeadReport",
                                   "The loss of an output besides the one measured first.");
  BindFields<evaluate::DecodingReport>(module, "DecodingReport",
                                       "Greedy decoding, one token after another with the cache.");
  BindFields<evaluate::TaskFigure>(module, "TaskFigure", "One figure of a task's measure.");
  BindFields<evaluate::Neighbour>(module, "Neighbour", "A sample beside another one.");
  BindFields<evaluate::SampleNeighbours>(module, "SampleNeighbours",
                                         "The nearest neighbours of a sample, the nearest first.");
  BindFields<evaluate::NeighbourReport>(module, "NeighbourReport",
                                        "How the nearest neighbours of samples changed.");
  BindFields<evaluate::TaskReport>(module, "TaskReport",
                                   "What a model loses in the terms of its task.");
  BindFields<evaluate::LanguageReport>(module, "LanguageReport", "How well tokens are predicted.");
  using evaluate::EvaluationReport;
  BindFields<EvaluationReport>(module, "EvaluationReport",
                               "The results of evaluate. Accuracies are from 0 to 1.")
      .def("to_json",
           [](const EvaluationReport& self) { return TextOf(evaluate::ToJson(self), 2); });
}

void BindTargetReport(nb::module_& module) {
  BindFields<deploy::FloatNode>(module, "FloatNode",
                                "An operator that computes in float, and why.");
  BindFields<deploy::OutputCloseness>(module, "OutputCloseness",
                                      "The closeness of one output to that of the model that was "
                                      "quantized. Samples count alike.");
  BindFields<deploy::OtherShape>(module, "OtherShape", "An output whose shape differed in runs.");
  BindFields<deploy::Closeness>(
      module, "Closeness", "How close the outputs are to those of the model that was quantized.");
  BindFields<deploy::Speed>(module, "Speed",
                            "The time over that of the model that was quantized, in seconds.");
  BindFields<deploy::LayerTime>(module, "LayerTime",
                                "The time of a layer beside that of the model that was quantized.");
  BindFields<deploy::WorkShares>(module, "WorkShares",
                                 "Numbers of products of a run. 0 for a model without any.");
  using deploy::TargetReport;
  BindFields<TargetReport>(module, "TargetReport", "The results of check.")
      .def("to_json", [](const TargetReport& self) { return TextOf(deploy::ToJson(self), 2); });
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
  BindFields<weights::StoredConstant>(module, "ConstantReport", "A constant of a model.");
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
  BindFields<InspectReport>(module, "InspectReport", "The content of a model file.")
      .def_prop_ro("inputs", [names](const InspectReport& self) { return names(self.inputs); })
      .def_prop_ro(
          "input_shapes", [shapes](const InspectReport& self) { return shapes(self.inputs); },
          "Shapes of the inputs. -1: the dimension is not known.")
      .def_prop_ro("outputs", [names](const InspectReport& self) { return names(self.outputs); })
      .def_prop_ro(
          "output_shapes", [shapes](const InspectReport& self) { return shapes(self.outputs); },
          "The same for the outputs.");
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
  BindFields<tasks::TuneReport>(module, "TuneReport", "The results of tune.");
}

}  // namespace

void BindReports(nb::module_& module) {
  BindTuning(module);
  BindEvaluationReport(module);  // before the types that hold its own
  BindTargetReport(module);
  BindQuantizeReport(module);
  BindCalibration(module);
  BindInspectReport(module);
  BindFields<tasks::UnpackReport>(module, "UnpackReport", "The results of unpack.");
  BindFields<tasks::HubFile>(module, "HubFile", "A file that hub made.");
  BindFields<tasks::HubChoice>(module, "HubChoice", "The files of hub that keep a budget.");
  BindFields<tasks::HubReport>(module, "HubReport", "The results of hub.")
      .def("to_json", [](const tasks::HubReport& self) { return TextOf(tasks::ToJson(self), 2); });
  BindFields<tasks::OptimizeReport>(module, "OptimizeReport", "The results of optimize.");
}

}  // namespace bitpress::python
