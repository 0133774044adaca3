#include "ops/layer_roles.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "ops/operator_traits.h"
#include "ops/value_sources.h"

namespace bitpress::ops {
namespace {

using graph::Node;
using Place = LayerPlace;

constexpr std::array<std::pair<std::string_view, LayerRole>, 12> kRoles{
    {{"embedding", LayerRole::kEmbedding},
     {"attn_q", LayerRole::kAttnQ},
     {"attn_k", LayerRole::kAttnK},
     {"attn_v", LayerRole::kAttnV},
     {"attn_kv", LayerRole::kAttnKV},
     {"attn_qkv", LayerRole::kAttnQKV},
     {"attn_o", LayerRole::kAttnO},
     {"mlp_gate", LayerRole::kMlpGate},
     {"mlp_up", LayerRole::kMlpUp},
     {"mlp_gate_up", LayerRole::kMlpGateUp},
     {"mlp_down", LayerRole::kMlpDown},
     {"lm_head", LayerRole::kLmHead}}};

// An attention or MLP, to be counted.
struct Block {
  size_t graph = 0;   // nodes of one graph have the same number
  size_t stream = 0;  // the state of the stream that it reads
  bool is_attention = false;
  bool reads_itself = false;    // an attention whose keys and values come from that state, too
  std::vector<size_t> linears;  // its layers
};

class Finder {
 public:
  explicit Finder(const graph::Model& model) : model_(model), trace_(TraceSources(model)) {
    for (size_t i = 0; i < trace_.sources.size(); ++i) {
      const bool is_stream = At(i).kind == SourceKind::kStream;
      const bool is_linear = At(i).kind == SourceKind::kLinear;
      streams_.push_back(is_stream ? i : is_linear ? StreamOf(At(i).data) : 0);
    }
  }

  std::map<std::string, Place, std::less<>> Run() {
    for (size_t i = 0; i < trace_.sources.size(); ++i) {
      if (At(i).kind == SourceKind::kAttention) FindAttention(i);
    }
    FindOutputsOfAttentions();
    FindHeads();
    for (size_t i = 0; i < trace_.sources.size(); ++i) {
      if (At(i).kind == SourceKind::kLinear && !roles_.contains(i)) FindMlp(i);
    }
    NumberLayers();
    std::map<std::string, Place, std::less<>> places;
    for (const auto& [source, place] : roles_) {
      places.emplace(At(source).node->output(0), place);
    }
    AddEmbeddings(places);
    return places;
  }

  const std::set<std::string, std::less<>>& constants() const { return trace_.constants; }

 private:
  const Source& At(size_t source) const { return trace_.sources[source]; }

  bool Has(const SourceSet& set, SourceKind kind) const {
    return std::ranges::any_of(set, [&](size_t i) { return At(i).kind == kind; });
  }
  SourceSet LinearsOf(const SourceSet& set) const {
    SourceSet linears = set;
    std::erase_if(linears, [&](size_t i) { return At(i).kind != SourceKind::kLinear; });
    return linears;
  }

  void FindAttention(size_t attention) {
    const SourceSet queries = LinearsOf(At(attention).data);
    const SourceSet keys = LinearsOf(At(attention).keys);
    const SourceSet values = LinearsOf(At(attention).values);
    SourceSet all = queries;
    all.insert(keys.begin(), keys.end());
    all.insert(values.begin(), values.end());
    Block block{GraphOf(*At(attention).node), StreamOf(At(attention).data), true, false, {}};
    block.reads_itself = !keys.empty() && StreamOf(keys) == block.stream;
    attentions_[attention] = blocks_.size();
    for (const size_t i : all) {
      const std::optional<LayerRole> role =
          RoleIn(queries.contains(i), keys.contains(i), values.contains(i));
      // Layers may share keys and values. These belong to the first one.
      if (role && roles_.emplace(i, Place{*role, {}, {}}).second) block.linears.push_back(i);
    }
    blocks_.push_back(std::move(block));
  }

  static std::optional<LayerRole> RoleIn(bool queries, bool keys, bool values) {
    if (queries) {
      if (keys != values) return std::nullopt;
      return keys ? LayerRole::kAttnQKV : LayerRole::kAttnQ;
    }
    if (keys && values) return LayerRole::kAttnKV;
    return keys ? LayerRole::kAttnK : LayerRole::kAttnV;
  }

  void FindOutputsOfAttentions() {
    for (size_t i = 0; i < trace_.sources.size(); ++i) {
      if (At(i).kind != SourceKind::kLinear || roles_.contains(i)) continue;
      for (const size_t source : At(i).data) {
        const auto attention = attentions_.find(source);
        if (attention == attentions_.end()) continue;
        roles_[i] = {LayerRole::kAttnO, {}, {}};
        blocks_[attention->second].linears.push_back(i);
        break;
      }
    }
  }

