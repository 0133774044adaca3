#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/test_support.h"
#include "data/source.h"
#include "data/test_files.h"

namespace bitpress::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns floats begin, begin + 1, ... of a shape.
Tensor Count(std::vector<int64_t> dims, float begin) {
  std::vector<float> values(static_cast<size_t>(NumElements(dims)));
  std::iota(values.begin(), values.end(), begin);
  return MakeTensor(DataType::kFloat, std::move(dims), values);
}

// Returns the bytes of a TensorProto with small raw data: dims (1), data_type (2), raw_data (9).
std::string EncodeTensorProto(const Tensor& tensor) {
  std::string bytes;
  for (const int64_t dim : tensor.dims) bytes += {'\x08', static_cast<char>(dim)};
  bytes += {'\x10', static_cast<char>(tensor.type)};
  bytes += {'\x4a', static_cast<char>(tensor.bytes.size())};
  bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return bytes;
}

class ArraySourceTest : public testing::Test {
 protected:
  void WriteNpy(const std::string& name, const Tensor& tensor) {
    WriteBytes(folder_ / name, EncodeNpy(tensor));
  }
  void WritePb(const std::string& name, const Tensor& tensor) {
    WriteBytes(folder_ / name, EncodeTensorProto(tensor));
  }
  std::unique_ptr<Source> Open(SourceOptions options = {}) {
    options.folder = folder_.path();
    return OpenSource(options);
  }
  std::string OpenFailure(ErrorCode code, SourceOptions options = {}) {
    return ExpectError(code, [&] { Open(std::move(options)); });
  }

  TemporaryFolder folder_;
};

TEST_F(ArraySourceTest, FilesAreSplitAndJoined) {
  WriteNpy("a.npy", Count({3, 2}, 0));
  WriteNpy("b.npy", Count({2, 2}, 6));
  const auto source = Open();
  EXPECT_EQ(source->num_samples(), 5u);
  EXPECT_FALSE(source->has_labels());
  for (int round = 0; round < 2; ++round) {
    auto batch = source->Next(2);
    EXPECT_THAT(batch->names, ElementsAre("a.npy[0]", "a.npy[1]"));
    EXPECT_THAT(batch->inputs[0].dims, ElementsAre(2, 2));
    EXPECT_THAT(batch->inputs[0].values<float>(), ElementsAre(0, 1, 2, 3));
    batch = source->Next(2);
    EXPECT_THAT(batch->names, ElementsAre("a.npy[2]", "b.npy[0]"));
    EXPECT_THAT(batch->inputs[0].values<float>(), ElementsAre(4, 5, 6, 7));
    if (round == 0) {
      EXPECT_THAT(source->Next(9)->inputs[0].values<float>(), ElementsAre(8, 9));
      EXPECT_FALSE(source->Next(9));
    }
    source->Rewind();
  }
}

