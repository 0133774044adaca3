#include "graph/model.h"
#include "graph/staged_model.h"
#include "graph/stored_bytes.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr const char* kDeferredModel = R"(
  <ir_version: 8, opset_import: ["" : 13]>
  agraph (float[N, K] x) => (float[N, 1] y) <float[1, 1] w = {1}, float[1] b = {1}> {
    z = MatMul(x, w)
    y = Add(z, b)
  })";

std::vector<Tensor> Weights(float first) {
  std::vector<float> values(2000, 7.0F);
  values[0] = first;
  return {{DataType::kFloat, {2000, 1}, BytesOf(values)},
          {DataType::kFloat, {1}, BytesOf<float>({first + 1})}};
}

const std::vector<DeferredTensor> kTensors = {{"w", DataType::kFloat, {2000, 1}},
                                              {"b", DataType::kFloat, {1}}};

TEST(Deferred, IsComputedOnceForEachWriting) {
  Model model = FromText(kDeferredModel);
  int num_runs = 0;
  model.DeferInitializers(kTensors, [&] {
    ++num_runs;
    return Weights(3);
  });
  EXPECT_TRUE(model.IsDeferred("w"));
  EXPECT_EQ(model.InfoOf("w").shape[0].value, 2000);
  EXPECT_THAT(ErrorOf([&] { model.Initializer("w"); }).what(),
              HasSubstr("when the model is written"));
  model.Check();
  const TemporaryFolder folder;
  const uint64_t num_bytes = model.Save(folder / "m.onnx");
  EXPECT_EQ(num_runs, 1);
  EXPECT_EQ(num_bytes, std::filesystem::file_size(folder / "m.onnx"));
  EXPECT_TRUE(Model::Load(folder / "m.onnx").Serialize() == model.Serialize());
  EXPECT_EQ(num_runs, 2);
  EXPECT_TRUE(model.Clone().Serialize() == model.Serialize());
  model.Materialize();
  EXPECT_FALSE(model.IsDeferred("w"));
  EXPECT_EQ(model.Initializer("w").values<float>()[0], 3);
  EXPECT_EQ(model.Initializer("b").values<float>()[0], 4);
  EXPECT_TRUE(Model::Load(folder / "m.onnx").Serialize() == model.Serialize());
}

TEST(Deferred, ExternalData) {
  Model model = FromText(kDeferredModel);
  model.DeferInitializers(kTensors, [] { return Weights(5); });
  const TemporaryFolder folder;
  const uint64_t num_bytes = model.Save(folder / "m.onnx", ExternalData::kAlways);
  EXPECT_EQ(num_bytes, std::filesystem::file_size(folder / "m.onnx") +
                           std::filesystem::file_size(folder / "m.onnx.data"));
  EXPECT_EQ(Model::Load(folder / "m.onnx").Initializer("w").values<float>()[0], 5);
}

TEST(Deferred, TheSizeIsKnownBeforeAnythingIsComputed) {
  Model model = FromText(kDeferredModel);
  int num_runs = 0;
  model.DeferInitializers(kTensors, [&] {
    ++num_runs;
    return Weights(5);
  });
  const TemporaryFolder folder;
  for (const ExternalData external : {ExternalData::kIfNeeded, ExternalData::kAlways}) {
    const std::filesystem::path path = folder / "sized.onnx";
    num_runs = 0;
    const uint64_t num_bytes = StagedModel::BytesOf(model, path, external);
    EXPECT_EQ(num_runs, 0);
    EXPECT_FALSE(std::filesystem::exists(path));
    model.Save(path, external);
    EXPECT_EQ(StoredBytes(path), num_bytes);
    std::filesystem::remove(path);
  }
}

