#include "plan/node_rules.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/messages.h"
#include "base/text.h"
#include "ops/angles.h"
#include "ops/operator_traits.h"
#include "plan/table_content.h"
#include "plan/tied_heads.h"

namespace bitpress::plan {
namespace {

using graph::Node;

std::vector<NamePattern> CompilePatterns(const std::vector<std::string>& patterns) {
  return {patterns.begin(), patterns.end()};
}

// Returns whether a pattern fits one of the names that a node or value has.
bool MatchesOne(const std::vector<NamePattern>& patterns, const std::vector<std::string>& names) {
  return std::ranges::any_of(patterns,
                             [&](const NamePattern& pattern) { return pattern.MeansOneOf(names); });
}

// Returns whether the lists share a word.
bool ShareOne(const std::vector<std::string>& words, const std::vector<std::string>& others) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return std::ranges::find(others, word) != others.end();
  });
}

std::vector<std::string> ValuesOf(const Node& node) {
  std::vector<std::string> values;
  for (size_t i = 0; i < node.num_inputs(); ++i) values.push_back(node.input(i));
  for (size_t i = 0; i < node.num_outputs(); ++i) values.push_back(node.output(i));
  return values;
}

// Throws if values are to be scaled in a format whose tensors have no scale.
void CheckScaled(const Treatment& treatment) {
  const auto check = [](bool is_scaled, const std::optional<formats::FormatSpec>& spec,
                        std::string_view key) {
    if (!is_scaled || !spec || spec->scaled_maximum > 0) return;
    Fail(ErrorCode::kInvalidArgument, "setting {}: {} has scales of its own; this is for {}", key,
         spec->name, formats::ScaledFormats());
  };
  check(treatment.config.activation_scaled, treatment.activation, "activation_scaled");
  check(treatment.config.weight_scaled, treatment.weight, "weight_scaled");
}

// Returns whether the activations of a head follow it into the format of its table: they cost no
// bytes, and narrow ones would lose what the weight gains.
bool ActivationsFollow(const Treatment& head, const formats::FormatSpec& table) {
  return head.activation && head.activation->is_blocked() && table.is_blocked() &&
         head.activation->element_bits < table.element_bits;
}

// Returns whether a head can take the format of its table and loses less by it. A head of more than
// 8 bits would slow down every token to save the bytes of a copy. Products need activations that
// are float, or have blocks of the same size.
bool TakesFormatOf(const Treatment& head, const formats::FormatSpec& table) {
  constexpr int kMostBits = 8;
  if (!head.excluded.empty() || !head.weight || head.config.weight_scaled) return false;
  if (table.element_bits > kMostBits || head.weight->element_bits >= table.element_bits) {
    return false;
  }
  return !head.activation || ActivationsFollow(head, table) ||
         (head.activation->is_blocked() && table.is_blocked() &&
          head.activation->block_size == table.block_size);
}

}  // namespace

NodeRules::NodeRules(const QuantConfig& config, const graph::Model& model)
    : config_(config), model_(model), origins_(graph::OriginsOf(model)), index_(model) {
  const bool asks_for_roles = std::ranges::any_of(
      config.rules, [](const Rule& rule) { return !rule.roles.empty() || !rule.layers.empty(); });
  if (asks_for_roles) roles_ = ops::LayerRoles(model);
  for (const std::string& op_type : config.exclude_op_types) {
    Compile({.op_types = {op_type}, .exclude = true}, "setting exclude_op_types",
            "excluded by exclude_op_types " + op_type);
  }
  for (const std::string& pattern : config.exclude_nodes) {
    Compile({.nodes = {pattern}, .exclude = true}, "setting exclude_nodes",
            fmt::format("excluded by exclude_nodes '{}'", pattern));
  }
  LeaveAnglesFloat();
  std::vector<std::string> layers;
  for (const Node& node : model.Nodes()) {
    if (ops::TraitsOf(node).multiplies()) layers.push_back(index_.KeyOf(node));
  }
  const auto leave_float = [&](std::vector<std::string> names, std::string_view key) {
    if (names.empty()) return;
    Compile({.names = std::move(names), .exclude = true}, fmt::format("setting {}", key),
            fmt::format("excluded by {}", key));
  };
  const auto num_layers = static_cast<int64_t>(layers.size());
  leave_float({layers.begin(), layers.begin() + std::min(config.float_first, num_layers)},
              "float_first");
  leave_float({layers.end() - std::min(config.float_last, num_layers), layers.end()}, "float_last");
  const size_t first = rules_.size();
  for (const Rule& rule : config.rules) {
    const std::string label = fmt::format("rule '{}'", RuleText(rule));
    Compile(rule, label, "excluded by " + label);
  }
  ShareTables(first);
}

