#include "calibrate/model_pieces.h"

#include <algorithm>
#include <limits>
#include <set>

namespace bitpress::calibrate {
namespace {

constexpr size_t kNone = std::numeric_limits<size_t>::max();

uint64_t BytesOf(const graph::Model& model, const std::string& initializer) {
  const graph::ValueInfo info = model.InfoOf(initializer);
  uint64_t elements = 1;
  for (const graph::Dimension& dim : info.shape) elements *= static_cast<uint64_t>(dim.value);
  return elements * ElementBits(info.type) / 8;
}

// The main graph as numbers: what each node reads, in the order of the graph.
class Reads {
 public:
  explicit Reads(const graph::Model& model) : model_(model), nodes_(model.Nodes()) {
    of_node_.resize(nodes_.size());
    depends_.assign(nodes_.size(), false);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t k = 0; k < nodes_[i].num_outputs(); ++k) {
        if (!nodes_[i].output(k).empty()) producer_.emplace(nodes_[i].output(k), i);
      }
    }
    const auto add = [&](const std::string& value) {
      for (const graph::Use& use : model.AllUses(value)) {
        graph::Node reader = use.node;
        for (auto owner = model.Owner(reader); owner; owner = model.Owner(reader)) reader = *owner;
        const size_t i = IndexOf(reader);
        if (i != kNone) of_node_[i].insert(value);
      }
    };
    for (const auto& [value, node] : producer_) add(value);
    for (const std::string& name : model.InitializerNames()) add(name);
    for (const std::string& name : model.InputNames()) add(name);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      depends_[i] = std::ranges::any_of(of_node_[i], [&](const std::string& value) {
        if (model.IsInitializer(value)) return false;
        const size_t producer = ProducerOf(value);
        return producer == kNone || depends_[producer];
      });
    }
  }

  size_t size() const { return nodes_.size(); }
  size_t ProducerOf(const std::string& value) const {
    const auto found = producer_.find(value);
    return found == producer_.end() ? kNone : found->second;
  }
  const std::set<std::string>& of_node(size_t i) const { return of_node_[i]; }
  // Returns whether a node's outputs depend on an input of the graph.
  bool depends(size_t i) const { return depends_[i]; }
  uint64_t NumBytes(const std::string& value) const {
    return model_.IsInitializer(value) ? BytesOf(model_, value) : 0;
  }

 private:
  size_t IndexOf(const graph::Node& node) const {
    for (size_t k = 0; k < node.num_outputs(); ++k) {
      if (!node.output(k).empty()) return ProducerOf(node.output(k));
    }
    return kNone;
  }

  const graph::Model& model_;
  std::vector<graph::Node> nodes_;
  std::map<std::string, size_t> producer_;
  std::vector<std::set<std::string>> of_node_;
  std::vector<bool> depends_;
};

// Marks the nodes that the values need.
std::vector<bool> NeededBy(const Reads& reads, std::span<const std::string> values) {
  std::vector<bool> is_needed(reads.size());
  std::vector<std::string> pending(values.begin(), values.end());
  while (!pending.empty()) {
    const size_t node = reads.ProducerOf(pending.back());
    pending.pop_back();
    if (node == kNone || is_needed[node]) continue;
    is_needed[node] = true;
    pending.insert(pending.end(), reads.of_node(node).begin(), reads.of_node(node).end());
  }
  return is_needed;
}

// Returns the constants that a node needs, through nodes that depend on constants alone.
std::set<std::string> ConstantsOf(const Reads& reads, size_t node) {
  std::set<std::string> constants;
  std::set<size_t> seen;
  std::vector<size_t> pending{node};
  while (!pending.empty()) {
    const size_t reader = pending.back();
    pending.pop_back();
    for (const std::string& value : reads.of_node(reader)) {
      const size_t producer = reads.ProducerOf(value);
      if (producer == kNone) {
        constants.insert(value);
      } else if (!reads.depends(producer) && seen.insert(producer).second) {
        pending.push_back(producer);
      }
    }
  }
  return constants;
}

// The weight of a value that cannot cross a cut: more than those of all others together.
constexpr int64_t kUncuttable = int64_t{1} << 40;

// Returns for each node the number of values that are computed before it, and read by it or behind
// it. A group that would be cut counts more than all of them, and a sequence kUncuttable.
std::vector<int64_t> CountCrossing(const graph::Model& model, const Reads& reads,
                                   const std::vector<bool>& is_needed,
                                   std::span<const std::vector<std::string>> together) {
  std::vector<int64_t> crossing(reads.size() + 1);
  std::map<std::string, size_t> last_reader;
  for (size_t i = 0; i < reads.size(); ++i) {
    if (!is_needed[i] || !reads.depends(i)) continue;
    for (const std::string& value : reads.of_node(i)) last_reader[value] = i;
  }
  for (const auto& [value, reader] : last_reader) {
    const size_t producer = reads.ProducerOf(value);
    if (producer == kNone || !reads.depends(producer)) continue;
    const bool is_tensor =
        model.InfoOf(value).type != DataType::kString && !model.IsNoTensor(value);
    crossing[producer + 1] += is_tensor ? 1 : kUncuttable;
    crossing[reader + 1] -= is_tensor ? 1 : kUncuttable;
  }
  const auto avoided = static_cast<int64_t>(last_reader.size()) + 1;
  for (const std::vector<std::string>& group : together) {
    size_t first = kNone;
    size_t last = 0;
    for (const std::string& value : group) {
      const size_t producer = reads.ProducerOf(value);
      if (producer == kNone) continue;
      first = std::min(first, producer);
      last = std::max(last, producer);
    }
    if (first == kNone) continue;
    crossing[first + 1] += avoided;
    crossing[last + 1] -= avoided;
  }
  for (size_t i = 1; i < crossing.size(); ++i) crossing[i] += crossing[i - 1];
  return crossing;
}

