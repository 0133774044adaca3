#include "calibrate/model_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace bitpress::calibrate {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

// Four products of 64 bytes each, with a residual connection around every two of them.
graph::Model Chain() {
  return graph::Model::Load(std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" / "data" /
                            "runtime" / "chain.onnx");
}

const std::vector<std::string> kOutput{"y"};

TEST(ModelPieces, CutWhereTheFewestValuesCross) {
  const graph::Model model = Chain();
  EXPECT_EQ(ModelPieces(model, kOutput, 256).size(), 1U);
  // Behind the third product two values cross: its own, and what the connection goes around.
  const ModelPieces two(model, kOutput, 192);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_THAT(two.piece(0).inputs, IsEmpty());
  EXPECT_THAT(two.piece(0).outputs, ElementsAre("b"));
  EXPECT_THAT(two.piece(1).inputs, ElementsAre("b"));
  EXPECT_THAT(two.piece(1).outputs, IsEmpty());
  EXPECT_EQ(two.PieceOf("a1"), 0U);
  EXPECT_EQ(two.PieceOf("y"), 1U);
  EXPECT_EQ(two.LastReaderOf("b"), 1U);
}

TEST(ModelPieces, ANodeThatIsTooLargeStandsAlone) {
  const graph::Model model = Chain();
  const ModelPieces pieces(model, kOutput, 1);
  EXPECT_EQ(pieces.size(), 4U);
  // A transposed constant is no activation that crosses: each piece that reads it computes it.
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_THAT(pieces.piece(i).inputs, Not(Contains("turned")));
  }
  EXPECT_EQ(pieces.LastReaderOf("r"), pieces.PieceOf("b"));
}

TEST(ModelPieces, OnlyWhatIsWantedCounts) {
  const graph::Model model = Chain();
  EXPECT_EQ(ModelPieces(model, std::vector<std::string>{"a1"}, 128).size(), 1U);
}

TEST(ModelPieces, PairsStayTogetherWhereTheyCan) {
  const graph::Model model = Chain();
  const std::vector<std::vector<std::string>> together{{"b", "a2"}};
  const ModelPieces pieces(model, kOutput, 192, together);
  EXPECT_EQ(pieces.PieceOf("b"), pieces.PieceOf("a2"));
}

TEST(ModelPieces, AGroupThatIsCutIsWholeInItsLastPiece) {
  const graph::Model model = Chain();
  const std::vector<std::vector<std::string>> together{{"a0", "a3", "r"}};
  const ModelPieces pieces(model, kOutput, 1, together);
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces.PieceOf(together[0]), pieces.PieceOf("a3"));
  const ModelPiece& last = pieces.piece(pieces.PieceOf("a3"));
  EXPECT_THAT(last.inputs, AllOf(Contains("a0"), Contains("r")));
  EXPECT_THAT(pieces.piece(pieces.PieceOf("a0")).outputs, Contains("a0"));
  EXPECT_EQ(pieces.LastReaderOf("a0"), pieces.PieceOf("a3"));
}

TEST(ModelPieces, SequencesDoNotCross) {
  graph::Model model = graph::Model::Load(std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" /
                                          "data" / "runtime" / "sequence.onnx");
  model.InferShapes();
  const ModelPieces pieces(model, kOutput, 1);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces.PieceOf("parts"), pieces.PieceOf("joined"));
  EXPECT_NE(pieces.PieceOf("parts"), pieces.PieceOf("a0"));
}

}  // namespace
}  // namespace bitpress::calibrate
