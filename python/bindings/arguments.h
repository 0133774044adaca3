// Arguments that several functions take.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "data/source.h"
#include "rewrite/prepare.h"
#include "samples.h"
#include "work.h"

namespace bitpress::python {

// Where samples come from: a folder, or an object of bitpress._samples.Samples.
struct SampleArguments {
  std::filesystem::path folder;
  std::filesystem::path labels_csv;
  std::string image;
  nb::object stream;
  size_t num_samples = 0;

  data::SampleSpec Spec(Work& work) const {
    return {.folder = folder,
            .labels_csv = labels_csv,
            .image = image,
            .opener = OpenerOf(stream, work),
            .limit = num_samples};
  }
};

inline rewrite::Preparation PreparationFor(bool as_is) {
  return as_is ? rewrite::Preparation::kAsIs : rewrite::Preparation::kOptimize;
}

// The value of a word. Throws Error(kInvalidArgument) with the words that are allowed.
template <typename T>
T Choose(const std::string& word, std::string_view key,
         std::initializer_list<std::pair<std::string_view, T>> words) {
  std::string allowed;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    allowed += fmt::format("{}'{}'", allowed.empty() ? "" : ", ", name);
  }
  Fail(ErrorCode::kInvalidArgument, "{} is '{}', expected one of {}", key, word, allowed);
}

}  // namespace bitpress::python
