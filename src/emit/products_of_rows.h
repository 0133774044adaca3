// A matrix product on integers whose activation has a scale and an offset for each row, such as a
// token, computed at every inference by standard operators:
//
//   low   = min of the row, scale = (max of the row - low) / 255
//   codes = round((x - low) / scale), uint8
//   x w   = (codes w_codes) * w_scale * scale + low * (sums of w's columns)
//
// Part of pass quantize-dynamically.
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

// An activation as codes: x = low + scale * codes. Both are [..., 1], one for each row.
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
  std::string sums;        // [n], of its columns as the codes mean them
};

class ProductsOfRows {
 public:
  explicit ProductsOfRows(graph::Model& model) : model_(model) {}

  // Quantizes a value before `reader`, which stays until all its products are there. `quantizer`
  // gets a node beside which others find the codes.
  RowCodes Quantize(const std::string& value, const graph::Node& reader, graph::Node& quantizer);
  // Inserts the product before `reader`. `bias`: "" for none. `output` must be free.
  void Multiply(const RowCodes& input, const MatrixCodes& weight, const std::string& bias,
                const std::string& output, const graph::Node& reader);

 private:
  std::string Compute(const std::string& op_type, std::vector<std::string> inputs,
                      const std::string& output, const graph::Node& reader,
                      std::vector<std::pair<std::string, graph::Attribute>> attributes = {});
  std::string Reduce(const std::string& op_type, const std::string& value,
                     const std::string& output, const graph::Node& reader);
  // One constant of that name for the whole model.
  template <typename T>
  std::string Constant(const std::string& wanted, DataType type, std::vector<int64_t> dims,
                       T value);

  graph::Model& model_;
  std::map<std::string, std::string> constants_;
};

// The sums of a matrix's elements along an axis, as its 8-bit codes mean them: [dims[1 - axis]].
Tensor SumsAlong(size_t axis, const weights::IntegerWeight& weight,
                 const weights::IntegerWeight::Result& result, ThreadPool& pool);

}  // namespace bitpress::emit
