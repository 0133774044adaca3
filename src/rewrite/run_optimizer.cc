// Pass optimize: ONNX Runtime's optimizer as the first step of preparing a model, and what takes
// back the parts of its work that make a model worse. Constants and BatchNorm are folded, shape
// arithmetic goes. ONNX Runtime would copy the model's constants, which may be larger than memory,
// so those that it does not need are inputs while it works.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/messages.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "graph/clean_up.h"
#include "graph/stored_bytes.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"
#include "rewrite/passes.h"
#include "runtime/half_casts.h"
#include "runtime/optimize.h"
#include "runtime/session.h"

namespace bitpress::rewrite {
namespace {

namespace fs = std::filesystem;
using graph::Model;
using graph::Node;

constexpr size_t kLargeBytes = size_t{1} << 20;

// Returns whether the clean-up can do without the values of a constant: it is large, and only
// operators into which nothing is folded read it.
bool CanHide(const Model& model, const std::string& name) {
  if (model.Initializer(name).bytes.size() < kLargeBytes || model.IsOutput(name) ||
      model.IsUsedInSubgraph(name)) {
    return false;
  }
  const std::vector<graph::Use> uses = model.Uses(name);
  return std::ranges::all_of(uses, [&](const graph::Use& use) {
    const ops::OperatorTraits& traits = ops::TraitsOf(use.node);
    if (!traits.is_matrix_product() && !traits.Is(ops::kLooksUp)) return false;
    const std::vector<graph::Use> readers = model.Uses(use.node.output(0));
    return std::ranges::none_of(readers, [](const graph::Use& reader) {
      return reader.node.op_type() == "BatchNormalization";
    });
  });
}

// Throws Error if ONNX Runtime does not load the model. Large constants are inputs meanwhile, so
// that this takes neither time nor memory for them.
void RequireLoads(const Model& model) {
  Model rest = model.Clone();
  for (const std::string& name : rest.InitializerNames()) {
    if (rest.Initializer(name).bytes.size() >= kLargeBytes && !rest.IsOutput(name)) {
      rest.InitializerToInput(name);
    }
  }
  graph::RemoveUnusedButNodes(rest);
  runtime::Session::FromModel(rest,
                              {.num_threads = 1, .optimization = runtime::Optimization::kNone});
}

bool Loads(const Model& model) {
  try {
    RequireLoads(model);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns why the optimizer's work is undone, in words about the given file.
std::string WhyUndone(const Error& error) {
  const std::string why = error.what();
  return why.find("the model has no nodes") == std::string::npos
             ? why
             : "all nodes compute constants, so that none would be left";
}

// The FLOAT16 nodes that the optimizer does not see.
enum class Held { kCasts, kCastsAndFunctions };

// Calls `function()` and returns its result. An Error leaves with `path` where it names `copy`.
template <typename Function>
auto NamingFile(const fs::path& copy, const fs::path& path, const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    std::string message = error.what();
    const size_t at = message.find(PathText(copy));
    if (at != std::string::npos) message.replace(at, PathText(copy).size(), PathText(path));
    throw Error(error.code(), message);
  }
}

// Returns what the optimizer makes of `given`. Throws Error if that does not load.
Model Optimized(const fs::path& path, const Model& given, Held held) {
  Model model = given.Clone();
  if (held == Held::kCastsAndFunctions) runtime::ProtectHalfFunctions(model);
  runtime::ProtectHalfCasts(model);
  std::vector<std::pair<std::string, graph::HeldInitializer>> hidden;
  for (const std::string& name : model.InitializerNames()) {
    if (CanHide(model, name)) hidden.emplace_back(name, model.HoldInitializer(name));
  }
  const auto clean_up = [](const fs::path& from, const fs::path& to) {
    runtime::OptimizeBasic(from, to);
  };
  for (const auto& [name, data] : hidden) model.InitializerToInput(name);
  const ScratchFolder folder;
  const fs::path rest = folder.path() / path.filename();
  model.Save(rest);
  Model optimized = NamingFile(rest, path, [&] { return runtime::LoadOptimized(rest, clean_up); });
  runtime::RestoreHalf(model, optimized);
  if (held == Held::kCastsAndFunctions) runtime::RestoreHalfFunctions(given, optimized);
  graph::RemoveAddedAttributes(model, optimized);
  RequireLoads(optimized);
  for (const auto& [name, data] : hidden) optimized.InputToInitializer(name, data);
  return optimized;
}

// The nodes from which the given model computes a constant.
class Recipe {
 public:
  Recipe(const Model& given, const std::string& name) : given_(given) { is_complete_ = Add(name); }

  bool is_complete() const { return is_complete_; }
  // Returns the bytes by which a constant is larger than what the nodes read. One that has no more
  // elements is as large as its type makes it: 0.
  uint64_t GrowthTo(int64_t num_elements, uint64_t num_bytes) const {
    return num_elements > num_elements_ && num_bytes > num_bytes_ ? num_bytes - num_bytes_ : 0;
  }

  // Adds the nodes whose results the model does not have.
  void AddTo(Model& model) const {
    const std::vector<Node> nodes = model.Nodes();
    for (const Node& node : nodes_) {
      const auto is_there = [&](const std::string& value) {
        return model.IsInitializer(value) || model.IsInput(value) ||
               model.Producer(value).has_value();
      };
      graph::NodeSpec spec{node.name(), node.op_type(), node.domain(), {}, {}, {}};
      bool is_new = false;
      for (size_t i = 0; i < node.num_outputs(); ++i) {
        const std::string& output = node.output(i);
        const bool is_taken = !output.empty() && is_there(output);
        is_new = is_new || (!output.empty() && !is_taken);
        spec.outputs.push_back(is_taken ? model.FreshName(output) : output);
      }
      if (!is_new) continue;
      for (size_t i = 0; i < node.num_inputs(); ++i) {
        const std::string& input = node.input(i);
        if (!input.empty() && given_.IsInitializer(input) && !is_there(input)) {
          model.SetHeldInitializer(input, given_.HoldInitializer(input));
        }
        spec.inputs.push_back(input);
      }
      spec.attributes_of = node;
      model.InsertNode(spec, nodes.empty() ? std::nullopt : std::optional<Node>(nodes.front()));
    }
  }

 private:
  // Adds the nodes behind which a value is, the first ones first. Returns whether the value depends
  // on constants only, and can be computed again.
  bool Add(const std::string& value) {
    if (value.empty() || !seen_.insert(value).second) return true;
    if (given_.IsInitializer(value)) {
      const graph::InitializerView view = given_.Initializer(value);
      num_elements_ += NumElements(view.dims);
      num_bytes_ += view.bytes.size();
      return true;
    }
    const std::optional<Node> node = given_.Producer(value);
    if (!node || node->HasSubgraph() || !node->domain().empty() || node->num_inputs() == 0 ||
        node->op_type().starts_with("Random") || given_.Owner(*node)) {
      return false;
    }
    // The shape of an input is known without its values.
    const bool is_shape = node->op_type() == "Shape" && given_.IsInput(node->input(0));
    for (size_t i = 0; i < node->num_inputs() && !is_shape; ++i) {
      if (!Add(node->input(i))) return false;
    }
    for (size_t i = 0; i < node->num_outputs(); ++i) seen_.insert(node->output(i));
    nodes_.push_back(*node);
    return true;
  }

  const Model& given_;
  bool is_complete_ = false;
  std::vector<Node> nodes_;
  std::set<std::string> seen_;
  int64_t num_elements_ = 0;
  uint64_t num_bytes_ = 0;
};

// Puts nodes of `given` back into `optimized`, the same model after constants were folded, where a
// constant takes more bytes and has more elements than what it is computed from: Tile, Expand,
// ConstantOfShape, a sparse table made dense. The largest go back first, until all others together
// add no more than a twentieth to the constants. Returns the names of these constants, which are
// computed values then.
std::vector<std::string> UnfoldGrown(const Model& given, Model& optimized) {
  std::vector<std::pair<uint64_t, std::string>> grown;
  uint64_t total = 0;
  for (const std::string& name : optimized.InitializerNames()) {
    const graph::InitializerView view = optimized.Initializer(name);
    if (given.IsInitializer(name) || optimized.IsOutput(name) || !given.Producer(name)) continue;
    const Recipe recipe(given, name);
    const uint64_t growth = recipe.GrowthTo(NumElements(view.dims), view.bytes.size());
    if (!recipe.is_complete() || growth == 0) continue;
    total += growth;
    grown.emplace_back(growth, name);
  }
  // Nobody minds a twentieth of the constants, nor a page.
  const uint64_t most = std::max<uint64_t>(4096, graph::MeasureParts(given).constants / 20);
  std::ranges::stable_sort(grown, std::ranges::greater(), &std::pair<uint64_t, std::string>::first);
  std::vector<std::string> unfolded;
  for (const auto& [growth, name] : grown) {
    if (total <= most) break;
    total -= growth;
    const std::string placeholder = optimized.FreshName(name + "_unfolded");
    std::vector<graph::Use> uses = optimized.AllUses(name);
    for (graph::Use& use : uses) use.node.set_input(use.input_index, placeholder);
    optimized.RemoveInitializer(name);
    Recipe(given, name).AddTo(optimized);
    for (graph::Use& use : uses) use.node.set_input(use.input_index, name);
    unfolded.push_back(name);
  }
  return unfolded;
}

// Returns the cleaned-up model. Throws Error if ONNX Runtime does not load the given one.
Model RunOptimizer(const fs::path& path, Model model, OptimizerReport& report) {
  std::optional<Model> optimized;
  try {
    optimized = Optimized(path, model, Held::kCasts);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) throw;  // the disk failed, not the model
    if (!Loads(model)) {
      throw Error(error.code(), fmt::format("{}; {} quantizes a model without ONNX Runtime",
                                            error.what(), OptionName("as_is")));
    }
    report.undone = WhyUndone(error);
  }
  graph::ConstantsToInitializers(model);
  if (!optimized) {
    try {
      optimized = Optimized(path, model, Held::kCastsAndFunctions);
      report.undone = "";
    } catch (const Error&) {
      return model;
    }
  }
  report.kept_computed = UnfoldGrown(model, *optimized);
  return std::move(*optimized);
}

}  // namespace

const PreparePass kOptimize{
    .name = "optimize",
    .run = [](Model& model, PrepareState& state) -> graph::PassResult {
      model = RunOptimizer(state.path, std::move(model), state.report.optimizer);
      return true;
    },
    // Weights stored as codes mean that we wrote the model, from one that was cleaned up. ONNX
    // Runtime would decode them and store floats.
    .is_wanted =
        [](const Model& model, const PrepareState& state) {
          return Optimizes(model, state) &&
                 std::ranges::none_of(model.AllNodes(), [&](const graph::Node& node) {
                   return ops::ReadsCodes(node) || ops::IsWidener(node);
                 });
        }};

}  // namespace bitpress::rewrite
