#include "report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/test_models.h"
#include "report/constants.h"
#include "report/histogram.h"
#include "report/layers.h"
#include "report/quantizers.h"

namespace bitpress::report {
namespace {

using graph::FromText;
using graph::Model;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Histogram, CountsEveryFiniteElementOnce) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{-1, -1, 0, 0.5, 1, inf, std::nan("")};
  TensorReport tensor;
  Describe(values, tensor);
  EXPECT_EQ(tensor.num_elements, 7);
  EXPECT_EQ(tensor.num_nonfinite, 2);
  EXPECT_EQ(tensor.num_zeros, 1);
  EXPECT_EQ(tensor.min, -1);
  EXPECT_EQ(tensor.max, 1);
  EXPECT_DOUBLE_EQ(tensor.mean, -0.1);
  EXPECT_DOUBLE_EQ(tensor.deviation, std::sqrt(3.25 / 5 - 0.01));
  ASSERT_EQ(tensor.histogram.counts.size(), kNumBins);
  EXPECT_EQ(tensor.histogram.counts.front(), 2);
  EXPECT_EQ(tensor.histogram.counts[kNumBins / 2], 1);
  EXPECT_EQ(tensor.histogram.counts.back(), 1);
}

TEST(Histogram, OfStatisticsIsThatOfTheElements) {
  std::vector<float> floats;
  for (int i = 0; i < 1000; ++i) floats.push_back(std::sin(static_cast<float>(i)) * 3);
  calibrate::TensorStatistics statistics;
  statistics.Add(floats);
  TensorReport counted, direct;
  Describe(statistics, counted);
  Describe(std::vector<double>(floats.begin(), floats.end()), direct);
  EXPECT_EQ(counted.min, direct.min);
  EXPECT_EQ(counted.max, direct.max);
  EXPECT_NEAR(counted.deviation, direct.deviation, 1e-9);
  // Statistics know an element to 1/256 of it, so that it may fall on the other side of a bin's
  // edge.
  uint64_t sum = 0, moved = 0;
  for (size_t i = 0; i < kNumBins; ++i) {
    sum += counted.histogram.counts[i];
    const auto a = static_cast<int64_t>(counted.histogram.counts[i]);
    moved += static_cast<uint64_t>(std::abs(a - static_cast<int64_t>(direct.histogram.counts[i])));
  }
  EXPECT_EQ(sum, 1000);
  EXPECT_LT(moved, 60);
}

TEST(Histogram, OfOneValueHasOneBin) {
  TensorReport tensor;
  Describe(std::vector<double>{2, 2, 2}, tensor);
  EXPECT_THAT(tensor.histogram.counts, ElementsAre(3));
  TensorReport nothing;
  Describe(calibrate::TensorStatistics(), nothing);
  EXPECT_TRUE(nothing.histogram.counts.empty());
}

TEST(Constants, CodesWithOneScaleASlice) {
  const Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y)
    <int8[2,2] w_codes = {1, 2, 3, 4}, float[2] w_scale = {0.5, 10}, int8[2] w_zero_point = {0, 1},
     float[2] v = {3, 4}>
    { f = Cast<to = 1>(w_codes)  a = MatMul(x, f)  b = Mul(a, w_scale)  c = Add(b, v)
      d = Cast<to = 1>(w_zero_point)  y = Add(c, d) })");
  const auto by_column = ReadCodes(model, "w", 1);
  ASSERT_TRUE(by_column);
  EXPECT_THAT(by_column->values, ElementsAre(0.5, 10, 1.5, 30));
  const auto by_row = ReadCodes(model, "w", 0);
  ASSERT_TRUE(by_row);
  EXPECT_THAT(by_row->values, ElementsAre(0.5, 1, 20, 30));
  EXPECT_FALSE(ReadCodes(model, "w", std::nullopt));  // it is not known whose scale is which
  const Model leading = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,2,1] x) => (float[2,2,2] y)
    <int8[2,2,2] w_codes = {1, 2, 3, 4, 5, 6, 7, 8}, float[2,2] w_scale = {1, 10, 100, 1000}>
    { f = Cast<to = 1>(w_codes)  a = Mul(x, f)  b = ReduceSum(w_scale)  y = Add(a, b) })");
  EXPECT_THAT(ReadCodes(leading, "w", std::nullopt)->values,
              ElementsAre(1, 2, 30, 40, 500, 600, 7000, 8000));
  EXPECT_FALSE(ReadCodes(model, "v", 0));
}

TEST(Constants, WhatNodesMakeOfConstantsIsComputed) {
  const Model model = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y)
    <int8[2,2] q = {1, -2, 3, 4}, float s = {0.5}>
    { w = DequantizeLinear(q, s)  a = MatMul(x, w)  y = Mul(a, x) })");
  ThreadPool pool(1);
  const auto weight = ReadInput(model, model.Nodes()[1], 1, pool);
  ASSERT_TRUE(weight);
  EXPECT_THAT(weight->values, ElementsAre(0.5, -1, 1.5, 2));
  EXPECT_THAT(weight->dims, ElementsAre(2, 2));
  EXPECT_FALSE(ReadInput(model, model.Nodes()[1], 0, pool));  // an input of the graph
  EXPECT_FALSE(ReadInput(model, model.Nodes()[2], 1, pool));
}

