// Rules of differentiation: for each operator the function and its gradient. A block (block.h) is a
// list of them. For example, for a node of a model:
//
//   const std::string reason = WhyNoRule(model, node);  // "" if there is a rule
//   const std::unique_ptr<Rule<float>> rule = MakeRule<float>(model, node, pool);
//   rule->Forward(inputs, outputs);
//   rule->Backward(inputs, outputs, output_gradients, input_gradients);
//
// Results are the same for any number of threads.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "gradients/array.h"
#include "graph/model.h"

namespace bitpress::gradients {

template <typename T>
class Rule {
 public:
  using Inputs = std::span<const Array<T>* const>;  // null where an optional input is left out
  virtual ~Rule() = default;
  // Computes the outputs, which take their shapes here. Throws Error(kInvalidArgument) if shapes do
  // not fit.
  virtual void Forward(Inputs inputs, std::span<Array<T>* const> outputs) = 0;
  // Adds the gradient of each input to gradients[i], which has the input's shape. Null: it is not
  // wanted. REQUIRES: Forward was called with the same inputs and outputs before.
  virtual void Backward(Inputs inputs, Inputs outputs, Inputs output_gradients,
                        std::span<Array<T>* const> gradients) = 0;
};

// Returns why a node has no rule, as a clause such as "operator NonZero has no gradient"; "" if it
// has one.
std::string WhyNoRule(const graph::Model& model, const graph::Node& node);
// Returns the rule of a node. The pool must outlive it. Throws Error(kUnsupported) with WhyNoRule.
template <typename T>
std::unique_ptr<Rule<T>> MakeRule(const graph::Model& model, const graph::Node& node,
                                  ThreadPool& pool);

}  // namespace bitpress::gradients
