// Inputs of a product in the order of a weight's columns: GPTQ's act-order gives groups of columns
// that are no neighbours one scale. With the inputs in the order of the groups the product is that
// of a weight in blocks. Changes a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::interop {

// Returns why the readers of a weight cannot take their inputs in another order, "" if they can.
std::string WhyNoInputOrder(const graph::Model& model, const std::string& value);

// Inserts a Gather in front of each product with the weight, which gives it input order[i] at i.
// Products of one value in one order share it. REQUIRES: WhyNoInputOrder is "".
void OrderInputs(graph::Model& model, const std::string& value, const std::vector<int64_t>& order);

}  // namespace bitpress::interop