void NodeRules::ShareTables(size_t first) {
  // A mean of bits that is asked for leaves no room for a head of 8 bits.
  if (config_.embeddings == "none" || config_.mean_bits > 0) return;
  using Heads = std::map<std::string, std::vector<std::string>>;  // by the format of their table
  const auto compile = [&](Heads heads, const std::string& setting) {
    treatments_.clear();
    for (auto& [format, names] : heads) {
      Compile({.names = std::move(names), .settings = {{setting, format}}}, "tied heads", "");
      std::rotate(rules_.begin() + static_cast<std::ptrdiff_t>(first), rules_.end() - 1,
                  rules_.end());
    }
  };
  Heads heads;
  std::vector<std::pair<Node, formats::FormatSpec>> found;  // heads, and formats of their tables
  for (const TiedHead& tied : FindTiedHeads(model_)) {
    const std::string& value = tied.lookup.input(0);
    const Treatment& head = For(tied.head, tied.head.input(1));
    const Treatment& table = For(tied.lookup, value);
    if (table.excluded.empty() && table.embedding && TakesFormatOf(head, *table.embedding) &&
        WhyTableStaysFloat(model_.Initializer(value)).empty()) {
      heads[table.embedding->name].push_back(index_.KeyOf(tied.head));
      found.emplace_back(tied.head, *table.embedding);
    }
  }
  compile(std::move(heads), "weights");
  // A rule of the configuration may have kept the weight's format.
  Heads followed;
  for (const auto& [node, table] : found) {
    const Treatment& head = For(node, node.input(1));
    if (head.weight && head.weight->name == table.name && ActivationsFollow(head, table)) {
      followed[table.name].push_back(index_.KeyOf(node));
    }
  }
  compile(std::move(followed), "activations");
}

void NodeRules::LeaveAnglesFloat() {
  const std::set<std::string> angles = ops::AnglesOfPositions(model_);
  if (angles.empty()) return;
  std::vector<std::string> names;
  for (const Node& node : model_.AllNodes()) {
    const bool is_angle = node.num_outputs() > 0 && angles.contains(node.output(0));
    if (is_angle && ops::TraitsOf(node).multiplies()) names.push_back(index_.KeyOf(node));
  }
  if (names.empty()) return;
  Compile({.names = std::move(names), .exclude = true}, "products of positions",
          "it multiplies positions to angles, which need all their digits");
}

void NodeRules::Compile(Rule rule, std::string label, std::string reason) {
  Compiled compiled{.rule = std::move(rule),
                    .label = std::move(label),
                    .reason = std::move(reason),
                    .nodes = {},
                    .tensors = {},
                    .path = {},
                    .layers = {}};
  compiled.nodes = CompilePatterns(compiled.rule.nodes);
  compiled.tensors = CompilePatterns(compiled.rule.tensors);
  for (const std::string& range : compiled.rule.layers) {
    if (range == kMixedLayers) {
      std::ranges::move(MixedLayers(NumLayers()), std::back_inserter(compiled.layers));
    } else {
      compiled.layers.push_back(ParseLayerRange(range));
    }
  }
  WithContext(compiled.label, [&] {
    CheckWords(compiled);
    if (!compiled.rule.is_optional) CheckPlaces(compiled);
    if (!compiled.rule.from.empty() || !compiled.rule.to.empty()) {
      compiled.path = NodesBetween(compiled.rule);
    }
  });
  rules_.push_back(std::move(compiled));
}

std::vector<std::string> NodeRules::NamesOf(const Node& node) const {
  std::vector<std::string> names{index_.KeyOf(node)};
  if (node.num_outputs() == 0) return names;
  const auto origin = origins_.nodes.find(node.output(0));
  if (origin == origins_.nodes.end()) return names;
  names.insert(names.end(), origin->second.names.begin(), origin->second.names.end());
  return names;
}

