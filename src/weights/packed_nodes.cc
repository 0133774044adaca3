#include "weights/packed_nodes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "formats/parameters.h"
#include "ops/quantizer_nodes.h"
#include "weights/convolution_nodes.h"
#include "weights/lookup_nodes.h"
#include "weights/product_nodes.h"
#include "weights/unpack_integers.h"

namespace bitpress::weights {

using graph::Model;
using graph::Node;

PackedStorage StorageOf(const Model& model, const PackedWeight& weight) {
  if (weight.integer) {
    IntegerLayout layout{weight.view, weight.integer->block_size, weight.integer->is_per_column,
                         weight.integer->zero_point};
    if (weight.integer->has_zero_points) layout.zero_point = std::nullopt;
    return StoragePackedInteger(weight.spec, weight.shape, layout);
  }
  return StoragePacked(weight.spec, weight.shape, weight.view, model.OpsetImports().at(""));
}

std::string DecoderOf(const PackedStorage& storage) {
  return storage.function.name.substr(std::string_view(kUnpackPrefix).size());
}

namespace {

constexpr const char* kLimits[] = {"least", "largest"};

// Weights whose groups of bytes meet have this attribute and another function.
constexpr const char* kGroups = "groups";

std::string NumberedBegin(std::string_view prefix, std::string_view format) {
  return fmt::format("{}{}_", prefix, format.substr(0, format.find('(')));
}

}  // namespace

std::optional<std::string> NumberedName(const Model& model, std::string_view prefix,
                                        const PackedStorage& storage, const NumberedKind& kind) {
  const std::string begin = NumberedBegin(prefix, kind.format);
  const bool has_groups = std::ranges::any_of(
      storage.attributes, [](const auto& attribute) { return attribute.first == kGroups; });
  std::set<std::string> others;
  for (const Node& node : model.AllNodes()) {
    if (node.domain() != "bitpress" || !node.op_type().starts_with(begin)) continue;
    const bool is_same = node.HasAttribute(kGroups) == has_groups &&
                         node.HasAttribute(kSlopeAttribute) == kind.has_slope &&
                         node.GetString(kFormatAttribute, "") == kind.format &&
                         node.GetString(kInputFormatAttribute, "") == kind.input_format;
    if (is_same) return node.op_type();
    others.insert(node.op_type());
  }
  for (int number = 1; number <= kMostNumbers; ++number) {
    std::string name = begin + std::to_string(number);
    if (!others.contains(name)) return name;
  }
  return std::nullopt;
}

std::string WhyNoNumber(const formats::FormatSpec& spec, const std::optional<std::string>& name) {
  if (spec.sub_block_size > 0 && spec.sub_block_shift_bits == 0) {
    return fmt::format("{} has sub-blocks without shifts", spec.name);
  }
  return name ? ""
              : fmt::format("{} other kinds of {} are in the model already", kMostNumbers,
                            formats::BaseName(spec));
}

bool HasNumberedName(const Node& node, std::string_view prefix, const formats::FormatSpec& spec) {
  const std::string begin = NumberedBegin(prefix, formats::BaseName(spec));
  for (int number = 1; number <= kMostNumbers; ++number) {
    if (node.op_type() == begin + std::to_string(number)) return true;
  }
  return false;
}

void InsertLimits(Model& model, const std::string& input, const std::string& output, float least,
                  float largest, const Node& before) {
  graph::NodeSpec clip{model.FreshNodeName(output + "_clip"), "Clip", "", {input}, {output}, {}};
  const std::pair<float, const char*> limits[] = {{least, "_least"}, {largest, "_largest"}};
  for (const auto& [limit, suffix] : limits) {
    std::string name;
    if (std::isfinite(limit)) {
      name = model.FreshName(output + suffix);
      std::vector<std::byte> bytes(sizeof(limit));
      std::memcpy(bytes.data(), &limit, sizeof(limit));
      model.SetInitializer(name, {DataType::kFloat, {}, std::move(bytes)});
    }
    clip.inputs.push_back(name);
  }
  model.InsertNode(clip, before);
}

graph::Attribute FloatReference(const char* name) {
  return graph::AttributeReference{name, graph::AttributeReference::Type::kFloat};
}

void AddLimits(graph::FunctionSpec& function, const std::string& value) {
  for (const char* const limit : kLimits) {
    function.attributes.push_back(limit);
    function.nodes.push_back(
        {"", "Constant", "", {}, {limit}, {{"value_float", FloatReference(limit)}}});
  }
  function.nodes.push_back({"", "Clip", "", {value, "least", "largest"}, {"y"}, {}});
}

std::string WeightName(const Node& node) {
  constexpr std::string_view kSuffix = "_codes";
  std::string name = node.input(PackedReaderOf(node)->first_part);
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

namespace {

// Returns the Unpack nodes of the weight with these parts.
std::vector<Node> UnpackersOf(const Model& model, const std::vector<std::string>& parts) {
  std::vector<Node> nodes;
  for (const graph::Use& use : model.AllUses(parts.front())) {
    const auto reader = PackedReaderOf(use.node);
    if (!reader || reader->kind != PackedReader::Kind::kUnpack) continue;
    bool is_same = use.node.num_inputs() == parts.size();
    for (size_t i = 0; is_same && i < parts.size(); ++i) is_same = use.node.input(i) == parts[i];
    if (is_same) nodes.push_back(use.node);
  }
  return nodes;
}

}  // namespace

std::string WeightValues::ValueOf(const Node& node, const PackedStorage& storage) {
  const PackedReader reader = *PackedReaderOf(node);
  std::vector<std::string> parts;
  for (size_t i = reader.first_part; i < reader.parts_end; ++i) parts.push_back(node.input(i));
  auto [known, is_new] = values_.try_emplace(fmt::format("{}", fmt::join(parts, "\n")));
  // Another node may have decoded it all along.
  for (const Node& reader_of_first : is_new ? UnpackersOf(model_, parts) : std::vector<Node>()) {
    known->second = reader_of_first.output(0);
    is_new = false;
  }
  if (is_new) {
    known->second = model_.FreshName(WeightName(node));
    model_.SetFunction(storage.function);
    model_.InsertNode({model_.FreshNodeName(known->second + "_unpack"),
                       storage.function.name,
                       "bitpress",
                       parts,
                       {known->second},
                       storage.attributes},
                      model_.Nodes().front());
  }
  return known->second;
}

size_t ExpandPackedNodes(Model& model) {
  WeightValues weights(model);
  std::vector<std::pair<Node, PackedReader::Kind>> nodes;
  for (const Node& node : model.AllNodes()) {
    const auto reader = PackedReaderOf(node);
    if (reader && reader->kind != PackedReader::Kind::kUnpack) {
      nodes.emplace_back(node, reader->kind);
    }
  }
  for (const auto& [node, kind] : nodes) {
    if (kind == PackedReader::Kind::kProduct) {
      ExpandProduct(model, node, weights);
    } else if (kind == PackedReader::Kind::kLookup) {
      ExpandLookup(model, node, weights);
    } else {
      ExpandConvolution(model, node, weights);
    }
  }
  for (const auto& [domain, name] : model.Functions()) {
    if (domain != "bitpress") continue;
    for (const char* const prefix : {kProductPrefix, kProductClipPrefix, kConvolutionPrefix,
                                     kConvolutionAddPrefix, kLookupPrefix}) {
      if (name.starts_with(prefix)) model.RemoveFunction(domain, name);
    }
  }
  return nodes.size();
}

}  // namespace bitpress::weights
