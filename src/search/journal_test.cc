// Tests that no measurement is lost on the way through the journal's file.
#include "search/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/fields_json.h"
#include "base/scratch_folder.h"
#include "base/test_support.h"
#include "search/goals.h"
#include "search/json_numbers.h"
#include "search/sensitivity.h"

namespace bitpress::search {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Numbers with all their digits, and those that JSON has no word for.
const double kNumbers[] = {
    0, -0.0, 0.1, -20.25, 1e-308, 5e-324, 1.7976931348623157e308, kInfinity, -kInfinity, kNan};

bool IsSame(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b; }

// Returns a record after it was written to a file and read back.
nlohmann::ordered_json ThroughAJournal(const nlohmann::ordered_json& record) {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  MeasurementJournal(path, "key").Add("record", record);
  return MeasurementJournal(path, "key").found().at("record");
}

TEST(MergeJournals, KeepsEachRecordOnce) {
  const ScratchFolder folder;
  const std::vector<std::filesystem::path> paths = {folder.path() / "a", folder.path() / "b"};
  {
    MeasurementJournal a(paths[0], "key");
    a.Add("first", 1);
    a.Add("second", 2);
    MeasurementJournal b(paths[1], "key");
    b.Add("second", 2);
    b.Add("third", 3);
  }
  std::ofstream(paths[1], std::ios::app) << "[\"fourth\", 4";  // a line that was cut off
  const auto sum = folder.path() / "sum";
  EXPECT_TRUE(IsJournal(paths[1]));
  EXPECT_EQ(MergeJournals(paths, sum), 3u);
  EXPECT_EQ(
      MeasurementJournal(sum, "key").found(),
      (std::map<std::string, nlohmann::ordered_json>{{"first", 1}, {"second", 2}, {"third", 3}}));
  MeasurementJournal(paths[1], "another key").Add("third", 3);
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { MergeJournals(paths, sum); }),
              HasSubstr("of different models"));
  std::ofstream(paths[1]) << "{}\n";
  EXPECT_FALSE(IsJournal(paths[1]));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { MergeJournals(paths, sum); }),
              HasSubstr("no journal"));
  EXPECT_FALSE(IsJournal(folder.path() / "none"));
}

TEST(MeasurementJournal, GoesOnWhereItStopped) {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  { MeasurementJournal(path, "key").Add("a", {{"n", 1}}); }
  {
    std::ofstream file(path, std::ios::app);
    file << "[\"b\", {\"n\"";  // cut off
  }
  {
    MeasurementJournal journal(path, "key");
    EXPECT_EQ(journal.found().size(), 1);
    EXPECT_EQ(journal.found().at("a").at("n"), 1);
    journal.Add("c", {{"n", 3}});
  }
  EXPECT_EQ(MeasurementJournal(path, "key").found().size(), 2);
  EXPECT_EQ(MeasurementJournal(path, "another").found().size(), 0);
  EXPECT_EQ(MeasurementJournal(path, "key").found().size(), 0);
}

TEST(MeasurementJournal, KeepsMeasurements) {
  for (const double number : kNumbers) {
    Measurement measurement;
    measurement.sqnr_db = measurement.cosine = measurement.l2 = number;
    measurement.agreement = measurement.top1 = measurement.reference_top1 = number;
    measurement.metric = measurement.reference_metric = number;
    measurement.file_bytes = 12;
    const Measurement again =
        FieldsFromJson<Measurement>(ThroughAJournal(FieldsToJson(measurement, NonFinite::kText)));
    for (const double found :
         {again.sqnr_db, again.cosine, again.l2, again.agreement.value(), again.top1.value(),
          again.reference_top1.value(), again.metric.value(), again.reference_metric.value()}) {
      EXPECT_TRUE(IsSame(found, number)) << found << ", written was " << number;
    }
    EXPECT_EQ(again.file_bytes, 12);
  }
  EXPECT_EQ(
      FieldsFromJson<Measurement>(ThroughAJournal(FieldsToJson(Measurement(), NonFinite::kText))),
      Measurement());
}

