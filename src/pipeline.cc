#include "pipeline.h"

#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "base/thread_pool.h"
#include "base/version.h"
#include "data/source.h"
#include "graph/clean_up.h"
#include "graph/stored_bytes.h"
#include "kernels/cpu_target.h"
#include "pipeline_samples.h"
#include "plan/make_plan.h"
#include "plan/quantizer_nodes.h"
#include "runtime/optimize.h"

#include "runtime/ort_library.h"
#include "runtime/session.h"
#include "transform/unpack_weights.h"

namespace bitpress::pipeline {
namespace {

namespace fs = std::filesystem;

// Fails early if nothing could be written there, before any work is done.
void CheckWritable(const fs::path& output) {
  std::error_code error;
  if (fs::is_directory(output, error)) {
    Fail(ErrorCode::kIo, "'{}' is a folder, not a file to write to", output.string());
  }
  const AtomicFile probe(output);
}

// The model after ONNX Runtime worked on it: `optimize` takes the file and where to write.
template <typename WriteOptimized>
graph::Model Optimize(const fs::path& model, const WriteOptimized& optimize) {
  const ScratchFolder folder;
  const fs::path optimized = folder.path() / "optimized.onnx";
  optimize(model, optimized);
  return WithContext(fmt::format("'{}' after ONNX Runtime optimized it", model.string()),
                     [&] { return graph::Model::Load(optimized); });
}

// Whether the clean-up can do without the values of a constant: it is large, and only read by
// operators into which nothing is folded.
bool CanHide(const graph::Model& model, const std::string& name) {
  constexpr size_t kLeastBytes = size_t{1} << 20;
  if (model.Initializer(name).bytes.size() < kLeastBytes || model.IsOutput(name) ||
      model.IsUsedInSubgraph(name)) {
    return false;
  }
  const std::vector<graph::Use> uses = model.Uses(name);
  return std::ranges::all_of(uses, [&](const graph::Use& use) {
    const std::string& op = use.node.op_type();
    if (op != "MatMul" && op != "Gemm" && op != "Gather") return false;
    const std::vector<graph::Use> readers = model.Uses(use.node.output(0));
    return std::ranges::none_of(readers, [](const graph::Use& reader) {
      return reader.node.op_type() == "BatchNormalization";
    });
  });
}

// ONNX Runtime would copy the constants of a model, which may be larger than memory. Those that it
// does not need are inputs while it works.
graph::Model CleanUp(const fs::path& path, graph::Model model) {
  std::vector<std::pair<std::string, graph::HeldInitializer>> hidden;
  for (const std::string& name : model.InitializerNames()) {
    if (CanHide(model, name)) hidden.emplace_back(name, model.HoldInitializer(name));
  }
  const auto clean_up = [](const fs::path& from, const fs::path& to) {
    runtime::OptimizeBasic(from, to);
  };
  if (hidden.empty()) return Optimize(path, clean_up);
  for (const auto& [name, data] : hidden) model.InitializerToInput(name);
  const ScratchFolder folder;
  const fs::path rest = folder.path() / path.filename();
  model.Save(rest);
  model = Optimize(rest, clean_up);
  for (const auto& [name, data] : hidden) model.InputToInitializer(name, data);
  return model;
}

// What the layout of an optimized model depends on.
std::string DescribeMachine() {
  const std::string_view target = kernels::CurrentTarget();
  return fmt::format("ONNX Runtime {}, {}", runtime::OrtVersion(),
                     target == "AVX3" ? "AVX-512" : target);
}

// The machine that a model was optimized for; "" if it runs anywhere.
std::string MachineOf(const graph::Model& model) {
  const auto metadata = model.Metadata();
  const auto found = metadata.find(kMachineMetadata);
  return found == metadata.end() ? "" : found->second;
}

graph::Model LoadPortable(const fs::path& path) {
  graph::Model model = graph::Model::Load(path);
  if (const std::string machine = MachineOf(model); !machine.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' was optimized for {} already, its operators and layouts are no longer ONNX's; give "
         "the model that it was made from",
         path.string(), machine);
  }
  return model;
}

// Blocks of another width would be read as if they had this machine's.
graph::Model LoadToRun(const fs::path& path) {
  graph::Model model = graph::Model::Load(path);
  const std::string machine = MachineOf(model);
  if (!machine.empty() && machine != DescribeMachine()) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' was optimized for {}, but this is {}; optimize the model it was made from again, "
         "here",
         path.string(), machine, DescribeMachine());
  }
  return model;
}

}  // namespace