std::vector<std::string> NodeRules::TypesOf(const Node& node) const {
  std::vector<std::string> types{node.op_type()};
  if (node.num_outputs() == 0) return types;
  const auto origin = origins_.nodes.find(node.output(0));
  if (origin == origins_.nodes.end()) return types;
  types.insert(types.end(), origin->second.op_types.begin(), origin->second.op_types.end());
  return types;
}

std::vector<std::string> NodeRules::NamesOf(const std::string& value) const {
  std::vector<std::string> names{value};
  const auto others = origins_.values.find(value);
  if (others != origins_.values.end()) {
    names.insert(names.end(), others->second.begin(), others->second.end());
  }
  return names;
}

void NodeRules::CheckWords(const Compiled& compiled) {
  std::set<std::string> names;
  std::set<std::string> values;
  std::set<std::string> op_types;
  const auto add = [](std::set<std::string>& all, const std::vector<std::string>& more) {
    all.insert(more.begin(), more.end());
  };
  for (const Node& node : model_.AllNodes()) {
    add(names, NamesOf(node));
    add(op_types, TypesOf(node));
    for (const std::string& value : ValuesOf(node)) add(values, NamesOf(value));
  }
  const auto refuse = [&](const std::string& why) {
    if (!compiled.rule.is_optional) Fail(ErrorCode::kInvalidArgument, "{}", why);
    unmatched_.push_back(compiled.label + ": " + why);
  };
  const auto check = [&](const auto& words, const std::set<std::string>& candidates,
                         std::string_view what, const auto& fits) {
    for (size_t i = 0; i < words.size(); ++i) {
      if (std::ranges::any_of(candidates, [&](const std::string& c) { return fits(i, c); })) {
        continue;
      }
      const auto gone = std::ranges::find_if(
          origins_.gone, [&](const auto& entry) { return fits(i, entry.first); });
      if (gone != origins_.gone.end()) {
        refuse(fmt::format(
            "'{}' matches {} that is left: {} ('{}'); without preparation ({}) it stays", words[i],
            what, gone->second, gone->first, OptionName("as_is")));
      } else if (origins_.op_types.contains(words[i])) {
        refuse(
            fmt::format("'{}' matches {} that is left: preparation folded or joined all nodes of "
                        "that type; without it ({}) they stay",
                        words[i], what, OptionName("as_is")));
      } else {
        refuse(fmt::format(
            "'{}' matches {} in the model{}", words[i], what,
            DidYouMean(words[i], std::vector<std::string>(candidates.begin(), candidates.end()))));
      }
    }
  };
  const Rule& rule = compiled.rule;
  const auto check_exact = [&](const std::vector<std::string>& words,
                               const std::set<std::string>& candidates, std::string_view what) {
    check(words, candidates, what,
          [&](size_t i, const std::string& candidate) { return candidate == words[i]; });
  };
  check_exact(rule.op_types, op_types, "no operator type");
  check_exact(rule.names, names, "no node's name");
  check(rule.nodes, names, "no node's name",
        [&](size_t i, const std::string& name) { return compiled.nodes[i].Matches(name); });
  check(rule.tensors, values, "no value",
        [&](size_t i, const std::string& value) { return compiled.tensors[i].Matches(value); });
  // What does not fit may have been folded: nothing else becomes of it.
  op_types.insert(origins_.op_types.begin(), origins_.op_types.end());
  for (const auto& [name, reason] : origins_.gone) names.insert(name);
  check_exact(rule.not_op_types, op_types, "no operator type");
  check_exact(rule.not_names, names, "no node's name");
}

int64_t NodeRules::NumLayers() const {
  int64_t last_layer = -1;
  for (const auto& [output, place] : roles_.all()) {
    last_layer = std::max(last_layer, place.layer.value_or(-1));
  }
  return last_layer + 1;
}

