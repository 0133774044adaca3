// The writing of Pad and Resize without their list of axes.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/clean_up.h"

namespace bitpress::graph {
namespace {

bool HasInputAt(const Node& node, size_t i) {
  return i < node.num_inputs() && !node.input(i).empty();
}

// The rewriting of one node. A list with an element for each named axis becomes one with an element
// for each axis of the tensor.
class AxesOf {
 public:
  // Nothing if an axis is not known.
  static std::optional<AxesOf> Make(Model& model, const Node& node, std::vector<int64_t> axes) {
    const ValueInfo info = model.InfoOf(node.input(0));
    const auto rank = static_cast<int64_t>(info.shape.size());
    if (!info.has_shape || axes.empty()) return std::nullopt;
    for (int64_t& axis : axes) {
      if (axis < 0) axis += rank;
      if (axis < 0 || axis >= rank) return std::nullopt;
    }
    return AxesOf(model, node, std::move(axes), rank);
  }

  // Spreads an input of numbers, `num_parts` for each axis, over all axes; other axes take those of
  // `rest`, a list with one number for all of them or one for each.
  void Spread(size_t input, int64_t num_parts, const std::string& rest, bool has_each) {
    const auto num_named = static_cast<int64_t>(axes_.size());
    std::vector<int64_t> places;
    for (int64_t part = 0; part < num_parts; ++part) {
      for (int64_t axis = 0; axis < rank_; ++axis) {
        const auto named = std::ranges::find(axes_, axis);
        const int64_t behind = num_parts * num_named + (has_each ? axis : 0);
        places.push_back(named == axes_.end() ? behind
                                              : part * num_named + (named - axes_.begin()));
      }
    }
    const std::string name = node_.input(input);
    const std::string all = model_.FreshName(name + "_of_all_axes");
    if (model_.IsInitializer(name) && model_.IsInitializer(rest)) {
      SetConstant(all, model_.Initializer(name), model_.Initializer(rest), places);
    } else {
      const std::string both = model_.FreshName(name + "_and_rest");
      const std::string index = Numbers(name + "_places", places);
      model_.InsertNode({"", "Concat", "", {name, rest}, {both}, {{"axis", int64_t{0}}}}, node_);
      model_.InsertNode({"", "Gather", "", {both, index}, {all}, {}}, node_);
    }
    node_.set_input(input, all);
  }

  std::string Numbers(const std::string& name, const std::vector<int64_t>& numbers) {
    const std::string fresh = model_.FreshName(name);
    model_.SetInitializer(fresh, DataType::kInt64,
                          std::vector<int64_t>{static_cast<int64_t>(numbers.size())},
                          std::as_bytes(std::span<const int64_t>(numbers)));
    return fresh;
  }

 private:
  AxesOf(Model& model, const Node& node, std::vector<int64_t> axes, int64_t rank)
      : model_(model), node_(node), axes_(std::move(axes)), rank_(rank) {}

  void SetConstant(const std::string& name, const InitializerView& named,
                   const InitializerView& rest, const std::vector<int64_t>& places) {
    const size_t size = ElementBits(named.type) / 8;
    const size_t num_named = named.bytes.size() / size;
    Tensor all{named.type, {static_cast<int64_t>(places.size())}, {}};
    for (const int64_t place : places) {
      const auto at = static_cast<size_t>(place);
      const std::span<const std::byte> bytes =
          at < num_named ? named.bytes.subspan(at * size, size)
                         : rest.bytes.subspan((at - num_named) * size, size);
      all.bytes.insert(all.bytes.end(), bytes.begin(), bytes.end());
    }
    model_.SetInitializer(name, std::move(all));
  }

  Model& model_;
  Node node_;
  std::vector<int64_t> axes_;
  int64_t rank_;
};

// Returns the numbers of a constant list of INT64 or INT32, or none.
std::vector<int64_t> ConstantNumbers(const Model& model, const std::string& name) {
  if (!model.IsInitializer(name)) return {};
  const InitializerView view = model.Initializer(name);
  if (view.type == DataType::kInt64) {
    const std::span<const int64_t> values = view.values<int64_t>();
    return {values.begin(), values.end()};
  }
  if (view.type != DataType::kInt32) return {};
  const std::span<const int32_t> values = view.values<int32_t>();
  return {values.begin(), values.end()};
}

bool NameAxesOfPad(Model& model, Node node) {
  if (!HasInputAt(node, 3)) return false;
  std::optional<AxesOf> axes = AxesOf::Make(model, node, ConstantNumbers(model, node.input(3)));
  if (!axes) return false;
  const std::string none = axes->Numbers(node.output(0) + "_none", {0});
  axes->Spread(1, 2, none, false);
  node.set_input(3, "");
  if (!model.IsRead(none)) model.RemoveInitializer(none);
  return true;
}

bool NameAxesOfResize(Model& model, Node node) {
  // Whether an aspect ratio or the region of a crop is kept depends on the axes.
  const bool depends =
      node.GetString("keep_aspect_ratio_policy", "stretch") != "stretch" ||
      node.GetString("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
  if (!node.HasAttribute("axes") || depends) return false;
  std::optional<AxesOf> axes = AxesOf::Make(model, node, node.GetInts("axes"));
  if (!axes) return false;
  if (HasInputAt(node, 2)) {
    const std::string one = model.FreshName(node.output(0) + "_one");
    constexpr float kOne[] = {1};
    model.SetInitializer(one, DataType::kFloat, std::vector<int64_t>{1},
                         std::as_bytes(std::span(kOne)));
    axes->Spread(2, 1, one, false);
    if (!model.IsRead(one)) model.RemoveInitializer(one);
  } else if (HasInputAt(node, 3)) {
    const std::string shape = model.FreshName(node.input(0) + "_shape");
    model.InsertNode({"", "Shape", "", {node.input(0)}, {shape}, {}}, node);
    axes->Spread(3, 1, shape, true);
  }
  node.RemoveAttribute("axes");
  return true;
}

}  // namespace

size_t NameAllAxes(Model& model) {
  size_t num_changed = 0;
  for (const Node& node : model.AllNodes()) {
    if (!node.domain().empty()) continue;
    const bool is_changed = (node.op_type() == "Pad" && NameAxesOfPad(model, node)) ||
                            (node.op_type() == "Resize" && NameAxesOfResize(model, node));
    if (is_changed) ++num_changed;
  }
  return num_changed;
}

}  // namespace bitpress::graph
