// Makes a FLOAT network one of FLOAT16 (pass narrow-to-half of preparation): the preset FP16. This
// file decides which operators keep FLOAT; graph/narrow_to_half.h does the work.
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "graph/model.h"
#include "graph/narrow_to_half.h"
#include "plan/equalization.h"

namespace bitpress::rewrite {

struct NarrowReport {
  size_t num_half_nodes = 0;
  // The nodes that keep FLOAT values, and why.
  std::vector<std::pair<std::string, std::string>> kept;
  graph::NarrowedConstants constants;
  bool was_half = false;  // the network has FLOAT16 values already, and stays as it is
};
constexpr auto FieldsOf(const NarrowReport*) {
  using Report = NarrowReport;
  return std::tuple(
      Field{"num_half_nodes", &Report::num_half_nodes},
      ComputedField{"num_constants",
                    [](const Report& report) { return report.constants.num_constants; }},
      ComputedField{"num_clipped",
                    [](const Report& report) { return report.constants.num_clipped; }},
      ComputedField{"num_vanished",
                    [](const Report& report) { return report.constants.num_vanished; }},
      Field{"kept", &Report::kept});
}

// Keeps FLOAT where the wish or the operator says so (ops/operator_traits.h), where constants are
// too small, in what computes whole numbers, angles and logarithms, and between such operators.
// REQUIRES: types are inferred.
NarrowReport NarrowNetwork(graph::Model& model, const plan::HalfWish& wish);

}  // namespace bitpress::rewrite
