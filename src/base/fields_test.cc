#include "base/fields.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields_json.h"

namespace bitpress {
namespace {

enum class Shade { kRed, kBlue };
constexpr std::array<std::pair<std::string_view, Shade>, 2> kShades{
    {{"red", Shade::kRed}, {"blue", Shade::kBlue}}};
constexpr Words<Shade> FieldWords(const Shade*) { return kShades; }

struct FieldsPart {
  std::string name;
  double share = 0;
  bool operator==(const FieldsPart&) const = default;
};
constexpr auto FieldsOf(const FieldsPart*) {
  return std::tuple(Field{"name", &FieldsPart::name},
                    Field{"share", &FieldsPart::share, "0 to 1."});
}

struct FieldsWhole : FieldsPart {
  Shade color = Shade::kRed;
  std::optional<FieldsPart> best, worst;
  std::vector<FieldsPart> parts;
  std::map<std::string, size_t> counts;
  std::vector<std::pair<std::string, std::string>> left;
  std::pair<double, double> range = {0, 0};
  std::vector<std::shared_ptr<const FieldsPart>> shared;
  bool operator==(const FieldsWhole&) const = default;
};
constexpr auto FieldsOf(const FieldsWhole*) {
  return std::tuple_cat(
      FieldsOf(static_cast<const FieldsPart*>(nullptr)),
      std::tuple(
          Field{"color", &FieldsWhole::color}, Field{"best", &FieldsWhole::best},
          Field{"worst", &FieldsWhole::worst}, Field{"parts", &FieldsWhole::parts},
          Field{"counts", &FieldsWhole::counts},
          ComputedField{"num_parts", [](const FieldsWhole& whole) { return whole.parts.size(); }},
          ComputedField{"left", [](const FieldsWhole& whole) { return whole.left; }},
          ComputedField{"range", [](const FieldsWhole& whole) { return whole.range; }},
          ComputedField{"shared", [](const FieldsWhole& whole) { return whole.shared; }}));
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(Fields, BecomeKeysInTheirOrder) {
  FieldsWhole whole;
  whole.name = "all";
  whole.share = kInfinite;
  whole.color = Shade::kBlue;
  whole.best = FieldsPart{"a", 0.5};
  whole.parts = {{"a", 0.5}, {"b", 0.25}};
  whole.counts = {{"Conv", 2}};
  whole.left = {{"c", "too small"}};
  whole.range = {-1, 2};
  whole.shared = {std::make_shared<const FieldsPart>(FieldsPart{"d", 1})};
  EXPECT_EQ(FieldsToJson(whole).dump(),
            R"({"name":"all","share":null,"color":"blue","best":{"name":"a","share":0.5},)"
            R"("worst":null,"parts":[{"name":"a","share":0.5},{"name":"b","share":0.25}],)"
            R"("counts":{"Conv":2},"num_parts":2,"left":[{"name":"c","reason":"too small"}],)"
            R"("range":[-1.0,2.0],"shared":[{"name":"d","share":1.0}]})");
}

TEST(Fields, StandBehindTheVersion) {
  EXPECT_EQ(VersionedJson("bitpress_test", FieldsPart{"a", 1}).dump(),
            R"({"bitpress_test":1,"name":"a","share":1.0})");
}

TEST(Fields, ComeBackWithInfinities) {
  for (const double share : {0.1, kInfinite, -kInfinite}) {
    FieldsWhole whole;
    whole.share = share;
    whole.color = Shade::kBlue;
    whole.worst = FieldsPart{"w", -share};
    whole.parts = {{"a", share}};
    whole.counts = {{"Conv", 2}, {"Add", 1}};
    const auto json = FieldsToJson(whole, NonFinite::kText);
    EXPECT_EQ(FieldsFromJson<FieldsWhole>(nlohmann::ordered_json::parse(json.dump())), whole);
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto json = FieldsToJson(FieldsPart{"a", nan}, NonFinite::kText);
  EXPECT_EQ(json["share"], "nan");
  EXPECT_TRUE(std::isnan(FieldsFromJson<FieldsPart>(json).share));
}

TEST(Fields, OfAnotherFormAreErrors) {
  EXPECT_THROW(FieldsFromJson<FieldsPart>({{"name", "a"}}), nlohmann::json::exception);
  EXPECT_THROW(FieldsFromJson<FieldsPart>({{"name", "a"}, {"share", nullptr}}), Error);
  EXPECT_THROW(FieldsFromJson<FieldsPart>({{"name", 1}, {"share", 1}}), nlohmann::json::exception);
  auto json = FieldsToJson(FieldsWhole(), NonFinite::kText);
  json["color"] = "green";
  EXPECT_THROW(FieldsFromJson<FieldsWhole>(json), Error);
}

}  // namespace
}  // namespace bitpress
