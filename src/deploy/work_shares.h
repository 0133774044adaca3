// The shares of a model's products that compute on integers, from the codes of weights, and in
// float. Products are multiplications of matrices, images and states, which take most of the time.
// They are counted with the shapes that one run met, so that they are the same in every run.
#pragma once

#include <tuple>
#include <vector>

#include "base/fields.h"
#include "deploy/run_profile.h"
#include "graph/model.h"

namespace bitpress::deploy {

// Numbers of products. All of them are 0 for a model without any.
struct WorkShares {
  double integers = 0;
  double codes = 0;
  double floats = 0;

  double all() const { return integers + codes + floats; }
};
constexpr auto FieldsOf(const WorkShares*) {
  return std::tuple(Field{"integers", &WorkShares::integers, "Products of two codes."},
                    Field{"codes", &WorkShares::codes,
                          "Products of floats with codes of weights, which are never decoded as a "
                          "whole."},
                    Field{"floats", &WorkShares::floats, "Products of floats."});
}

// Counts the products of a run. `graph` is the model that ran as it was loaded, without any change
// by ONNX Runtime.
WorkShares CountWork(const graph::Model& graph, const std::vector<OperatorRun>& run);

}  // namespace bitpress::deploy
