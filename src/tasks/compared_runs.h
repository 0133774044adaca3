// The runs in which a written model is compared with the model that it was made of, and what its
// outputs should reach.
#pragma once

#include <cstddef>
#include <vector>

#include "base/tensor.h"
#include "graph/model.h"
#include "plan/quant_plan.h"

namespace bitpress::tasks {

// The least and most runs in which outputs are compared with those of the given model, where there
// are so many samples.
inline constexpr size_t kLeastToCompare = 16;
inline constexpr size_t kMostToCompare = 64;

// Returns the products of a run with the sample `first`: `num_products` (ops::CountProducts), with
// its sizes in place of unknown dimensions.
double ProductsOfRun(const graph::Model& model, double num_products,
                     const std::vector<Tensor>& first);

// Returns in how many runs outputs are compared: about as many as a second allows, counted in
// products (ops::CountProducts), so that the number is the same on every machine. `first` is the
// first sample.
size_t SamplesToCompare(const graph::Model& model, double num_products,
                        const std::vector<Tensor>& first);

// Returns the SQNR in dB that the outputs should reach, by the bits of the plan's coarsest format.
double WantedDb(const plan::QuantPlan& plan);

}  // namespace bitpress::tasks
