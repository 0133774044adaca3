#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/error.h"
#include "base/round_up.h"
#include "formats/format_spec.h"
#include "interop/decisions.h"
#include "interop/files.h"
#include "interop/layer_decisions.h"
#include "ops/operator_traits.h"

namespace bitpress::interop {
namespace {

using plan::Granularity;
using plan::IntegerTreatment;
using plan::QuantPlan;
using plan::TensorPlan;

void MakeFloat(TensorPlan& row, std::string reason) {
  row.format = "none";
  row.axis.reset();
  row.flatten = false;
  row.scale_choice.reset();
  row.integer.reset();
  row.scaled.reset();
  row.through.clear();
  row.through_axis.reset();
  row.through_scale_choice.reset();
  row.through_integer.reset();
  row.is_graph_output = false;
  row.reason = std::move(reason);
}

// Throws if parameters are none of the format.
void CheckParams(const Decision& decision, const formats::FormatSpec& spec) {
  const formats::CodeRange codes = formats::IntegerRange(spec.element_type);
  for (const formats::QParams& params : decision.params) {
    const bool is_scale = params.scale > 0 && std::isfinite(params.scale);
    if (!is_scale || params.zero_point < codes.quant_min || params.zero_point > codes.quant_max) {
      Fail(ErrorCode::kInvalidArgument,
           "scale {} and zero point {} are none of {}: a scale is positive and finite, a zero "
           "point a code ({} to {})",
           params.scale, params.zero_point, spec.name, codes.quant_min, codes.quant_max);
    }
  }
}

// Returns why the weight cannot take the scales that a file gives its blocks, "" if it can. Some
// tools write negative scales and zeros, and one scale for all positions of a kernel.
std::string WhyNoBlockScales(const Decision& decision, const TensorPlan& row,
                             const graph::Model& model) {
  const auto is_no_scale = [](const formats::QParams& params) {
    return !(params.scale > 0 && std::isfinite(params.scale));
  };
  if (std::ranges::any_of(decision.params, is_no_scale)) return "some are not above 0";
  const std::optional<int64_t> given = decision.axis ? decision.axis : row.axis;
  if (!given || !model.IsInitializer(row.value) || decision.block_size < 1) return "";
  const std::span<const int64_t> dims = model.Initializer(row.value).dims;
  const int64_t axis = *given < 0 ? *given + std::ssize(dims) : *given;
  if (axis < 0 || axis >= std::ssize(dims)) return "";
  const int64_t length = dims[static_cast<size_t>(axis)];
  if (length == 0) return "";
  const size_t expected =
      static_cast<size_t>(NumElements(dims) / length) *
      CeilDivide(static_cast<size_t>(length), static_cast<size_t>(decision.block_size));
  if (expected == decision.params.size()) return "";
  return fmt::format("the file has {}, and the weight {} blocks", decision.params.size(), expected);
}

// Returns the decision with one scale for all channels, whose range covers those of all.
Decision WithOneScale(Decision decision) {
  const formats::FormatSpec spec = formats::FindFormat(decision.format);
  CheckParams(decision, spec);
  const formats::CodeRange codes = formats::IntegerRange(spec.element_type);
  double least = 0, most = 0;
  for (const formats::QParams& params : decision.params) {
    const double scale = params.scale;
    least = std::min(least, static_cast<double>(codes.quant_min - params.zero_point) * scale);
    most = std::max(most, static_cast<double>(codes.quant_max - params.zero_point) * scale);
  }
  decision.params = {
      formats::QParamsForRange(least, most, {spec.element_type, decision.is_symmetric})};
  decision.granularity = Granularity::kPerTensor;
  decision.axis.reset();
  return decision;
}

void TakeInteger(const Decision& decision, const formats::FormatSpec& spec, TensorPlan& row) {
  CheckParams(decision, spec);
  const bool is_block = decision.granularity == Granularity::kPerBlock;
  if (is_block && (decision.block_size < 1 || decision.block_size > formats::kMaxBlockSize)) {
    Fail(ErrorCode::kInvalidArgument, "blocks of {} elements: they have 1 to {}",
         decision.block_size, formats::kMaxBlockSize);
  }
  const bool is_activation = row.role == plan::Role::kActivation;
  if (is_activation && decision.granularity != Granularity::kPerTensor) {
    Fail(ErrorCode::kUnsupported, "an activation has one scale, not one for each channel or block");
  }
  IntegerTreatment taken;
  if (row.integer) taken.range = row.integer->range;
  if (decision.scale_kind == formats::ScaleKind::kLpbq) taken.scale_kind = decision.scale_kind;
  taken.granularity = decision.granularity;
  taken.block_size = decision.block_size;
  taken.is_symmetric = decision.is_symmetric;
  if (decision.granularity == Granularity::kPerTensor) {
    row.axis.reset();
    if (!decision.params.empty()) taken.params = decision.params.front();
  } else {
    if (decision.axis) row.axis = decision.axis;
    if (!row.axis) {
      Fail(ErrorCode::kInvalidArgument,
           "the file gives no axis of its scales, and neither does the configuration: take one "
           "that quantizes this tensor per channel (weight_granularity=per_axis)");
    }
    // Symmetric codes have their zero in the middle.
    const int64_t middle = IntegerBitsOf(decision.format)->middle();
    taken.is_symmetric =
        taken.is_symmetric && std::ranges::all_of(decision.params, [&](const auto& params) {
          return params.zero_point == middle;
        });
    taken.channel_params = decision.params;
    // Files count blocks along one axis of the weight as it is.
    if (is_block && !decision.params.empty()) row.flatten = false;
  }
  row.integer = std::move(taken);
}

void Take(const Decision& decision, TensorPlan& row) {
  if (decision.format == "none") return MakeFloat(row, "the imported file keeps it float");
  // Its scale follows from those of the product, or is that of another value.
  if (row.has_scale_of_products() && decision.format == "int32") return;
  const bool shares = row.integer && !row.integer->shares.empty();
  if (shares && row.format == decision.format && decision.params.empty()) return;
  const formats::FormatSpec spec = formats::FindFormat(decision.format);
  row.format = decision.format;
  row.reason.clear();
  row.scaled.reset();
  row.scale_choice.reset();
  if (spec.is_integer()) return TakeInteger(decision, spec, row);
  row.integer.reset();
  if (!spec.is_blocked()) {
    row.axis.reset();
    row.flatten = false;
    return;
  }
  row.scale_choice = spec.scale_choice;
  if (decision.axis) row.axis = decision.axis;
  if (!row.axis) {
    Fail(ErrorCode::kInvalidArgument,
         "the file gives no axis of its blocks, and neither does the "
         "configuration: take one with a block format");
  }
}

bool SharesAUse(const TensorPlan& row, const Decision& decision) {
  return std::ranges::any_of(row.uses, [&](const plan::TensorUse& use) {
    return std::ranges::any_of(decision.uses, [&](const plan::TensorUse& other) {
      return use.node == other.node && use.input == other.input;
    });
  });
}

// Finds decisions of activations by what operators that only move elements give or take: where one
// tool has its quantizer before a Transpose, another one has it behind.
class MovedValues {
 public:
  MovedValues(const Decisions& decisions, const graph::Model& model) : model_(model) {
    for (const Decision& decision : decisions.tensors) {
      const bool is_moved =
          !decision.is_constant && decision.granularity == Granularity::kPerTensor;
      if (is_moved) of_value_.emplace(decision.value, &decision);
    }
  }

