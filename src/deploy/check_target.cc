#include "deploy/check_target.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/available_memory.h"
#include "base/error.h"
#include "base/run_clock.h"
#include "base/scratch_folder.h"
#include "base/thread_pool.h"
#include "graph/clean_up.h"
#include "graph/model.h"
#include "graph/stored_bytes.h"
#include "ops/integer_operators.h"
#include "ops/operator_traits.h"
#include "runtime/optimize.h"
#include "runtime/ort_library.h"
#include "runtime/session.h"
#include "weights/decode_standard.h"

namespace bitpress::deploy {
namespace {

using graph::Model;
using graph::Node;

// The graph that ONNX Runtime made of a model.
class OptimizedGraph {
 public:
  explicit OptimizedGraph(const Model& model) : model_(model) {
    for (const Node& node : model.AllNodes()) {
      is_integer_ = is_integer_ || ops::IsQuantize(node) || ops::IsDequantize(node) ||
                    (ops::IsIntegerOperator(node) && !ops::GivesIndices(model, node));
    }
  }

  void Describe(TargetReport& report) const {
    for (const Node& node : model_.AllNodes()) {
      if (!is_integer_ || ops::IsQuantize(node) || ops::IsDequantize(node)) continue;
      if (ops::GivesIndices(model_, node)) continue;
      if (ops::IsIntegerOperator(node) || ReadsCodes(node)) {
        ++report.integer_operators[node.op_type()];
        continue;
      }
      const bool reads_dequantized = !DequantizedInputs(node).empty();
      if (!reads_dequantized && !ops::TraitsNamed(node.op_type()).takes_most_time()) continue;
      report.float_nodes.push_back(
          {node.name().empty() ? node.output(0) : node.name(), node.op_type(),
           reads_dequantized || !ops::TraitsNamed(node.op_type()).has_integer_kernel()
               ? Reason(node)
               : "it was not quantized"});
    }
  }

 private:
  struct Dequantized {
    size_t input;
    Node node;
  };

  std::optional<Dequantized> DequantizedAt(const Node& node, size_t input) const {
    const std::optional<Node> producer = model_.Producer(node.input(input));
    if (!producer || !ops::IsDequantize(*producer)) return std::nullopt;
    return Dequantized{input, *producer};
  }

  std::vector<Dequantized> DequantizedInputs(const Node& node) const {
    std::vector<Dequantized> found;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      if (auto one = DequantizedAt(node, i)) found.push_back(*one);
    }
    return found;
  }

  // Returns whether a node moves codes: its input comes from a quantizer, or its output goes to a
  // dequantizer.
  bool ReadsCodes(const Node& node) const {
    if (node.num_inputs() == 0 || node.num_outputs() == 0) return false;
    const std::optional<Node> producer = model_.Producer(node.input(0));
    if (producer && ops::IsQuantize(*producer)) return true;
    const std::vector<graph::Use> uses = model_.Uses(node.output(0));
    return std::ranges::any_of(uses, [](const graph::Use& use) {
      return ops::IsDequantize(use.node) && use.input_index == 0;
    });
  }

  DataType CodeType(const Dequantized& input) const {
    const std::string& codes = input.node.input(0);
    if (input.node.num_inputs() > 2 && model_.IsInitializer(input.node.input(2))) {
      return model_.InfoOf(input.node.input(2)).type;
    }
    return model_.InfoOf(codes).type;
  }

  // Returns the reason why ONNX Runtime did not replace a node and the pairs around it by an
  // integer kernel.
  std::string Reason(const Node& node) const {
    const std::string& op = node.op_type();
    const ops::OperatorTraits& traits = ops::TraitsNamed(op);
    if (!traits.has_integer_kernel()) {
      return fmt::format("ONNX Runtime has no integer kernel for {}", op);
    }
    for (const Dequantized& input : DequantizedInputs(node)) {
      const DataType type = CodeType(input);
      if (input.node.HasAttribute("block_size") && input.node.GetInt("block_size", 0) > 0) {
        return fmt::format("input {} has a scale for each block", input.input);
      }
      const bool is_bias = input.input == 2 && traits.multiplies();
      if (is_bias && type != DataType::kInt32 && type != DataType::kUndefined) {
        return fmt::format(
            "its bias, input 2, is {}; its integer kernels add INT32 (biases=int32, or default)",
            DataTypeName(type));
      }
      if (!is_bias && ElementBits(type) != 8 && type != DataType::kUndefined) {
        return fmt::format("input {} is {}; its integer kernels take 8 bits", input.input,
                           DataTypeName(type));
      }
    }
    for (size_t i = 0; i < std::min<size_t>(traits.num_operands, node.num_inputs()); ++i) {
      if (!node.input(i).empty() && !DequantizedAt(node, i)) {
        return fmt::format("input {}, '{}', is not quantized", i, node.input(i));
      }
    }
    if (traits.multiplies() && node.num_inputs() > 2 && !node.input(2).empty() &&
        !DequantizedAt(node, 2)) {
      return fmt::format("its bias, input 2, '{}', is not quantized", node.input(2));
    }
    const std::string of_sign = SignReason(node);
    return of_sign.empty() ? OutputReason(node) : of_sign;
  }