void NodeRules::CheckPlaces(const Compiled& compiled) const {
  const Rule& rule = compiled.rule;
  if (rule.roles.empty() && rule.layers.empty()) return;
  if (roles_.all().empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "no node of the model has a role: it is no transformer that is known as one");
  }
  std::set<std::string> known;
  const int64_t last_layer = NumLayers() - 1;
  for (const auto& [output, place] : roles_.all()) known.emplace(ops::LayerRoleName(place.role));
  for (const std::string& role : rule.roles) {
    if (known.contains(role)) continue;
    Fail(ErrorCode::kInvalidArgument, "no node of the model is '{}'; its nodes are {}", role,
         Join(std::vector<std::string>(known.begin(), known.end()), ", "));
  }
  for (const LayerRange& range : compiled.layers) {
    if (range.last <= last_layer) continue;
    Fail(ErrorCode::kInvalidArgument, "there is no layer {}; the model has {} (0 to {})",
         range.last, last_layer + 1, last_layer);
  }
  const auto fits = [&](const Node& node) { return FitsPlace(compiled, PlaceOf(node)); };
  if (std::ranges::none_of(model_.AllNodes(), fits)) {
    Fail(ErrorCode::kInvalidArgument, "no node is {} in layers {}", Join(rule.roles, " or "),
         Join(rule.layers, ";"));
  }
}

NodeRules::Place NodeRules::PlaceOf(const Node& node) const {
  const std::optional<ops::LayerPlace> place = roles_.Of(node);
  return place ? Place{place->role, place->layer} : Place{};
}

bool NodeRules::FitsPlace(const Compiled& compiled, const Place& place) {
  const Rule& rule = compiled.rule;
  const auto is_role = [&](const std::string& role) {
    return place.role && role == ops::LayerRoleName(*place.role);
  };
  const auto is_in = [&](const LayerRange& range) {
    return place.layer && *place.layer >= range.first && *place.layer <= range.last;
  };
  return (rule.roles.empty() || std::ranges::any_of(rule.roles, is_role)) &&
         (rule.layers.empty() || std::ranges::any_of(compiled.layers, is_in));
}

std::vector<Node> NodeRules::EndsOf(const Rule& rule, const std::string& word, PathEnd end) const {
  const bool is_start = end == PathEnd::kFrom;
  std::vector<Node> ends;
  std::vector<std::string> known;
  for (const Node& node : model_.AllNodes()) {
    std::vector<std::string> names = NamesOf(node);
    const auto add = [&](const std::string& value) {
      const std::vector<std::string> more = NamesOf(value);
      names.insert(names.end(), more.begin(), more.end());
    };
    for (size_t i = 0; is_start && i < node.num_inputs(); ++i) add(node.input(i));
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      if (!is_start) {
        add(node.output(i));
        continue;
      }
      // A value that is gone was read inside this node.
      const std::vector<std::string> more = NamesOf(node.output(i));
      names.insert(names.end(), more.begin() + 1, more.end());
    }
    if (std::ranges::find(names, word) != names.end()) ends.push_back(node);
    known.insert(known.end(), names.begin(), names.end());
  }
  if (ends.empty() && !rule.is_optional) {
    const auto gone = origins_.gone.find(word);
    if (gone != origins_.gone.end()) {
      Fail(ErrorCode::kInvalidArgument, "'{}' is not left: {}; without preparation ({}) it stays",
           word, gone->second, OptionName("as_is"));
    }
    Fail(ErrorCode::kInvalidArgument, "'{}' is no node of the model and no value that one {}{}",
         word, is_start ? "reads" : "gives", DidYouMean(word, known));
  }
  return ends;
}

std::set<std::string> NodeRules::NodesBetween(const Rule& rule) const {
  const std::vector<Node> nodes = model_.AllNodes();
  std::set<std::string> behind;  // keys of nodes that a start leads to, themselves included
  std::set<std::string> before;
  std::set<std::string> live;  // values that nodes on the path give (forwards) or need (backwards)
  for (const std::string& word : rule.from) {
    for (const Node& node : EndsOf(rule, word, PathEnd::kFrom)) behind.insert(index_.KeyOf(node));
  }
  for (const Node& node : nodes) {  // in topological order, bodies before their node
    bool is_behind = rule.from.empty() || behind.contains(index_.KeyOf(node));
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      is_behind = is_behind || live.contains(node.input(i));
    }
    if (!is_behind) continue;
    behind.insert(index_.KeyOf(node));
    // The node that owns a body gives what the body gives.
    for (auto owner = model_.Owner(node); owner; owner = model_.Owner(*owner)) {
      behind.insert(index_.KeyOf(*owner));
    }
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      if (!node.output(i).empty()) live.insert(node.output(i));
    }
  }
  live.clear();
  for (const std::string& word : rule.to) {
    for (const Node& node : EndsOf(rule, word, PathEnd::kTo)) before.insert(index_.KeyOf(node));
  }
  std::set<std::string> between;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    bool is_before = rule.to.empty() || before.contains(index_.KeyOf(*node));
    for (size_t i = 0; i < node->num_outputs(); ++i) {
      is_before = is_before || live.contains(node->output(i));
    }
    if (const auto owner = model_.Owner(*node)) {
      is_before = is_before || before.contains(index_.KeyOf(*owner));
    }
    if (!is_before) continue;
    before.insert(index_.KeyOf(*node));
    if (behind.contains(index_.KeyOf(*node))) between.insert(index_.KeyOf(*node));
    for (size_t i = 0; i < node->num_inputs(); ++i) {
      if (!node->input(i).empty()) live.insert(node->input(i));
    }
  }
  if (between.empty() && !rule.is_optional) {
    Fail(ErrorCode::kInvalidArgument, "no node lies between {} and {}", Join(rule.from, ";"),
         Join(rule.to, ";"));
  }
  return between;
}

