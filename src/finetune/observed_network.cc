#include "finetune/observed_network.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "calibrate/instrument.h"
#include "calibrate/sample_runs.h"
#include "finetune/gather.h"
#include "finetune/recurrent.h"
#include "graph/clean_up.h"
#include "ops/quantizer_nodes.h"
#include "plan/quant_plan.h"
#include "runtime/session.h"

namespace bitpress::finetune {
namespace {

// Returns the quantized model, with every node of the float model connected to the values that it
// reads in the float model. The quantizers stay beside the graph. Only nodes that read a
// quantizer in the float model still do.
graph::Model BesideQuantizers(const graph::Model& float_model, const graph::Model& quantized) {
  graph::Model model = quantized.Clone();
  const plan::NodeIndex original(float_model);
  std::map<std::string, graph::Node> nodes;
  for (const graph::Node& node : float_model.AllNodes()) nodes.emplace(original.KeyOf(node), node);
  const plan::NodeIndex index(model);
  for (graph::Node node : model.AllNodes()) {
    const auto found = nodes.find(index.KeyOf(node));
    if (found == nodes.end() || found->second.op_type() != node.op_type()) continue;
    // A newer opset may have turned attributes into inputs.
    const size_t num_inputs = std::min(node.num_inputs(), found->second.num_inputs());
    for (size_t i = 0; i < num_inputs; ++i) {
      const std::string& value = found->second.input(i);
      if (node.input(i) == value || float_model.IsInitializer(value)) continue;
      if (!ops::QuantizedFrom(float_model, value)) node.set_input(i, value);
    }
  }
  return model;
}

// Opens a session that observes values[i] with id i. Nodes that this does not need are removed,
// unless a value is in a body: nodes that compute it may have no reader.
runtime::Session Observed(graph::Model observed, std::span<const std::string> values,
                          const runtime::ObserverOperators& operators,
                          const GatherOptions& options) {
  const std::vector<std::string> outputs = observed.OutputNames();
  std::set<std::string> in_bodies;
  for (const graph::BodyValue& value : observed.BodyValues()) in_bodies.insert(value.name);
  calibrate::InsertObservers(observed, values);
  const bool has_bodies = std::ranges::any_of(
      values, [&](const std::string& value) { return in_bodies.contains(value); });
  if (!has_bodies) {
    for (const std::string& output : outputs) observed.RemoveOutput(output);
    graph::RemoveUnused(observed);
  }
  runtime::SessionOptions session;
  session.num_threads = runtime::SessionThreads(options.num_threads);
  session.operator_library = options.operator_library;
  session.observers = &operators;
  return runtime::Session::FromModel(observed, session);
}

// Gives values that inference does not see the type of the weight that multiplies them: that is
// their type behind operators that ONNX does not define, too.
void Describe(graph::Model& model, const std::string& value, DataType type,
              const std::set<std::string>& in_bodies) {
  if (model.InfoOf(value).type != DataType::kUndefined || in_bodies.contains(value)) return;
  model.SetInfo(value, {.type = type, .has_shape = false, .shape = {}});
}

}  // namespace

ObservedNetwork::ObservedNetwork(const graph::Model& float_model,
                                 const graph::Model& quantized_model,
                                 std::vector<LinearLayer> layers, data::Source& source,
                                 const GatherOptions& options)
    : layers_(std::move(layers)),
      source_(source),
      options_(options),
      model_(BesideQuantizers(float_model, quantized_model)) {
  const plan::NodeIndex nodes(quantized_model);
  AddProducts(model_, layers_);
  model_.InferShapes();  // observers need the types of their values
  std::set<std::string> in_bodies;
  for (const graph::BodyValue& value : model_.BodyValues()) in_bodies.insert(value.name);
  std::vector<std::string> wanted;
  std::vector<std::vector<std::string>> together;  // the values of each layer
  for (const LinearLayer& layer : layers_) {
    std::vector<std::string>& values = together.emplace_back();
    const DataType type = float_model.Initializer(layer.weight).type;
    for (const Reading& reading : layer.readings) {
      const graph::Node node =
          nodes.Find({reading.node, layer.op_type, static_cast<int64_t>(reading.data_input)});
      const std::string& input =
          reading.states.empty() ? node.input(reading.data_input) : reading.states;
      inputs_.emplace(std::pair(reading.node + layer.weight, reading.data_input), input);
      values.push_back(input);
      Describe(model_, input, type, in_bodies);
      if (!layer.observes_outputs()) continue;
      values.push_back(reading.output);
      Describe(model_, reading.output, type, in_bodies);
    }
    wanted.insert(wanted.end(), values.begin(), values.end());
  }
  const calibrate::PieceOptions pieces{.most_bytes = options.most_piece_bytes,
                                       .num_threads = options.num_threads,
                                       .batch_size = options.batch_size,
                                       .operator_library = options.operator_library,
                                       .stage = options.stage,
                                       .progress = options.progress};
  pieces_ = std::make_unique<calibrate::PieceRuns>(model_, wanted, source_, pieces, together);
  for (const std::vector<std::string>& values : together) {
    piece_of_layer_.push_back(pieces_->PieceOf(values));
  }
}

const std::string& ObservedNetwork::InputOf(const LinearLayer& layer,
                                            const Reading& reading) const {
  return inputs_.at({reading.node + layer.weight, reading.data_input});
}

std::vector<std::vector<LinearLayer>> ObservedNetwork::Parts() const {
  std::vector<std::vector<LinearLayer>> parts(pieces_->num_pieces());
  for (size_t i = 0; i < layers_.size(); ++i) parts[piece_of_layer_[i]].push_back(layers_[i]);
  std::erase_if(parts, [](const std::vector<LinearLayer>& part) { return part.empty(); });
  return parts;
}

RunRange ObservedNetwork::RangeOf(size_t samples_of_run) {
  if (samples_of_run > 1) {
    // A sample without a batch dimension is a run, whatever the first dimensions of inputs are.
    source_.Rewind();
    const std::optional<data::Batch> batch = source_.Next(samples_of_run);
    if (batch && !batch->HasRows()) samples_of_run = 1;
    source_.Rewind();
  }
  const auto [first, all] = source_.place();
  const size_t num = source_.num_samples();
  const bool is_last = all > 0 && first + num == all;
  if (first % samples_of_run != 0 || (all != num && !is_last && num % samples_of_run != 0)) {
    Fail(ErrorCode::kInvalidArgument,
         "the model takes {} samples in a run, and a part of them begins at sample {} and has {}: "
         "choose another number of shards, so that each begins with a run",
         samples_of_run, first, num);
  }
  return {first / samples_of_run, num / samples_of_run, all / samples_of_run};
}

void ObservedNetwork::Run(std::span<const std::string> values, runtime::ObserverSink& sink,
                          const GatherOptions& options,
                          const std::function<void(const RunRange& range)>& begin_runs,
                          const std::function<void()>& begin_run) {
  const runtime::ObserverOperators operators(sink);
  calibrate::SampleCounts counts;
  if (pieces_->num_pieces() == 1) {
    runtime::Session session = Observed(model_.Clone(), values, operators, options);
    const size_t per_run = std::max<size_t>(calibrate::FixedRows(session.inputs()), 1);
    begin_runs(RangeOf(per_run));
    counts = calibrate::RunSamples(
        source_, session.inputs(), options.batch_size,
        [&](const std::vector<Tensor>& tensors, size_t) {
          begin_run();
          session.Run(tensors);
        },
        options.stage, options.progress);
  } else {
    const size_t piece = pieces_->PieceOf(values);
    for (; num_done_ < piece; ++num_done_) pieces_->Run(num_done_, {});
    begin_runs(RangeOf(std::max<size_t>(pieces_->rows_of_run(), 1)));
    calibrate::PiecePass pass;
    pass.observed.assign(values.begin(), values.end());
    pass.operators = &operators;
    pass.stage = options.stage;
    pass.begins = [&](size_t) {
      begin_run();
      return true;
    };
    counts = pieces_->Run(piece, pass);
    num_done_ = std::max(num_done_, piece + 1);
  }
  if (counts.num_samples == 0) {
    Fail(ErrorCode::kInvalidArgument, "there are no samples to fine-tune with");
  }
}

}  // namespace bitpress::finetune
