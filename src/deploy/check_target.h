// Checks what ONNX Runtime on this machine does with a quantized model. The report says whether the
// model loads and runs, which operators compute on integers, and which compute in float between a
// DequantizeLinear and a QuantizeLinear, with the reason. Use it before a model is deployed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "evaluate/other_processor.h"

namespace bitpress::deploy {

// An operator that computes in float, of the graph that ONNX Runtime made of the model.
struct FloatNode {
  std::string name;  // name of the node, or of its first output if it has none
  std::string op_type;
  std::string reason;  // reason why it does not compute on integers
};

// The results of CheckTarget.
struct TargetReport {
  std::string runtime;  // "ONNX Runtime 1.31.1"
  bool is_loaded = false;
  bool is_run = false;
  // No sample was given. The model ran on zeros and noise, with unknown dimensions as 1.
  bool is_made_up = false;
  std::string error;  // error of loading or running; "" if there was none
  // Number of operators on integers by type: "QLinearConv" -> 49. Operators that only move codes
  // count under their own name.
  std::map<std::string, size_t> integer_operators;
  // Operators that compute in float although they multiply or read dequantized values. Empty if the
  // model holds no integers.
  std::vector<FloatNode> float_nodes;
  // The difference to another kind of processor, on the sample.
  evaluate::ProcessorReport processor;
  // Number of operators that only our library has: "com.amd.quark.ExtendedQuantizeLinear" -> 3.
  std::map<std::string, size_t> library_operators;

  size_t num_integer_nodes() const;
};

// Loads a model and runs it on a sample. `sample` has a tensor for each input of the model; empty:
// a sample is made up. An error of the model is in the report's `error` and is not thrown. Throws
// Error(kIo) if temporary files cannot be written.
TargetReport CheckTarget(const std::filesystem::path& model, const std::vector<Tensor>& sample);

// Returns the report in JSON: the fields above by name.
nlohmann::ordered_json ToJson(const TargetReport& report);

}  // namespace bitpress::deploy
