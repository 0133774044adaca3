#include "calibrate/compared_values.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "ops/operator_traits.h"

namespace bitpress::calibrate {
namespace {

using graph::Node;

// More parts than these are no heads of a detector.
constexpr size_t kMostParts = 64;
// The least ratio between the typical values of parts that are compared each for itself.
constexpr double kPartsDiffer = 8;

// The nodes between an output and the operators that multiply in front of it.
struct Cone {
  std::vector<Node> nodes;         // in the order of the graph
  std::set<std::string> computed;  // what they compute
};

Cone ConeOf(const graph::Model& model, const std::string& output) {
  std::vector<std::string> pending{output};
  Cone cone;
  std::set<std::string> first_outputs;
  while (!pending.empty()) {
    const std::optional<Node> node = model.Producer(pending.back());
    pending.pop_back();
    if (!node || ops::TraitsOf(*node).multiplies() || node->HasSubgraph()) continue;
    if (!first_outputs.insert(node->output(0)).second) continue;
    for (size_t i = 0; i < node->num_outputs(); ++i) cone.computed.insert(node->output(i));
    for (size_t i = 0; i < node->num_inputs(); ++i) pending.push_back(node->input(i));
  }
  for (const Node& node : model.Nodes()) {
    if (first_outputs.contains(node.output(0))) cone.nodes.push_back(node);
  }
  return cone;
}

// Returns the floats that choosers in front of an output read, and the operators behind these in
// their cone. Nothing if no chooser stands there.
std::vector<ComparedValue> InFrontOfChoice(const graph::Model& model, const plan::NodeIndex& index,
                                           const std::string& output) {
  const Cone cone = ConeOf(model, output);
  std::vector<ComparedValue> compared;
  std::set<std::string> chosen;  // values that depend on a choice
  for (const Node& node : cone.nodes) {
    bool is_behind = ops::TraitsOf(node).Is(ops::kGivesPlaces);
    for (size_t i = 0; i < node.num_inputs(); ++i) is_behind |= chosen.contains(node.input(i));
    if (!is_behind) continue;
    for (size_t i = 0; i < node.num_outputs(); ++i) chosen.insert(node.output(i));
    if (ops::TraitsOf(node).Is(ops::kReadsShape)) continue;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::string& value = node.input(i);
      const bool is_float = !value.empty() && model.InfoOf(value).type == DataType::kFloat;
      if (!is_float || chosen.contains(value) || !model.Producer(value)) continue;
      compared.push_back(
          {value,
           output,
           plan::TensorUse{index.KeyOf(node), node.op_type(), static_cast<int64_t>(i)},
           {}});
    }
  }
  return compared;
}

int64_t SizeOf(const graph::ValueInfo& info, size_t axis) {
  return axis < info.shape.size() ? info.shape[axis].value : -1;
}

// Returns for each axis of the input of a Reshape the axis of its output that counts the same.
std::vector<std::optional<size_t>> AxesThroughReshape(const graph::ValueInfo& input,
                                                      const graph::ValueInfo& output) {
  std::vector<std::optional<size_t>> axes(input.shape.size());
  for (size_t a = 0; a < input.shape.size() && a < output.shape.size(); ++a) {
    // From the back, because the first dimension is often unknown.
    const size_t from = input.shape.size() - 1 - a;
    const size_t to = output.shape.size() - 1 - a;
    if (SizeOf(input, from) < 1 || SizeOf(input, from) != SizeOf(output, to)) break;
    axes[from] = to;
  }
  return axes;
}

// Finds the parts of a value through operators that only move elements.
class PartFinder {
 public:
  explicit PartFinder(const graph::Model& model) : model_(model) {}

  // A part, and the value that it is.
  struct Found {
    TensorPart part;
    std::string value;
  };

  std::vector<Found> Find(const std::string& value) {
    std::vector<std::optional<size_t>> axes(model_.InfoOf(value).shape.size());
    for (size_t a = 0; a < axes.size(); ++a) axes[a] = a;
    Visit(value, axes, {});
    if (parts_.size() <= 1 || parts_.size() > kMostParts) parts_.clear();
    return std::move(parts_);
  }

 private:
  // Visits a value that is the part of the whole. Its axes are those axes of the whole.
  void Visit(const std::string& value, const std::vector<std::optional<size_t>>& axes,
             const TensorPart& part) {
    const std::optional<Node> node = model_.Producer(value);
    const bool is_standard = node && node->domain().empty() && !axes.empty();
    if (is_standard && node->op_type() == "Identity") return Visit(node->input(0), axes, part);
    if (is_standard && node->op_type() == "Transpose") {
      const std::vector<int64_t> order = node->GetInts("perm");
      std::vector<std::optional<size_t>> before(axes.size());
      for (size_t a = 0; a < axes.size(); ++a) {
        before[order.size() == axes.size() ? static_cast<size_t>(order[a]) : axes.size() - 1 - a] =
            axes[a];
      }
      return Visit(node->input(0), before, part);
    }
    if (is_standard && node->op_type() == "Reshape") {
      std::vector<std::optional<size_t>> before =
          AxesThroughReshape(model_.InfoOf(node->input(0)), model_.InfoOf(value));
      for (std::optional<size_t>& axis : before) axis = axis ? axes[*axis] : std::nullopt;
      return Visit(node->input(0), before, part);
    }
    if (!is_standard || node->op_type() != "Concat" || !VisitInputs(*node, axes, part)) {
      parts_.push_back({part, value});
    }
  }

