// Tests of tensors in files beside the model, which are read in place, and never outside its
// folder.
#include "graph/external_data.h"

#include <functional>
#include <numeric>

#include "base/test_system.h"
#include "graph/model_impl.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kCount = 3000;
constexpr size_t kBytes = kCount * sizeof(float);

std::vector<float> Ramp() {
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::string RampBytes() {
  const std::vector<float> values = Ramp();
  return {reinterpret_cast<const char*>(values.data()), kBytes};
}

using Entries = std::vector<std::pair<std::string, std::string>>;

void SetExternal(onnx::TensorProto& tensor, const Entries& entries) {
  tensor.clear_float_data();
  tensor.clear_raw_data();
  tensor.clear_external_data();
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

onnx::ModelProto WithWeight(const Entries& entries) {
  onnx::ModelProto proto = ProtoFromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    agraph (float[3000] x) => (float[3000] y) <float[1] w = {0.0}> { y = Mul(x, w) })");
  onnx::TensorProto& weight = *proto.mutable_graph()->mutable_initializer(0);
  weight.set_dims(0, kCount);
  SetExternal(weight, entries);
  return proto;
}

TEST(ExternalData, IsLookedAtInPlace) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "sub");
  WriteFile(folder / "sub/w.bin", std::string(64, 'x') + RampBytes() + "tail");
  const fs::path model_path = folder / "m.onnx";
  const std::vector<Entries> spellings{
      {{"location", "sub/w.bin"}, {"offset", "64"}, {"length", std::to_string(kBytes)}},
      {{"location", "sub/../sub/./w.bin"}, {"offset", "64"}},
      {{"offset", "64"}, {"checksum", "whatever"}, {"location", "sub/w.bin"}}};
  for (const Entries& entries : spellings) {
    WriteFile(model_path, WithWeight(entries).SerializeAsString());
    const Model model = Model::Load(model_path);
    EXPECT_THAT(model.Initializer("w").values<float>(), testing::ElementsAreArray(Ramp()));
  }
  WriteFile(model_path, WithWeight(spellings[0]).SerializeAsString());
  Model model = Model::Load(model_path);
  std::error_code error;
  fs::remove(folder / "sub/w.bin", error);  // Windows keeps a file that is mapped
  EXPECT_EQ(model.Clone().Initializer("w").values<float>()[2999], 3000) << "the mapping lives on";
  EXPECT_LT(ModelAccess::Impl(model).proto.ByteSizeLong(), 1000) << "not copied into the message";
  model.Check();
}

TEST(ExternalData, UnalignedOffsetsAreCopied) {
  const TemporaryFolder folder;
  WriteFile(folder / "w.bin", "abc" + RampBytes());
  const Model model =
      FromProto(WithWeight({{"location", "w.bin"}, {"offset", "3"}}), folder.path());
  const InitializerView view = model.Initializer("w");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view.bytes.data()) % alignof(float), 0);
  EXPECT_THAT(view.values<float>(), testing::ElementsAreArray(Ramp()));
}

TEST(ExternalData, LinksInsideTheFolderAreFollowed) {
  const TemporaryFolder folder;
  WriteFile(folder / "real.bin", RampBytes());
  if (!MakeLink("real.bin", folder / "link.bin")) GTEST_SKIP() << "no links are made here";
  EXPECT_EQ(FromProto(WithWeight({{"location", "link.bin"}}), folder.path())
                .Initializer("w")
                .bytes.size(),
            kBytes);
}

