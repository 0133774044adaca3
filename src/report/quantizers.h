// The formats of the quantizers in a running model, whichever tool wrote them. A report shows them.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "graph/model.h"

namespace bitpress::report {

// The format of an activation.
struct ActivationFormat {
  std::string format;  // "mx6", "uint8", "uint8, dynamic"; the name of an unknown operator
  std::optional<std::pair<double, double>> range;  // smallest and largest value of scaled integers
};

// Returns the format of the quantizer that gives `value`; nothing if none does.
std::optional<ActivationFormat> FormatOf(const graph::Model& model, std::string_view value);

// Returns the formats of all float values that go into a quantizer of activations, by their names
// in the float model. A quantized graph output has its name behind the quantizer.
std::map<std::string, ActivationFormat> QuantizedActivations(const graph::Model& model);

// Returns the format of a node that reads or gives integers, "uint8" and its range, from the names
// of its scale and zero point.
ActivationFormat IntegerFormat(const graph::Model& model, const std::string& scale,
                               const std::string& zero_point);

}  // namespace bitpress::report
