#include "gradients/rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "gradients/rules.h"

namespace bitpress::gradients {

std::optional<std::vector<int64_t>> RuleNode::Ints(size_t input,
                                                   const std::string& attribute) const {
  if (!attribute.empty() && node.HasAttribute(attribute)) {
    std::vector<int64_t> values;
    try {
      values = node.GetInts(attribute);
    } catch (const Error&) {
      values = {node.GetInt(attribute, 0)};
    }
    return values;
  }
  if (!HasInput(input)) return std::nullopt;
  if (!model.IsInitializer(node.input(input))) {
    Refuse(fmt::format("input {} of {} is computed", input, op_type()));
  }
  const graph::InitializerView view = model.Initializer(node.input(input));
  if (view.type == DataType::kInt32) {
    const auto values = view.values<int32_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  }
  if (view.type != DataType::kInt64) Refuse(fmt::format("input {} is no whole number", input));
  const auto values = view.values<int64_t>();
  return std::vector<int64_t>(values.begin(), values.end());
}

std::optional<float> RuleNode::Scalar(size_t input, const std::string& attribute) const {
  if (!attribute.empty() && node.HasAttribute(attribute)) return node.GetFloat(attribute, 0);
  if (!HasInput(input)) return std::nullopt;
  if (!model.IsInitializer(node.input(input))) {
    Refuse(fmt::format("input {} of {} is computed", input, op_type()));
  }
  const graph::InitializerView view = model.Initializer(node.input(input));
  if (view.type != DataType::kFloat || view.values<float>().size() != 1) {
    Refuse(fmt::format("input {} of {} is not one float", input, op_type()));
  }
  return view.values<float>()[0];
}

template <typename T>
std::unique_ptr<Rule<T>> MakeRule(const graph::Model& model, const graph::Node& node,
                                  ThreadPool& pool) {
  const RuleNode with{model, node, pool};
  if (node.HasSubgraph()) with.Refuse(fmt::format("operator {} has bodies", node.op_type()));
  for (const auto& make : {&MakeConvolution<T>, &MakeProduct<T>, &MakeUnary<T>, &MakeBinary<T>,
                           &MakeNorm<T>, &MakePooling<T>, &MakeMovement<T>, &MakeAttention<T>}) {
    if (RuleOf<T> rule = make(with)) return rule;
  }
  with.Refuse(fmt::format("operator {} has no gradient", node.op_type()));
}
template std::unique_ptr<Rule<float>> MakeRule<float>(const graph::Model&, const graph::Node&,
                                                      ThreadPool&);
template std::unique_ptr<Rule<double>> MakeRule<double>(const graph::Model&, const graph::Node&,
                                                        ThreadPool&);

std::string WhyNoRule(const graph::Model& model, const graph::Node& node) {
  // Rules only read attributes and small constants when they are made, and run nothing.
  ThreadPool pool(1);
  try {
    MakeRule<float>(model, node, pool);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace bitpress::gradients