TEST(Quantizers, SayTheirFormat) {
  const Model model =
      FromText(R"(<ir_version: 8, opset_import: ["" : 17, "com.amd.quark" : 1, "bitpress" : 1]>
    g (float[N,16] x) => (float[N,16] y)
    <float s = {0.5}, uint8 z = {128}>
    { a = bitpress.QuantizeDequantize_mx6<axis = 1>(x)
      b = Relu(a)
      c = com.amd.quark.MXQuantizeDequantize<element_dtype = "fp8_e4m3", axis = 1>(b)
      d = Relu(c)
      e = QuantizeLinear(d, s, z)
      f = DequantizeLinear(e, s, z)
      y = Relu(f) })");
  const auto formats = QuantizedActivations(model);
  ASSERT_EQ(formats.size(), 3);
  EXPECT_EQ(formats.at("x").format, "mx6");
  EXPECT_EQ(formats.at("b").format, "mxfp8_e4m3");
  EXPECT_EQ(formats.at("d").format, "uint8");
  EXPECT_EQ(formats.at("d").range, std::pair(-64.0, 63.5));
  EXPECT_FALSE(FormatOf(model, "b"));
}

TEST(Layers, AreFoundBehindQuantizersAndByTheirNames) {
  const Model reference = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = {1, 2, 3, 4}, float[2,2] v = {5, 6, 7, 8}, float[2] b = {1, 2}>
    { [first] a = MatMul(x, w)  [shift] c = Add(a, b)  [second] y = Gemm(c, v, b) })");
  const Model quantized = FromText(R"(<ir_version: 8, opset_import: ["" : 17, "bitpress" : 1]>
    g (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = {1, 2, 3, 3}, float[2,2] v = {5, 6, 7, 8}, float[2] b = {1, 2}>
    { q = bitpress.QuantizeDequantize_bf16(x)
      [first] other = MatMul(q, w)
      [shift] c = Add(other, b)
      [second] y_float = Gemm(c, v, b)
      y = bitpress.QuantizeDequantize_bf16(y_float) })");
  const std::vector<MatchedLayer> layers = FindLayers(reference, quantized);
  ASSERT_EQ(layers.size(), 2);
  EXPECT_EQ(layers[0].name, "first");
  ASSERT_TRUE(layers[0].quantized);
  EXPECT_EQ(layers[0].output, "c");  // no value has the name of its first output
  EXPECT_EQ(layers[0].quantized_output, "c");
  EXPECT_EQ(layers[1].output, "y");
  EXPECT_EQ(layers[1].quantized_output, "y_float");

  ThreadPool pool(1);
  std::vector<LayerReport> reports;
  std::vector<TensorReport> tensors;
  DescribeLayers(reference, quantized, layers, {}, pool, reports, tensors);
  ASSERT_EQ(reports.size(), 2);
  EXPECT_EQ(reports[0].input_format, "bf16");
  EXPECT_EQ(reports[1].input_format, "float");
  ASSERT_EQ(reports[0].weights.size(), 1);
  EXPECT_DOUBLE_EQ(reports[0].weights[0].noise.value(), 1.0 / 30);
  EXPECT_EQ(reports[1].weights[0].noise, 0);
  EXPECT_THAT(tensors, ElementsAre(testing::Field(&TensorReport::name, "w"),
                                   testing::Field(&TensorReport::name, "v")));
}

TEST(Layers, WeightsAreComparedAsTheFloatModelStoresThem) {
  const Model reference = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y)
    <float[2,2] w = {1, 2, 3, 4}>
    { [fc] y = Gemm<transB = 1>(x, w) })");
  const Model quantized = FromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2] x) => (float[N,2] y)
    <float[2,2] w_decoded = {1, 2, 3, 3}>
    { t = Transpose<perm = [1, 0]>(w_decoded)  [fc] y = MatMul(x, t) })");
  ThreadPool pool(1);
  std::vector<LayerReport> reports;
  std::vector<TensorReport> tensors;
  DescribeLayers(reference, quantized, FindLayers(reference, quantized), {}, pool, reports,
                 tensors);
  ASSERT_EQ(reports.size(), 1);
  ASSERT_EQ(reports[0].weights.size(), 1);
  EXPECT_DOUBLE_EQ(reports[0].weights[0].noise.value(), 1.0 / 30);
}

TEST(Html, HoldsTheDataAsTextOnly) {
  Report report;
  report.model = "<b>&.onnx";
  report.layers.emplace_back().node = "</script><script>alert(1)</script>";
  report.layers.back().weights = {{"w", 0.01}, {"v", 0.0}, {"u", std::nullopt}};
  report.notes = {"{{script}} stays as it is"};
  const std::string html = ToHtml(report);
  EXPECT_THAT(html, HasSubstr("<title>&lt;b>&amp;.onnx: Bitpress report</title>"));
  EXPECT_THAT(html, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(html, HasSubstr("{{script}} stays as it is"));
  const auto weights = ToJson(report)["layers"][0]["weights"];
  EXPECT_NEAR(weights[0]["sqnr_db"].get<double>(), 20, 1e-12);
  EXPECT_EQ(weights[1]["sqnr_db"], "identical");
  EXPECT_TRUE(weights[2]["sqnr_db"].is_null());
}

}  // namespace
}  // namespace bitpress::report
