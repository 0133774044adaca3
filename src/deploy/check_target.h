// What ONNX Runtime on this machine makes of a model: whether it loads and runs, which operators
// compute on integers, and which in float between a DequantizeLinear and a QuantizeLinear, with the
// reason.
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

// An operator of the graph that ONNX Runtime made of the model.
struct FloatNode {
  std::string name;  // of its first output where it has none
  std::string op_type;
  std::string reason;
};

struct TargetReport {
  std::string runtime;  // "ONNX Runtime 1.31.1"
  bool is_loaded = false;
  bool is_run = false;
  bool is_made_up = false;  // no sample was given: zeros and noise, unknown dimensions are 1
  std::string error;        // of loading or running; "" if both went well
  // "QLinearConv" -> 49; operators that move codes are under their own name.
  std::map<std::string, size_t> integer_operators;
  // In a model that holds integers: operators that multiply, and those that read dequantized
  // values, which compute in float.
  std::vector<FloatNode> float_nodes;
  // Tells whether other kinds of processors give other outputs, on the sample.
  evaluate::ProcessorReport processor;
  // Operators that exist in our library only, "com.amd.quark.ExtendedQuantizeLinear" -> 3.
  std::map<std::string, size_t> library_operators;

  size_t num_integer_nodes() const;
};

// `sample` has a tensor for each input of the model; empty: one is made up. Never throws for what
// is wrong with the model: `error` says it. Throws Error(kIo) where temporary files cannot be
// written.
TargetReport CheckTarget(const std::filesystem::path& model, const std::vector<Tensor>& sample);

// The fields above by name.
nlohmann::ordered_json ToJson(const TargetReport& report);

}  // namespace bitpress::deploy