// Returns the numbers of the nodes that begin a piece, but the first one.
std::vector<size_t> ChooseCuts(const Reads& reads, const std::vector<bool>& is_needed,
                               const std::vector<int64_t>& crossing, uint64_t most_bytes) {
  std::vector<size_t> cuts;
  std::vector<uint64_t> bytes_before;  // of the present piece, before each of its nodes
  std::set<std::string> constants;
  uint64_t num_bytes = 0;
  size_t begin = 0;
  for (size_t i = 0; i < reads.size(); ++i) {
    bytes_before.push_back(num_bytes);
    if (!is_needed[i] || !reads.depends(i)) continue;
    std::set<std::string> of_node = ConstantsOf(reads, i);
    uint64_t more = 0;
    for (const std::string& name : of_node) {
      if (!constants.contains(name)) more += reads.NumBytes(name);
    }
    if (more > 0 && num_bytes > 0 && num_bytes + more > most_bytes) {
      // Pieces that are less than half full would be many.
      size_t best = i;
      const uint64_t least_bytes = std::max<uint64_t>(most_bytes / 2, 1);
      for (size_t at = i; at > begin && bytes_before[at - begin] >= least_bytes; --at) {
        if (crossing[at] < crossing[best]) best = at;
      }
      if (crossing[best] < kUncuttable) {
        cuts.push_back(best);
        begin = best;
        i = best - 1;  // the nodes behind the cut count anew
        bytes_before.clear();
        constants.clear();
        num_bytes = 0;
        continue;
      }
    }
    constants.merge(of_node);
    num_bytes += more;
  }
  return cuts;
}

}  // namespace

ModelPieces::ModelPieces(const graph::Model& model, std::span<const std::string> wanted,
                         uint64_t most_bytes, std::span<const std::vector<std::string>> together) {
  uint64_t num_bytes = 0;
  for (const std::string& name : model.InitializerNames()) num_bytes += BytesOf(model, name);
  if (num_bytes <= most_bytes) {
    pieces_.resize(1);
    return;
  }
  std::set<std::string> in_bodies;
  for (const graph::BodyValue& value : model.BodyValues()) in_bodies.insert(value.name);
  const Reads reads(model);
  const std::vector<bool> is_needed = NeededBy(reads, wanted);
  std::vector<size_t> cuts;
  const bool has_bodies = std::ranges::any_of(
      wanted, [&](const std::string& value) { return in_bodies.contains(value); });
  if (!has_bodies) {
    cuts =
        ChooseCuts(reads, is_needed, CountCrossing(model, reads, is_needed, together), most_bytes);
  }
  pieces_.resize(cuts.size() + 1);
  for (size_t i = 0; i < reads.size(); ++i) {
    if (!is_needed[i] || !reads.depends(i)) continue;
    const auto piece = static_cast<size_t>(std::ranges::upper_bound(cuts, i) - cuts.begin());
    for (const std::string& value : reads.of_node(i)) {
      const size_t producer = reads.ProducerOf(value);
      if (producer == kNone || !reads.depends(producer)) continue;
      const auto from =
          static_cast<size_t>(std::ranges::upper_bound(cuts, producer) - cuts.begin());
      piece_of_[value] = from;
      HandOn(value, from, piece);
    }
  }
  for (const std::string& value : wanted) {
    const size_t producer = reads.ProducerOf(value);
    if (producer == kNone) continue;
    piece_of_[value] = static_cast<size_t>(std::ranges::upper_bound(cuts, producer) - cuts.begin());
  }
  for (const std::vector<std::string>& group : together) {
    const size_t piece = PieceOf(group);
    for (const std::string& value : group) {
      if (piece_of_.contains(value)) HandOn(value, PieceOf(value), piece);
    }
  }
}

// Makes a value that one piece computes an input of another one.
void ModelPieces::HandOn(const std::string& value, size_t from, size_t to) {
  if (from == to) return;
  std::vector<std::string>& inputs = pieces_[to].inputs;
  if (std::ranges::count(inputs, value) == 0) inputs.push_back(value);
  std::vector<std::string>& outputs = pieces_[from].outputs;
  if (std::ranges::count(outputs, value) == 0) outputs.push_back(value);
}

size_t ModelPieces::PieceOf(std::span<const std::string> group) const {
  size_t piece = 0;
  for (const std::string& value : group) piece = std::max(piece, PieceOf(value));
  return piece;
}

size_t ModelPieces::PieceOf(const std::string& value) const {
  const auto found = piece_of_.find(value);
  return found == piece_of_.end() ? 0 : found->second;
}

size_t ModelPieces::LastReaderOf(const std::string& value) const {
  size_t last = 0;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (std::ranges::count(pieces_[i].inputs, value) > 0) last = i;
  }
  return last;
}

}  // namespace bitpress::calibrate
