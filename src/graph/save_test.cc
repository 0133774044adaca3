// Tests of writing: nothing is lost, nothing half-written is left.
#include <numeric>

#include "base/atomic_file.h"
#include "graph/model_impl.h"
#include "graph/staged_model.h"
#include "graph/stored_bytes.h"
#include "graph/test_models.h"
#include "onnx/checker.h"

namespace bitpress::graph {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Returns a model with everything that it may carry besides its graph.
onnx::ModelProto RichProto() {
  onnx::ModelProto proto = ProtoFromText(R"(<ir_version: 10, opset_import: ["" : 21, "local" : 1],
    producer_name: "exporter", model_version: 7, metadata_props: ["who": "me"]>
  agraph (float[N,4] x) => (float[N,4] y)
  <float[4] w = {1.0, 2.0, 3.0, 4.0}, float[2000] big, float[70000] huge, float[N,4] h>
  {
    h = Mul(x, w)
    [sum] s = ReduceSum <keepdims = 0> (big)
    [sum2] s2 = ReduceSum <keepdims = 0> (huge)
    m = Add(h, s)
    n = Add(m, s2)
    y = local.Twice <by = 2> (n)
  }
  <domain: "local", opset_import: ["" : 21]>
  Twice <by> (a) => (b) { b = Add(a, a) })");
  onnx::GraphProto& graph = *proto.mutable_graph();
  // The text above declares a name with a type and no values. The data follow here.
  const auto declared = graph.value_info();
  graph.clear_value_info();
  for (const auto& info : declared) {
    if (info.name() == "h") *graph.add_value_info() = info;
  }
  for (const auto& [name, count] : {std::pair{"big", 2000}, std::pair{"huge", 70000}}) {
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(count);
    tensor.set_doc_string(std::string("about ") + name);
    std::vector<float> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0.0f);
    tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  }
  graph.set_doc_string("graph text");
  auto* node_metadata = graph.mutable_node(0)->add_metadata_props();
  node_metadata->set_key("layer");
  node_metadata->set_value("one");
  return proto;
}

// Returns the model as it is read back, with raw data instead of typed fields.
onnx::ModelProto Normalized(onnx::ModelProto proto) {
  onnx::TensorProto& w = *proto.mutable_graph()->mutable_initializer(0);
  w.set_raw_data(w.float_data().data(), static_cast<size_t>(w.float_data_size()) * sizeof(float));
  w.clear_float_data();
  return proto;
}

TEST(Save, EverythingSurvives) {
  const TemporaryFolder folder;
  const onnx::ModelProto proto = RichProto();
  const Model model = FromProto(proto);
  const std::string expected = Normalized(proto).SerializeAsString();
  EXPECT_EQ(ToProto(model).SerializeAsString(), expected);
  for (const ExternalData external : {ExternalData::kIfNeeded, ExternalData::kAlways}) {
    const fs::path path =
        folder / (external == ExternalData::kAlways ? "external.onnx" : "inside.onnx");
    model.Save(path, external);
    EXPECT_EQ(ToProto(Model::Load(path)).SerializeAsString(), expected);
    EXPECT_NO_THROW(onnx::checker::check_model(path.string(), /*full_check=*/true));
  }
  EXPECT_THAT(folder.Files(),
              UnorderedElementsAre("inside.onnx", "external.onnx", "external.onnx.data"));
}

TEST(Save, ExternalDataIsAlignedAndSmallTensorsStay) {
  const TemporaryFolder folder;
  FromProto(RichProto()).Save(folder / "m.onnx", ExternalData::kAlways);
  std::ifstream file(folder / "m.onnx", std::ios::binary);
  onnx::ModelProto proto;
  ASSERT_TRUE(proto.ParseFromIstream(&file));
  const auto& tensors = proto.graph().initializer();
  EXPECT_EQ(tensors[0].raw_data().size(), 16);
  std::vector<std::string> entries;
  for (const int i : {1, 2}) {
    for (const auto& entry : tensors[i].external_data()) {
      entries.push_back(entry.key() + "=" + entry.value());
    }
  }
  EXPECT_THAT(entries, ElementsAre("location=m.onnx.data", "offset=0", "length=8000",
                                   "location=m.onnx.data", "offset=8192", "length=280000"));
  EXPECT_EQ(fs::file_size(folder / "m.onnx.data"), 288192);
}

TEST(Save, OverTheFilesThatAreMapped) {
  const TemporaryFolder folder;
  const fs::path path = folder / "m.onnx";
  const Model original = FromProto(RichProto());
  const std::string expected = original.Serialize();
  original.Save(path, ExternalData::kAlways);
  Model model = Model::Load(path);
  model.Save(path, ExternalData::kAlways);
  EXPECT_EQ(model.Serialize(), expected) << "the old mapping is still whole";
  model.SetInitializer("big", Tensor{DataType::kFloat, {1}, BytesOf<float>({1})});
  model.Save(path, ExternalData::kAlways);
  EXPECT_EQ(Model::Load(path).Initializer("huge").values<float>()[69999], 69999);
  model.Save(path, ExternalData::kIfNeeded);
  EXPECT_EQ(Model::Load(path).Initializer("big").values<float>().size(), 1);
}

