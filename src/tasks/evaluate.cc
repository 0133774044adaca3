#include "tasks/evaluate.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/messages.h"
#include "base/paths.h"
#include "runtime/machine.h"
#include "runtime/session.h"
#include "tasks/merge_files.h"
#include "tasks/task_hints.h"

namespace bitpress::tasks {

namespace {

// The two models of an evaluation as files: what samples they take, and their fingerprints.
struct ModelFiles {
  data::SourceOptions source;
  evaluate::EvaluateOptions evaluation;
  uint64_t fingerprint = 0, reference_fingerprint = 0;
};

// Reads both models for these samples. `has_fingerprints` says whether they are wanted, which takes
// a look at every weight.
ModelFiles ReadModels(const EvaluateOptions& options, const data::SampleSpec& samples,
                      bool has_fingerprints) {
  ModelFiles files;
  evaluate::EvaluateOptions& evaluation = files.evaluation;
  const RunOptions run{samples, options.num_threads, {}};
  // The inputs of a quantized model's operators may be less well known than those of the float
  // model, whose results also tell better which rows of the samples belong together.
  bool takes_whole_items = false;
  if (!options.reference.empty()) {
    const graph::Model reference = runtime::LoadToRun(options.reference);
    const data::SourceOptions source = SourceFor(reference, run);
    takes_whole_items = source.use_whole_items;
    if (source.tokens) evaluation.reference_tokens = source.tokens->inputs;
    if (has_fingerprints) files.reference_fingerprint = reference.Fingerprint();
    evaluation.hints = HintsOf(reference, source);
  }
  {
    const graph::Model model = runtime::LoadToRun(options.model);
    files.source = SourceFor(model, run);
    files.source.use_whole_items |= takes_whole_items;
    if (files.source.tokens) evaluation.tokens = files.source.tokens->inputs;
    if (has_fingerprints) files.fingerprint = model.Fingerprint();
    const evaluate::TaskHints hints = HintsOf(model, files.source);
    if (evaluation.hints.characters.empty()) evaluation.hints = hints;
  }
  static_cast<evaluate::EvaluateSettings&>(evaluation) = options;
  evaluation.num_threads = runtime::SessionThreads(options.num_threads);
  evaluation.progress = options.progress;
  files.source.keeps_failures = options.most_failures > 0;
  return files;
}

void TellLeftOut(const EvaluateOptions& options, const evaluate::Evaluator& evaluator) {
  if (options.on_left_out) std::ranges::for_each(evaluator.failed(), options.on_left_out);
}

}  // namespace

class Evaluator::Impl {
 public:
  explicit Impl(const EvaluateOptions& options) : options_(options) {
    for (const std::filesystem::path& model : {options.model, options.reference}) {
      if (!model.empty()) stamps_.push_back(StampsOf(model));
    }
  }

  evaluate::EvaluationState Count(const data::SampleSpec& samples, const ProgressSink& progress) {
    // How samples are read, and what is measured of tokens, follows from the models.
    const bool is_alike = last_.opener ? samples.opener != nullptr : last_.SharesFilesWith(samples);
    if (!files_ || !is_alike) {
      evaluator_.reset();
      files_ = ReadModels(options_, samples, /*has_fingerprints=*/true);
      last_ = samples;
    }
    data::Source& source =
        samples_.Open(samples, [&](const data::SampleSpec& spec) { return SourceOptionsOf(spec); });
    if (!evaluator_) evaluator_.emplace(files_->evaluation);
    evaluate::EvaluationState state = evaluator_->Count(source, progress);
    state.model.fingerprint = files_->fingerprint;
    state.reference.fingerprint = files_->reference_fingerprint;
    TellLeftOut(options_, *evaluator_);
    return state;
  }

  bool IsCurrent() const { return std::ranges::all_of(stamps_, &FileStamps::AreUnchanged); }

 private:
  data::SourceOptions SourceOptionsOf(const data::SampleSpec& samples) const {
    data::SourceOptions options = files_->source;
    options.opener = samples.opener;
    options.limit = samples.limit;
    options.shard = samples.shard;
    return options;
  }

  EvaluateOptions options_;
  std::vector<FileStamps> stamps_;
  data::SampleSpec last_;
  std::optional<ModelFiles> files_;
  std::optional<evaluate::Evaluator> evaluator_;
  OpenedSamples samples_;
};

Evaluator::Evaluator(const EvaluateOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;

evaluate::EvaluationState Evaluator::Count(const data::SampleSpec& samples,
                                           const ProgressSink& progress) {
  return impl_->Count(samples, progress);
}

bool Evaluator::IsCurrent() const { return impl_->IsCurrent(); }

evaluate::EvaluationReport Evaluate(const EvaluateOptions& options) {
  if (!options.output.empty()) {
    AtomicFile file(options.output);  // before any work: one that cannot be written would cost all
    const evaluate::EvaluationState state =
        Evaluator(options).Count(options.samples, options.progress);
    if (options.samples.shard.count == 1) CheckSomeRan(state.num_samples);
    file.Write(evaluate::ToBytes(state));
    file.Commit();
    return evaluate::ReportOf(state);
  }
  ModelFiles files = ReadModels(options, options.samples, /*has_fingerprints=*/false);
  files.source.read_ahead = false;  // times are measured
  const std::unique_ptr<data::Source> samples = data::OpenSource(files.source);
  evaluate::Evaluator evaluator(files.evaluation);
  evaluate::EvaluationReport report = evaluator.Run(*samples);
  TellLeftOut(options, evaluator);
  return report;
}

evaluate::EvaluationState ReadEvaluation(const std::filesystem::path& path) {
  const std::string bytes = ReadFile(path);
  return WithContext(fmt::format("'{}'", PathText(path)),
                     [&] { return evaluate::EvaluationStateFromBytes(bytes); });
}

bool IsEvaluation(const std::filesystem::path& path) {
  return HasFormat(path, evaluate::kEvaluationFile);
}

evaluate::EvaluationState MergeEvaluations(std::span<const std::filesystem::path> paths,
                                           const std::filesystem::path& output,
                                           size_t most_failures) {
  return MergeFiles(paths, output, "evaluation files", most_failures, ReadEvaluation,
                    evaluate::ToBytes);
}

}  // namespace bitpress::tasks
