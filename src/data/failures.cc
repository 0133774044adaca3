#include "data/failures.h"

#include <algorithm>

#include "base/messages.h"

namespace bitpress::data {
namespace {

constexpr size_t kMostListed = 20;

// Returns "3 samples failed, but at most 2 may: 'a.jpg', 'b.jpg', 'c.jpg'".
std::string Describe(std::span<const std::string> names, size_t most) {
  std::string text = fmt::format("{} samples failed, but at most {} may: ", names.size(), most);
  for (size_t i = 0; i < std::min(names.size(), kMostListed); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kMostListed) {
    text += fmt::format(" and {} more", names.size() - kMostListed);
  }
  return text;
}

}  // namespace

Error ErrorOfSample(const std::string& name, const Error& error) {
  // Some messages begin with the sample already.
  const bool is_named = std::string_view(error.what()).starts_with(fmt::format("'{}': ", name));
  std::string message = is_named ? error.what() : fmt::format("{}: {}", name, error.what());
  if (name.ends_with(']') && error.code() == ErrorCode::kRuntime) {
    message += fmt::format(
        " (a row of an item is a sample; if the rows of an item belong together, give {})",
        OptionName("whole_items"));
  }
  return Error(error.code(), message);
}

void Failures::Add(FailedSample sample) {
  samples_.push_back(std::move(sample));
  if (samples_.size() <= most_) return;
  Fail(ErrorCode::kInvalidArgument, "{}; the last: {}", Describe(SortedNames(), most_),
       samples_.back().why);
}

std::vector<std::string> Failures::SortedNames() const {
  std::vector<std::string> names;
  for (const FailedSample& sample : samples_) names.push_back(sample.name);
  std::ranges::sort(names);
  return names;
}

void CheckLeftOut(std::span<const std::string> names, size_t most) {
  if (names.size() > most) Fail(ErrorCode::kInvalidArgument, "{}", Describe(names, most));
}

void WriteLeftOut(ByteWriter& out, std::span<const std::string> names) {
  if (names.empty()) return;
  out.Compact(names.size());
  for (const std::string& name : names) out.Text(name);
}

std::vector<std::string> ReadLeftOut(ByteReader& in) {
  if (in.num_left() == 0) return {};
  std::vector<std::string> names(in.Count(1));
  for (std::string& name : names) name = in.Text();
  if (names.empty() || !std::ranges::is_sorted(names)) {
    in.FailDamaged("the samples that were left out are not in order");
  }
  return names;
}

}  // namespace bitpress::data