  // A head gives an output of the model, with as many numbers as a table has rows. Tables of a few
  // types of tokens, with more columns than rows, are no vocabulary.
  void FindHeads() {
    std::vector<int64_t> vocabularies;
    for (const Source& source : trace_.sources) {
      if (!source.node || !source.node->op_type().starts_with("Gather")) continue;
      std::vector<int64_t> dims = source.node->GetInts("shape");  // of a table in codes
      if (dims.empty()) {
        for (const graph::Dimension& dim : model_.InfoOf(source.node->input(0)).shape) {
          dims.push_back(dim.value);
        }
      }
      if (dims.size() == 2 && dims[0] > dims[1]) vocabularies.push_back(dims[0]);
    }
    for (const std::string& output : model_.OutputNames()) {
      for (const size_t i : LinearsOf(trace_.Of(output))) {
        if (roles_.contains(i) || trace_.merged.contains(i)) continue;
        if (IsVocabulary(NumOutputs(*At(i).node, output), NumInputs(*At(i).node), vocabularies)) {
          roles_[i] = {LayerRole::kLmHead, {}, {}};
        }
      }
    }
  }

  // A model that reads embeddings as an input has no table. Heads of tables may be padded, or lack
  // the words that a user added.
  bool IsVocabulary(int64_t num_outputs, int64_t num_inputs,
                    const std::vector<int64_t>& vocabularies) const {
    if (num_outputs <= 0) return false;
    if (vocabularies.empty()) {
      constexpr int64_t kLeastRatio = 7;  // of vocabulary to width; Llama-2 has 32000 to 4096
      return !attentions_.empty() && num_inputs > 0 && num_outputs >= kLeastRatio * num_inputs;
    }
    return std::ranges::any_of(
        vocabularies, [&](int64_t rows) { return std::abs(num_outputs - rows) <= rows / 16; });
  }

  // Nobody may have described the output of an operator that others do not know, but the model's.
  int64_t NumOutputs(const Node& node, const std::string& model_output) const {
    const int64_t count = LastDimension(node.output(0));
    return count < 0 ? LastDimension(model_output) : count;
  }
  int64_t NumInputs(const Node& node) const {
    const std::optional<LinearInputs> inputs = LinearInputsOf(node);
    return inputs ? LastDimension(node.input(inputs->data)) : -1;
  }
  int64_t LastDimension(const std::string& value) const {
    const graph::ValueInfo info = model_.InfoOf(value);
    return info.shape.empty() ? -1 : info.shape.back().value;
  }

  // A layer closes an MLP if it reads other layers behind an activation function, these read the
  // stream, and its output is added to the stream. The last tells a classifier behind a pooler
  // from it.
  void FindMlp(size_t down) {
    const SourceSet& first = At(down).data;
    if (!trace_.merged.contains(down) || first.empty() || first.size() > 2) return;
    for (const size_t i : first) {
      if (At(i).kind != SourceKind::kLinear || roles_.contains(i) ||
          !Has(At(i).data, SourceKind::kStream)) {
        return;
      }
    }
    SourceSet activated;
    bool is_split = false;
    const std::optional<LinearInputs> inputs = LinearInputsOf(*At(down).node);
    std::vector<std::string> to_visit{At(down).node->input(inputs->data)};
    std::set<std::string> seen;
    while (!to_visit.empty()) {
      const std::string value = std::move(to_visit.back());
      to_visit.pop_back();
      const std::optional<Node> node = model_.Producer(value);
      if (!node || !seen.insert(value).second || LinearInputsOf(*node)) continue;
      const SourceSet& sources = trace_.Of(node->input(0));
      const OperatorTraits& traits = TraitsNamed(node->op_type());
      if (traits.Is(kIsActivation) && sources.size() == 1) {
        activated.insert(*sources.begin());
      }
      is_split = is_split || traits.Is(kSplits);
      for (size_t i = 0; i < node->num_inputs(); ++i) {
        if (!trace_.Of(node->input(i)).empty()) to_visit.push_back(node->input(i));
      }
    }
    if (first.size() == 1 && activated.empty()) return;
    Block block{GraphOf(*At(down).node), StreamOf(first), false, false, {down}};
    for (const size_t i : first) {
      const bool is_gate = first.size() == 2 && activated.size() == 1 && activated.contains(i);
      const bool is_both = first.size() == 1 && is_split;
      roles_[i] = {is_gate   ? LayerRole::kMlpGate
                   : is_both ? LayerRole::kMlpGateUp
                             : LayerRole::kMlpUp,
                   {},
                   {}};
      block.linears.push_back(i);
    }
    roles_[down] = {LayerRole::kMlpDown, {}, {}};
    blocks_.push_back(std::move(block));
  }

