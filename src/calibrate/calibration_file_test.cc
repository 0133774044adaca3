#include "calibrate/calibration_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/byte_stream.h"
#include "base/test_support.h"

namespace bitpress::calibrate {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CalibrationTable MakeTable(uint32_t seed) {
  CalibrationTable table{"net.onnx", 0x123456789ABCDEFu, 3, {}};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (const char* name : {"a", "b", "cache", "never"}) {
    TensorStatistics& tensor = table.tensors[name];
    if (*name == 'n') continue;
    std::vector<float> values(200);
    for (float& x : values) x = std::exp(8 * normal(random)) * (random() % 2 == 0 ? 1.0f : -1.0f);
    values.insert(values.end(), {NAN, INFINITY, -INFINITY, 0.0f, 1e-42f});
    if (*name == 'a') tensor.set_axis(-1);
    if (*name == 'c') tensor.set_axis(-1, 1);
    tensor.Add(values);
    tensor.AddSample({-1.0f, 2.5f});
    if (*name == 'a') {
      const std::vector<int64_t> dims = {20, 10};
      tensor.AddSlices(std::span(values).first(200), dims);
    }
    if (*name == 'c') {
      const std::vector<int64_t> dims = {2, 5, 4, 5};
      tensor.AddSlices(std::span(values).first(200), dims);
    }
  }
  return table;
}

// Returns the bytes with a checksum that fits.
std::string Sealed(std::string bytes) {
  ByteWriter out;
  out.bytes() = bytes.substr(0, bytes.size() - 4);
  out.Number(Crc32c(out.bytes()));
  return out.bytes();
}

TEST(CalibrationFile, ComesBack) {
  const CalibrationTable table = MakeTable(1);
  const std::string bytes = ToBytes(table);
  const CalibrationTable read = FromBytes(bytes);
  EXPECT_EQ(read, table);
  EXPECT_EQ(ToBytes(read), bytes);
  EXPECT_EQ(FromBytes(ToBytes({})), CalibrationTable());
}

TEST(CalibrationFile, IsWrittenAndRead) {
  TemporaryFolder folder;
  const auto path = folder / "stats.bpc";
  SaveCalibration(path, MakeTable(2));
  EXPECT_EQ(LoadCalibration(path), MakeTable(2));
  EXPECT_TRUE(IsCalibrationFile(path));
  EXPECT_FALSE(IsCalibrationFile(folder / "none"));
  WriteBytes(folder / "short", "BITP");
  EXPECT_FALSE(IsCalibrationFile(folder / "short"));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { LoadCalibration(folder / "short"); }),
              HasSubstr("short': this is no calibration file"));
}

TEST(CalibrationFile, AnyDamageIsFound) {
  const std::string bytes = ToBytes(MakeTable(3));
  for (size_t size = 0; size < bytes.size(); size += size < 300 ? 1 : 97) {
    ExpectError(ErrorCode::kInvalidArgument,
                [&] { FromBytes(std::string_view(bytes).substr(0, size)); });
  }
  for (size_t bit = 0; bit < bytes.size() * 8; bit += bit < 2000 ? 1 : 61) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ExpectError(ErrorCode::kInvalidArgument, [&] { FromBytes(flipped); });
  }
  ExpectError(ErrorCode::kInvalidArgument, [&] { FromBytes(Sealed(bytes + "x")); });
  std::string newer = bytes;
  newer[8] = 2;
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { FromBytes(newer); }),
              HasSubstr("version 2"));
}

