// The body of a function that decodes a packed weight, written node by node: lookups of codes,
// casts and shapes. Every step gives the name of its value. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"

namespace bitpress::weights {

class UnpackBody {
 public:
  using Attributes = std::vector<std::pair<std::string, graph::Attribute>>;

  // Writes into `function`, which must outlive it.
  explicit UnpackBody(graph::FunctionSpec& function) : function_(function) {}

  std::string Add(std::string op_type, std::vector<std::string> inputs, std::string output,
                  Attributes attributes = {});
  std::string Constant(std::string name, Tensor value);
  std::string Floats(std::string name, std::vector<int64_t> dims, const std::vector<float>& values);
  std::string Int64s(std::string name, const std::vector<int64_t>& values);  // a vector
  std::string Scalar(std::string name, int64_t value);
  // An attribute of the node that calls, as a vector or a scalar of its name.
  std::string IntsAttribute(const std::string& name);
  std::string IntAttribute(const std::string& name);
  std::string Cast(std::string input, DataType type, std::string output);

  // What `table` says for each code of `input`, packed as formats/pack.h says, as one row of
  // values; the last ones may be padding. `table` has an entry for each code.
  std::string Decode(const std::string& input, int bits, const std::vector<float>& table,
                     const std::string& what);

  // Elements behind the last value, with which packed codes fill up their last byte or group.
  enum class Padding { kNone, kBehind };
  static Padding PaddingIf(bool is_padded) { return is_padded ? Padding::kBehind : Padding::kNone; }
  // Adds nodes that cut off the padding of `values` and bring them into `shape`.
  std::string InShape(std::string values, const std::string& shape, Padding padding,
                      const std::string& name);

  // What is known of the attribute `blocks`, [outer, parts, length, inner]: the shape of a weight
  // with its axis cut into equal parts.
  struct Parts {
    std::string count;
    std::string length;
    std::string begin;  // of each part, along the axis
  };
  Parts AddParts();
  // Of values [outer or 1, n, inner or 1], one for each `size` elements of the axis, that of each
  // part: [outer or 1, parts, inner or 1].
  std::string PerPart(const std::string& values, const Parts& parts, const std::string& size,
                      const std::string& name);
  // The same as a factor of elements in the shape `blocks`.
  std::string BehindParts(std::string values, std::string name);

 private:
  std::string Int32s(std::string name, const std::vector<int32_t>& values);
  std::string AddSpare(const std::string& bytes, const std::string& values, int bits,
                       const std::vector<float>& table, const std::string& what);

  graph::FunctionSpec& function_;
};

}  // namespace bitpress::weights