TEST_F(ArraySourceTest, RaggedShapesAndTypesEndABatch) {
  WriteNpy("a.npy", Count({1, 2}, 0));
  WriteNpy("b.npy", Count({1, 3}, 2));
  WriteNpy("c.npy", MakeTensor<int64_t>(DataType::kInt64, {1, 3}, {1, 2, 3}));
  WriteNpy("d.npy", MakeTensor<int64_t>(DataType::kInt64, {1, 3}, {4, 5, 6}));
  const auto source = Open();
  EXPECT_THAT(source->Next(4)->names, ElementsAre("a.npy"));
  EXPECT_THAT(source->Next(4)->names, ElementsAre("b.npy"));
  const auto both = source->Next(4);
  EXPECT_THAT(both->names, ElementsAre("c.npy", "d.npy"));
  EXPECT_THAT(both->inputs[0].values<int64_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(ArraySourceTest, WholeItems) {
  WriteNpy("a.npy", Count({3, 2}, 0));
  WriteNpy("b.npy", Count({3, 2}, 6));
  WriteNpy("c.npy", Count({3, 2}, 12));
  const auto source = Open({.limit = 2, .use_whole_items = true});
  EXPECT_EQ(source->num_samples(), 2u);
  for (const size_t wanted : {1u, 100u}) {
    const auto batch = source->Next(wanted);
    EXPECT_EQ(batch->num_samples, 1u);
    EXPECT_THAT(batch->inputs[0].dims, ElementsAre(3, 2));
  }
  EXPECT_FALSE(source->Next(1));
}

TEST_F(ArraySourceTest, ScalarsStayAlone) {
  WriteNpy("a.npy", Count({}, 1));
  WriteNpy("b.npy", Count({}, 2));
  const auto source = Open();
  EXPECT_EQ(source->num_samples(), 2u);
  const auto batch = source->Next(2);
  EXPECT_TRUE(batch->inputs[0].dims.empty());
  EXPECT_THAT(batch->names, ElementsAre("a.npy"));
  EXPECT_THAT(source->Next(2)->inputs[0].values<float>(), ElementsAre(2));
}

TEST_F(ArraySourceTest, LimitCutsAFile) {
  WriteNpy("a.npy", Count({3, 1}, 0));
  WriteNpy("b.npy", Count({3, 1}, 3));
  const auto source = Open({.limit = 4});
  EXPECT_EQ(source->num_samples(), 4u);
  EXPECT_THAT(source->Next(100)->inputs[0].values<float>(), ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(source->Next(100));
}

TEST_F(ArraySourceTest, LabelsFromCsvAndSubfolders) {
  WriteNpy("x/a.npy", Count({1, 2}, 0));
  WriteNpy("y/b.npy", Count({1, 2}, 2));
  EXPECT_THAT(Open()->Next(9)->labels, ElementsAre(0, 1));
  WriteBytes(folder_ / "l.csv", "file,class\ny/b.npy,5\nx/a.npy,6\n");
  const auto source = Open({.labels_csv = folder_ / "l.csv"});
  EXPECT_TRUE(source->has_labels());
  const auto batch = source->Next(9);
  EXPECT_THAT(batch->labels, ElementsAre(5, 6));
  EXPECT_THAT(batch->inputs[0].values<float>(), ElementsAre(2, 3, 0, 1));
  WriteNpy("x/a.npy", Count({2, 2}, 0));
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument, {.labels_csv = folder_ / "l.csv"}),
              HasSubstr("a.npy: the file holds 2 samples but has one class"));
}

TEST_F(ArraySourceTest, NpzMembersAreMatchedByName) {
  for (const int i : {0, 1}) {
    WriteZip(folder_ / fmt::format("{}.npz", i),
             {{"ids.npy", EncodeNpy(MakeTensor<int64_t>(DataType::kInt64, {1, 2}, {i, 10}))},
              {"mask.npy", EncodeNpy(Count({1, 3}, static_cast<float>(i)))},
              {"expected.npy", EncodeNpy(Count({7}, 0))}});
  }
  const auto batch = Open({.input_names = {"mask", "ids"}})->Next(5);
  EXPECT_EQ(batch->num_samples, 2u);
  EXPECT_THAT(batch->inputs[0].values<float>(), ElementsAre(0, 1, 2, 1, 2, 3));
  EXPECT_THAT(batch->inputs[1].values<int64_t>(), ElementsAre(0, 10, 1, 10));
  EXPECT_THAT(batch->names, ElementsAre("0.npz", "1.npz"));
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument, {.input_names = {"mask", "id"}}),
              HasSubstr("holds no array for the input 'id' (did you mean 'ids'?); its arrays: ids, "
                        "mask, expected"));
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument), HasSubstr("holds 3 arrays"));
}

TEST_F(ArraySourceTest, NpzWithOneMemberNeedsNoName) {
  WriteZip(folder_ / "a.npz", {{"arr_0.npy", EncodeNpy(Count({3, 2}, 0))}});
  for (const std::vector<std::string>& names : {std::vector<std::string>{}, {"input"}}) {
    const auto source = Open({.input_names = names});
    EXPECT_EQ(source->num_samples(), 3u);
    EXPECT_THAT(source->Next(2)->inputs[0].values<float>(), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(source->Next(2)->inputs[0].values<float>(), ElementsAre(4, 5));
  }
}

TEST_F(ArraySourceTest, OneSubfolderForEachInput) {
  for (const int i : {0, 1}) {
    WriteNpy(fmt::format("x/{}.npy", i), Count({1, 2}, static_cast<float>(i)));
    WriteNpy(fmt::format("scale/{}.npy", i), Count({1}, static_cast<float>(10 * i)));
  }
  const SourceOptions options{.input_names = {"x", "scale"}};
  const auto batch = Open(options)->Next(5);
  EXPECT_EQ(batch->num_samples, 2u);
  EXPECT_THAT(batch->inputs[0].dims, ElementsAre(2, 2));
  EXPECT_THAT(batch->inputs[1].values<float>(), ElementsAre(0, 10));
  WriteNpy("x/2.npy", Count({1, 2}, 0));
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument, options),
              HasSubstr("2.npy' has no counterpart in"));
  std::filesystem::remove(folder_ / "x/2.npy");
  WriteNpy("scale/3.npy", Count({1}, 0));
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument, options),
              HasSubstr("3.npy' has no counterpart in"));
}

TEST_F(ArraySourceTest, InputsWithoutACommonBatchDimensionStayAlone) {
  for (const int i : {0, 1}) {
    WriteNpy(fmt::format("x/{}.npy", i), Count({1, 2}, static_cast<float>(i)));
    WriteNpy(fmt::format("state/{}.npy", i), Count({2, 1, 2}, 0));
  }
  const auto source = Open({.input_names = {"x", "state"}});
  EXPECT_EQ(source->num_samples(), 2u);
  const auto batch = source->Next(5);
  EXPECT_EQ(batch->num_samples, 1u);
  EXPECT_THAT(batch->inputs[1].dims, ElementsAre(2, 1, 2));
  EXPECT_THAT(source->Next(5)->names, ElementsAre("1.npy"));
  EXPECT_FALSE(source->Next(5));
}

