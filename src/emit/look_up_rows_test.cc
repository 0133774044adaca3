// Tables in codes: lookups that decode only their rows, and heads that read the same table.
#include "emit/look_up_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "emit/apply_plan.h"
#include "emit/tied_tables.h"
#include "graph/test_models.h"
#include "plan/make_plan.h"
#include "plan/test_support.h"

namespace bitpress::emit {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;

constexpr int64_t kRows = 2048;
constexpr int64_t kColumns = 64;

// Returns a lookup in a table and a head. `change` is added to one number of the head.
graph::Model Tied(float change = 0) {
  graph::Model model = graph::FromTextWithConstants(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (int64[B,S] ids) => (float[B,S,2048] y)
    <float[2048,64] table, float[64,2048] head>
    { [look] x = Gather(table, ids)  [multiply] y = MatMul(x, head) })");
  Tensor table{DataType::kFloat, {kRows, kColumns}, std::vector<std::byte>(kRows * kColumns * 4)};
  Tensor head{DataType::kFloat, {kColumns, kRows}, std::vector<std::byte>(kRows * kColumns * 4)};
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      const auto number = static_cast<float>((row * 37 + column * 11) % 101 - 50) / 16;
      table.values<float>()[static_cast<size_t>(row * kColumns + column)] = number;
      head.values<float>()[static_cast<size_t>(column * kRows + row)] = number;
    }
  }
  head.values<float>()[5] += change;
  model.SetInitializer("table", std::move(table));
  model.SetInitializer("head", std::move(head));
  return model;
}

std::vector<std::string> TypesOf(const graph::Model& model) {
  std::vector<std::string> types;
  for (const graph::Node& node : model.Nodes()) types.push_back(node.op_type());
  return types;
}

TransformReport Apply(graph::Model& model, const std::string& config,
                      const std::vector<std::string>& settings, Target target = Target::kPortable) {
  ThreadPool pool(2);
  ApplyOptions options;
  options.target = target;
  TransformReport report =
      ApplyPlan(model, {plan::PlanFor(model, config, settings)}, options, pool);
  model.Materialize();
  model.CheckInFull();
  return report;
}

TEST(LookUpRows, HeadsReadTheTable) {
  struct Case {
    const char* config;
    std::vector<std::string> settings;
    const char* lookup;
  };
  const Case cases[] = {
      {"MX6", {"activations=none", "embeddings=mx6"}, "Gather_mx6"},
      {"MXFP4E2M1", {"activations=none", "embeddings=mxfp4_e2m1"}, "Gather_mxfp4_e2m1"},
      {"BFP16", {"activations=none", "embeddings=bfp16"}, "Gather_bfp16"},
      {"INT4_WEIGHTS", {"embeddings=uint4"}, "Gather_uint4_asymmetric"},
      {"INT8_WEIGHTS", {"weight_block_size=32"}, "Gather_int8"},
      // The table's format is the wider one, and the head takes it.
      {"MXFP4E2M1", {"activations=none"}, "Gather_mxint8"},
      {"INT4_WEIGHTS", {}, "Gather_uint8_asymmetric"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.config);
    graph::Model model = Tied();
    const TransformReport report = Apply(model, one.config, one.settings);
    EXPECT_THAT(TypesOf(model),
                UnorderedElementsAre(StartsWith("Unpack_"), "Transpose", one.lookup, "MatMul"));
    ASSERT_EQ(report.weights.size(), 2);
    EXPECT_GT(report.weights[0]->stored_bytes, 0);
    EXPECT_EQ(report.weights[1]->value, "head");
    EXPECT_EQ(report.weights[1]->stored_bytes, 0);
    EXPECT_GT(report.weights[1]->sqnr_db, 10);
    EXPECT_EQ(report.weights[1]->sqnr_db, report.weights[0]->sqnr_db);
  }
}

TEST(LookUpRows, HeadsOfOtherNumbersOrFormatsHaveTheirOwn) {
  graph::Model changed = Tied(0.5F);
  EXPECT_THAT(Apply(changed, "MX6", {"activations=none", "embeddings=mx6"}).weights,
              Each(testing::Pointee(
                  testing::Field(&weights::WeightStatistics::stored_bytes, testing::Gt(0)))));
  EXPECT_THAT(TypesOf(changed), Not(Contains("Transpose")));
  graph::Model other = Tied();
  Apply(other, "MX9", {"activations=none", "embeddings=mx6"});
  EXPECT_THAT(TypesOf(other), UnorderedElementsAre("Unpack_mx9", "Gather_mx6", "MatMul"));
}

TEST(LookUpRows, ProductsFromCodesReadTheTable) {
  graph::Model model = Tied();
  Apply(model, "MX6", {"activations=none", "embeddings=mx6"}, Target::kBitpress);
  EXPECT_THAT(TypesOf(model), UnorderedElementsAre("Gather_mx6", "MatMul_mx6"));
  EXPECT_EQ(model.Nodes()[0].input(0), model.Nodes()[1].input(1)) << "codes";
}

TEST(LookUpRows, OperatorsOfOnnxRuntimeReadTheTable) {
  graph::Model model = Tied();
  Apply(model, "INT4_WEIGHTS", {"embeddings=uint4"}, Target::kOnnxRuntime);
  EXPECT_THAT(TypesOf(model), UnorderedElementsAre("Gather_uint4_asymmetric", "MatMulNBits"));
  EXPECT_EQ(model.Nodes()[0].input(0), model.Nodes()[1].input(1)) << "codes";
  // Two blocks of 128 do not fit rows of 64: the forms differ.
  graph::Model padded = Tied();
  Apply(padded, "INT8_WEIGHTS", {}, Target::kOnnxRuntime);
  EXPECT_THAT(TypesOf(padded), UnorderedElementsAre("GatherBlockQuantized", "MatMulNBits"));
}

TEST(LookUpRows, SmallTablesAndFp8TablesAreDecodedAsAWhole) {
  graph::Model fp8 = Tied();
  Apply(fp8, "MXFP8E4M3", {"activations=none", "embeddings=mxfp8_e4m3"});
  EXPECT_THAT(TypesOf(fp8), AllOf(Contains("Gather"), Contains("Transpose")));
  graph::Model small = graph::FromTextWithConstants(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (int64[B,S] ids) => (float[B,S,64] y) <float[64,64] table>
    { y = Gather(table, ids) })");
  Apply(small, "MX6", {"activations=none", "embeddings=mx6"});
  EXPECT_THAT(TypesOf(small), UnorderedElementsAre("Unpack_mx6", "Gather"));
}

}  // namespace
}  // namespace bitpress::emit
