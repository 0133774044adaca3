// What the quantizers in a running model do, by whoever they were written. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "graph/model.h"

namespace bitpress::report {

struct ActivationFormat {
  std::string format;  // "mx6", "uint8", "uint8, dynamic"; an operator we do not know: its name
  std::optional<std::pair<double, double>> range;  // integers with a scale: what they can hold
};

// Of the quantizer that gives `value`; nothing if none does.
std::optional<ActivationFormat> FormatOf(const graph::Model& model, std::string_view value);

// Of every float value that goes into a quantizer of activations, by its name in the float model:
// a graph output that is quantized has its name behind the quantizer.
std::map<std::string, ActivationFormat> QuantizedActivations(const graph::Model& model);

// Type, scale and zero point of a node that reads or gives integers: "uint8" and its range, from
// the names of the scale and zero point.
ActivationFormat IntegerFormat(const graph::Model& model, const std::string& scale,
                               const std::string& zero_point);

}  // namespace bitpress::report
