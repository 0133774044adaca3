#include "finetune/block_values.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "calibrate/piece_runs.h"
#include "calibrate/sample_runs.h"
#include "graph/extract.h"
#include "runtime/session.h"

namespace bitpress::finetune {
namespace {

using calibrate::TensorFiles;
using gradients::Segment;

// Whole numbers, such as the lengths of texts, become floats.
gradients::Array<float> ArrayOf(const Tensor& tensor) {
  gradients::Array<float> array;
  array.Reshape(tensor.dims);
  const auto copy = [&](const auto& values) {
    std::ranges::transform(values, array.values.begin(),
                           [](auto value) { return static_cast<float>(value); });
  };
  if (tensor.type == DataType::kInt32) {
    copy(tensor.values<int32_t>());
  } else if (tensor.type == DataType::kInt64) {
    copy(tensor.values<int64_t>());
  } else {
    copy(tensor.values<float>());
  }
  return array;
}

}  // namespace

BlockValues::BlockValues(const graph::Model& model, std::span<const Segment> segments,
                         data::Source& source, const GatherOptions& options)
    : model_(model), segments_(segments), options_(options) {
  const std::vector<runtime::ValueDescription> inputs = calibrate::InputsOf(model);
  calibrate::RunSamples(
      source, inputs, options.batch_size,
      [&](const std::vector<Tensor>& values, size_t) {
        for (size_t i = 0; i < values.size(); ++i) {
          float_files_.Put(inputs[i].name, num_runs_, values[i]);
        }
        ++num_runs_;
      },
      "read samples", options.progress);
  for (const runtime::ValueDescription& input : inputs) float_values_.insert(input.name);
}

void BlockValues::RunFloat(const Segment& segment) {
  Run(segment, model_, float_files_, float_values_, float_files_, float_values_);
}

void BlockValues::RunQuantized(const Segment& segment, const graph::Model& quantized) {
  Run(segment, quantized, quantized_files_, quantized_values_, quantized_files_, quantized_values_);
}

void BlockValues::Run(const Segment& segment, const graph::Model& model, const TensorFiles& from,
                      const std::set<std::string>& known, TensorFiles& to,
                      std::set<std::string>& is_known) {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs = segment.part.outputs;
  for (const std::string& value : segment.inputs) {
    if (known.contains(value) || float_values_.contains(value)) {
      if (!model.IsInput(value)) inputs.push_back(value);
    } else {
      outputs.push_back(value);  // depends on no layer: the extracted part computes it
    }
  }
  if (outputs.empty()) return;
  const auto value_of = [&](const std::string& value, size_t run) {
    return known.contains(value) ? from.Get(value, run) : float_files_.Get(value, run);
  };
  // Inference does not see through every operator, and the files have what ONNX Runtime gave.
  std::optional<graph::Model> typed;
  for (const std::string& input : inputs) {
    if (model.InfoOf(input).type != DataType::kUndefined) continue;
    if (!typed) typed = model.Clone();
    typed->SetInfo(input, {.type = value_of(input, 0).type, .has_shape = false, .shape = {}});
  }
  const graph::Model part = graph::Extract(typed ? *typed : model, inputs, outputs);
  runtime::Session session = runtime::Session::FromModel(
      part, {.num_threads = runtime::SessionThreads(options_.num_threads),
             .operator_library = options_.operator_library});
  for (size_t run = 0; run < num_runs_; ++run) {
    std::vector<Tensor> values;
    for (const runtime::ValueDescription& input : session.inputs()) {
      values.push_back(value_of(input.name, run));
    }
    const std::vector<Tensor> results = session.Run(values);
    for (size_t i = 0; i < results.size(); ++i) {
      to.Put(session.outputs()[i].name, run, results[i]);
    }
  }
  is_known.insert(outputs.begin(), outputs.end());
}

void BlockValues::PutQuantized(const std::string& value, size_t run,
                               const gradients::Array<float>& array) {
  Tensor tensor;
  tensor.type = DataType::kFloat;
  tensor.dims = array.dims;
  const auto bytes = std::as_bytes(std::span(array.values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  quantized_files_.Put(value, run, tensor);
  quantized_values_.insert(value);
}

void BlockValues::Forget(size_t segment) {
  std::set<std::string> needed;
  for (const Segment& later : segments_.subspan(segment + 1)) {
    needed.insert(later.inputs.begin(), later.inputs.end());
  }
  const auto forget = [&](TensorFiles& files, std::set<std::string>& values) {
    std::erase_if(values, [&](const std::string& value) {
      if (needed.contains(value) || model_.IsInput(value)) return false;
      files.Remove(value);
      return true;
    });
  };
  forget(float_files_, float_values_);
  forget(quantized_files_, quantized_values_);
}

gradients::Array<float> BlockValues::Float(const std::string& value, size_t run) const {
  return ArrayOf(float_files_.Get(value, run));
}

gradients::Array<float> BlockValues::Quantized(const std::string& value, size_t run) const {
  return ArrayOf(quantized_values_.contains(value) ? quantized_files_.Get(value, run)
                                                   : float_files_.Get(value, run));
}

}  // namespace bitpress::finetune