  // Visits what a Concat puts together. Returns false if it is not known where the parts end.
  bool VisitInputs(const Node& node, const std::vector<std::optional<size_t>>& axes,
                   const TensorPart& part) {
    const int64_t given = node.GetInt("axis", 0);
    const auto axis = static_cast<size_t>(given < 0 ? given + std::ssize(axes) : given);
    if (axis >= axes.size() || !axes[axis]) return false;
    const auto is_same = [&](const TensorPart::Range& range) { return range.axis == *axes[axis]; };
    const auto outer = std::ranges::find_if(part.ranges, is_same);
    int64_t begin = outer == part.ranges.end() ? 0 : outer->begin;
    std::vector<TensorPart> inner;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const int64_t size = SizeOf(model_.InfoOf(node.input(i)), axis);
      if (size < 0) return false;
      inner.push_back(part);
      std::erase_if(inner.back().ranges, is_same);
      inner.back().ranges.push_back({*axes[axis], begin, begin + size});
      begin += size;
    }
    for (size_t i = 0; i < node.num_inputs() && parts_.size() <= kMostParts; ++i) {
      Visit(node.input(i), axes, inner[i]);
    }
    return true;
  }

  const graph::Model& model_;
  std::vector<Found> parts_;
};

// Returns the elements of a part, nothing if the tensor has no such part.
std::optional<std::vector<float>> Take(const Tensor& tensor, const TensorPart& part) {
  std::vector<int64_t> begin(tensor.dims.size(), 0);
  std::vector<int64_t> end = tensor.dims;
  for (const TensorPart::Range& range : part.ranges) {
    if (range.axis >= end.size() || range.end > end[range.axis]) return std::nullopt;
    begin[range.axis] = range.begin;
    end[range.axis] = range.end;
  }
  const auto values = tensor.values<float>();
  std::vector<float> taken;
  for (size_t a = 0; a < end.size(); ++a) {
    if (begin[a] >= end[a]) return taken;
  }
  std::vector<int64_t> at = begin;
  for (;;) {
    int64_t offset = 0;
    for (size_t a = 0; a < at.size(); ++a) offset = offset * tensor.dims[a] + at[a];
    const int64_t row = at.empty() ? 1 : end.back() - begin.back();
    const auto first = values.begin() + offset;
    taken.insert(taken.end(), first, first + row);
    size_t a = at.empty() ? 0 : at.size() - 1;  // the last axis was taken whole
    for (;;) {
      if (a == 0) return taken;
      --a;
      if (++at[a] < end[a]) break;
      at[a] = begin[a];
    }
  }
}

// Returns whether the typical values of the parts differ so much that one hides another's errors.
bool Differ(const Tensor& first, const std::vector<TensorPart>& parts) {
  double least = 0;
  double most = 0;
  for (const TensorPart& part : parts) {
    const std::optional<std::vector<float>> values = Take(first, part);
    if (!values) return false;
    if (values->empty()) continue;
    double energy = 0;
    for (const float value : *values) energy += static_cast<double>(value) * value;
    const double size = std::sqrt(energy / static_cast<double>(values->size()));
    if (!(size > 0) || !std::isfinite(size)) continue;
    least = least == 0 ? size : std::min(least, size);
    most = std::max(most, size);
  }
  return least > 0 && most >= kPartsDiffer * least;
}

}  // namespace

std::string ComparedValue::Name() const {
  if (!reader) return fmt::format("output '{}'", output);
  return fmt::format("'{}', in front of {} and output '{}',", value, reader->op_type, output);
}

std::vector<ComparedValue> ComparedValues(const graph::Model& model) {
  const plan::NodeIndex index(model);
  std::vector<ComparedValue> compared;
  std::set<std::string> known;
  for (const std::string& output : model.OutputNames()) {
    std::vector<ComparedValue> values = InFrontOfChoice(model, index, output);
    if (values.empty()) values.push_back({output, output, std::nullopt, {}});
    for (ComparedValue& value : values) {
      if (!known.insert(value.value).second) continue;
      for (PartFinder::Found& found : PartFinder(model).Find(value.value)) {
        value.parts.push_back(std::move(found.part));
      }
      compared.push_back(std::move(value));
    }
  }
  return compared;
}

std::vector<std::string> ConcatenatedValues(const graph::Model& model, const std::string& value) {
  std::vector<std::string> values;
  for (PartFinder::Found& found : PartFinder(model).Find(value)) {
    values.push_back(std::move(found.value));
  }
  return values;
}

void ForgetEqualParts(ComparedValue& compared, const Tensor& example) {
  if (example.type != DataType::kFloat || !Differ(example, compared.parts)) compared.parts.clear();
}

std::vector<OutputError> ErrorsOf(const ComparedValue& compared, const Tensor& wanted,
                                  const Tensor& found) {
  const bool fits = wanted.type == DataType::kFloat && wanted.dims == found.dims;
  if (compared.parts.empty()) {
    if (!fits) return {OutputError()};
    return {CompareOutputs(wanted.values<float>(), found.values<float>())};
  }
  std::vector<OutputError> errors;
  for (const TensorPart& part : compared.parts) {
    const auto one = fits ? Take(wanted, part) : std::nullopt;
    const auto other = fits ? Take(found, part) : std::nullopt;
    errors.push_back(one && other ? CompareOutputs<float>(*one, *other) : OutputError());
  }
  return errors;
}

}  // namespace bitpress::calibrate
