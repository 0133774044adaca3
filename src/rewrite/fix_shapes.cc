// Pass fix-shapes, on request: gives open dimensions of inputs their sizes, as runtimes want them
// that take fixed shapes only. `image:1x3x224x224` says all sizes of an input, `batch:1` that of a
// dimension with this name, wherever it is. The optimizer of ONNX Runtime then folds what computes
// shapes.
#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "rewrite/passes.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;

// The sizes that the words of a request give.
struct Sizes {
  std::map<std::string, std::vector<int64_t>> of_inputs;
  std::map<std::string, int64_t> of_dimensions;
};

std::vector<int64_t> ParseSizes(std::string_view word, std::string_view text) {
  std::vector<int64_t> sizes;
  bool is_valid = !text.empty();
  for (const std::string& part : Split(text, 'x')) {
    const char* const end = part.data() + part.size();
    int64_t size = 0;
    const std::from_chars_result read = std::from_chars(part.data(), end, size);
    is_valid = is_valid && read.ec == std::errc() && read.ptr == end && size > 0;
    sizes.push_back(size);
  }
  if (!is_valid) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is not of the form INPUT:1x3x224x224 or DIMENSION:1",
         word);
  }
  return sizes;
}

Sizes Parse(const Model& model, std::string_view request) {
  Sizes sizes;
  std::vector<std::string> known = model.InputNames();
  std::vector<std::string> dimensions;
  for (const std::string& input : known) {
    for (const graph::Dimension& dim : model.InfoOf(input).shape) {
      if (!dim.symbol.empty()) dimensions.push_back(dim.symbol);
    }
  }
  for (const std::string& item : Split(request, ',')) {
    const std::string word(Trim(item));
    const size_t colon = word.rfind(':');  // names may have colons
    const std::string name = word.substr(0, colon);
    const std::vector<int64_t> given = ParseSizes(
        word, colon == std::string::npos ? "" : std::string_view(word).substr(colon + 1));
    if (model.IsInput(name)) {
      sizes.of_inputs[name] = given;
    } else if (std::ranges::count(dimensions, name) > 0 && given.size() == 1) {
      sizes.of_dimensions[name] = given[0];
    } else {
      known.insert(known.end(), dimensions.begin(), dimensions.end());
      Fail(ErrorCode::kInvalidArgument,
           "'{}' is neither an input nor the name of a dimension of inputs ({}){}", name,
           Join(known, ", "), DidYouMean(name, known));
    }
  }
  return sizes;
}

// Gives the dimensions of a value their sizes, and notes those of their names.
void Fix(const std::string& input, const std::vector<int64_t>& given, graph::ValueInfo& info,
         std::map<std::string, int64_t>& of_dimensions) {
  if (info.has_shape && info.shape.size() != given.size()) {
    Fail(ErrorCode::kInvalidArgument, "input '{}' has {} dimensions, not {}", input,
         info.shape.size(), given.size());
  }
  info.shape.resize(given.size());
  info.has_shape = true;
  for (size_t i = 0; i < given.size(); ++i) {
    graph::Dimension& dim = info.shape[i];
    if (dim.value >= 0 && dim.value != given[i]) {
      Fail(ErrorCode::kInvalidArgument, "dimension {} of input '{}' is {}, not {}", i, input,
           dim.value, given[i]);
    }
    if (!dim.symbol.empty()) {
      const auto [known, is_new] = of_dimensions.try_emplace(dim.symbol, given[i]);
      if (known->second != given[i]) {
        Fail(ErrorCode::kInvalidArgument, "dimension '{}' is {} and {}", dim.symbol, known->second,
             given[i]);
      }
    }
    dim = {given[i], ""};
  }
}

graph::PassResult FixShapes(Model& model, std::string_view request) {
  Sizes sizes = Parse(model, request);
  for (const auto& [input, given] : sizes.of_inputs) {
    graph::ValueInfo info = model.InfoOf(input);
    Fix(input, given, info, sizes.of_dimensions);
    model.SetInterfaceInfo(input, info);
  }
  size_t num_open = 0;
  const auto replace = [&](const std::string& value, bool is_input) {
    graph::ValueInfo info = model.InfoOf(value);
    for (graph::Dimension& dim : info.shape) {
      const auto found = sizes.of_dimensions.find(dim.symbol);
      if (dim.value < 0 && found != sizes.of_dimensions.end()) dim = {found->second, ""};
      if (is_input && dim.value < 0) ++num_open;
    }
    if (info.has_shape) model.SetInterfaceInfo(value, info);
  };
  for (const std::string& input : model.InputNames()) replace(input, true);
  for (const std::string& output : model.OutputNames()) replace(output, false);
  model.DropDescriptions();
  graph::PassResult result = true;
  result.label = "fixed";
  result.text = fmt::format(
      "the sizes of {}{}", WithNoun(model.InputNames().size(), "input"),
      num_open == 0 ? "" : fmt::format("; {} stay open", WithNoun(num_open, "dimension")));
  result.counts.emplace_back("open_dimensions", static_cast<int64_t>(num_open));
  return result;
}

}  // namespace

const PreparePass kFixShapes{
    .name = "fix-shapes",
    .run = [](Model& model,
              PrepareState& state) { return FixShapes(model, SettingOf(state, kFixShapes)); },
    .is_wanted = [](const Model&,
                    const PrepareState& state) { return !SettingOf(state, kFixShapes).empty(); },
    .setting = "INPUT:SIZES[,DIMENSION:SIZE...]"};

}  // namespace bitpress::rewrite