TEST(ExternalData, OfBodiesAndAttributesIsReadIn) {
  const TemporaryFolder folder;
  WriteFile(folder / "w.bin", RampBytes());
  onnx::ModelProto proto = ProtoFromText(R"(<ir_version: 8, opset_import: ["" : 17]>
    agraph (bool c) => (float[3000] y) {
      k = Constant <value = float[1] {0.0}> ()
      y = If (c) <then_branch = g1 () => (float[3000] t) <float[1] v = {0.0}> { t = Add(k, v) },
                  else_branch = g2 () => (float[3000] e) { e = Identity(k) }>
    })");
  auto& nodes = *proto.mutable_graph()->mutable_node();
  onnx::TensorProto& constant = *nodes[0].mutable_attribute(0)->mutable_t();
  onnx::TensorProto& inner = *nodes[1].mutable_attribute(0)->mutable_g()->mutable_initializer(0);
  for (onnx::TensorProto* tensor : {&constant, &inner}) {
    tensor->set_dims(0, kCount);
    SetExternal(*tensor, {{"location", "w.bin"}});
  }
  const Model model = FromProto(proto, folder.path());
  fs::remove(folder / "w.bin");
  const onnx::ModelProto saved = ToProto(model);
  EXPECT_EQ(saved.graph().node(0).attribute(0).t().raw_data(), RampBytes());
  EXPECT_EQ(saved.graph().node(1).attribute(0).g().initializer(0).raw_data(), RampBytes());
  WriteFile(folder / "w.bin", RampBytes());
  SetExternal(inner, {{"location", "../w.bin"}});
  EXPECT_EQ(ErrorOf([&] { FromProto(proto, folder.path()); }).code(), ErrorCode::kInvalidModel);
}

struct BadCase {
  const char* name;
  Entries entries;
  ErrorCode code;
  const char* message;
};
void PrintTo(const BadCase& bad, std::ostream* out) { *out << bad.name; }

class BadExternalData : public testing::TestWithParam<BadCase> {};

TEST_P(BadExternalData, IsRefused) {
  const TemporaryFolder outside;
  WriteFile(outside / "secret.bin", RampBytes());
  const fs::path folder = outside / "model";
  fs::create_directories(folder / "sub");
  WriteFile(folder / "w.bin", RampBytes());
  const bool has_links = MakeLink("../secret.bin", folder / "link.bin") &&
                         MakeLink("..", folder / "up") && MakeLink("loop.bin", folder / "loop.bin");
  if (!has_links && std::string_view(GetParam().name).starts_with("Link")) GTEST_SKIP();
  if (GetParam().name == std::string("Pipe") && !MakePipe(folder / "pipe")) GTEST_SKIP();
  Entries entries = GetParam().entries;
  for (auto& [key, value] : entries) {
    if (value == "ABSOLUTE") value = PathText(outside / "secret.bin");
  }
  WriteFile(folder / "m.onnx", WithWeight(entries).SerializeAsString());
  const Error error = ErrorOf([&] { Model::Load(folder / "m.onnx"); });
  EXPECT_EQ(error.code(), GetParam().code);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("m.onnx"), HasSubstr("'w'"), HasSubstr(GetParam().message)));
}

const std::string kLocation = "location";