TEST(Save, ModelsBeyondTheMessageLimitGoToExternalData) {
  const TemporaryFolder folder;
  Model model = FromProto(RichProto());
  ModelAccess::Impl(model).max_message_bytes = 10000;
  const Error error = ErrorOf([&] { static_cast<void>(model.Serialize()); });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("at most 10.00 kB"));
  model.Save(folder / "m.onnx");
  EXPECT_THAT(folder.Files(), UnorderedElementsAre("m.onnx", "m.onnx.data"));
  EXPECT_EQ(Model::Load(folder / "m.onnx").Initializer("big").values<float>()[1999], 1999);

  ModelAccess::Impl(model).max_message_bytes = 100;
  EXPECT_EQ(ErrorOf([&] { model.Save(folder / "n.onnx"); }).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(folder.Files().size(), 2);
}

TEST(Save, FailuresLeaveNoFileBehind) {
  const TemporaryFolder folder;
  const Model model = FromProto(RichProto());
  EXPECT_EQ(ErrorOf([&] { model.Save(folder / "no/such/folder/m.onnx"); }).code(), ErrorCode::kIo);
  fs::create_directories(folder / "taken.onnx/x");
  for (const ExternalData external : {ExternalData::kIfNeeded, ExternalData::kAlways}) {
    const Error error = ErrorOf([&] { model.Save(folder / "taken.onnx", external); });
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), HasSubstr("taken.onnx"));
    EXPECT_THAT(folder.Files(), ElementsAre("taken.onnx"));
  }
}

TEST(TensorProto, RawData) {
  const TemporaryFolder folder;
  const auto bytes = BytesOf<int16_t>({1, -2, 3, -4, 5, -6});
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::INT16);
  proto.add_dims(2);
  proto.add_dims(3);
  proto.set_raw_data(bytes.data(), bytes.size());
  WriteFile(folder / "t.pb", proto.SerializeAsString());
  const Tensor tensor = LoadTensorProto(folder / "t.pb");
  EXPECT_EQ(tensor.type, DataType::kInt16);
  EXPECT_THAT(tensor.dims, ElementsAre(2, 3));
  EXPECT_EQ(tensor.bytes, bytes);
}

TEST(TensorProto, TypedFieldsAndBadFiles) {
  const TemporaryFolder folder;
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::UINT8);
  proto.add_dims(2);
  proto.add_int32_data(1);
  proto.add_int32_data(255);
  const auto load = [&](const std::string& content) {
    WriteFile(folder / "t.pb", content);
    return LoadTensorProto(folder / "t.pb");
  };
  EXPECT_EQ(load(proto.SerializeAsString()).bytes, Bytes("\x01\xff"));
  proto.add_dims(3);
  const Error error = ErrorOf([&] { load(proto.SerializeAsString()); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("int32_data has 2 entries, but UINT8 [2, 3] takes 6"));
  EXPECT_EQ(ErrorOf([&] { load("no tensor"); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ErrorOf([&] { load(""); }).code(), ErrorCode::kInvalidArgument);
  proto.set_data_type(onnx::TensorProto::STRING);
  EXPECT_THAT(ErrorOf([&] { load(proto.SerializeAsString()); }).what(), HasSubstr("strings"));
  EXPECT_EQ(ErrorOf([&] { LoadTensorProto(folder / "none.pb"); }).code(), ErrorCode::kIo);
}

TEST(StagedModel, IsReadableAndLeavesNothingWithoutCommit) {
  for (const ExternalData external : {ExternalData::kIfNeeded, ExternalData::kAlways}) {
    const TemporaryFolder folder;
    const fs::path path = folder / "m.onnx";
    const Model model = FromProto(RichProto());
    WriteBytes(path, "an old file");
    uint64_t num_bytes = 0;
    {
      const StagedModel staged(model, path, external);
      EXPECT_FALSE(fs::exists(folder / "m.onnx.data")) << "a name of the output before Commit";
      EXPECT_EQ(Model::Load(staged.path()).Fingerprint(), model.Fingerprint());
      EXPECT_EQ(ReadFile(path), "an old file");
      num_bytes = staged.num_bytes();
    }
    EXPECT_THAT(folder.Files(), ElementsAre("m.onnx"));
    EXPECT_EQ(ReadFile(path), "an old file");
    StagedModel staged(model, path, external);
    staged.Commit();
    EXPECT_EQ(Model::Load(path).Fingerprint(), model.Fingerprint());
    EXPECT_EQ(StoredBytes(path), num_bytes);
  }
}

TEST(StagedModel, DataThatARenamedModelReadsStay) {
  const TemporaryFolder folder;
  const Model model = FromProto(RichProto());
  model.Save(folder / "m.onnx", ExternalData::kAlways);
  EXPECT_EQ(ReplacedDataFile(folder / "m.onnx"), folder / "m.onnx.data");
  fs::copy(folder / "m.onnx", folder / "old.onnx");
  EXPECT_EQ(ReplacedDataFile(folder / "m.onnx"), fs::path());
  model.Save(folder / "m.onnx", ExternalData::kAlways);
  EXPECT_EQ(Model::Load(folder / "old.onnx").Fingerprint(), model.Fingerprint());
  EXPECT_THAT(folder.Files(),
              UnorderedElementsAre("m.onnx", "old.onnx", "m.onnx.data", "m.onnx.1.data"));
  fs::remove(folder / "old.onnx");
  model.Save(folder / "m.onnx");
  EXPECT_THAT(folder.Files(), UnorderedElementsAre("m.onnx", "m.onnx.data"))
      << "only the data of the replaced model go";
}

}  // namespace
}  // namespace bitpress::graph
