// Pass narrow-to-half: makes a FLOAT network one of FLOAT16, the preset FP16. This file decides
// which operators keep FLOAT; graph/narrow_to_half.h does the work.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>
#include <unordered_map>

#include "graph/stored_bytes.h"
#include "ops/angles.h"
#include "ops/integer_operators.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"
#include "plan/name_pattern.h"
#include "rewrite/infer_types.h"
#include "rewrite/passes.h"

namespace bitpress::rewrite {
namespace {

using graph::FloatNode;
using graph::Node;

bool IsWholeType(DataType type) {
  return !IsFloat(type) && type != DataType::kBool && type != DataType::kString;
}

// Returns the reason why the operator keeps FLOAT, or "".
std::string_view WhyNotHalf(const Node& node) {
  if (!node.domain().empty()) return "";
  const std::string_view why = ops::TraitsOf(node).why_not_half;
  if (!why.empty()) return why;
  if (node.op_type().starts_with("Scatter") && node.GetString("reduction", "none") != "none") {
    return "ONNX Runtime adds, multiplies and compares what it scatters in FLOAT only";
  }
  const bool is_square =
      node.op_type() == "Mul" && node.num_inputs() == 2 && node.input(0) == node.input(1);
  return is_square ? "squares leave the range of FLOAT16" : "";
}

// Returns whether the operator makes whole numbers of FLOATs: an input that is a little off may
// give the next number.
bool MakesWholeNumbers(const Node& node) {
  if (!node.domain().empty()) return false;
  const std::string& type = node.op_type();
  if (type == "Cast") return IsWholeType(static_cast<DataType>(node.GetInt("to", 0)));
  return type == "Ceil" || type == "Floor" || type == "Mod" || type == "Round";
}

// Finds the operators that keep FLOAT.
class FloatChooser {
 public:
  FloatChooser(const graph::Model& model, const plan::HalfRequest& request)
      : model_(model),
        nodes_(model.AllNodes()),
        ports_(graph::FindHalfPorts(model)),
        kept_(nodes_.size()) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t k = 0; k < nodes_[i].num_outputs(); ++k) producers_[nodes_[i].output(k)] = i;
      for (size_t k = 0; k < nodes_[i].num_inputs(); ++k) readers_[nodes_[i].input(k)].push_back(i);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Keep(i, {ports_[i].why_float, ports_[i].is_exact});
    }
    KeepRequested(request);
    KeepWide(request.wide_values);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      Keep(i, {std::string(WhyNotHalf(nodes_[i])), false});
      Keep(i, {WhyTooSmall(nodes_[i]), true});
    }
    KeepWhatIsSensitive();
    KeepMovedInFrontOfProducts();
    KeepBetween();
  }

  const std::vector<FloatNode>& kept() const { return kept_; }

  bool HasPorts(size_t i) const {
    return std::ranges::find(ports_[i].inputs, true) != ports_[i].inputs.end() ||
           std::ranges::find(ports_[i].outputs, true) != ports_[i].outputs.end();
  }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  void Keep(size_t i, FloatNode reason) {
    if (reason.reason.empty()) return;
    kept_[i].is_exact = kept_[i].is_exact || reason.is_exact;
    if (kept_[i].reason.empty()) kept_[i].reason = std::move(reason.reason);
  }

  void KeepRequested(const plan::HalfRequest& request) {
    std::vector<plan::NamePattern> patterns;
    for (const std::string& pattern : request.float_nodes) patterns.emplace_back(pattern);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto fits = [&](const auto& pattern) { return pattern.MeansOneOf({nodes_[i].name()}); };
      if (std::ranges::any_of(patterns, fits)) Keep(i, {"excluded by name", true});
      if (std::ranges::find(request.float_op_types, nodes_[i].op_type()) !=
          request.float_op_types.end()) {
        Keep(i, {"excluded by type", true});
      }
    }
  }

  // Readers keep FLOAT as well, because a Cast of such a value would give infinity.
  void KeepWide(const std::vector<std::string>& wide) {
    const auto is_wide = [&](const std::string& value) {
      return std::ranges::binary_search(wide, value);
    };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      bool reads_or_gives = false;
      for (size_t k = 0; k < nodes_[i].num_inputs(); ++k) {
        reads_or_gives = reads_or_gives || is_wide(nodes_[i].input(k));
      }
      for (size_t k = 0; k < nodes_[i].num_outputs(); ++k) {
        reads_or_gives = reads_or_gives || is_wide(nodes_[i].output(k));
      }
      if (reads_or_gives)
        Keep(i, {"samples bring its values near the end of FLOAT16's range", false});
    }
  }

  bool IsFloat(const std::string& value) const {
    return !value.empty() && model_.InfoOf(value).type == DataType::kFloat;
  }

  // A constant such as 1e-12, which keeps a division from infinity, would be zero.
  std::string WhyTooSmall(const Node& node) const {
    constexpr int64_t kMostElements = 16;
    constexpr float kSmallest = 0x1p-20F;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::string& value = node.input(i);
      if (!model_.IsInitializer(value) || !IsFloat(value)) continue;
      const graph::InitializerView constant = model_.Initializer(value);
      if (NumElements(constant.dims) > kMostElements) continue;
      for (const float element : constant.values<float>()) {
        if (element != 0 && std::fabs(element) < kSmallest) {
          return fmt::format("its constant {:g} is too small for FLOAT16", element);
        }
      }
    }
    return "";
  }

  // Keeps the producer of a value, and what that reads, as far as `goes_through` says.
  void KeepBackwards(const std::string& value, const FloatNode& reason,
                     const std::function<bool(size_t)>& goes_through) {
    std::vector<std::string> open = {value};
    while (!open.empty()) {
      const auto found = producers_.find(open.back());
      open.pop_back();
      if (found == producers_.end()) continue;
      const size_t i = found->second;
      if (slices_[i] == reason.reason || !goes_through(i)) continue;
      slices_[i] = reason.reason;
      Keep(i, reason);
      for (size_t k = 0; k < nodes_[i].num_inputs(); ++k) {
        if (IsFloat(nodes_[i].input(k))) open.push_back(nodes_[i].input(k));
      }
    }
  }

  // Keeps what leads to whole numbers, to angles of waves, and to logarithms.
  void KeepWhatIsSensitive() {
    const std::set<std::string> angles = ops::AnglesOfPositions(model_);
    // Operators that are FLOAT anyway, such as the Exp of a duration, stand in between, and those
    // that look elements up.
    const auto leads_to_rounding = [&](size_t i) {
      const Node& node = nodes_[i];
      if (!node.domain().empty() || node.HasSubgraph()) return false;
      const ops::OperatorTraits& traits = ops::TraitsOf(node);
      const bool looks_up =
          node.op_type().starts_with("Gather") || node.op_type().starts_with("Scatter");
      return ops::IsCheapOnElements(node) || traits.Is(ops::kIsActivation) || looks_up ||
             (KeepsFloat(i) && !traits.multiplies());
    };
    const auto is_power = [&](size_t i) {
      return ops::IsCheapOnElements(nodes_[i]) || ops::TraitsOf(nodes_[i]).sums_products() ||
             nodes_[i].op_type() == "ReduceSum" || nodes_[i].op_type() == "ReduceMean";
    };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.num_outputs() > 0 && angles.contains(node.output(0))) {
        Keep(i, {"it computes angles", true});
      }
      if (!node.domain().empty() || node.num_inputs() == 0 || !IsFloat(node.input(0))) continue;
      if (MakesWholeNumbers(node)) {
        const FloatNode reason{"it computes numbers that become integers", true};
        Keep(i, reason);
        KeepBackwards(node.input(0), reason, leads_to_rounding);
      } else if (node.op_type() == "Log") {
        KeepBackwards(node.input(0), {"a logarithm follows, and powers have a wide range", false},
                      is_power);
      }
    }
    KeepFixedInputs();
  }

  // Inputs whose type is FLOAT in every case, such as the scales of Resize.
  void KeepFixedInputs() {
    const auto is_cheap = [&](size_t i) { return ops::IsCheapOnElements(nodes_[i]); };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const bool is_resize = nodes_[i].op_type() == "Resize" || nodes_[i].op_type() == "Upsample";
      for (size_t k = 1; is_resize && k < nodes_[i].num_inputs(); ++k) {
        KeepBackwards(nodes_[i].input(k), {"it computes sizes", true}, is_cheap);
      }
    }
  }

  // ONNX Runtime crashes (1.31, loading on a CPU) where a MatMul of FLOAT16 reads a Transpose of
  // what was cast: a FLOAT value, perhaps moved in between. What is moved stays FLOAT, so that the
  // Cast stands in front of the MatMul.
  void KeepMovedInFrontOfProducts() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (KeepsFloat(i) || nodes_[i].op_type() != "MatMul" || !nodes_[i].domain().empty()) continue;
      for (size_t k = 0; k < nodes_[i].num_inputs(); ++k) KeepMoved(nodes_[i].input(k));
    }
  }

  // Keeps the chain of moving operators that gives a value, if it begins at a FLOAT value and has a
  // Transpose.
  void KeepMoved(const std::string& value) {
    std::vector<size_t> chain;
    bool has_transpose = false;
    const std::string* begin = &value;
    for (auto producer = producers_.find(value); producer != producers_.end();
         producer = producers_.find(*begin)) {
      const size_t i = producer->second;
      if (KeepsFloat(i) || nodes_[i].num_inputs() == 0 || !ops::MovesElements(nodes_[i])) break;
      has_transpose = has_transpose || nodes_[i].op_type() == "Transpose";
      chain.push_back(i);
      begin = &nodes_[i].input(0);
    }
    if (!has_transpose || model_.IsInitializer(*begin)) return;
    const auto producer = producers_.find(*begin);
    if (producer != producers_.end() && !KeepsFloat(producer->second)) return;
    for (const size_t i : chain) Keep(i, {"it moves a FLOAT value to a product", false});
  }

  // Casts around a cheap operator between operators in FLOAT cost more than it saves.
  void KeepBetween() {
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (!kept_[i].reason.empty() || !ops::IsCheapOnElements(nodes_[i]) || !HasPorts(i))
          continue;
        if (!ReadsFloats(i) || !GivesFloats(i)) continue;
        Keep(i, {"it stands between operators in FLOAT", false});
        is_changed = true;
      }
    }
  }

  bool KeepsFloat(size_t i) const { return !kept_[i].reason.empty(); }

  bool ReadsFloats(size_t i) const {
    bool reads_any = false;
    for (size_t k = 0; k < nodes_[i].num_inputs(); ++k) {
      const std::string& value = nodes_[i].input(k);
      if (!IsFloat(value) || model_.IsInitializer(value)) continue;
      const auto producer = producers_.find(value);
      if (producer == producers_.end() || !KeepsFloat(producer->second)) return false;
      reads_any = true;
    }
    return reads_any;
  }

  bool GivesFloats(size_t i) const {
    for (size_t k = 0; k < nodes_[i].num_outputs(); ++k) {
      const auto readers = readers_.find(nodes_[i].output(k));
      if (readers == readers_.end()) continue;  // an output of the graph is FLOAT
      if (!std::ranges::all_of(readers->second, [&](size_t r) { return KeepsFloat(r); })) {
        return false;
      }
    }
    return true;
  }

  const graph::Model& model_;
  std::vector<Node> nodes_;
  std::vector<graph::HalfPorts> ports_;
  std::vector<FloatNode> kept_;
  std::unordered_map<std::string, size_t> producers_;
  std::unordered_map<std::string, std::vector<size_t>> readers_;
  std::unordered_map<size_t, std::string> slices_;
};