TEST_F(ArraySourceTest, TensorProtoFiles) {
  WritePb("a.pb", Count({2, 2}, 0));
  WritePb("b.pb", Count({1, 2}, 4));
  const auto source = Open();
  EXPECT_EQ(source->num_samples(), 3u);
  EXPECT_THAT(source->Next(9)->inputs[0].values<float>(), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(ArraySourceTest, OnnxTestDataSets) {
  for (const int i : {0, 1}) {
    const std::string set = fmt::format("test_data_set_{}/", i);
    WritePb(set + "input_0.pb", Count({1, 2}, static_cast<float>(i)));
    WritePb(set + "input_1.pb", Count({1, 1}, static_cast<float>(10 * i)));
    WritePb(set + "output_0.pb", Count({1, 5}, 0));
  }
  const auto batch = Open({.input_names = {"x", "y"}})->Next(5);
  EXPECT_EQ(batch->num_samples, 2u);
  EXPECT_THAT(batch->inputs[0].values<float>(), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(batch->inputs[1].values<float>(), ElementsAre(0, 10));
  EXPECT_THAT(batch->names, ElementsAre("test_data_set_0", "test_data_set_1"));
  EXPECT_THAT(OpenFailure(ErrorCode::kIo, {.input_names = {"x", "y", "z"}}),
              HasSubstr("input_2.pb' not found: the model has 3 inputs"));
}

TEST_F(ArraySourceTest, ErrorsNameTheFile) {
  WriteNpy("a.npy", Count({0, 2}, 0));
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument), HasSubstr("a.npy: the array has no rows"));
  WriteBytes(folder_ / "a.npy", "damaged");
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument), HasSubstr("a.npy: not an .npy file"));
  WriteNpy("a.npy", Count({1, 2}, 0));
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument, {.input_names = {"x", "y"}}),
              HasSubstr("holds one file a sample, but the model has 2 inputs (x, y)"));
  const auto source = Open();
  std::filesystem::remove(folder_ / "a.npy");
  EXPECT_THAT(ExpectError(ErrorCode::kIo, [&] { source->Next(1); }), HasSubstr("a.npy"));
  WriteBytes(folder_ / "b.pb", "\x08\x02 damaged");
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { Open(); }), HasSubstr("b.pb"));
}

// Reads a file far larger than the batches. The operating system counts the memory.
TEST_F(ArraySourceTest, LargeFileIsReadInParts) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer keeps freed memory";
#endif
  constexpr int64_t kRows = 400;
  WriteNpy("a.npy", Count({kRows, 25000}, 0));  // 40 MB
  const auto memory_kb = [] {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word) {
      if (word == "VmRSS:") {
        long value = 0;
        status >> value;
        return value;
      }
    }
    return 0L;
  };
  const auto source = Open();
  const long before = memory_kb();
  if (before == 0) GTEST_SKIP() << "this system does not count the memory there";
  size_t num_samples = 0;
  long largest = 0;
  while (const auto batch = source->Next(10)) {
    num_samples += batch->num_samples;
    largest = std::max(largest, memory_kb() - before);
  }
  EXPECT_EQ(num_samples, static_cast<size_t>(kRows));
  EXPECT_LT(largest, 10000);
}

TEST_F(ArraySourceTest, TheFingerprintIsOfTheContentOfAllSamples) {
  const auto fingerprint = [&](SourceOptions options = {}) {
    return Open(std::move(options))->Fingerprint();
  };
  WriteNpy("a.npy", Count({9, 2}, 0));
  WriteNpy("b.npy", Count({3, 2}, 18));
  const uint64_t first = fingerprint();
  EXPECT_EQ(fingerprint(), first);
  EXPECT_EQ(fingerprint({.limit = 12}), first);
  const uint64_t cut = fingerprint({.limit = 11});
  EXPECT_NE(cut, first);
  EXPECT_NE(fingerprint({.use_whole_items = true}), first);
  std::filesystem::rename(folder_ / "b.npy", folder_ / "c.npy");
  EXPECT_EQ(fingerprint(), first);
  // The last value of the last sample changes, in a file of the same size and time.
  const auto time = std::filesystem::last_write_time(folder_ / "c.npy");
  Tensor other = Count({3, 2}, 18);
  other.values<float>()[5] = -1;
  WriteNpy("c.npy", other);
  std::filesystem::last_write_time(folder_ / "c.npy", time);
  EXPECT_NE(fingerprint(), first);
  EXPECT_EQ(fingerprint({.limit = 11}), cut) << "what is not used does not count";
  const auto source = Open();
  source->Next(5);
  source->Fingerprint();
  EXPECT_EQ(source->Next(1)->names, std::vector<std::string>{"a.npy[0]"});
}

}  // namespace
}  // namespace bitpress::data
