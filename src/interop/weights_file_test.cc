// Tests of weights that others quantized: places by names, rows that are joined, and damaged files.
// tests/e2e/import_weights_test.py holds every layout to the tools that define it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "interop/ggml_blocks.h"
#include "interop/weights_file.h"

namespace bitpress::interop {
namespace {

using testing::ElementsAre;

std::string Place(std::string_view name) {
  const auto place = PlaceOfName(name);
  return place ? Describe(*place) : "";
}

TEST(TensorNames, OfCheckpointsAndExportedModels) {
  EXPECT_EQ(Place("model.layers.3.self_attn.q_proj.weight"), "q_proj of layer 3");
  EXPECT_EQ(Place("model.layers.12.attn.qkv_proj.MatMul.weight"), "qkv_proj of layer 12");
  EXPECT_EQ(Place("/model/layers.0/mlp/down_proj/MatMul"), "down_proj of layer 0");
  EXPECT_EQ(Place("model.layers.3.self_attn.k_proj.bias"), "k_proj's bias of layer 3");
  EXPECT_EQ(Place("model.layers.30.final_norm_layernorm.weight"), "norm");
  EXPECT_EQ(Place("model.layers.1.attn.q_norm.layernorm.weight"), "q_norm of layer 1");
  EXPECT_EQ(Place("lm_head.weight"), "lm_head");
  EXPECT_EQ(Place("vision_tower.layers.3.self_attn.q_proj.weight"), "");
  EXPECT_EQ(Place("onnx::MatMul_2041"), "");
}

TEST(TensorNames, OfLlamaCpp) {
  EXPECT_EQ(Describe(*PlaceOfGgufName("blk.7.ffn_gate.weight", false)), "gate_proj of layer 7");
  EXPECT_EQ(PlaceOfGgufName("blk.7.ffn_norm.weight", true)->part, "pre_feedforward_layernorm");
  EXPECT_EQ(PlaceOfGgufName("blk.7.ffn_norm.weight", false)->part, "post_attention_layernorm");
  EXPECT_EQ(PlaceOfGgufName("rope_freqs.weight", false), std::nullopt);
  EXPECT_EQ(PlaceOfGgufName("blk.-1.attn_q.weight", false), std::nullopt);
}

FileWeight Of(std::string format, int64_t block_size, std::vector<int16_t> codes,
              std::vector<float> scales) {
  FileWeight weight{.type = "T" + format, .format = std::move(format)};
  weight.row_length = static_cast<int64_t>(codes.size());
  weight.block_size = block_size;
  weight.codes = std::move(codes);
  weight.scales = std::move(scales);
  return weight;
}

std::vector<float> RowOf(const FileWeight& weight, int64_t row) {
  std::vector<float> values(static_cast<size_t>(weight.row_length));
  weight.DecodeRow(row, values);
  weight.AddOffsets(row, values);
  return values;
}

TEST(JoinRows, KeepsCodesOfDifferentBlocks) {
  FileWeight moved = Of("int4", 4, {-8, 7, 1, 0}, {0.5F});
  moved.offsets = {2};
  FileWeight unsigned_codes = Of("uint4", 2, {15, 0, 3, 3}, {1, -2});
  unsigned_codes.zero_points = {3, 1};
  const FileWeight joined = JoinRows({moved, unsigned_codes});
  EXPECT_EQ(joined.format, "int8");
  EXPECT_EQ(joined.block_size, 2);
  EXPECT_EQ(joined.type, "Tint4+Tuint4");
  EXPECT_THAT(joined.codes, ElementsAre(-8, 7, 1, 0, 12, -3, 2, 2));
  EXPECT_EQ(RowOf(joined, 0), RowOf(moved, 0));
  EXPECT_EQ(RowOf(joined, 1), RowOf(unsigned_codes, 0));
}

TEST(JoinRows, MakesFloatsOfWhatNoFormatHolds) {
  FileWeight wide = Of("uint8", 2, {255, 0}, {1});
  wide.zero_points = {0};
  FileWeight floats{.type = "F32", .num_rows = 1, .row_length = 2, .floats = {0.25F, 3}};
  for (const FileWeight& other : {floats, Of("int4", 2, {1, 2}, {1})}) {
    const FileWeight joined = JoinRows({wide, other});
    EXPECT_EQ(joined.format, "none");
    EXPECT_EQ(RowOf(joined, 0), RowOf(wide, 0));
    EXPECT_EQ(RowOf(joined, 1), RowOf(other, 0));
  }
}

TEST(WithRows, TakesScalesAlong) {
  FileWeight weight = Of("int4", 2, {1, 2, 3, 4}, {1, 10});
  weight.num_rows = 2;
  weight.row_length = 2;
  const std::vector<int64_t> order = {1, 0};
  EXPECT_THAT(RowOf(WithRows(weight, order), 0), ElementsAre(30, 40));
}

TEST(FloatOfHalf, IsExact) {
  EXPECT_EQ(FloatOfHalf(0x3C00), 1);
  EXPECT_EQ(FloatOfHalf(0xFBFF), -65504);
  EXPECT_EQ(FloatOfHalf(1), 0x1p-24F);
  EXPECT_EQ(FloatOfHalf(0x0400), 0x1p-14F);
}

// Files are untrusted: any change of a byte gives an error or weights, never a crash.
TEST(OpenWeightsFile, TakesAnyBytes) {
  ScratchFolder folder;
  const auto number = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const auto text = [&](const std::string& value) {
    return number(uint64_t{value.size()}) + value;
  };
  std::string gguf = "GGUF" + number(uint32_t{3}) + number(uint64_t{1}) + number(uint64_t{2}) +
                     text("general.architecture") + number(uint32_t{8}) + text("llama") +
                     text("tokens") + number(uint32_t{9}) + number(uint32_t{8}) +
                     number(uint64_t{1}) + text("a") + text("output.weight") + number(uint32_t{2}) +
                     number(uint64_t{32}) + number(uint64_t{2}) + number(uint32_t{8}) +
                     number(uint64_t{0});
  gguf.resize((gguf.size() + 31) / 32 * 32 + 68);
  const std::string table =
      R"({"lm_head.qweight":{"dtype":"I32","shape":[2,8],"data_offsets":[0,64]},)"
      R"("lm_head.qzeros":{"dtype":"I32","shape":[1,1],"data_offsets":[64,68]},)"
      R"("lm_head.scales":{"dtype":"F16","shape":[1,8],"data_offsets":[68,84]}})";
  const std::string safetensors = number(uint64_t{table.size()}) + table + std::string(84, '\x41');
  std::mt19937 random(1);
  size_t num_read = 0;
  for (const auto& [name, whole] :
       {std::pair{"a.gguf", gguf}, std::pair{"a.safetensors", safetensors}}) {
    for (int i = 0; i < 300; ++i) {
      std::string bytes = whole;
      for (size_t change = 0; change < static_cast<size_t>(i % 3); ++change) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      if (i % 7 == 6) bytes.resize(random() % bytes.size());
      std::ofstream(folder.path() / name, std::ios::binary) << bytes;
      try {
        const auto file = OpenWeightsFile(folder.path() / name);
        for (const auto& [place, tensor] : file->tensors()) {
          num_read += static_cast<size_t>(file->Read(tensor).num_rows > 0);
        }
      } catch (const Error&) {
      }
    }
  }
  EXPECT_GT(num_read, 200U);
}

}  // namespace
}  // namespace bitpress::interop
