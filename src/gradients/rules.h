// The rules by kind, for rule.cc alone. Each function returns null if the operator is none of its
// kind, and throws Error(kUnsupported) if the node is but has attributes without a rule. A node's
// inputs that say how an operator works (shapes, axes, pads) must be constants.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "gradients/rule.h"
#include "graph/model.h"

namespace bitpress::gradients {

// A node on its way to a rule.
struct RuleNode {
  const graph::Model& model;
  const graph::Node& node;
  ThreadPool& pool;

  const std::string& op_type() const { return node.op_type(); }
  bool HasInput(size_t i) const { return i < node.num_inputs() && !node.input(i).empty(); }
  // Returns the whole numbers of a constant input, or of the attribute of older operator sets;
  // nothing if it is left out. Throws Error(kUnsupported) if it is computed.
  std::optional<std::vector<int64_t>> Ints(size_t input, const std::string& attribute) const;
  // Returns a constant of one float, likewise.
  std::optional<float> Scalar(size_t input, const std::string& attribute) const;
  [[noreturn]] void Refuse(const std::string& reason) const {
    Fail(ErrorCode::kUnsupported, "{}", reason);
  }
};

template <typename T>
using RuleOf = std::unique_ptr<Rule<T>>;
template <typename T>
RuleOf<T> MakeConvolution(const RuleNode& node);
template <typename T>
RuleOf<T> MakeProduct(const RuleNode& node);
template <typename T>
RuleOf<T> MakeUnary(const RuleNode& node);
template <typename T>
RuleOf<T> MakeBinary(const RuleNode& node);
template <typename T>
RuleOf<T> MakeNorm(const RuleNode& node);
template <typename T>
RuleOf<T> MakePooling(const RuleNode& node);
template <typename T>
RuleOf<T> MakeAttention(const RuleNode& node);
template <typename T>
RuleOf<T> MakeMovement(const RuleNode& node);

// Returns an axis counted from the start. Throws Error(kInvalidArgument) if there is none.
inline size_t AxisOf(int64_t axis, size_t rank) {
  const int64_t found = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  if (found < 0 || found >= static_cast<int64_t>(rank)) {
    Fail(ErrorCode::kInvalidArgument, "axis {} is none of {} dimensions", axis, rank);
  }
  return static_cast<size_t>(found);
}

// Elements of a task of loops over elements.
inline constexpr size_t kElementsOfTask = 1 << 14;
// Calls run(begin, end) for parts of [0, count).
template <typename Run>
void ForParts(ThreadPool& pool, size_t count, const Run& run) {
  const size_t num_tasks = (count + kElementsOfTask - 1) / kElementsOfTask;
  if (num_tasks <= 1) return run(size_t{0}, count);
  pool.ParallelFor(num_tasks, [&](size_t task) {
    const size_t begin = task * kElementsOfTask;
    run(begin, std::min(count, begin + kElementsOfTask));
  });
}

}  // namespace bitpress::gradients
