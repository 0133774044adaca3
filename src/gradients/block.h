// A part of a network that computes its outputs, and the gradients of its constants, here and not
// in ONNX Runtime. For example, one step of learning:
//
//   Block<float> block(model, {nodes, {"y"}}, {"conv.weight"}, quantized_values, pool);
//   block.Input(0) = ...;
//   block.Forward();
//   block.OutputGradient(0) = ...;  // in the shape of block.Output(0)
//   block.Backward();
//   Use(block.Gradient("conv.weight"));
//
// Results are the same for any number of threads. Memory is kept from one step to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "gradients/activation_quantizer.h"
#include "gradients/array.h"
#include "gradients/rule.h"
#include "graph/model.h"

namespace bitpress::gradients {

// The nodes of a block, and those of their outputs that are wanted.
struct BlockNodes {
  std::vector<graph::Node> nodes;  // in topological order
  std::vector<std::string> outputs;
};

// A value that some nodes of a block read quantized.
struct QuantizedValue {
  std::string value;
  std::shared_ptr<const ActivationQuantizer> quantizer;
  // The readings: the first output of the node that reads, and the index of its input.
  std::vector<std::pair<std::string, size_t>> readings;
};

template <typename T>
class Block {
 public:
  // `learned` are the constants whose gradients are wanted. Constants have their values from the
  // model. The model is not needed afterwards, the pool is. Throws Error(kUnsupported) if a node
  // has no rule (WhyNoRule).
  Block(const graph::Model& model, const BlockNodes& nodes, std::span<const std::string> learned,
        std::span<const QuantizedValue> quantized, ThreadPool& pool);

  // Returns the values that the block reads and does not compute, without constants.
  const std::vector<std::string>& inputs() const { return inputs_; }
  Array<T>& Input(size_t i) { return slots_[input_slots_[i]].value; }
  // Returns a constant that is a float; its values may be changed. Throws std::out_of_range if the
  // block reads no such constant.
  Array<T>& Constant(const std::string& name) { return slots_[slot_of_.at(name)].value; }

  // Returns how many numbers Forward computed, of all operators and quantizers. REQUIRES: it ran.
  size_t NumValues() const;

  // Computes the outputs. Throws Error(kInvalidArgument) naming the node if shapes do not fit.
  void Forward();
  const Array<T>& Output(size_t i) const { return slots_[output_slots_[i]].value; }

  // Returns the place of an output's gradient, which the caller fills before Backward.
  Array<T>& OutputGradient(size_t i) { return output_gradients_[i]; }
  // Computes the gradients of the learned constants. REQUIRES: Forward ran.
  void Backward();
  // REQUIRES: the constant is learned.
  const Array<T>& Gradient(const std::string& name) const {
    return slots_[slot_of_.at(name)].gradient;
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);
  struct Slot {
    Array<T> value, gradient;
    bool is_wanted = false;  // its gradient
  };
  struct Step {
    std::string name;  // of the node, for messages
    std::unique_ptr<Rule<T>> rule;
    std::shared_ptr<const ActivationQuantizer> quantizer;  // in place of a rule
    std::vector<uint8_t> passes;                           // of the quantizer
    std::vector<size_t> inputs, outputs;                   // slots; kNone: left out
  };

  size_t AddSlot(const std::string& name);
  size_t SlotOfInput(const graph::Model& model, const std::string& value);
  void AddQuantizers(const std::string& value, std::span<const QuantizedValue> quantized);
  void BackwardThrough(Step& step);

  ThreadPool& pool_;
  std::vector<Slot> slots_;
  std::map<std::string, size_t> slot_of_;
  std::map<std::pair<std::string, size_t>, size_t> slot_of_reading_;  // of quantized readings
  std::vector<Step> steps_;
  std::vector<std::string> inputs_;
  std::vector<size_t> input_slots_, output_slots_;
  std::vector<Array<T>> output_gradients_;
};

}  // namespace bitpress::gradients
