#include "deploy/run_profile.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/atomic_file.h"
#include "base/error.h"

namespace bitpress::deploy {
namespace {

// Returns the first shape of a list such as [{"float":[1,3,8,8]},{"uint8":[]}].
std::vector<int64_t> FirstShape(const nlohmann::json& args, const char* key) {
  const nlohmann::json list = args.value(key, nlohmann::json::array());
  if (list.empty() || list.front().empty()) return {};
  return list.front().front().get<std::vector<int64_t>>();
}

}  // namespace

std::vector<std::vector<OperatorRun>> ReadProfile(const std::filesystem::path& profile) {
  const auto events = nlohmann::json::parse(ReadFile(profile), nullptr, false);
  if (!events.is_array()) Fail(ErrorCode::kRuntime, "the profile of ONNX Runtime is no JSON array");
  constexpr std::string_view kEnd = "_kernel_time";
  std::vector<std::vector<OperatorRun>> runs;
  try {
    // Events stand in the order in which they began, or in which they ended.
    std::vector<double> begins;
    for (const nlohmann::json& event : events) {
      if (event.value("name", "") == "model_run") begins.push_back(event.value("ts", 0.0));
    }
    std::ranges::sort(begins);
    runs.resize(begins.size());
    for (const nlohmann::json& event : events) {
      const std::string name = event.value("name", "");
      if (event.value("cat", "") != "Node" || !name.ends_with(kEnd)) continue;
      const auto behind = std::ranges::upper_bound(begins, event.value("ts", 0.0));
      if (behind == begins.begin()) continue;  // no run
      const nlohmann::json& args = event.at("args");
      constexpr double kMicrosecond = 1e-6;
      runs[static_cast<size_t>(behind - begins.begin()) - 1].push_back(
          {name.substr(0, name.size() - kEnd.size()), FirstShape(args, "input_type_shape"),
           FirstShape(args, "output_type_shape"), kMicrosecond * event.value("dur", 0.0)});
    }
  } catch (const std::exception& error) {
    Fail(ErrorCode::kRuntime, "the profile of ONNX Runtime cannot be read: {}", error.what());
  }
  return runs;
}

}  // namespace bitpress::deploy