bool HasHalf(const graph::Model& model) {
  const auto is_half = [&](const std::string& value) {
    return model.InfoOf(value).type == DataType::kFloat16;
  };
  return std::ranges::any_of(model.InitializerNames(), is_half) ||
         std::ranges::any_of(model.InputNames(), is_half);
}

// Returns whether the operator quantizes activations or computes on such codes. Weights alone, as
// of MatMulNBits, leave activations that can be FLOAT16.
bool RoundsActivations(const Node& node) {
  const std::string& type = node.op_type();
  if (ops::IsQuantizer(node)) return !type.ends_with("DequantizeLinear");
  return ops::IsIntegerOperator(node) && type != "MatMulNBits" && type != "QMoE";
}

// Returns whether activations are quantized already, and three quarters of the constants' bytes are
// codes: a FLOAT16 form would move what is rounded, and save less than an eighth.
bool IsQuantizedAlready(const graph::Model& model) {
  if (std::ranges::none_of(model.AllNodes(), RoundsActivations)) return false;
  const graph::StoredParts parts = graph::MeasureParts(model);
  return parts.codes > parts.constants / 4 * 3;
}

bool IsClipBehindConv(const graph::Model& model, const Node& node) {
  if (!node.domain().empty() || node.op_type() != "Clip") return false;
  const std::optional<Node> producer = model.Producer(node.input(0));
  return producer && producer->domain().empty() && producer->op_type() == "Conv";
}

