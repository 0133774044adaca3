// A builder for the body of a function that decodes a packed weight (unpack_functions.h). It adds
// node by node: lookups of codes, casts and shapes. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "formats/pack.h"
#include "graph/model.h"

namespace bitpress::weights {

// The body of one function. Each method adds nodes and returns the name of their value.
class UnpackBody {
 public:
  using Attributes = std::vector<std::pair<std::string, graph::Attribute>>;

  // Writes into `function`, which must outlive it.
  explicit UnpackBody(graph::FunctionSpec& function) : function_(function) {}

  std::string Add(std::string op_type, std::vector<std::string> inputs, std::string output,
                  Attributes attributes = {});
  std::string Constant(std::string name, Tensor value);
  std::string Floats(std::string name, std::vector<int64_t> dims, const std::vector<float>& values);
  // The same numbers, stored as half floats where these hold them exactly: a small network must not
  // grow by the tables of its decoders.
  std::string Table(std::string name, std::vector<int64_t> dims, const std::vector<float>& values);
  std::string Int64s(std::string name, const std::vector<int64_t>& values);  // a vector
  std::string Scalar(std::string name, int64_t value);
  // Return an attribute of the calling node, as a vector or a scalar that has the attribute's name.
  std::string IntsAttribute(const std::string& name);
  std::string IntAttribute(const std::string& name);
  std::string Cast(std::string input, DataType type, std::string output);

  // Looks up each code of `input`, packed as formats/pack.h says, in `table`, which has an entry
  // for each code. The values are one row, and the last ones may be padding.
  std::string Decode(const std::string& input, int bits, const std::vector<float>& table,
                     const std::string& what);

  // Adds the spare high bits of each group's bytes, int32 [groups, bytes], as one number: that of
  // byte 0 lowest.
  std::string SpareStream(const std::string& bytes, const formats::PackGroup& group,
                          const std::string& what);

  // Elements behind the last value, with which packed codes fill up their last byte or group.
  enum class Padding { kNone, kBehind };
  static Padding PaddingIf(bool is_padded) { return is_padded ? Padding::kBehind : Padding::kNone; }
  // Cuts off the padding of `values` and brings them into `shape`.
  std::string InShape(std::string values, const std::string& shape, Padding padding,
                      const std::string& name);

  // The equal parts of an axis, as the attribute `blocks` has them: [outer, parts, length, inner].
  struct Parts {
    std::string count;   // number of parts
    std::string length;  // elements of a part
    std::string begin;   // first element of each part, along the axis
  };
  Parts AddParts();
  // Selects the value of each part, [outer or 1, parts, inner or 1], from `values`, [outer or 1, n,
  // inner or 1], which has one for each `size` elements of the axis.
  std::string PerPart(const std::string& values, const Parts& parts, const std::string& size,
                      const std::string& name);
  // Brings one value for each part into the shape of a factor for elements in the shape `blocks`.
  std::string BehindParts(std::string values, std::string name);

 private:
  std::string Int32s(std::string name, const std::vector<int32_t>& values);
  std::string AddSpare(const std::string& bytes, const std::string& values, int bits,
                       const std::vector<float>& table, const std::string& what);

  graph::FunctionSpec& function_;
};

}  // namespace bitpress::weights