  // Returns the latest state of the stream that the sources are or read, through other layers.
  size_t StreamOf(const SourceSet& sources) const {
    size_t latest = 0;
    for (const size_t i : sources) latest = std::max(latest, streams_[i]);
    return latest;
  }

  size_t GraphOf(const Node& node) {
    for (size_t i = 0; i < graphs_.size(); ++i) {
      if (model_.AreInOneGraph(graphs_[i], node)) return i;
    }
    graphs_.push_back(node);
    return graphs_.size() - 1;
  }

  // Counts layers along the stream. A layer ends with its MLP; blocks that read the same state
  // stand side by side in one layer. Where no MLP is known (experts), each attention that reads
  // itself begins a layer.
  void NumberLayers() {
    const auto position = [](const Block& block) { return std::tie(block.graph, block.stream); };
    std::ranges::stable_sort(blocks_, {}, [&](const Block& block) {
      return std::tuple(block.graph, block.stream, !block.is_attention);
    });
    int64_t layer = -1;
    bool has_mlp = false, has_attention = false;
    for (size_t begin = 0, end = 0; begin < blocks_.size(); begin = end) {
      bool adds_attention = false, adds_mlp = false, reads_itself = false;
      for (end = begin; end < blocks_.size() && position(blocks_[end]) == position(blocks_[begin]);
           ++end) {
        adds_attention = adds_attention || blocks_[end].is_attention;
        adds_mlp = adds_mlp || !blocks_[end].is_attention;
        reads_itself = reads_itself || blocks_[end].reads_itself;
      }
      const bool is_new_graph = begin == 0 || blocks_[begin - 1].graph != blocks_[begin].graph;
      if (is_new_graph) layer = -1;
      if (is_new_graph || has_mlp || (reads_itself && has_attention)) {
        ++layer;
        has_mlp = has_attention = false;
      }
      has_mlp = has_mlp || adds_mlp;
      has_attention = has_attention || reads_itself;
      for (size_t i = begin; i < end; ++i) {
        for (const size_t linear : blocks_[i].linears) {
          roles_[linear].layer = layer;
          roles_[linear].block = static_cast<int64_t>(i);
        }
      }
    }
  }

  // Tables of rotary positions are looked up too, but their rows meet queries and keys only.
  void AddEmbeddings(std::map<std::string, Place, std::less<>>& places) const {
    SourceSet read = trace_.merged;
    for (const Source& source : trace_.sources) {
      if (source.kind != SourceKind::kLinear) continue;
      read.insert(source.data.begin(), source.data.end());
    }
    for (const size_t i : read) {
      const Source& source = At(i);
      const bool is_sum = !source.data.empty();
      if (source.kind != SourceKind::kStream || !source.node || is_sum) continue;
      places.emplace(source.node->output(0), Place{LayerRole::kEmbedding, {}, {}});
    }
  }

  const graph::Model& model_;
  const SourceTrace trace_;
  std::vector<size_t> streams_;    // of each source: the state of the stream that it reads, or is
  std::map<size_t, Place> roles_;  // by source
  std::map<size_t, size_t> attentions_;  // source -> its index in blocks_
  std::vector<Block> blocks_;
  std::vector<Node> graphs_;  // a node of each
};

}  // namespace

std::span<const std::pair<std::string_view, LayerRole>> LayerRoleWords() { return kRoles; }

std::string_view LayerRoleName(LayerRole role) { return WordOf<LayerRole>(kRoles, role); }

LayerRole ParseLayerRole(std::string_view word) {
  return ParseWord<LayerRole>(kRoles, word, "role");
}

LayerRoles::LayerRoles(const graph::Model& model) {
  Finder finder(model);
  places_ = finder.Run();
  constants_ = finder.constants();
}

std::optional<LayerPlace> LayerRoles::Of(const graph::Node& node) const {
  if (node.num_outputs() == 0) return std::nullopt;
  const auto found = places_.find(node.output(0));
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> LayerRoles::LayerBefore(const graph::Model& model,
                                               const graph::Node& node) const {
  std::optional<int64_t> layer;
  std::set<std::string> seen;
  std::vector<Node> pending{node};
  while (!pending.empty()) {
    const Node reader = pending.back();
    pending.pop_back();
    for (size_t i = 0; i < reader.num_inputs(); ++i) {
      const std::optional<Node> producer = model.Producer(reader.input(i));
      if (!producer || !seen.insert(reader.input(i)).second) continue;
      const std::optional<LayerPlace> place = Of(*producer);
      if (!place) {
        pending.push_back(*producer);
      } else if (place->layer) {
        layer = std::max(layer.value_or(0), *place->layer);
      }
    }
  }
  return layer;
}

}  // namespace bitpress::ops
