// The task `inspect`: what is in a model file, as it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "evaluate/integer_products.h"
#include "graph/model.h"

namespace bitpress::tasks {

// A constant of the model: an initializer, or the weight that packed initializers hold.
struct ConstantReport {
  std::string name;
  std::string format;  // "mxfp8_e4m3", or the element type: "FLOAT"
  std::vector<int64_t> dims;
  uint64_t num_bytes = 0;
  // Why a float constant of a model that we wrote is one, and what its values are: "float: too
  // short", "mx6 as floats: ...".
  std::string reason;
  std::string held_format;  // whose values a float constant holds: "mx6"; "": any floats

  int64_t num_elements() const { return NumElements(dims); }
};

struct NamedValue {
  std::string name;
  graph::ValueInfo info;
};

struct InspectReport {
  uint64_t file_bytes = 0;  // external data included
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opset_imports;
  std::map<std::string, std::string> metadata;
  std::vector<NamedValue> inputs;
  std::vector<NamedValue> outputs;
  std::map<std::string, size_t> operators;   // "Conv" or "domain::Op" -> how often
  std::map<std::string, size_t> quantizers;  // those of them that quantize a value
  std::vector<ConstantReport> constants;     // in the file's order
  std::vector<std::string> functions;        // "bitpress.Unpack_mx6"
  // Operators whose sums saturate for some activations on x86 without VNNI.
  std::vector<evaluate::SaturatingNode> saturating_nodes;
};

// What is in a model file, as it is. Throws Error naming the file.
InspectReport Inspect(const std::filesystem::path& model);

}  // namespace bitpress::tasks