  // Returns what keeps a node of signed activations float. ONNX Runtime makes some of them unsigned
  // on x86 processors, where an integer kernel takes one type, and products take unsigned ones. ""
  // if that is not it.
  std::string SignReason(const Node& node) const {
    const std::optional<Dequantized> input = DequantizedAt(node, 0);
    if (!input) return "";
    const DataType taken = CodeType(*input);
    const auto differs = [&](DataType type) {
      return taken != type && taken != DataType::kUndefined && type != DataType::kUndefined;
    };
    constexpr std::string_view kMixed =
        "ONNX Runtime made one of them unsigned; its integer kernels take one type "
        "(activations=uint8)";
    for (const graph::Use& use : model_.Uses(node.output(0))) {
      if (!ops::IsQuantize(use.node) || use.node.num_inputs() < 3) continue;
      const DataType given = model_.InfoOf(use.node.input(2)).type;
      if (!differs(given)) continue;
      return fmt::format("its input is {} and its result {}: {}", DataTypeName(taken),
                         DataTypeName(given), kMixed);
    }
    if (ops::TraitsNamed(node.op_type()).multiplies()) {
      if (taken != DataType::kInt8) return "";
      return "its input is INT8; on x86 processors ONNX Runtime multiplies UINT8 activations "
             "(activations=uint8)";
    }
    const std::optional<Dequantized> other =
        node.num_inputs() > 1 ? DequantizedAt(node, 1) : std::nullopt;
    if (!other || !differs(CodeType(*other))) return "";
    return fmt::format("its inputs are {} and {}: {}", DataTypeName(taken),
                       DataTypeName(CodeType(*other)), kMixed);
  }

  std::string OutputReason(const Node& node) const {
    const std::string& output = node.output(0);
    if (model_.IsOutput(output)) {
      return "its result is an output of the model, or of a body, as float";
    }
    if (model_.IsUsedInSubgraph(output)) {
      return "its result is read as float inside the body of an If, Loop or Scan";
    }
    const std::vector<graph::Use> uses = model_.Uses(output);
    for (const graph::Use& use : uses) {
      if (ops::IsQuantize(use.node)) continue;
      const std::string& reader = use.node.op_type();
      if (ops::TraitsOf(use.node).on_integers == ops::OnIntegers::kFuses) {
        return fmt::format(kStandsBetween, reader);
      }
      if (!ops::TraitsNamed(node.op_type()).is_matrix_product()) {
        return fmt::format("its result is read as float by {}", use.node.Describe());
      }
    }
    // ONNX Runtime fused it behind the passes that look for integers.
    const std::string activation = node.GetString("activation", "");
    if (!activation.empty()) return fmt::format(kStandsBetween, activation);
    return "ONNX Runtime did not say why";
  }

  static constexpr std::string_view kStandsBetween =
      "a {} stands between it and the quantizer of its result; ONNX Runtime takes it away where "
      "the codes are UINT8 and end where it does";