INSTANTIATE_TEST_SUITE_P(
    ExternalData, BadExternalData,
    testing::Values(
        BadCase{"Absolute", {{kLocation, "ABSOLUTE"}}, ErrorCode::kInvalidModel, "relative path"},
        BadCase{
            "Parent", {{kLocation, "../secret.bin"}}, ErrorCode::kInvalidModel, "relative path"},
        BadCase{"HiddenParent",
                {{kLocation, "sub/../../secret.bin"}},
                ErrorCode::kInvalidModel,
                "relative path"},
        BadCase{"Link",
                {{kLocation, "link.bin"}},
                ErrorCode::kInvalidModel,
                "leaves the model's folder"},
        BadCase{"LinkedFolder",
                {{kLocation, "up/secret.bin"}},
                ErrorCode::kInvalidModel,
                "leaves the model's folder"},
        BadCase{"NoLocation", {{"offset", "0"}}, ErrorCode::kInvalidModel, "relative path"},
        BadCase{"EmptyLocation", {{kLocation, ""}}, ErrorCode::kInvalidModel, "relative path"},
        BadCase{"NulInLocation",
                {{kLocation, std::string("w.bin\0/../x", 11)}},
                ErrorCode::kInvalidModel,
                "relative path"},
        // Where these are opened on Windows is outside of the folder, or no file at all.
        BadCase{"WindowsParent",
                {{kLocation, R"(..\secret.bin)"}},
                ErrorCode::kInvalidModel,
                "relative path"},
        BadCase{"WindowsHiddenParent",
                {{kLocation, R"(sub/..\..\secret.bin)"}},
                ErrorCode::kInvalidModel,
                "relative path"},
        BadCase{"ParentWithSpace",
                {{kLocation, R"(.. \secret.bin)"}},
                ErrorCode::kInvalidModel,
                "relative path"},
        BadCase{"Drive", {{kLocation, "C:w.bin"}}, ErrorCode::kInvalidModel, "relative path"},
        BadCase{"DriveOfOneLetter",
                {{kLocation, "x:stream"}},
                ErrorCode::kInvalidModel,
                "relative path"},
        BadCase{
            "WholeDrive", {{kLocation, R"(C:\w.bin)"}}, ErrorCode::kInvalidModel, "relative path"},
        BadCase{"Share",
                {{kLocation, R"(\\server\share\w.bin)"}},
                ErrorCode::kInvalidModel,
                "relative path"},
        BadCase{"VerbatimPath",
                {{kLocation, R"(\\?\C:\w.bin)"}},
                ErrorCode::kInvalidModel,
                "relative path"},
        BadCase{"Device", {{kLocation, "NUL"}}, ErrorCode::kInvalidModel, "relative path"},
        BadCase{
            "DeviceInFolder", {{kLocation, "sub/com1"}}, ErrorCode::kInvalidModel, "relative path"},
        BadCase{"Missing", {{kLocation, "nix.bin"}}, ErrorCode::kIo, "No such file"},
        BadCase{"LinkLoop", {{kLocation, "loop.bin"}}, ErrorCode::kIo, "loop.bin"},
        BadCase{"Folder", {{kLocation, "sub"}}, ErrorCode::kIo, "not a regular file"},
        BadCase{"Pipe", {{kLocation, "pipe"}}, ErrorCode::kIo, "not a regular file"},
        BadCase{"OwnFolder", {{kLocation, "."}}, ErrorCode::kInvalidModel, "relative path"},
        BadCase{"NegativeOffset",
                {{kLocation, "w.bin"}, {"offset", "-4"}},
                ErrorCode::kInvalidModel,
                "offset of its external data is '-4'"},
        BadCase{"OffsetIsNoNumber",
                {{kLocation, "w.bin"}, {"offset", "4k"}},
                ErrorCode::kInvalidModel,
                "'4k'"},
        BadCase{"OffsetTooLarge",
                {{kLocation, "w.bin"}, {"offset", "18446744073709551615"}},
                ErrorCode::kInvalidModel,
                "which has only 12000 bytes"},
        BadCase{"OffsetOverflows",
                {{kLocation, "w.bin"}, {"offset", "99999999999999999999"}},
                ErrorCode::kInvalidModel,
                "expected a number"},
        BadCase{"BeyondTheFile",
                {{kLocation, "w.bin"}, {"offset", "4"}},
                ErrorCode::kInvalidModel,
                "12000 bytes at offset 4 of 'w.bin', which has only 12000 bytes"},
        BadCase{"WrongLength",
                {{kLocation, "w.bin"}, {"length", "11996"}},
                ErrorCode::kInvalidModel,
                "has 11996 bytes, but FLOAT [3000] takes 12000"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ExternalData, StubsOfOursInAFileAreNoData) {
  // This room's internal mark for data beside the message means nothing in a file.
  const TemporaryFolder folder;
  EXPECT_EQ(ErrorOf([&] {
              FromProto(WithWeight({{"location", kStubLocation}}), folder.path());
            }).code(),
            ErrorCode::kIo);
}

}  // namespace
}  // namespace bitpress::graph
