#include "emit/look_up_rows.h"

#include <string>
#include <vector>

#include "emit/integer_codes.h"
#include "emit/matrix_products.h"
#include "graph/clean_up.h"
#include "ops/quantizer_nodes.h"
#include "weights/lookup_nodes.h"

namespace bitpress::emit {

size_t LookUpRows(graph::Model& model) {
  size_t num_lookups = 0;
  std::vector<graph::Node> unpackers = model.AllNodes();
  std::erase_if(unpackers, [](const graph::Node& node) { return !ops::IsUnpack(node); });
  for (const graph::Node& unpack : unpackers) {
    const std::string value = unpack.output(0);
    const auto weight = weights::PackedWeightOf(model, unpack);
    if (!weight || NumElements(weight->shape) < kLeastLookupElements) continue;
    std::vector<std::string> parts;
    for (size_t i = 0; i < unpack.num_inputs(); ++i) parts.push_back(unpack.input(i));
    bool is_free = !model.IsOutput(value);
    for (const graph::Use& use : model.AllUses(value)) {
      const bool is_lookup = IsStandardOp(use.node, "Gather") && use.input_index == 0 &&
                             use.node.GetInt("axis", 0) == 0 &&
                             weights::WhyNoLookup(model, *weight).empty();
      if (is_lookup) {
        weights::ReplaceByLookup(model, parts, *weight, use.node);
        ++num_lookups;
      } else {
        is_free = false;
      }
    }
    if (is_free) model.RemoveNode(unpack);
  }
  if (num_lookups > 0) {
    RemoveUnusedDecoders(model);
    graph::RemoveUnused(model);  // the descriptions of values that are decoded no more
  }
  return num_lookups;
}

}  // namespace bitpress::emit
