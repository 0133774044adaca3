#include "evaluate/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "data/failures.h"

namespace bitpress::evaluate {
namespace {

// A file says by these bits what it has besides.
constexpr uint8_t kHasLanguage = 1, kHasTask = 2;

void Write(ByteWriter& writer, const EvaluatedModel& model) {
  writer.Text(model.name);
  writer.Number(model.fingerprint);
  writer.Compact(model.file_bytes);
}

EvaluatedModel ReadModel(ByteReader& reader) {
  EvaluatedModel model;
  model.name = reader.Text();
  model.fingerprint = reader.Number<uint64_t>();
  model.file_bytes = reader.Compact();
  return model;
}

void CheckSame(const EvaluatedModel& a, const EvaluatedModel& b, std::string_view what) {
  if (a.fingerprint == b.fingerprint && a.name.empty() == b.name.empty()) return;
  const auto name = [](const EvaluatedModel& model) {
    return model.name.empty() ? "none" : fmt::format("'{}'", model.name);
  };
  Fail(ErrorCode::kInvalidArgument, "they are of different {}: {} and {}", what, name(a), name(b));
}

}  // namespace

void EvaluationState::Merge(const EvaluationState& other) {
  CheckSame(model, other.model, "models");
  CheckSame(reference, other.reference, "references");
  if (depends_on_processor && processor != other.processor) {
    Fail(ErrorCode::kInvalidArgument,
         "the model computes otherwise on processors with VNNI and without, and they were measured "
         "on both; measure all of them with --processor vnni or --processor no_vnni");
  }
  // A state without samples knows nothing of the model's outputs, so the other one is taken.
  std::vector<std::string> all_left_out = left_out;
  all_left_out.insert(all_left_out.end(), other.left_out.begin(), other.left_out.end());
  std::ranges::sort(all_left_out);
  if (num_samples == 0 && other.num_samples > 0) {
    *this = other;
  } else if (other.num_samples > 0) {
    AddSamples(other);
  }
  left_out = std::move(all_left_out);
}

void EvaluationState::AddSamples(const EvaluationState& other) {
  if (class_output != other.class_output || output_names != other.output_names ||
      outputs.size() != other.outputs.size() ||
      language.has_value() != other.language.has_value() ||
      task.has_value() != other.task.has_value()) {
    Fail(ErrorCode::kInvalidArgument, "they were not measured with the same options");
  }
  if (other.num_samples > kMostCounted - num_samples ||
      (language && other.language->num_tokens > kMostCounted - language->num_tokens)) {
    Fail(ErrorCode::kInvalidArgument, "{} and {} samples are too many", num_samples,
         other.num_samples);
  }
  if (task) task->Merge(*other.task);
  num_samples += other.num_samples;
  num_nonfinite += other.num_nonfinite;
  ranks.Add(other.ranks);
  reference_ranks.Add(other.reference_ranks);
  agreements.Add(other.agreements);
  expected.Add(other.expected);
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].Add(other.outputs[i]);
  all.Add(other.all);
  if (language) language->Add(*other.language);
}

std::string ToBytes(const EvaluationState& state) {
  ByteWriter writer = BeginFile(kEvaluationFile);
  Write(writer, state.model);
  Write(writer, state.reference);
  writer.Number(static_cast<uint8_t>(state.processor));
  writer.Number(static_cast<uint8_t>(state.depends_on_processor));
  writer.Text(state.class_output);
  writer.Compact(state.num_samples);
  writer.Compact(state.num_nonfinite);
  for (const RankCounter* const counter :
       {&state.ranks, &state.reference_ranks, &state.agreements}) {
    counter->Write(writer);
  }
  state.expected.Write(writer);
  writer.Compact(state.output_names.size());
  for (const std::string& name : state.output_names) writer.Text(name);
  writer.Compact(state.outputs.size());
  for (const OutputComparison& output : state.outputs) output.Write(writer);
  state.all.Write(writer);
  writer.Number(
      static_cast<uint8_t>((state.language ? kHasLanguage : 0) | (state.task ? kHasTask : 0)));
  if (state.language) state.language->Write(writer);
  if (state.task) state.task->Write(writer);
  data::WriteLeftOut(writer, state.left_out);
  return EndFile(std::move(writer));
}