bool NodeRules::Fits(const Compiled& compiled, const Node& node, std::string_view value,
                     const Place& place) const {
  const Rule& rule = compiled.rule;
  if (!rule.op_types.empty() && !ShareOne(rule.op_types, TypesOf(node))) return false;
  if (ShareOne(rule.not_op_types, TypesOf(node))) return false;
  if (!rule.tensors.empty() &&
      (value.empty() || !MatchesOne(compiled.tensors, NamesOf(std::string(value))))) {
    return false;
  }
  if (!FitsPlace(compiled, place)) return false;
  const bool has_names = !rule.names.empty() || !rule.not_names.empty() || !rule.nodes.empty();
  if (!has_names && !compiled.path) return true;
  const std::vector<std::string> names = NamesOf(node);
  return (rule.names.empty() || ShareOne(rule.names, names)) && !ShareOne(rule.not_names, names) &&
         (rule.nodes.empty() || MatchesOne(compiled.nodes, names)) &&
         (!compiled.path || compiled.path->contains(names.front()));
}

Treatment NodeRules::MakeTreatment(const std::vector<bool>& fitting) const {
  Treatment treatment;
  treatment.config = config_;
  for (size_t i = 0; i < fitting.size(); ++i) {
    if (!fitting[i]) continue;
    const Rule& rule = rules_[i].rule;
    if (rule.exclude && treatment.excluded.empty()) treatment.excluded = rules_[i].reason;
    for (const auto& [key, value] : rule.settings) ApplySetting(treatment.config, key, value);
  }
  treatment.activation = ResolveFormat(treatment.config, Role::kActivation);
  treatment.weight = ResolveFormat(treatment.config, Role::kWeight);
  treatment.bias = ResolveFormat(treatment.config, Role::kBias);
  treatment.embedding = ResolveEmbeddings(treatment.config);
  if (treatment.activation) CheckHasOperator(config_.operators, *treatment.activation);
  CheckScaled(treatment);
  const bool is_dynamic = treatment.config.activation_range.is_dynamic();
  if (is_dynamic && treatment.activation && treatment.activation->name != "uint8") {
    Fail(ErrorCode::kInvalidArgument,
         "activation_range=dynamic: DynamicQuantizeLinear gives uint8 with a float scale, not {}; "
         "set activations=uint8",
         treatment.activation->name);
  }
  return treatment;
}

const Treatment& NodeRules::Cached(const std::vector<bool>& fitting) const {
  auto found = treatments_.find(fitting);
  if (found == treatments_.end()) {
    found = treatments_.emplace(fitting, MakeTreatment(fitting)).first;
  }
  return found->second;
}

const Treatment& NodeRules::General() const { return Cached(std::vector<bool>(rules_.size())); }

const Treatment& NodeRules::For(const Node& node, std::string_view value) const {
  return For(node, value, PlaceOf(node));
}

const Treatment& NodeRules::ForCache(const Node& node) const {
  Place place = PlaceOf(node);
  if (!place.role && !roles_.all().empty()) place.layer = roles_.LayerBefore(model_, node);
  return For(node, "", place);
}

const Treatment& NodeRules::For(const Node& node, std::string_view value,
                                const Place& place) const {
  std::vector<bool> fitting(rules_.size());
  for (size_t i = 0; i < rules_.size(); ++i) fitting[i] = Fits(rules_[i], node, value, place);
  return Cached(fitting);
}

}  // namespace bitpress::plan