  const Model& model_;
  bool is_integer_ = false;
};

// Counts the operators of our library that have no function in the model. Without the library, the
// function computes the operator.
std::map<std::string, size_t> LibraryOperators(const Model& model) {
  std::map<std::string, size_t> counts;
  for (const Node& node : model.AllNodes()) {
    const std::string& domain = node.domain();
    const bool is_ours =
        domain == "bitpress" || domain == "com.amd.quark" || domain == "com.vai.quantize";
    if (is_ours && !model.HasFunction(domain, node.op_type())) {
      ++counts[domain + "." + node.op_type()];
    }
  }
  return counts;
}

// The sizes of unknown dimensions: the first of an input, which counts samples, or steps of time
// where there are one or two dimensions, and the others.
struct MadeUpSize {
  int64_t first = 1, length = 1;
};
constexpr auto kMadeUpSizes = std::to_array<MadeUpSize>(
    {{1, 1}, {1, 32}, {1, 128}, {1, 256}, {32, 32}, {128, 128}, {256, 256}});

std::vector<int64_t> DimsOf(const runtime::ValueDescription& input, const MadeUpSize& size) {
  constexpr size_t kMostOfSteps = 2;
  const int64_t first = input.dims.size() <= kMostOfSteps ? size.first : 1;
  std::vector<int64_t> dims;
  for (const int64_t dim : input.dims) {
    dims.push_back(dim >= 1 ? dim : dims.empty() ? first : size.length);
  }
  return dims;
}

// Returns a tensor of zeros for integers, which may be indices or masks, and of noise around zero
// for floats.
Tensor MadeUp(DataType type, std::vector<int64_t> dims) {
  Tensor tensor;
  tensor.type = type;
  tensor.dims = std::move(dims);
  tensor.bytes.resize(NumBytes(type, tensor.num_elements()));
  if (type == DataType::kFloat) {
    const std::span<float> values = tensor.values<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(std::sin(static_cast<double>(i) * 12.9898));
    }
  }
  return tensor;
}

// Returns how many samples run: all whose outputs may be kept, and at least one.
size_t NumComparedRuns(const std::vector<Tensor>& outputs, size_t num_samples) {
  uint64_t num_bytes = 1;
  for (const Tensor& output : outputs) num_bytes += output.bytes.size();
  return std::min<size_t>(num_samples, std::max<size_t>(1, kMostComparedBytes / num_bytes));
}

// The written model in ONNX Runtime, and what it gave.
struct WrittenRuns {
  std::optional<runtime::Session> session;
  std::vector<Tensor> made_up;               // the sample, if none was given
  std::vector<std::vector<Tensor>> outputs;  // of the samples
  // The repeated runs of the first sample, for the times of layers; there may be none.
  std::vector<std::vector<OperatorRun>> repeated;
};

// Runs a model a few times more, so that the shortest of its runs is little disturbed.
void Repeat(runtime::Session& session, const std::vector<Tensor>& inputs) {
  constexpr size_t kRuns = 7;
  constexpr double kSeconds = 0.3;
  const RunClock clock(/*is_one_thread=*/false);
  const double start = clock.Seconds();
  for (size_t i = 0; i < kRuns && clock.Seconds() - start < kSeconds; ++i) session.Run(inputs);
}

// Returns whether the profile of several runs stays small: a loop may run its body very often.
bool HasSmallProfile(const Model& model) {
  constexpr size_t kMostNodes = 5000;
  const std::vector<Node> nodes = model.AllNodes();
  return nodes.size() <= kMostNodes && std::ranges::none_of(nodes, [](const Node& node) {
           return node.op_type() == "Loop" || node.op_type() == "Scan";
         });
}

// Returns the runs of a session with a profile; none if that is very large, as a loop of very many
// steps makes it, because it is read as a whole.
std::vector<std::vector<OperatorRun>> EndRuns(runtime::Session& session) {
  constexpr uintmax_t kMostBytes = uintmax_t{64} << 20;
  const std::filesystem::path profile = session.EndProfile();
  if (std::filesystem::file_size(profile) > kMostBytes) return {};
  return ReadProfile(profile);
}

// Checks one model in steps, each of which fills a part of the report.
class TargetCheck {
 public:
  TargetCheck(const std::filesystem::path& model, const std::vector<std::vector<Tensor>>& samples,
              const CheckTargetOptions& options)
      : model_(model), samples_(samples), options_(options) {}

