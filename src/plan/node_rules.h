// The settings that hold for a node: those of the configuration, changed by its rules and
// exclusions. Everything that makes rows of a plan asks here. Not thread-safe: answers are kept.
//
// Rules match the names and types that nodes and values have in the model, and those that they had
// in the file that it was prepared from (graph/origins.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format_spec.h"
#include "graph/model.h"
#include "graph/origins.h"
#include "ops/layer_roles.h"
#include "plan/name_pattern.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"

namespace bitpress::plan {

// The settings and formats for the tensors that a node reads.
struct Treatment {
  QuantConfig config;                             // the settings, changed by the rules that fit
  std::optional<formats::FormatSpec> activation;  // nothing: float
  std::optional<formats::FormatSpec> weight;
  std::optional<formats::FormatSpec> bias;
  std::optional<formats::FormatSpec> embedding;
  std::string excluded;  // the reason why they stay float whatever the settings, or ""
};

// The rules of a configuration, applied to a model.
class NodeRules {
 public:
  // Both must outlive it. Throws Error(kInvalidArgument) if an exclusion or a rule fits no node or
  // tensor of the model: a typing error would otherwise go unnoticed.
  NodeRules(const QuantConfig& config, const graph::Model& model);

  // Returns the treatment of `value`, which the node reads or gives. "" asks for the node as a
  // whole, which rules for tensors do not fit. If rules disagree, the later one counts.
  const Treatment& For(const graph::Node& node, std::string_view value = "") const;
  // Returns the treatment of the key-value cache that the node holds. The node has no role, and
  // stands in the layer of the projections whose results it reads.
  const Treatment& ForCache(const graph::Node& node) const;
  // Returns the treatment without any rule.
  const Treatment& General() const;
  // Returns what words of optional rules fit nothing, as sentences that begin with the rule.
  const std::vector<std::string>& unmatched() const { return unmatched_; }

 private:
  // A rule that is ready to be compared with nodes.
  struct Compiled {
    Rule rule;
    std::string label;   // for messages: "rule '...'", "setting exclude_nodes"
    std::string reason;  // the reason of a float row, if the rule excludes
    std::vector<NamePattern> nodes;
    std::vector<NamePattern> tensors;
    std::optional<std::set<std::string>> path;  // keys of the nodes between `from` and `to`
    std::vector<LayerRange> layers;
  };
  void Compile(Rule rule, std::string label, std::string reason);
  // Excludes products that compute the angles of rotary and sinusoidal embeddings.
  void LeaveAnglesFloat();
  // Gives heads that are a table of embeddings the table's format, where it is the wider one: they
  // read its codes then, which takes no bytes and loses less. Rules of the configuration, which
  // begin at `first`, may say otherwise.
  void ShareTables(size_t first);
  // Throws if a word of the rule fits nothing; notes it if the rule is optional.
  void CheckWords(const Compiled& compiled);
  void CheckPlaces(const Compiled& compiled) const;
  // Returns the number of layers of the transformer; 0 if it is none.
  int64_t NumLayers() const;
  // The role and the layer of a node, as far as it has them.
  struct Place {
    std::optional<ops::LayerRole> role;
    std::optional<int64_t> layer;
  };
  Place PlaceOf(const graph::Node& node) const;
  // Returns whether it is one of the rule's roles, in one of its layers.
  static bool FitsPlace(const Compiled& compiled, const Place& place);
  // Return the names and the types of a node, and the names of a value, the present one first.
  std::vector<std::string> NamesOf(const graph::Node& node) const;
  std::vector<std::string> TypesOf(const graph::Node& node) const;
  std::vector<std::string> NamesOf(const std::string& value) const;
  std::set<std::string> NodesBetween(const Rule& rule) const;
  enum class PathEnd { kFrom, kTo };
  // Returns the nodes that a word of the rule's list `from` or `to` means: the node of that name,
  // and the nodes that read (kFrom) or give (kTo) the value of that name.
  std::vector<graph::Node> EndsOf(const Rule& rule, const std::string& word, PathEnd end) const;
  bool Fits(const Compiled& compiled, const graph::Node& node, std::string_view value,
            const Place& place) const;
  const Treatment& For(const graph::Node& node, std::string_view value, const Place& place) const;
  const Treatment& Cached(const std::vector<bool>& fitting) const;
  Treatment MakeTreatment(const std::vector<bool>& fitting) const;

  const QuantConfig& config_;
  const graph::Model& model_;
  const graph::Origins& origins_;
  NodeIndex index_;
  ops::LayerRoles roles_;  // empty if no rule asks for roles or layers
  std::vector<Compiled> rules_;
  std::vector<std::string> unmatched_;
  // The treatments by the set of rules that fit, filled in as they are asked for.
  mutable std::map<std::vector<bool>, Treatment> treatments_;
};

}  // namespace bitpress::plan
