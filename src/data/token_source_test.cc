#include "data/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "data/test_files.h"
#include "graph/test_models.h"

namespace bitpress::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A decoder's inputs, or others that are given as ONNX text.
graph::Model Decoder(const std::string& inputs =
                         "int64[N, S] input_ids, int32[N, T] attention_mask, int64[N, S] "
                         "position_ids, float[N, 2, P, 4] past_key_values_0_key, float[2, N, 2, "
                         "P, 4] past_1") {
  return graph::FromText("<ir_version: 10, opset_import: [\"\" : 17]> g (" + inputs +
                         ") => (int64[N, S] y) { y = Identity(input_ids) }");
}

class TokenSourceTest : public testing::Test {
 protected:
  // Writes ids 0, 1, ... of the shape `dims`.
  template <typename T = int64_t>
  void WriteIds(DataType type, std::vector<int64_t> dims) {
    std::vector<T> ids(static_cast<size_t>(NumElements(dims)));
    std::iota(ids.begin(), ids.end(), T{0});
    WriteBytes(path_, EncodeNpy(MakeTensor(type, std::move(dims), ids)));
  }
  std::unique_ptr<Source> Open(size_t length, size_t limit = 0,
                               const graph::Model& model = Decoder()) {
    return OpenSource(ToSourceOptions(
        {.tokens = path_, .num_tokens = length, .opener = {}, .limit = limit}, model));
  }
  std::string Failure(size_t length, const graph::Model& model = Decoder()) {
    return ExpectError(ErrorCode::kInvalidArgument, [&] { Open(length, 0, model)->Next(1); });
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "ids.npy";
};

TEST_F(TokenSourceTest, ATextIsCutIntoPieces) {
  WriteIds(DataType::kInt64, {11});
  const auto source = Open(4);
  EXPECT_EQ(source->num_samples(), 2u);
  for (int round = 0; round < 2; ++round) {
    const auto batch = source->Next(8);
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->num_samples, 2u);
    EXPECT_THAT(batch->inputs[0].dims, ElementsAre(2, 4));
    EXPECT_THAT(batch->inputs[0].values<int64_t>(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
    EXPECT_THAT(batch->inputs[1].values<int32_t>(), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
    EXPECT_THAT(batch->inputs[2].values<int64_t>(), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
    EXPECT_THAT(batch->inputs[3].dims, ElementsAre(2, 2, 0, 4));
    EXPECT_THAT(batch->inputs[4].dims, ElementsAre(2, 2, 2, 0, 4)) << "the symbol N is the batch";
    EXPECT_THAT(batch->names, ElementsAre("ids.npy[0]", "ids.npy[1]"));
    EXPECT_FALSE(source->Next(8));
    source->Rewind();
  }
}

TEST_F(TokenSourceTest, RowsAreTexts) {
  static constexpr int64_t kByColumns[] = {0, 4, 1, 5, 2, 6, 3, 7};
  WriteIds<int32_t>(DataType::kInt32, {2, 5});
  EXPECT_THAT(Open(0)->Next(8)->inputs[0].dims, ElementsAre(2, 5)) << "whole rows";
  EXPECT_THAT(Open(2)->Next(3)->inputs[0].values<int64_t>(), ElementsAre(0, 1, 2, 3, 5, 6));
  EXPECT_EQ(Open(2, 3)->num_samples(), 3u) << "the limit";
  EXPECT_THAT(Open(9)->Next(1)->inputs[0].dims, ElementsAre(1, 5)) << "shorter than a piece";
  WriteBytes(path_, EncodeNpy("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 4), }",
                              {reinterpret_cast<const char*>(kByColumns), sizeof kByColumns}));
  EXPECT_THAT(Open(2)->Next(3)->inputs[0].values<int64_t>(), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(TokenSourceTest, SpecialTokensStandAroundEachPiece) {
  WriteIds(DataType::kInt64, {7});
  const auto open = [&](size_t length) {
    return OpenSource(ToSourceOptions(
        {.tokens = path_, .num_tokens = length, .prefix = {50, 51}, .suffix = {60}, .opener = {}},
        Decoder()));
  };
  EXPECT_THAT(open(6)->Next(9)->inputs[0].values<int64_t>(),
              ElementsAre(50, 51, 0, 1, 2, 60, 50, 51, 3, 4, 5, 60));
  EXPECT_THAT(open(100)->Next(9)->inputs[0].dims, ElementsAre(1, 10));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { open(3); }),
              HasSubstr("samples of 3 tokens have no room for 3 special ones"));
}

TEST_F(TokenSourceTest, ABatchHasFewTokensUnlessTheModelFixesIt) {
  WriteIds(DataType::kInt64, {8 * 256});
  EXPECT_EQ(Open(256)->Next(20)->num_samples, 2u);
  EXPECT_EQ(Open(1024)->Next(20)->num_samples, 1u);
  EXPECT_EQ(Open(256, 0, Decoder("int64[8, S] input_ids"))->Next(8)->num_samples, 8u);
  EXPECT_EQ(Open(256, 0, Decoder("int64[3, S] input_ids"))->num_samples(), 6u) << "whole runs";
  EXPECT_THAT(Failure(256, Decoder("int64[9, S] input_ids")),
              HasSubstr("the model takes 9 in a run"));
}

TEST_F(TokenSourceTest, TheModelMayFixTheLength) {
  WriteIds(DataType::kInt64, {16});
  const graph::Model model = Decoder("int32[N, 8] input_ids");
  EXPECT_THAT(Open(0, 0, model)->Next(1)->inputs[0].dims, ElementsAre(1, 8));
  EXPECT_THAT(Failure(4, model), HasSubstr("'input_ids' takes 8 tokens"));
  WriteIds(DataType::kInt64, {7});
  EXPECT_THAT(Failure(0, model), HasSubstr("there are 7 tokens, but the model takes samples of 8"));
}

TEST_F(TokenSourceTest, WrongFilesAreNamed) {
  WriteIds<float>(DataType::kFloat, {16});
  EXPECT_THAT(Failure(4), HasSubstr("ids.npy: the elements are FLOAT, expected token ids"));
  WriteIds(DataType::kInt64, {2, 2, 4});
  EXPECT_THAT(Failure(4), HasSubstr("ids.npy: the array has 3 dimensions"));
  WriteIds(DataType::kInt64, {1});
  EXPECT_THAT(Failure(4), HasSubstr("there are 1 tokens, expected 2 or more"));
  WriteBytes(path_, EncodeNpy(MakeTensor<int64_t>(DataType::kInt64, {3}, {1, -1, 2})));
  EXPECT_THAT(Failure(3), HasSubstr("ids.npy[0]: -1 is no token id"));
}

std::string Unsupported(const std::string& inputs) {
  const graph::Model model = Decoder(inputs);
  return ExpectError(ErrorCode::kUnsupported, [&] { TokenInputs{model}; });
}

TEST(TokenInputsTest, InputsThatDoNotFollowAreNamed) {
  EXPECT_THAT(Unsupported("int64[N, S] input_ids, float[N, 8] image"),
              HasSubstr("input 'image' does not follow from token ids"));
  EXPECT_THAT(Unsupported("float[N, S] input_ids"),
              HasSubstr("input 'input_ids' has the element type FLOAT, expected an integer"));
  EXPECT_THAT(Unsupported("int64[N, S] input_ids, float[N, 2, 7, 4] past_0"),
              HasSubstr("input 'past_0' has the shape [?, 2, 7, 4], expected one free dimension"));
  EXPECT_THAT(
      Unsupported("int64[N, S] input_ids, int64[3, N, S] position_ids"),
      HasSubstr("input 'position_ids' has the shape [3, ?, ?], expected [samples, tokens]"));
}

TEST(TokenInputsTest, TokensBehindOthers) {
  const TokenInputs inputs(
      Decoder("int64[N, S] input_ids, int64[N, T] attention_mask, int64[N, S] position_ids, "
              "int32[N] seqlens_k, int32 total_sequence_length, bool[1] use_cache_branch"));
  const auto values = inputs.Make(MakeTensor<int64_t>(DataType::kInt64, {1, 2}, {7, 8}), 3);
  EXPECT_THAT(values[1].dims, ElementsAre(1, 5));
  EXPECT_THAT(values[2].values<int64_t>(), ElementsAre(3, 4));
  EXPECT_THAT(values[3].values<int32_t>(), ElementsAre(4));
  EXPECT_THAT(values[4].dims, ElementsAre());
  EXPECT_THAT(values[4].values<int32_t>(), ElementsAre(5));
  EXPECT_THAT(values[5].values<uint8_t>(), ElementsAre(1));
}

}  // namespace
}  // namespace bitpress::data