  TargetReport Check() {
    if (options_.on_stage) options_.on_stage("the start of ONNX Runtime");
    report_.runtime = "ONNX Runtime " + runtime::OrtVersion();
    report_.is_made_up = samples_.empty() || options_.are_made_up;
    try {
      CheckFile();
      Load();
      Run();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kIo) throw;  // the disk failed, not the model
      report_.error = error.what();
    }
    if (report_.error.empty() && !options_.given.empty()) CompareWithGiven();
    return std::move(report_);
  }

 private:
  void Begin(std::string_view step) const {
    if (options_.on_stage) options_.on_stage(fmt::format("{}, {},", report_.runtime, step));
  }

  void CheckFile() {
    Begin("before it loads the model");
    Model written = Model::Load(model_);
    report_.library_operators = LibraryOperators(written);
    try {
      written.CheckInFull();
    } catch (const Error& error) {
      report_.checker_error = error.what();
    }
    ThreadPool pool(1);
    report_.num_decoded = weights::DecodeStandard(written, pool, {});
    if (report_.num_decoded == 0) return;
    model_ = folder_.path() / "decoded.onnx";
    written.Save(model_);
  }

  void Load() {
    Begin("loading the model");
    if (options_.is_described) {
      optimized_ = folder_.path() / "optimized.onnx";
      runtime::OptimizeAs(runtime::Optimization::kAll, model_, optimized_);
      graph_ = Model::Load(optimized_);
    }
    runs_.session = Open();
    report_.is_loaded = true;
    if (graph_) OptimizedGraph(*graph_).Describe(report_);
    report_.is_described = graph_.has_value();
  }

  // Opens the optimized form of the model, which takes no time to optimize again, and whose nodes
  // are those of the profile. ONNX Runtime does not always read what it wrote, such as its Casts of
  // one float16 value in two bodies: then this opens the model itself.
  runtime::Session Open() {
    if (graph_) {
      try {
        return OpenOptimized(optimized_);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kIo) throw;
        graph_.reset();
      }
    }
    return runtime::Session(model_, {});
  }

  // Opens a model that ONNX Runtime optimized, with a profile.
  runtime::Session OpenOptimized(const std::filesystem::path& optimized) const {
    runtime::SessionOptions options;
    options.optimization = runtime::Optimization::kNone;
    options.profile_prefix = folder_.path() / "profile";
    return runtime::Session(optimized, options);
  }

  const std::vector<Tensor>& FirstInputs() const {
    return samples_.empty() ? runs_.made_up : samples_.front();
  }

  void Run() {
    Begin("running the model");
    const RunClock clock(/*is_one_thread=*/false);
    const double start = clock.Seconds();
    runs_.outputs.push_back(samples_.empty() ? RunMadeUp() : runs_.session->Run(FirstInputs()));
    if (graph_) EndProfile(clock.Seconds() - start);
    const size_t num_runs = NumComparedRuns(runs_.outputs[0], samples_.size());
    for (size_t i = 1; i < num_runs; ++i) runs_.outputs.push_back(runs_.session->Run(samples_[i]));
    report_.is_run = true;
    if (graph_) SimulateOther();
  }

  // Reads the profile of the first run, and of some more if layers are to be compared.
  void EndProfile(double first_seconds) {
    constexpr double kMost = 3;  // with which layers are compared
    const bool repeats =
        !options_.given.empty() && first_seconds < kMost && HasSmallProfile(*graph_);
    if (repeats) Repeat(*runs_.session, FirstInputs());
    std::vector<std::vector<OperatorRun>> runs = EndRuns(*runs_.session);
    if (runs.empty()) return;
    report_.work = CountWork(*graph_, runs.front());
    runs.erase(runs.begin());  // it brought the model's data into the caches
    if (repeats) runs_.repeated = std::move(runs);
  }

  // Runs a made-up sample. A photo of one pixel ends in a convolution that needs more of them, so
  // unknown sizes grow until the model runs; if it never does, the first error counts.
  std::vector<Tensor> RunMadeUp() {
    const std::vector<runtime::ValueDescription> inputs = runs_.session->inputs();
    std::optional<Error> first;
    std::set<std::vector<std::vector<int64_t>>> tried;
    for (const MadeUpSize& size : kMadeUpSizes) {
      std::vector<std::vector<int64_t>> dims;
      for (const auto& input : inputs) dims.push_back(DimsOf(input, size));
      if (!tried.insert(dims).second) continue;
      runs_.made_up.clear();
      for (size_t i = 0; i < inputs.size(); ++i) {
        runs_.made_up.push_back(MadeUp(inputs[i].type, dims[i]));
      }
      try {
        return runs_.session->Run(runs_.made_up);
      } catch (const Error& error) {
        if (!first) first = error;
        runs_.session = Open();  // whose profile has no half runs
      }
    }
    throw *first;
  }

  void SimulateOther() {
    Begin("simulating another processor");
    report_.processor.nodes = processors::FindSaturatingNodes(*graph_);
    if (report_.processor.nodes.empty()) return;
    report_.processor.processor = processors::ThisProcessor();
    if (report_.is_made_up) return;  // it would say nothing about the loss
    evaluate::OtherProcessor(model_, {}, report_.processor)
        .Compare(FirstInputs(), runs_.outputs[0], 1);
  }

  // Compares outputs and times with the given model's. Its errors are no fault of this model.
  void CompareWithGiven() {
    const auto explain = [&](std::string_view why_not) {
      const bool is_measured = report_.closeness && report_.closeness->why_not.empty();
      if (!report_.is_made_up && !is_measured) report_.closeness.emplace().why_not = why_not;
    };
    explain("that model crashes ONNX Runtime");
    if (options_.on_checked) options_.on_checked(report_);
    Begin("running the given model");
    // Both models beside each other may take more memory than there is. Closeness needs one.
    const std::optional<uint64_t> memory = AvailableMemory();
    // Weights that were decoded for this run take another time than those of the file.
    const bool is_timed =
        report_.num_decoded == 0 && (!memory || graph::StoredBytes(options_.given) < *memory / 3);
    if (report_.is_made_up && !is_timed) return;
    const std::vector<runtime::ValueDescription> inputs = runs_.session->inputs();
    const std::vector<runtime::ValueDescription> outputs = runs_.session->outputs();
    if (!is_timed) runs_.session.reset();
    try {
      runtime::Session given = is_timed ? OpenGiven(inputs) : runtime::Session(options_.given, {});
      if (!report_.is_made_up) {
        report_.closeness = MeasureCloseness(given, samples_, runs_.outputs, inputs, outputs);
        report_.closeness->wanted_db = options_.wanted_db;
      }
      if (!is_timed) return;
      report_.speed =
          CompareSpeed(*runs_.session, FirstInputs(), given, AsRead(given, FirstInputs(), inputs));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kIo) throw;
      explain(error.what());
    } catch (const std::bad_alloc&) {
      explain("memory is short");
    }
  }

  // Opens the given model, and compares the times of layers if both models can be profiled.
  runtime::Session OpenGiven(const std::vector<runtime::ValueDescription>& written_inputs) {
    constexpr uint64_t kMostBytes = uint64_t{1} << 28;  // which temporary files take
    if (!runs_.repeated.empty() && graph::StoredBytes(options_.given) <= kMostBytes) {
      try {
        return CompareLayers(written_inputs);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kIo) throw;
      } catch (const std::bad_alloc&) {  // the model alone may fit
      }
    }
    return runtime::Session(options_.given, {});
  }

  runtime::Session CompareLayers(const std::vector<runtime::ValueDescription>& written_inputs) {
    Model model = Model::Load(options_.given);
    std::filesystem::path named = options_.given;
    if (graph::NameNodes(model) > 0) {  // or the profile would not tell them apart
      named = folder_.path() / "named.onnx";
      model.Save(named);
    }
    const LayerMap layers(model);
    const std::filesystem::path optimized = folder_.path() / "given.onnx";
    runtime::OptimizeAs(runtime::Optimization::kAll, named, optimized);
    runtime::Session given = OpenOptimized(optimized);
    const std::vector<Tensor> inputs = AsRead(given, FirstInputs(), written_inputs);
    given.Run(inputs);
    Repeat(given, inputs);
    std::vector<std::vector<OperatorRun>> runs = EndRuns(given);
    if (!runs.empty()) runs.erase(runs.begin());  // as of the written model
    report_.layers = layers.Compare(layers.SecondsOf(*graph_, runs_.repeated),
                                    layers.SecondsOf(Model::Load(optimized), runs));
    return given;
  }

  std::filesystem::path model_;
  const std::vector<std::vector<Tensor>>& samples_;
  const CheckTargetOptions& options_;
  const ScratchFolder folder_;
  std::filesystem::path optimized_;
  std::optional<Model> graph_;  // of `optimized_`, if that runs
  WrittenRuns runs_;
  TargetReport report_;
};

}  // namespace

TargetReport CheckTarget(const std::filesystem::path& model,
                         const std::vector<std::vector<Tensor>>& samples,
                         const CheckTargetOptions& options) {
  return TargetCheck(model, samples, options).Check();
}

}  // namespace bitpress::deploy
