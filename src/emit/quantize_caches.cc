#include "emit/quantize_caches.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/kv_caches.h"

namespace bitpress::emit {
namespace {

using graph::Model;
using graph::Node;
using plan::CachePlan;

// Inputs of GroupQueryAttention.
constexpr size_t kFirstScale = 12;  // the scale of keys; the scale of values follows

// Returns the name of a new constant with the cache's scales.
std::string AddScales(Model& model, const CachePlan& cache) {
  const graph::ValueInfo info = model.InfoOf(cache.past);
  const int64_t heads = info.shape[1].value;
  const int64_t channels = info.shape[3].value;
  const auto count = std::ssize(cache.scales);
  const bool is_per_tensor = cache.granularity == plan::Granularity::kPerTensor;
  const bool knows_count = heads > 0 && channels > 0;
  if (is_per_tensor ? count != 1 : knows_count && count != heads * channels) {
    Fail(ErrorCode::kInvalidArgument, "cache '{}' has {} scales, expected {}", cache.value, count,
         is_per_tensor ? "1" : fmt::format("{} heads x {} channels", heads, channels));
  }
  const std::string name = model.FreshName(cache.value + "_scale");
  Tensor scales{.type = DataType::kFloat, .dims = {count}, .bytes = {}};
  const auto bytes = std::as_bytes(std::span(cache.scales));
  scales.bytes.assign(bytes.begin(), bytes.end());
  model.SetInitializer(name, std::move(scales));
  return name;
}

void Retype(Model& model, const std::string& value, int bits) {
  graph::ValueInfo info = model.InfoOf(value);
  info.type = bits == 4 ? DataType::kUInt8 : DataType::kInt8;
  if (bits == 4 && info.shape.size() == 4) {
    graph::Dimension& channels = info.shape[3];
    if (channels.value > 0) channels.value /= 2;
    channels.symbol.clear();
  }
  model.SetInterfaceInfo(value, info);
}

void HoldCodes(Model& model, const Node& node, const CachePlan& keys, const CachePlan& values) {
  const auto granularity =
      std::string(keys.granularity == plan::Granularity::kPerTensor ? "PER_TENSOR" : "PER_CHANNEL");
  graph::NodeSpec spec{
      .name = node.name(),
      .op_type = node.op_type(),
      .domain = node.domain(),
      .inputs = {},
      .outputs = {},
      .attributes = {{"k_quant_type", granularity},
                     {"v_quant_type", granularity},
                     {"kv_cache_bit_width", int64_t{keys.bits()}}},
      .attributes_of = node,
      .dropped_attributes = {"k_quant_type", "v_quant_type", "kv_cache_bit_width"}};
  for (size_t i = 0; i < node.num_inputs(); ++i) spec.inputs.push_back(node.input(i));
  spec.inputs.resize(std::max(spec.inputs.size(), kFirstScale + 2));
  spec.inputs[kFirstScale] = AddScales(model, keys);
  spec.inputs[kFirstScale + 1] = AddScales(model, values);
  model.Replace(node, std::move(spec));
  for (const CachePlan* const cache : {&keys, &values}) {
    Retype(model, cache->past, cache->bits());
    Retype(model, cache->value, cache->bits());
  }
}

}  // namespace

bool QuantizeCaches(Model& model, const plan::QuantPlan& plan) {
  std::map<std::string, const CachePlan*> quantized;  // by the output
  for (const CachePlan& cache : plan.caches) {
    if (cache.is_quantized() && !cache.scales.empty()) quantized.emplace(cache.value, &cache);
  }
  const std::vector<ops::KvCache> caches = ops::FindKvCaches(model);
  bool is_changed = false;
  // Keys and values of a node follow each other. Its handles are of no use once it is replaced.
  for (size_t i = 0; i + 1 < caches.size(); ++i) {
    if (!(caches[i].node == caches[i + 1].node)) continue;
    const auto keys = quantized.find(caches[i].present_value());
    const auto values = quantized.find(caches[i + 1].present_value());
    const Node node = caches[++i].node;
    if (keys == quantized.end() || values == quantized.end()) continue;
    if (model.InfoOf(keys->second->past).type != DataType::kFloat) continue;  // done before
    HoldCodes(model, node, *keys->second, *values->second);
    is_changed = true;
  }
  return is_changed;
}

}  // namespace bitpress::emit
