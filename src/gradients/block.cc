#include "gradients/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "gradients/rules.h"

namespace bitpress::gradients {
namespace {

// Returns a constant of floats; nothing for other types.
template <typename T>
Array<T> FloatsOf(const graph::InitializerView& view) {
  Array<T> array;
  if (view.type == DataType::kFloat) {
    array.Reshape(view.dims);
    std::ranges::copy(view.values<float>(), array.values.begin());
  } else if (view.type == DataType::kDouble) {
    array.Reshape(view.dims);
    std::ranges::transform(view.values<double>(), array.values.begin(),
                           [](double value) { return static_cast<T>(value); });
  }
  return array;
}

}  // namespace

template <typename T>
Block<T>::Block(const graph::Model& model, const BlockNodes& nodes,
                std::span<const std::string> learned, std::span<const QuantizedValue> quantized,
                ThreadPool& pool)
    : pool_(pool) {
  for (const graph::Node& node : nodes.nodes) {
    Step step{node.Describe(), MakeRule<T>(model, node, pool), nullptr, {}, {}, {}};
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::string& value = node.input(i);
      if (value.empty()) {
        step.inputs.push_back(kNone);
        continue;
      }
      if (!slot_of_.contains(value)) {
        const size_t slot = SlotOfInput(model, value);
        slots_[slot].is_wanted = std::ranges::count(learned, value) > 0;
        AddQuantizers(value, quantized);
      }
      const auto reading = slot_of_reading_.find({node.output(0), i});
      step.inputs.push_back(reading == slot_of_reading_.end() ? slot_of_.at(value)
                                                              : reading->second);
    }
    const bool is_wanted = std::ranges::any_of(
        step.inputs, [&](size_t slot) { return slot != kNone && slots_[slot].is_wanted; });
    std::vector<std::string> outputs;
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      if (node.output(i).empty()) {
        Fail(ErrorCode::kUnsupported, "{} leaves out an output", node.Describe());
      }
      const size_t slot = AddSlot(node.output(i));
      slots_[slot].is_wanted = is_wanted;
      step.outputs.push_back(slot);
      outputs.push_back(node.output(i));
    }
    steps_.push_back(std::move(step));
    for (const std::string& output : outputs) AddQuantizers(output, quantized);
  }
  for (const std::string& output : nodes.outputs) output_slots_.push_back(slot_of_.at(output));
  output_gradients_.resize(output_slots_.size());
}

template <typename T>
size_t Block<T>::AddSlot(const std::string& name) {
  slots_.emplace_back();
  slot_of_[name] = slots_.size() - 1;
  return slots_.size() - 1;
}

template <typename T>
size_t Block<T>::SlotOfInput(const graph::Model& model, const std::string& value) {
  const size_t slot = AddSlot(value);
  if (model.IsInitializer(value)) {
    slots_[slot].value = FloatsOf<T>(model.Initializer(value));
  } else {
    inputs_.push_back(value);
    input_slots_.push_back(slot);
  }
  return slot;
}

template <typename T>
void Block<T>::AddQuantizers(const std::string& value, std::span<const QuantizedValue> quantized) {
  for (const QuantizedValue& row : quantized) {
    if (row.value != value || row.readings.empty()) continue;
    slots_.emplace_back();
    const size_t from = slot_of_.at(value);
    slots_.back().is_wanted = slots_[from].is_wanted;
    for (const auto& reading : row.readings) slot_of_reading_[reading] = slots_.size() - 1;
    steps_.push_back({"the quantizer of '" + value + "'",
                      nullptr,
                      row.quantizer,
                      {},
                      {from},
                      {slots_.size() - 1}});
  }
}

template <typename T>
void Block<T>::Forward() {
  std::vector<const Array<T>*> inputs;
  std::vector<Array<T>*> outputs;
  for (Step& step : steps_) {
    if (step.quantizer) {
      Slot& from = slots_[step.inputs[0]];
      Slot& to = slots_[step.outputs[0]];
      if constexpr (std::is_same_v<T, float>) {
        step.quantizer->Run(from.value, to.value, step.passes, pool_);
      } else {
        to.value = from.value;
      }
      continue;
    }
    inputs.clear();
    outputs.clear();
    for (const size_t slot : step.inputs) {
      inputs.push_back(slot == kNone ? nullptr : &slots_[slot].value);
    }
    for (const size_t slot : step.outputs) outputs.push_back(&slots_[slot].value);
    WithContext(step.name, [&] { step.rule->Forward(inputs, outputs); });
  }
}

template <typename T>
size_t Block<T>::NumValues() const {
  size_t count = 0;
  for (const Step& step : steps_) {
    for (const size_t slot : step.outputs) count += slots_[slot].value.size();
  }
  return count;
}

template <typename T>
void Block<T>::Backward() {
  for (Slot& slot : slots_) {
    if (!slot.is_wanted) continue;
    slot.gradient.dims = slot.value.dims;
    slot.gradient.values.assign(slot.value.size(), T{0});
  }
  for (size_t i = 0; i < output_slots_.size(); ++i) {
    Slot& slot = slots_[output_slots_[i]];
    if (!slot.is_wanted) continue;
    for (size_t k = 0; k < slot.gradient.size(); ++k) {
      slot.gradient.values[k] += output_gradients_[i].values[k];
    }
  }
  for (size_t i = steps_.size(); i-- > 0;) {
    const bool is_wanted =
        std::ranges::any_of(steps_[i].outputs, [&](size_t slot) { return slots_[slot].is_wanted; });
    if (is_wanted) BackwardThrough(steps_[i]);
  }
}

template <typename T>
void Block<T>::BackwardThrough(Step& step) {
  if (step.quantizer) {
    const std::vector<T>& from = slots_[step.outputs[0]].gradient.values;
    std::vector<T>& to = slots_[step.inputs[0]].gradient.values;
    ForParts(pool_, to.size(), [&](size_t begin, size_t end) {
      if (step.passes.empty()) {
        for (size_t i = begin; i < end; ++i) to[i] += from[i];
      } else {
        for (size_t i = begin; i < end; ++i) to[i] += step.passes[i] != 0 ? from[i] : T{0};
      }
    });
    return;
  }
  std::vector<const Array<T>*> inputs, outputs, output_gradients;
  std::vector<Array<T>*> gradients;
  for (const size_t slot : step.inputs) {
    inputs.push_back(slot == kNone ? nullptr : &slots_[slot].value);
    gradients.push_back(slot == kNone || !slots_[slot].is_wanted ? nullptr
                                                                 : &slots_[slot].gradient);
  }
  for (const size_t slot : step.outputs) {
    outputs.push_back(&slots_[slot].value);
    output_gradients.push_back(&slots_[slot].gradient);
  }
  step.rule->Backward(inputs, outputs, output_gradients, gradients);
}

template class Block<float>;
template class Block<double>;

}  // namespace bitpress::gradients
