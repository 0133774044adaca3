// Pass nhwc-inputs, on request: inputs of four dimensions take images with their channels last, as
// cameras and decoders of images give them. A Transpose behind each gives the network what it had.
// Samples are given in the new layout then.
#include <array>
#include <string>
#include <utility>

#include "rewrite/passes.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;

constexpr std::array<size_t, 4> kToChannelsLast = {0, 2, 3, 1};

void TakeChannelsLast(Model& model, const std::string& input) {
  const graph::ValueInfo info = model.InfoOf(input);
  graph::ValueInfo last = info;
  for (size_t i = 0; i < kToChannelsLast.size(); ++i)
    last.shape[i] = info.shape[kToChannelsLast[i]];
  const std::string first = model.FreshName(input + "_nchw");
  model.ReplaceAllUses(input, first);
  model.InsertNode({model.FreshNodeName(first),
                    "Transpose",
                    "",
                    {input},
                    {first},
                    {{"perm", std::vector<int64_t>{0, 3, 1, 2}}}},
                   model.Nodes().front());
  model.SetInterfaceInfo(input, last);
  model.SetInfo(first, info);
}

graph::PassResult TakeAllChannelsLast(Model& model) {
  graph::PassResult result = false;
  result.label = "inputs";
  int64_t num_inputs = 0;
  for (const std::string& input : model.InputNames()) {
    const graph::ValueInfo info = model.InfoOf(input);
    if (!info.has_shape || info.shape.size() != kToChannelsLast.size() || model.IsOutput(input)) {
      result.left_alone.emplace_back(input, "it has no four dimensions");
      continue;
    }
    TakeChannelsLast(model, input);
    ++num_inputs;
  }
  result.is_modified = num_inputs > 0;
  result.counts.emplace_back("inputs", num_inputs);
  result.text = fmt::format("{} with channels last", num_inputs);
  return result;
}

}  // namespace

const PreparePass kNhwcInputs{
    .name = "nhwc-inputs",
    .run = [](Model& model, PrepareState&) { return TakeAllChannelsLast(model); },
    .is_wanted =
        [](const Model& model, const PrepareState& state) {
          return !model.Nodes().empty() && !SettingOf(state, kNhwcInputs).empty();
        },
    .setting = "all"};

}  // namespace bitpress::rewrite