std::string_view Version() { return bitpress::Version(); }

graph::Model Prepare(const fs::path& path, Preparation preparation,
                     const std::optional<plan::EqualizeOptions>& equalization,
                     transform::EqualizeReport* report) {
  // Our own checks come first: their messages are better, and ONNX Runtime trusts what it reads.
  graph::Model model = LoadPortable(path);
  if (preparation == Preparation::kOptimize) model = CleanUp(path, std::move(model));
  graph::ConstantsToInitializers(model);
  graph::LiftBodyConstants(model);
  if (preparation == Preparation::kOptimize) graph::RemoveUnused(model);
  model.InferShapes();
  if (equalization) {
    transform::EqualizeReport equalized = transform::Equalize(model, *equalization);
    if (report != nullptr) *report = std::move(equalized);
  }
  return model;
}

plan::QuantConfig ReadConfig(const fs::path& path) {
  const std::string text = ReadFile(path);
  return WithContext(fmt::format("'{}'", path.string()), [&] {
    plan::QuantConfig config = plan::ConfigFromJson(text);
    if (config.name.empty()) config.name = path.stem().string();
    return config;
  });
}

plan::QuantPlan MakePlan(const fs::path& model, const plan::QuantConfig& config,
                         Preparation preparation) {
  return plan::MakePlan(config, Prepare(model, preparation, plan::ResolveEqualization(config)),
                        model.filename().string());
}

plan::QuantPlan ReadPlan(const fs::path& path) {
  const std::string text = ReadFile(path);
  return WithContext(fmt::format("plan '{}'", path.string()), [&] { return plan::FromJson(text); });
}

OptimizeReport OptimizeForMachine(const OptimizeOptions& options) {
  std::error_code error;
  if (fs::equivalent(options.model, options.output, error)) {
    Fail(ErrorCode::kInvalidArgument,
         "the output is the model itself, '{}': keep it, the optimized one runs only on machines "
         "like this",
         options.model.string());
  }
  CheckWritable(options.output);
  LoadPortable(options.model);
  OptimizeReport report;
  report.machine = DescribeMachine();
  report.input_bytes = graph::StoredBytes(options.model);
  graph::Model model = Optimize(options.model, [](const fs::path& from, const fs::path& to) {
    runtime::OptimizeAs(runtime::Optimization::kAll, from, to);
  });
  WithContext(fmt::format("'{}'", options.model.string()), [&] {
    report.reorders = transform::RemoveReorders(model);
    transform::NameReorders(model);
    graph::RemoveUnused(model);
    model.SetMetadata(kMachineMetadata, report.machine);
    model.Check();
  });
  report.output_bytes = model.Save(options.output);
  return report;
}

UnpackReport Unpack(const UnpackOptions& options) {
  CheckWritable(options.output);
  graph::Model model = LoadPortable(options.model);
  UnpackReport report;
  report.input_bytes = graph::StoredBytes(options.model);
  ThreadPool pool(options.num_threads);
  WithContext(fmt::format("'{}'", options.model.string()), [&] {
    report.num_weights = transform::UnpackWeights(model, pool, options.progress);
    if (options.drop_quantizers) report.num_quantizers = transform::DropQuantizers(model);
    graph::RemoveUnused(model);
    model.Check();
    report.output_bytes = model.Save(options.output, options.is_external);
  });
  return report;
}

evaluate::EvaluationReport Evaluate(const EvaluateOptions& options) {
  data::SourceOptions source = SourceOf(LoadToRun(options.model), options);
  if (!options.reference.empty()) {
    // What a quantized model's operators read may be less well known.
    source.use_whole_items |= HasTimeFirst(LoadToRun(options.reference));
  }
  source.read_ahead = false;  // times are measured
  source.limit = options.num_samples;
  source.num_threads = options.num_threads;

  evaluate::EvaluateOptions evaluation;
  evaluation.model = options.model;
  evaluation.reference = options.reference;
  evaluation.batch_size = options.batch_size;
  evaluation.num_threads = runtime::SessionThreads(options.num_threads);
  evaluation.processor = options.processor;
  evaluation.progress = options.progress;
  return evaluate::Evaluate(evaluation, *data::OpenSource(source));
}

}  // namespace bitpress::pipeline
