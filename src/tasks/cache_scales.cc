#include "tasks/cache_scales.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"

namespace bitpress::tasks {
namespace {

using nlohmann::json;
using plan::CachePlan;

// A layer's caches of integers.
struct Layer {
  CachePlan* keys = nullptr;
  CachePlan* values = nullptr;
};

std::vector<Layer> LayersOf(plan::QuantPlan& plan) {
  CheckHasCacheScales(plan);
  std::vector<Layer> layers;
  std::vector<CachePlan*> caches;
  for (CachePlan& cache : plan.caches) {
    if (cache.is_quantized()) caches.push_back(&cache);
  }
  for (size_t i = 0; i + 1 < caches.size(); i += 2) layers.push_back({caches[i], caches[i + 1]});
  return layers;
}

// Returns the number in a name such as "past_key_values.12.key".
std::optional<int64_t> NumberIn(std::string_view name) {
  const size_t begin = name.find_first_of("0123456789");
  if (begin == std::string_view::npos) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + begin, name.data() + name.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// Returns the number of codes above zero, as GenAI counts them.
double CodesOf(const CachePlan& cache) { return std::ldexp(1.0, cache.bits() - 1); }

std::vector<float> ScalesFrom(const json& value, double factor) {
  std::vector<float> scales;
  for (const json& scale : value.is_array() ? value : json::array({value})) {
    if (scale.is_array()) {
      for (const float of_channel : ScalesFrom(scale, factor)) scales.push_back(of_channel);
    } else if (scale.is_number()) {
      scales.push_back(static_cast<float>(scale.get<double>() * factor));
    } else {
      Fail(ErrorCode::kInvalidArgument, "a scale is no number");
    }
  }
  return scales;
}

// Returns the entry of the file that the layer's scales are in.
size_t EntryOf(const json& file, size_t layer, const CachePlan& cache) {
  if (!file.contains("layer_ids")) return layer;
  const json& ids = file.at("layer_ids");
  const auto wanted = NumberIn(cache.past).value_or(static_cast<int64_t>(layer));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i].is_number_integer() && ids[i].get<int64_t>() == wanted) return i;
  }
  Fail(ErrorCode::kInvalidArgument, "'layer_ids' has no layer {}, whose cache is '{}'", wanted,
       cache.past);
}

void TakeScales(const json& file, plan::QuantPlan& plan) {
  const std::vector<Layer> layers = LayersOf(plan);
  const bool has_scales = file.is_object() && file.contains("scales") &&
                          file.at("scales").contains("k_scales") &&
                          file.at("scales").contains("v_scales");
  if (!has_scales) {
    Fail(ErrorCode::kInvalidArgument, "it has no scales.k_scales and scales.v_scales");
  }
  const std::pair<const char*, CachePlan * Layer::*> sides[] = {{"k_scales", &Layer::keys},
                                                                {"v_scales", &Layer::values}};
  for (const auto& [key, side] : sides) {
    const json& of_layers = file.at("scales").at(key);
    if (!of_layers.is_array() || of_layers.size() != layers.size()) {
      Fail(ErrorCode::kInvalidArgument, "'{}' has {} entries, expected one for each of {} layers",
           key, of_layers.size(), layers.size());
    }
    for (size_t i = 0; i < layers.size(); ++i) {
      CachePlan& cache = *(layers[i].*side);
      double factor = 1;
      if (file.contains("qmax")) factor = file.at("qmax").get<double>() / CodesOf(cache);
      if (!(factor > 0) || !std::isfinite(factor)) {
        Fail(ErrorCode::kInvalidArgument, "'qmax' is not positive and finite");
      }
      cache.scales = ScalesFrom(of_layers[EntryOf(file, i, cache)], factor);
      cache.granularity =
          cache.scales.size() == 1 ? plan::Granularity::kPerTensor : plan::Granularity::kPerAxis;
      for (const float scale : cache.scales) {
        if (std::isnormal(scale) && scale > 0) continue;
        Fail(ErrorCode::kInvalidArgument, "a scale of '{}' is {}, which is no positive number",
             cache.value, scale);
      }
    }
  }
  for (const Layer& layer : layers) {
    if (layer.keys->granularity == layer.values->granularity) continue;
    Fail(ErrorCode::kInvalidArgument,
         "'{}' and '{}' have {} and {} scales; keys and values are alike", layer.keys->value,
         layer.values->value, layer.keys->scales.size(), layer.values->scales.size());
  }
}

}  // namespace

void ReadCacheScales(const std::filesystem::path& path, plan::QuantPlan& plan) {
  const std::string text = ReadFile(path);
  WithContext(fmt::format("scales of caches '{}'", PathText(path)), [&] {
    try {
      TakeScales(json::parse(text), plan);
    } catch (const json::exception& error) {
      Fail(ErrorCode::kInvalidArgument, "it is no JSON of scales: {}", error.what());
    }
  });
}

void CheckHasCacheScales(const plan::QuantPlan& plan) {
  if (std::ranges::any_of(plan.caches, &CachePlan::is_quantized)) return;
  Fail(
      ErrorCode::kInvalidArgument,
      "the scales of caches: no cache becomes integers; set kv_cache=int8 or int4 for a model with "
      "GroupQueryAttention");
}

void WriteCacheScales(const std::filesystem::path& path, const plan::QuantPlan& plan) {
  plan::QuantPlan copy;  // rows only
  copy.caches = plan.caches;
  json ids = json::array();
  json keys = json::array();
  json values = json::array();
  bool has_numbers = true;
  double codes = 0;
  for (const Layer& layer : LayersOf(copy)) {
    const std::optional<int64_t> number = NumberIn(layer.keys->past);
    has_numbers = has_numbers && number.has_value();
    ids.push_back(number.value_or(0));
    keys.push_back(layer.keys->scales);
    values.push_back(layer.values->scales);
    if (codes != 0 && codes != CodesOf(*layer.keys)) {
      Fail(ErrorCode::kInvalidArgument,
           "caches of int8 and int4 have no common file of scales: GenAI has one width");
    }
    codes = CodesOf(*layer.keys);
  }
  nlohmann::ordered_json file = {{"qmax", codes}};
  if (has_numbers) file["layer_ids"] = ids;
  file["scales"] = {{"k_scales", keys}, {"v_scales", values}};
  WriteFile(path, file.dump() + "\n");
}

}  // namespace bitpress::tasks