// Bytes that were changed on purpose, with the right checksum, give either an error or statistics
// without contradiction.
void ExpectHostileBytesDoNoHarm(int rounds) {
  const std::string bytes = ToBytes(MakeTable(4));
  std::mt19937 random(5);
  size_t num_read = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string changed = bytes;
    for (uint64_t i = random() % 3 + 1; i > 0; --i) {
      // Most changes are at the beginning, among the sizes.
      const size_t range = random() % 2 == 0 ? 400 : changed.size();
      changed[random() % range] = static_cast<char>(random() % 2 == 0 ? 0xFF : random());
    }
    try {
      const CalibrationTable table = FromBytes(Sealed(changed));
      ++num_read;
      for (const auto& [name, tensor] : table.tensors) {
        uint64_t count = 0;
        for (const Bin& bin : tensor.Bins()) count += bin.count;
        ASSERT_EQ(count, tensor.num_finite());
        ASSERT_TRUE(tensor.is_empty() || !std::isnan(tensor.Mean()));
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
  }
  EXPECT_GT(num_read, 0u);
}

TEST(CalibrationFile, HostileBytesDoNoHarm) { ExpectHostileBytesDoNoHarm(1000); }
TEST(WholeCalibrationFile, HostileBytesDoNoHarm) { ExpectHostileBytesDoNoHarm(20000); }

// Statistics of one tensor whose parts disagree, with the right checksum.
TEST(CalibrationFile, ContradictionsAreFound) {
  CalibrationTable table{"net.onnx", 1, 1, {}};
  TensorStatistics& tensor = table.tensors["x"];
  tensor.set_axis(1);
  const std::vector<float> values = {1, 3};
  tensor.Add(values);
  tensor.AddSample({1, 3});
  tensor.AddSlices(values, std::vector<int64_t>{1, 2});
  const std::string bytes = ToBytes(table);
  const auto floats = [](float min, float max) {
    ByteWriter out;
    out.Float(min);
    out.Float(max);
    return out.bytes();
  };
  const auto sums = [](std::initializer_list<float> numbers) {
    ByteWriter out;
    for (const float x : numbers) {
      ExactSum sum;
      sum.Add(x);
      out.Sum(sum);
    }
    return out.bytes();
  };
  struct Change {
    std::string from, to, message;
  };
  const std::string sample = "the sums of a tensor contradict its extremes";
  const std::string slice = "a slice holds more than its tensor";
  const std::vector<Change> changes = {
      {floats(1, 3), floats(3, 1),
       "minimum and maximum of a tensor are no range of finite numbers"},
      {floats(1, 3), floats(NAN, 3),
       "minimum and maximum of a tensor are no range of finite numbers"},
      {floats(1, 3), floats(0.5f, 3), "the extremes of a tensor contradict its bins"},
      {floats(1, 3), floats(1, 7), "the extremes of a tensor contradict its bins"},
      {sums({1, 3}), sums({3, 1}), sample},
      {sums({1, 3}), sums({-1, 3}), sample},
      {sums({1, 3}), sums({1, 9}), sample},
      {floats(3, 3) + sums({3}), floats(5, 5) + sums({5}), slice},
      {floats(1, 1) + sums({1, 1}), floats(1, 1) + sums({2, 1}), sample},
      {sums({3, 9}), sums({3, -9}), sample},
      {sums({3, 9}), sums({3, 10}), sample},
  };
  for (const Change& change : changes) {
    std::string changed = bytes;
    const size_t at = changed.find(change.from);
    ASSERT_NE(at, std::string::npos);
    changed.replace(at, change.from.size(), change.to);
    EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { FromBytes(Sealed(changed)); }),
                AllOf(HasSubstr("x: "), HasSubstr(change.message)));
  }
}

TEST(CalibrationFile, SizesAreCheckedBeforeAllocation) {
  ByteWriter out;
  out.bytes() += kCalibrationMagic;
  out.Number(uint32_t{1});
  out.Number(uint64_t{0});
  out.Number(uint64_t{0});
  out.Number(uint32_t{kBinBits});
  out.Text("");
  out.Compact(std::numeric_limits<uint64_t>::max());
  out.Number(uint32_t{0});
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { FromBytes(Sealed(out.bytes())); }),
              HasSubstr("before the count that it states"));
}

TEST(CalibrationTable, MergesOnlyWhatBelongsTogether) {
  CalibrationTable table = MakeTable(6);
  CalibrationTable other = MakeTable(7);
  CalibrationTable sum = table;
  sum.Merge(other);
  EXPECT_EQ(sum.num_samples, 6u);
  CalibrationTable reverse = other;
  reverse.Merge(table);
  EXPECT_EQ(ToBytes(sum), ToBytes(reverse));
  other.tensors.erase("b");
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { table.Merge(other); }),
              HasSubstr("'b'"));
  other = MakeTable(7);
  other.model_fingerprint ^= 1;
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { table.Merge(other); }),
              HasSubstr("different models"));
}

}  // namespace
}  // namespace bitpress::calibrate