TEST(Deferred, FailuresLeaveNoFile) {
  Model model = FromText(kDeferredModel);
  model.DeferInitializers(kTensors, []() -> std::vector<Tensor> {
    throw Error(ErrorCode::kInvalidModel, "weight 'w' holds NaN");
  });
  const TemporaryFolder folder;
  for (const ExternalData external : {ExternalData::kIfNeeded, ExternalData::kAlways}) {
    const Error error = ErrorOf([&] { model.Save(folder / "m.onnx", external); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_TRUE(folder.Files().empty());
  }
  model.DeferInitializers({kTensors[0]}, [] { return Weights(1); });
  EXPECT_THAT(ErrorOf([&] { model.Serialize(); }).what(), HasSubstr("declared type and shape"));
}

// A progress sink throws any exception to stop the work: Ctrl-C in Python is no Error.
TEST(Deferred, WhatAProducerThrowsLeavesUnchanged) {
  struct Stopped : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  Model model = FromText(kDeferredModel);
  const TemporaryFolder folder;
  model.DeferInitializers(kTensors, []() -> std::vector<Tensor> { throw Stopped("by hand"); });
  for (const ExternalData external : {ExternalData::kIfNeeded, ExternalData::kAlways}) {
    EXPECT_THROW(model.Save(folder / "m.onnx", external), Stopped);
    EXPECT_TRUE(folder.Files().empty());
  }
  EXPECT_THROW(static_cast<void>(model.Serialize()), Stopped);
  model.DeferInitializers(kTensors, []() -> std::vector<Tensor> { throw 7; });
  EXPECT_THROW(model.Save(folder / "m.onnx"), int);
  EXPECT_TRUE(folder.Files().empty());
}

// The code of an error tells a full disk from a model that cannot be.
TEST(Deferred, ErrorsKeepTheirCode) {
  Model model = FromText(kDeferredModel);
  const TemporaryFolder folder;
  for (const ErrorCode code : {ErrorCode::kIo, ErrorCode::kUnsupported, ErrorCode::kRuntime}) {
    model.DeferInitializers(kTensors,
                            [=]() -> std::vector<Tensor> { throw Error(code, "the reason"); });
    const Error error = ErrorOf([&] { model.Save(folder / "m.onnx"); });
    EXPECT_EQ(error.code(), code);
    EXPECT_STREQ(error.what(), "the reason");
  }
}

TEST(HoldInitializer, OutlivesTheModel) {
  for (const char* name : {"w", "b"}) {
    HeldInitializer held;
    {
      Model model = FromText(kDeferredModel);
      model.SetInitializer("w", Weights(9)[0]);
      held = model.HoldInitializer(name);
      model.SetInitializer(name, Tensor{DataType::kFloat, {1}, BytesOf<float>({0})});
    }
    float first = 0;
    std::memcpy(&first, held.bytes.data(), sizeof first);
    EXPECT_EQ(first, *name == 'w' ? 9 : 1);
  }
}

TEST(InitializerToInput, AndBack) {
  Model model = FromText(kDeferredModel);
  model.SetInitializer("w", Weights(9)[0]);
  const std::string before = model.Serialize();
  const HeldInitializer held = model.HoldInitializer("w");
  model.InitializerToInput("w");
  EXPECT_TRUE(model.IsInput("w"));
  EXPECT_FALSE(model.IsInitializer("w"));
  EXPECT_EQ(model.InfoOf("w").shape[0].value, 2000);
  EXPECT_EQ(model.Uses("w").size(), 1);
  model.Check();
  HeldInitializer other = held;
  other.dims = {1, 2000};
  EXPECT_EQ(ErrorOf([&] { model.InputToInitializer("w", other); }).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf([&] { model.InitializerToInput("x"); }).code(), ErrorCode::kInvalidArgument);
  model.InputToInitializer("w", held);
  model.Check();
  EXPECT_EQ(model.Initializer("w").bytes.data(), held.bytes.data()) << "nothing is copied";
  EXPECT_EQ(model.Serialize().size(), before.size());
}

// A model and its data are two files. The new data stand under another name until the model is
// replaced, so that a crash between the two leaves a whole pair.
TEST(Save, AnOldPairIsReplacedUnderAnotherName) {
  Model model = FromText(kDeferredModel);
  const TemporaryFolder folder;
  model.SetInitializer("w", Weights(1)[0]);
  model.Save(folder / "m.onnx", ExternalData::kAlways);
  EXPECT_THAT(folder.Files(), UnorderedElementsAre("m.onnx", "m.onnx.data"));
  model.SetInitializer("w", Weights(2)[0]);
  model.Save(folder / "m.onnx", ExternalData::kAlways);
  EXPECT_THAT(folder.Files(), UnorderedElementsAre("m.onnx", "m.onnx.1.data"));
  EXPECT_EQ(Model::Load(folder / "m.onnx").Initializer("w").values<float>()[0], 2);
  model.Save(folder / "m.onnx", ExternalData::kAlways);
  EXPECT_THAT(folder.Files(), UnorderedElementsAre("m.onnx", "m.onnx.data"));
  // A file of that name that belongs to nobody here is not touched.
  WriteFile(folder / "m.onnx.1.data", "mine");
  model.Save(folder / "m.onnx", ExternalData::kAlways);
  EXPECT_THAT(folder.Files(), UnorderedElementsAre("m.onnx", "m.onnx.1.data", "m.onnx.2.data"));
  model.Save(folder / "m.onnx", ExternalData::kIfNeeded);
  EXPECT_THAT(folder.Files(), UnorderedElementsAre("m.onnx", "m.onnx.1.data"));
}

}  // namespace
}  // namespace bitpress::graph
