#include "calibrate/piece_runs.h"

#include <algorithm>
#include <utility>

#include "calibrate/instrument.h"
#include "graph/extract.h"

namespace bitpress::calibrate {
namespace {

// Forgets the shape that a model states of a value if the value has another one. A whole model runs
// all the same, because nobody compares the shapes of its inner values.
void ForgetWrongShape(const std::string& value, std::span<const int64_t> dims,
                      graph::Model& model) {
  const graph::ValueInfo info = model.InfoOf(value);
  if (!info.has_shape) return;
  const bool fits =
      std::ranges::equal(info.shape, dims, [](const graph::Dimension& stated, int64_t found) {
        return stated.value < 0 || stated.value == found;
      });
  if (!fits) model.SetInfo(value, {.type = info.type, .has_shape = false, .shape = {}});
}

std::vector<runtime::ValueDescription> DescriptionsOf(const graph::Model& model,
                                                      const std::vector<std::string>& names) {
  std::vector<runtime::ValueDescription> values;
  for (const std::string& name : names) {
    const graph::ValueInfo info = model.InfoOf(name);
    runtime::ValueDescription& value = values.emplace_back();
    value.name = name;
    value.type = info.type;
    for (const graph::Dimension& dim : info.shape) value.dims.push_back(dim.value);
  }
  return values;
}

}  // namespace

std::vector<runtime::ValueDescription> InputsOf(const graph::Model& model) {
  return DescriptionsOf(model, model.InputNames());
}

std::vector<runtime::ValueDescription> OutputsOf(const graph::Model& model) {
  return DescriptionsOf(model, model.OutputNames());
}

PieceRuns::PieceRuns(graph::Model& model, std::span<const std::string> wanted, data::Source& source,
                     const PieceOptions& options,
                     std::span<const std::vector<std::string>> together)
    : model_(model),
      source_(&source),
      options_(options),
      pieces_(model, wanted, options.most_bytes, together) {}

size_t PieceRuns::rows_of_run() const { return FixedRows(InputsOf(model_)); }

void PieceRuns::Begin(data::Source& source, const ProgressSink& progress) {
  source_ = &source;
  options_.progress = progress;
  for (const size_t piece : done_) {
    for (const std::string& value : pieces_.piece(piece).outputs) files_.Remove(value);
  }
  done_.clear();
}

std::shared_ptr<runtime::Session> PieceRuns::SessionFor(size_t piece, const PiecePass& pass,
                                                        const std::vector<std::string>& outputs) {
  if (!options_.keeps_sessions) return Open(piece, pass, outputs);
  Opened& kept = kept_[piece];
  const bool fits = kept.session && kept.observed == pass.observed && kept.outputs == outputs &&
                    kept.operators == pass.operators;
  if (!fits) {
    kept = {};  // its memory goes before the next one takes some
    kept = {pass.observed, outputs, pass.operators, Open(piece, pass, outputs)};
  }
  return kept.session;
}

std::shared_ptr<runtime::Session> PieceRuns::Open(size_t piece, const PiecePass& pass,
                                                  std::span<const std::string> outputs) {
  const ModelPiece& cut = pieces_.piece(piece);
  std::vector<std::string> computed(outputs.begin(), outputs.end());
  for (const std::string& value : pass.observed) {
    const bool is_read = std::ranges::count(cut.inputs, value) > 0 || model_.IsInput(value);
    if (!is_read && std::ranges::count(computed, value) == 0) computed.push_back(value);
  }
  // An input of the model is observed even if nothing of the piece reads it.
  std::vector<std::string> given = cut.inputs;
  for (const std::string& value : pass.observed) {
    if (model_.IsInput(value) && std::ranges::count(given, value) == 0) given.push_back(value);
  }
  graph::Model part = graph::Extract(model_, given, computed);
  InsertObservers(part, pass.observed);
  for (const std::string& value : computed) {
    if (std::ranges::count(outputs, value) == 0) part.RemoveOutput(value);
  }
  runtime::SessionOptions session;
  session.num_threads = runtime::SessionThreads(options_.num_threads);
  session.operator_library = options_.operator_library;
  session.observers = pass.operators;
  return std::make_shared<runtime::Session>(runtime::Session::FromModel(part, session));
}

SampleCounts PieceRuns::Run(size_t piece, const PiecePass& pass) {
  const ModelPiece& cut = pieces_.piece(piece);
  std::vector<std::string> outputs = pass.outputs;
  const bool keeps = done_.insert(piece).second;
  if (keeps) {
    for (size_t before = 0; before < piece; ++before) {
      for (const std::string& value : pieces_.piece(before).outputs) {
        if (pieces_.LastReaderOf(value) < piece) files_.Remove(value);
      }
    }
    for (const std::string& value : cut.outputs) {
      if (std::ranges::count(outputs, value) == 0) outputs.push_back(value);
    }
  }
  if (outputs.empty() && pass.observed.empty()) return {};  // nobody asks for anything
  const std::shared_ptr<runtime::Session> session = SessionFor(piece, pass, outputs);
  const std::vector<runtime::ValueDescription> inputs = InputsOf(model_);
  const std::vector<std::string> names = model_.InputNames();
  size_t run = 0;
  const auto run_piece = [&](const std::vector<Tensor>& given) {
    ++run;
    if (pass.begins && !pass.begins(run)) return;
    std::vector<Tensor> tensors;
    for (const runtime::ValueDescription& input : session->inputs()) {
      const auto at = std::ranges::find(names, input.name);
      if (at != names.end()) {
        tensors.push_back(given[static_cast<size_t>(at - names.begin())]);
      } else {
        tensors.push_back(files_.Get(input.name, run));
      }
    }
    const std::vector<Tensor> results = session->Run(tensors);
    tensors.clear();
    if (pass.take) pass.take(run, std::span(results).first(pass.outputs.size()));
    for (size_t i = 0; keeps && i < outputs.size(); ++i) {
      if (std::ranges::count(cut.outputs, outputs[i]) == 0) continue;
      files_.Put(outputs[i], run, results[i]);
      ForgetWrongShape(outputs[i], results[i].dims, model_);
    }
  };
  const SampleCounts counts = RunSamples(
      *source_, inputs, options_.batch_size,
      [&](const std::vector<Tensor>& given, size_t) { run_piece(given); },
      pass.stage.empty() ? options_.stage : pass.stage, options_.progress, pass.failures);
  if (keeps) {
    // Inference does not see through every operator, and ONNX Runtime does.
    for (const runtime::ValueDescription& output : session->outputs()) {
      if (std::ranges::count(cut.outputs, output.name) == 0) continue;
      if (model_.InfoOf(output.name).type != DataType::kUndefined) continue;
      model_.SetInfo(output.name, {.type = output.type, .has_shape = false, .shape = {}});
    }
  }
  return counts;
}

}  // namespace bitpress::calibrate