  // Returns the decision for the same elements under another name; null if there is none.
  const Decision* For(const std::string& value) const {
    std::optional<graph::Node> node = model_.Producer(value);
    for (; node && ops::MovesElements(*node); node = model_.Producer(node->input(0))) {
      if (const Decision* const found = Named(node->input(0))) return found;
    }
    for (node = OnlyMover(value); node; node = OnlyMover(node->output(0))) {
      if (const Decision* const found = Named(node->output(0))) return found;
    }
    return nullptr;
  }

 private:
  const Decision* Named(const std::string& value) const {
    const auto at = of_value_.find(value);
    return at == of_value_.end() ? nullptr : at->second;
  }

  // Returns the one reader of a value, if it only moves elements.
  std::optional<graph::Node> OnlyMover(const std::string& value) const {
    const std::vector<graph::Use> uses = model_.AllUses(value);
    if (uses.size() != 1 || uses[0].input_index != 0 || !ops::MovesElements(uses[0].node)) {
      return std::nullopt;
    }
    return uses[0].node;
  }

  const graph::Model& model_;
  std::map<std::string, const Decision*> of_value_;
};

// Returns whether the model's constant is another one than the file's: rounding, learned rounding
// too, moves a value by a step at most.
bool IsAnother(const Decision& decision, const TensorPlan& row, const graph::Model& model) {
  if (decision.first_values.empty() || !model.IsInitializer(row.value)) return false;
  const graph::InitializerView view = model.Initializer(row.value);
  const size_t num = decision.first_values.size();
  const bool is_readable =
      view.type == DataType::kFloat && NumElements(view.dims) >= static_cast<int64_t>(num);
  if (!is_readable) return false;
  const std::span<const float> values = view.values<float>();
  size_t num_far = 0;
  for (size_t i = 0; i < num; ++i) {
    const Decision::FirstValue& given = decision.first_values[i];
    if (std::abs(given.value - values[i]) > 1.01F * given.step) ++num_far;
  }
  return num_far > num / 10;
}

// Gives a row that takes the scale of another value what that one has now.
void FollowShared(const QuantPlan& plan, TensorPlan& row) {
  const auto shared = std::ranges::find_if(plan.tensors, [&](const TensorPlan& other) {
    return other.value == row.integer->shares && other.integer && other.format == row.format;
  });
  if (shared == plan.tensors.end()) {
    return MakeFloat(row, fmt::format("it takes the scale of '{}', which is float or has another "
                                      "format",
                                      row.integer->shares));
  }
  if (!shared->integer->params) return;
  row.integer->params = shared->integer->params;
  row.integer->is_symmetric = shared->integer->is_symmetric;
  row.integer->shares.clear();
}

// Makes biases float whose products are not of integers any more, and rows that take the scale of
// one that is float.
void FollowOthers(QuantPlan& plan) {
  std::map<plan::Role, std::set<std::string>> nodes;  // that read integers of each role
  for (const TensorPlan& row : plan.tensors) {
    if (!row.integer) continue;
    for (const plan::TensorUse& use : row.uses) nodes[row.role].insert(use.node);
  }
  for (TensorPlan& row : plan.tensors) {
    if (row.has_scale_of_products() &&
        std::ranges::none_of(row.uses, [&](const plan::TensorUse& use) {
          return nodes[plan::Role::kWeight].contains(use.node) &&
                 nodes[plan::Role::kActivation].contains(use.node);
        })) {
      MakeFloat(row, "the product that it is added to is float");
    }
    if (row.integer && !row.integer->shares.empty()) FollowShared(plan, row);
  }
}

}  // namespace

QuantPlan AsPlan(const Decisions& decisions) {
  QuantPlan plan;
  for (const Decision& decision : decisions.tensors) {
    TensorPlan row;
    row.value = decision.value;
    row.role = decision.is_constant ? plan::Role::kWeight : plan::Role::kActivation;
    if (decision.is_constant && (decision.format == "int32" || IsBias(decision))) {
      row.role = plan::Role::kBias;
    }
    row.uses = decision.uses;
    row.format = decision.format;
    row.axis = decision.axis;
    if (IntegerBitsOf(decision.format)) {
      row.integer = IntegerTreatment();
      row.integer->granularity = decision.granularity;
      row.integer->block_size = decision.block_size;
      row.integer->is_symmetric = decision.is_symmetric;
      if (decision.granularity == Granularity::kPerTensor && !decision.params.empty()) {
        row.integer->params = decision.params.front();
      }
      if (decision.granularity != Granularity::kPerTensor) {
        row.integer->channel_params = decision.params;
      }
      if (decision.is_dynamic) row.integer->range = plan::ParseRangeMethod("dynamic");
    }
    plan.tensors.push_back(std::move(row));
  }
  return plan;
}

void Configure(const Decisions& decisions, plan::QuantConfig& config) {
  for (const auto& [key, value] : decisions.settings) plan::ApplySetting(config, key, value);
  config.rules.insert(config.rules.end(), decisions.rules.begin(), decisions.rules.end());
}

ImportReport Apply(const Decisions& decisions, const graph::Model& model, QuantPlan& plan) {
  ImportReport report{.num_rules = decisions.settings.size() + decisions.rules.size(),
                      .notes = decisions.notes};
  std::set<const TensorPlan*> named;
  std::vector<std::string> joined, others;
  for (const Decision& decision : decisions.tensors) {
    std::vector<TensorPlan*> rows;
    for (TensorPlan& row : plan.tensors) {
      if (row.value == decision.value) rows.push_back(&row);
    }
    // The same reader reads it under another name.
    for (TensorPlan& row : plan.tensors) {
      if (rows.empty() && SharesAUse(row, decision)) rows.push_back(&row);
    }
    if (rows.empty()) report.unmatched.push_back(decision.value);
    for (TensorPlan* const row : rows) {
      WithContext(fmt::format("{} '{}'", plan::RoleName(row->role), row->value), [&] {
        const bool has_many = decision.granularity == Granularity::kPerAxis &&
                              !decision.params.empty() && row->role == plan::Role::kActivation;
        if (has_many) joined.push_back(decision.value);
        if (IsAnother(decision, *row, model)) others.push_back(row->value);
        const bool has_block_scales =
            decision.granularity == Granularity::kPerBlock && !decision.params.empty();
        const std::string why =
            has_block_scales ? WhyNoBlockScales(decision, *row, model) : std::string();
        if (!why.empty()) {
          report.notes.push_back(fmt::format("'{}': the scales of its blocks are chosen anew: {}",
                                             decision.value, why));
          Decision without = decision;
          without.params.clear();
          return Take(without, *row);
        }
        Take(has_many ? WithOneScale(decision) : decision, *row);
      });
      named.insert(row);
      ++report.num_rows;
    }
  }
  if (!joined.empty()) {
    report.notes.push_back(
        fmt::format("activations with a scale for each channel take one whose range covers those "
                    "of all: '{}'",
                    fmt::join(joined, "', '")));
  }
  if (!others.empty()) {
    report.notes.push_back(fmt::format(
        "the constants '{}'{} are others in the file: it holds another network, or the tool "
        "changed this one first (smoothing, equalization, training); scales of one do not fit the "
        "other",
        others.front(), others.size() > 1 ? fmt::format(" and {} more", others.size() - 1) : ""));
  }
  const MovedValues moved(decisions, model);
  for (TensorPlan& row : plan.tensors) {
    const bool follows =
        row.has_scale_of_products() || (row.integer && !row.integer->shares.empty());
    if (!decisions.names_all || named.contains(&row) || !row.is_quantized() || follows) continue;
    const Decision* const same =
        row.role == plan::Role::kActivation ? moved.For(row.value) : nullptr;
    if (same != nullptr) {
      WithContext(fmt::format("activation '{}'", row.value), [&] { Take(*same, row); });
      std::erase(report.unmatched, same->value);
      ++report.num_rows;
      continue;
    }
    report.now_float.push_back(row.value);
    MakeFloat(row, "the imported file does not name it");
  }
  FollowOthers(plan);
  return report;
}

}  // namespace bitpress::interop
