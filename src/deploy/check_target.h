// Checks what ONNX Runtime on this machine does with a quantized model. The report says whether the
// model loads and runs, which operators compute on integers, and which compute in float between a
// DequantizeLinear and a QuantizeLinear, with the reason. Use it before a model is deployed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/tensor.h"
#include "deploy/closeness.h"
#include "deploy/layer_times.h"
#include "deploy/speed.h"
#include "deploy/work_shares.h"
#include "evaluate/other_processor.h"

namespace bitpress::deploy {

// An operator that computes in float, of the graph that ONNX Runtime made of the model.
struct FloatNode {
  std::string name;
  std::string op_type;
  std::string reason;
};
constexpr auto FieldsOf(const FloatNode*) {
  return std::tuple(Field{"name", &FloatNode::name,
                          "The name of the node, or of its first output if it has none."},
                    Field{"op_type", &FloatNode::op_type},
                    Field{"reason", &FloatNode::reason, "Why it does not compute on integers."});
}

// The results of CheckTarget.
struct TargetReport {
  std::string runtime;
  bool is_loaded = false;
  bool is_run = false;
  bool is_made_up = false;
  size_t num_decoded = 0;
  std::string error;
  std::string crash;
  std::string checker_error;
  bool is_described = false;
  std::map<std::string, size_t> integer_operators;
  std::vector<FloatNode> float_nodes;
  evaluate::ProcessorReport processor;
  std::optional<Closeness> closeness;
  std::optional<Speed> speed;
  std::vector<LayerTime> layers;
  std::optional<WorkShares> work;
  std::map<std::string, size_t> library_operators;
  std::vector<std::string> broken_rules;
  std::vector<std::string> advice;

  size_t num_integer_nodes() const;
  // Returns the SQNR in dB of the worst output beside the given model's, if it was measured.
  std::optional<double> worst_db() const;
};
constexpr auto FieldsOf(const TargetReport*) {
  return std::tuple(
      Field{"runtime", &TargetReport::runtime, "'ONNX Runtime 1.31.1'."},
      Field{"is_loaded", &TargetReport::is_loaded}, Field{"is_run", &TargetReport::is_run},
      Field{"is_made_up", &TargetReport::is_made_up,
            "No sample was given. The model ran on a few tokens if it takes tokens, else on zeros "
            "and noise, with unknown dimensions as 1, or as long as it needs them."},
      Field{"num_decoded", &TargetReport::num_decoded,
            "The weights that became floats to run the model, because the runtime has no "
            "DequantizeLinear for their types. The file is as it was."},
      Field{"error", &TargetReport::error,
            "The error of loading or running. '' if there was none."},
      Field{"crash", &TargetReport::crash,
            "The end of the process that checked, 'signal 6 (Aborted)'. '' if it ended as it "
            "should."},
      Field{"checker_error", &TargetReport::checker_error,
            "The objection of ONNX's checker, with types and shapes inferred. '' if it has none."},
      Field{"is_described", &TargetReport::is_described,
            "The operators were counted and described."},
      ComputedField{"num_integer_nodes",
                    [](const TargetReport& report) { return report.num_integer_nodes(); }},
      Field{"integer_operators", &TargetReport::integer_operators,
            "Number of operators on integers by type. Operators that only move codes count under "
            "their own name."},
      Field{"float_nodes", &TargetReport::float_nodes,
            "Operators that compute in float although they multiply or read dequantized values. "
            "Empty if the model holds no integers."},
      Field{"processor", &TargetReport::processor,
            "The difference to another kind of processor, on the sample."},
      Field{"closeness", &TargetReport::closeness,
            "The outputs beside those of the model that was quantized. None without samples."},
      Field{"speed", &TargetReport::speed,
            "The time over that of the model that was quantized. None if that was not asked for, "
            "or not possible."},
      Field{"layers", &TargetReport::layers,
            "The time of each layer beside the given model's, those first that lose most. Empty if "
            "that was not measured."},
      Field{"work", &TargetReport::work,
            "The shares of the products by how they are computed. None if the operators were not "
            "described."},
      Field{"library_operators", &TargetReport::library_operators,
            "Number of operators that only our library has, by type with the domain."},
      Field{"broken_rules", &TargetReport::broken_rules,
            "What the asked target does not take, a sentence for each tensor, node or model with "
            "the rule, what to do and the source. Empty if no target was asked."},
      Field{"advice", &TargetReport::advice, "What the target runs, but slowly, likewise."});
}

struct CheckTargetOptions {
  // Describes the operators of the graph that ONNX Runtime made of the model, and what another kind
  // of processor computes. That takes a temporary file as large as the optimized model.
  bool is_described = true;
  // The samples are made up: nothing is compared on them.
  bool are_made_up = false;
  // The model that this one was made of, whose time is compared with this one's and, with samples,
  // whose outputs. Empty: there is none.
  std::filesystem::path given = {};
  // The closeness that the outputs should reach then, see Closeness::wanted_db.
  double wanted_db = kLeastDb;
  // Called before the models are compared with the report so far: `given` may crash ONNX Runtime,
  // which is no fault of the model. May be empty.
  std::function<void(const TargetReport&)> on_checked = {};
  // Called before each step with what happens next: "ONNX Runtime 1.31.1, loading the model,". A
  // crash ends the process, and the last call says where. May be empty.
  std::function<void(std::string_view)> on_stage = {};
};

// Loads a model and runs it on the samples, in this process: see CheckInSubprocess. A sample has a
// tensor for each input of the model; without any, one is made up. An error of the model is in the
// report's `error` and is not thrown. Throws Error(kIo) if temporary files cannot be written,
// Error(kRuntime) if there is no ONNX Runtime.
TargetReport CheckTarget(const std::filesystem::path& model,
                         const std::vector<std::vector<Tensor>>& samples,
                         const CheckTargetOptions& options = {});

// Returns the report in JSON: the fields above by name.
nlohmann::ordered_json ToJson(const TargetReport& report);

}  // namespace bitpress::deploy