EvaluationState EvaluationStateFromBytes(std::string_view bytes) {
  ByteReader reader = OpenFile(bytes, kEvaluationFile);
  EvaluationState state;
  state.model = ReadModel(reader);
  state.reference = ReadModel(reader);
  const auto processor = reader.Number<uint8_t>();
  if (processor > static_cast<uint8_t>(processors::ProcessorKind::kSaturating)) {
    reader.FailDamaged(fmt::format("invalid value {} of 'processor'", processor));
  }
  state.processor = static_cast<processors::ProcessorKind>(processor);
  state.depends_on_processor = reader.Number<uint8_t>() != 0;
  state.class_output = reader.Text();
  state.num_samples = reader.Compact();
  if (state.num_samples > kMostCounted) reader.FailDamaged("it has too many samples");
  state.num_nonfinite = reader.Compact();
  for (RankCounter* const counter : {&state.ranks, &state.reference_ranks, &state.agreements}) {
    *counter = RankCounter::Read(reader);
    if (counter->num_samples() > state.num_samples) {
      reader.FailDamaged("it counts more samples than it has");
    }
  }
  state.expected = ExpectedTop1::Read(reader);
  state.output_names.resize(reader.Count(1));
  for (std::string& name : state.output_names) name = reader.Text();
  state.outputs.resize(reader.Count(OutputComparison::kLeastBytes));
  for (OutputComparison& output : state.outputs) output = OutputComparison::Read(reader);
  state.all = OutputComparison::Read(reader);
  const auto more = reader.Number<uint8_t>();
  if (more > (kHasLanguage | kHasTask)) {
    reader.FailDamaged(fmt::format("invalid value {} of what it has", more));
  }
  if ((more & kHasLanguage) != 0) {
    state.language = LanguageSums::Read(reader);
    if (state.language->num_tokens == 0) reader.FailDamaged("it has no tokens");
  }
  if ((more & kHasTask) != 0) state.task = TaskState::Read(reader);
  state.left_out = data::ReadLeftOut(reader);
  reader.ExpectEnd();
  const bool has_outputs = !state.reference.name.empty();
  if (state.expected.num_samples() != state.agreements.num_samples() ||
      (state.num_samples == 0 && state.left_out.empty()) ||
      state.outputs.size() != (has_outputs ? state.output_names.size() : 0)) {
    reader.FailDamaged("its parts contradict each other");
  }
  return state;
}

EvaluationReport ReportOf(const EvaluationState& state) {
  EvaluationReport report;
  report.has_times = false;
  report.model = state.model.name;
  report.reference = state.reference.name;
  report.num_samples = state.num_samples;
  report.left_out = state.left_out;
  report.num_labelled = state.ranks.num_samples();
  report.batch_size = 1;
  report.class_output = state.class_output;
  if (state.ranks.num_samples() > 0) {
    report.top1 = state.ranks.Top1();
    report.top5 = state.ranks.Top5();
  }
  if (state.reference_ranks.num_samples() > 0) {
    report.reference_top1 = state.reference_ranks.Top1();
    report.reference_top5 = state.reference_ranks.Top5();
  }
  if (state.agreements.num_samples() > 0) {
    report.agreement = state.agreements.Top1();
    if (state.expected.IsMeaningful()) {
      report.expected_top1 = state.expected.Model();
      report.reference_expected_top1 = state.expected.Reference();
    }
  }
  if (state.all.num_samples() > 0) {
    report.sqnr_db = state.all.SqnrDb();
    report.cosine = state.all.Cosine();
    report.l2 = state.all.MeanL2();
    report.outputs_identical = state.all.is_identical();
  }
  for (size_t i = 0; i < state.outputs.size(); ++i) {
    const OutputComparison& output = state.outputs[i];
    if (output.num_samples() == 0) continue;
    report.outputs.push_back(
        {state.output_names[i], output.num_values(), output.SqnrDb(), output.Cosine()});
  }
  report.num_nonfinite_values = state.num_nonfinite;
  report.processor.processor = state.processor;
  report.depends_on_processor = state.depends_on_processor;
  if (state.language) report.language = state.language->Report();
  if (state.task) report.task = state.task->Report();
  report.file_bytes = state.model.file_bytes;
  if (!state.reference.name.empty()) report.reference_file_bytes = state.reference.file_bytes;
  return report;
}

}  // namespace bitpress::evaluate
