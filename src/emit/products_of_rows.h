// A matrix product on integers whose activation has a scale and an offset for each row, such as a
// token. Pass quantize-dynamically uses it. Standard operators compute scale and offset at every
// inference:
//
//   low   = min of the row, scale = (max of the row - low) / 255
//   codes = round((x - low) / scale), uint8
//   x w   = (codes w_codes) * w_scale * scale + low * (sums of w's columns)
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "base/thread_pool.h"
#include "graph/model.h"
#include "weights/integer_weight.h"

namespace bitpress::emit {

// An activation as codes: x = low + scale * codes. `low` and `scale` are [..., 1], one element for
// each row.
struct RowCodes {
  std::string codes;
  std::string scale;
  std::string low;
};

// A weight [k, n] as codes, by the names of its parts.
struct MatrixCodes {
  std::string codes;
  std::string scale;       // one, or [n]
  std::string zero_point;  // "": 0
  std::string sums;        // [n], the sums of the decoded columns
};

class ProductsOfRows {
 public:
  explicit ProductsOfRows(graph::Model& model) : model_(model) {}

  // Quantizes a value before `reader`. `reader` must stay until all its products are inserted.
  // `quantizer` is set to a node that marks the place of the codes for other products.
  RowCodes Quantize(const std::string& value, const graph::Node& reader, graph::Node& quantizer);
  // Inserts the product before `reader`. An empty `bias` means none. `output` must be a free name.
  void Multiply(const RowCodes& input, const MatrixCodes& weight, const std::string& bias,
                const std::string& output, const graph::Node& reader);

 private:
  std::string Compute(const std::string& op_type, std::vector<std::string> inputs,
                      const std::string& output, const graph::Node& reader,
                      std::vector<std::pair<std::string, graph::Attribute>> attributes = {});
  std::string Reduce(const std::string& op_type, const std::string& value,
                     const std::string& output, const graph::Node& reader);
  // Returns the name of a constant, which is added once for the whole model.
  template <typename T>
  std::string Constant(const std::string& wanted, DataType type, std::vector<int64_t> dims,
                       T value);

  graph::Model& model_;
  std::map<std::string, std::string> constants_;
};

// Returns the sums of a matrix's decoded 8-bit elements along an axis: [dims[1 - axis]].
Tensor SumsAlong(size_t axis, const weights::IntegerWeight& weight,
                 const weights::IntegerWeight::Result& result, ThreadPool& pool);

}  // namespace bitpress::emit
