// The text that describes what ONNX Runtime does with a model (deploy/check_target.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "deploy/check_target.h"

namespace bitpress::apps {

// Describes the difference between kinds of processors, in lines that begin with two spaces. Names
// up to `max_nodes` operators that can saturate. `of_model` is the SQNR in dB of the model beside
// the given one, if it is known. Returns "" if all processors give the same.
std::string DescribeProcessors(const evaluate::ProcessorReport& report, size_t max_nodes,
                               std::optional<double> of_model);

// Says that so many convolutions with dynamic ranges are slow, and what to do instead. Returns ""
// if there is none.
std::string DescribeDynamicConvolutions(size_t count);

// Describes the report, in lines that begin with two spaces. Names up to `max_float_nodes`
// operators that compute in float, and up to `max_saturating_nodes` that can saturate.
std::string DescribeTarget(const deploy::TargetReport& report, size_t max_float_nodes,
                           size_t max_saturating_nodes);

}  // namespace bitpress::apps