// Keeps FLOAT where the request or the operator says so (ops/operator_traits.h), where values left
// the range in samples, where constants are too small, in what computes whole numbers, angles and
// logarithms, and between such operators. REQUIRES: types are inferred.
NarrowReport NarrowNetwork(graph::Model& model, const plan::HalfRequest& request) {
  NarrowReport report;
  report.was_half = HasHalf(model);
  if (report.was_half) return report;
  const FloatChooser chooser(model, request);
  for (size_t i = 0; i < chooser.nodes().size(); ++i) {
    const std::string& reason = chooser.kept()[i].reason;
    if (!reason.empty()) {
      report.kept.emplace_back(chooser.nodes()[i].Describe(), reason);
    } else if (chooser.HasPorts(i)) {
      ++report.num_half_nodes;
      if (IsClipBehindConv(model, chooser.nodes()[i])) ++report.num_clips_behind_convs;
    }
  }
  report.constants = graph::NarrowToHalf(model, chooser.kept());
  return report;
}

}  // namespace

const PreparePass kNarrowToHalf{
    .name = "narrow-to-half",
    .run = [](graph::Model& model, PrepareState& state) -> graph::PassResult {
      state.report.narrowed = NarrowNetwork(model, *state.options.rewrites.half);
      InferTypes(model);
      return !state.report.narrowed->was_half;
    },
    .is_wanted =
        [](const graph::Model& model, const PrepareState& state) {
          return state.options.rewrites.half.has_value() && !IsQuantizedAlready(model);
        },
    .is_exact = false};

}  // namespace bitpress::rewrite
