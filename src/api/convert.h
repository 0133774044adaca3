// These functions put what the public headers say into the words of the rooms.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/messages.h"
#include "bitpress/quantize.h"
#include "bitpress/samples.h"
#include "data/source.h"
#include "plan/quant_config.h"

namespace bitpress::api {

// Throws Error naming the setting or the rule that is wrong.
plan::QuantConfig ToConfig(const Configuration& configuration);

// Throws Error(kInvalidArgument) if several kinds of samples are given.
data::SampleSpec ToSpec(const Samples& samples);

// Calls `function()`. Errors leave with options spelt as C++ has them.
template <typename Function>
decltype(auto) AtEntryPoint(Function&& function) {
  try {
    return function();
  } catch (const Error& error) {
    throw Error(error.code(), SpellOptions(error.what(), [](std::string_view option) {
                  return std::string(option);
                }));
  }
}

}  // namespace bitpress::api