TEST(MeasurementJournal, KeepsLossesOfLayers) {
  for (const double number : kNumbers) {
    LayerLoss layer{"node", "MatMul", 3, number, {}};
    layer.parts.resize(3);
    layer.parts[1].is_there = true;
    layer.parts[1].local_noise = number;
    layer.parts[2].is_there = true;
    layer.parts[2].fast_noise = number;
    layer.parts[2].time_ms = number;
    layer.parts[2].exact = evaluate::Loss{number, number, number, number, number, number, {}};
    const LayerLoss again = LayerLossFromJson(ThroughAJournal(ToJson(layer)));
    ASSERT_EQ(again.parts.size(), 3);
    EXPECT_FALSE(again.parts[0].is_there);
    EXPECT_FALSE(again.parts[1].fast_noise || again.parts[1].exact || again.parts[1].time_ms);
    const evaluate::Loss& exact = again.parts[2].exact.value();
    EXPECT_FALSE(exact.reference_top1);
    for (const double found :
         {again.time_ms.value(), again.parts[1].local_noise, again.parts[2].fast_noise.value(),
          again.parts[2].time_ms.value(), exact.noise, exact.l2, exact.cosine,
          exact.divergence.value(), exact.agreement.value(), exact.top1.value()}) {
      EXPECT_TRUE(IsSame(found, number)) << found << ", written was " << number;
    }
  }
}

TEST(MeasurementJournal, NamesTheRecordThatCannotBeRead) {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  MeasurementJournal(path, "key").Add("conv1", {{"n", 1}});
  const MeasurementJournal journal(path, "key");
  EXPECT_FALSE(journal.Find("conv2", LayerLossFromJson));
  EXPECT_THAT(
      ExpectError(ErrorCode::kInvalidArgument, [&] { journal.Find("conv1", LayerLossFromJson); }),
      AllOf(HasSubstr(path.string()), HasSubstr("'conv1'"), HasSubstr("key 'node'"),
            HasSubstr("remove the file")));
}

TEST(CheckIsComplete, RefusesWhatSearchesCannotRead) {
  const SearchLayer layer{"node", "MatMul", {true, false}};
  SensitivityOptions options;
  LayerLoss loss{"node", "MatMul", 3, std::nullopt, std::vector<PartLoss>(2)};
  loss.parts[0].is_there = true;
  loss.parts[0].fast_noise = 0.5;
  CheckIsComplete(loss, layer, options);
  const auto error = [&](const LayerLoss& wrong) {
    return ExpectError(ErrorCode::kInvalidArgument,
                       [&] { CheckIsComplete(wrong, layer, options); });
  };
  LayerLoss wrong = loss;
  wrong.parts.pop_back();
  EXPECT_THAT(error(wrong), HasSubstr("1 parts, expected 2"));
  wrong.parts.resize(3);
  EXPECT_THAT(error(wrong), HasSubstr("3 parts, expected 2"));
  wrong = loss;
  wrong.parts[1].is_there = true;
  EXPECT_THAT(error(wrong), HasSubstr("part 1"));
  wrong = loss;
  wrong.parts[0].fast_noise.reset();
  EXPECT_THAT(error(wrong), HasSubstr("\"fast\""));
  wrong = loss;
  wrong.op_type = "Conv";
  EXPECT_THAT(error(wrong), HasSubstr("Conv 'node', not MatMul 'node'"));
  options.method = Method::kBoth;
  EXPECT_THAT(error(loss), HasSubstr("\"exact\""));
  options.method = Method::kFast;
  options.measures_time = true;
  EXPECT_THAT(error(loss), HasSubstr("\"time_ms\""));
}

TEST(Decibels, TheWorstIsNotTakenForTheBest) {
  EXPECT_TRUE(DecibelsToJson(kInfinity).is_null());
  EXPECT_EQ(DecibelsToJson(-kInfinity), "-inf");
  EXPECT_EQ(DecibelsToJson(kNan), "nan");
  ExpectError(ErrorCode::kInvalidArgument, [] { NumberFromJson(nullptr); });
  ExpectError(ErrorCode::kInvalidArgument, [] { NumberFromJson("Infinity"); });
}

}  // namespace
}  // namespace bitpress::search
