#include "runtime/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "runtime/ort_library.h"
#include "runtime/test_support.h"

namespace bitpress::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor Floats(std::vector<int64_t> dims, std::vector<float> values) {
  return MakeTensor(DataType::kFloat, std::move(dims), values);
}

Tensor Int64s(std::vector<int64_t> dims, std::vector<int64_t> values) {
  return MakeTensor(DataType::kInt64, std::move(dims), values);
}

TEST(OrtLibrary, IsFoundAndNamesItself) {
  EXPECT_THAT(OrtVersion(), testing::StartsWith("1."));
  EXPECT_TRUE(std::filesystem::exists(OrtLibraryPath())) << OrtLibraryPath();
}

#ifndef _WIN32  // ONNX Runtime for Windows reports to the system, not in files of the user
TEST(OrtLibraryDeathTest, WritesNoUsageData) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TemporaryFolder home;
  EXPECT_EXIT(
      {
        // The child runs the test anew, with a folder of its own.
        setenv("HOME", home.path().c_str(), 1);
        setenv("XDG_CACHE_HOME", home.path().c_str(), 1);
        unsetenv("ORT_DISABLE_TELEMETRY");
        char** const before = environ;
        { const Session session(TestModel("affine.onnx")); }
        if (environ != before || getenv("ORT_DISABLE_TELEMETRY") != nullptr) std::_Exit(5);
        std::_Exit(std::filesystem::is_empty(home.path()) ? 0 : 4);
      },
      testing::ExitedWithCode(0), "");
}
#endif

TEST(OrtLibrary, CannotBeChangedOnceOpen) {
  OrtVersion();
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [] { SetOrtLibraryPath("/elsewhere/libonnxruntime.so.1"); }),
              HasSubstr("/elsewhere/libonnxruntime.so.1"));
  SetOrtLibraryPath(OrtLibraryPath());  // the same one is fine
}

// Each test runs in a process of its own, because the library is opened once.
void OpenAndExit(const char* path) {
  try {
    SetOrtLibraryPath(path);
    OrtVersion();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", std::string(ErrorCodeName(error.code())).c_str(),
                 error.what());
    std::_Exit(3);
  }
  std::_Exit(0);
}

TEST(OrtLibraryDeathTest, GivenPathIsTheOnlyOneTried) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      OpenAndExit("/no/such/libonnxruntime.so.1"), testing::ExitedWithCode(3),
      testing::AllOf(testing::StartsWith("runtime: "),
                     testing::EndsWith("Tried:\n  /no/such/libonnxruntime.so.1: no such file\n")));
}

TEST(OrtLibraryDeathTest, OtherLibraryIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
#ifdef _WIN32
  const char* const other = "kernel32.dll";
#else
  const char* const other = "libm.so.6";
#endif
  EXPECT_EXIT(OpenAndExit(other), testing::ExitedWithCode(3), "it is not ONNX Runtime");
}

TEST(OrtLibraryDeathTest, OldLibraryIsNamedWithBothVersions) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(OpenAndExit(BITPRESS_FAKE_OLD_ORT), testing::ExitedWithCode(3),
              "it is ONNX Runtime 1.5.2, but 1.+ or later is needed");
}

// A session that was never opened has nothing to release.
TEST(OrtLibraryDeathTest, SessionWithoutLibraryIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto open_session = [] {
    try {
      SetOrtLibraryPath("/no/such/libonnxruntime.so.1");
      const Session session(TestModel("affine.onnx"));
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(open_session(), testing::ExitedWithCode(3), "/no/such/libonnxruntime.so.1");
}

TEST(Session, DescribesInputsAndOutputs) {
  const Session session(TestModel("affine.onnx"));
  ASSERT_EQ(session.inputs().size(), 2u);
  EXPECT_EQ(session.inputs()[0].name, "x");
  EXPECT_EQ(session.inputs()[0].type, DataType::kFloat);
  EXPECT_THAT(session.inputs()[0].dims, ElementsAre(-1, 3));
  EXPECT_EQ(session.inputs()[1].name, "k");
  EXPECT_EQ(session.inputs()[1].type, DataType::kInt64);
  EXPECT_THAT(session.inputs()[1].dims, ElementsAre(1));
  ASSERT_EQ(session.outputs().size(), 1u);
  EXPECT_EQ(session.outputs()[0].name, "y");
  EXPECT_THAT(session.outputs()[0].dims, ElementsAre(-1, 2));
}

TEST(Session, RunsAtEveryOptimizationLevel) {
  for (const Optimization level : {Optimization::kNone, Optimization::kBasic, Optimization::kAll}) {
    Session session(TestModel("affine.onnx"), {.optimization = level});
    const std::vector<Tensor> outputs =
        session.Run({Floats({2, 3}, {1, 0, 0, 1, 1, 1}), Int64s({1}, {10})});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(outputs[0].type, DataType::kFloat);
    EXPECT_THAT(outputs[0].dims, ElementsAre(2, 2));
    EXPECT_THAT(outputs[0].values<float>(), ElementsAre(11, 12, 19, 22));
  }
}

TEST(Session, TakesBatchesOfAnySizeAndNone) {
  Session session(TestModel("affine.onnx"));
  for (const int64_t num_rows : {1, 5, 0}) {
    const std::vector<float> ones(static_cast<size_t>(num_rows) * 3, 1.0f);
    const Tensor y = session.Run({Floats({num_rows, 3}, ones), Int64s({1}, {0})})[0];
    EXPECT_THAT(y.dims, ElementsAre(num_rows, 2));
    EXPECT_EQ(y.values<float>().size(), static_cast<size_t>(num_rows) * 2);
  }
}

TEST(Session, LoadsFromMemoryAndMoves) {
  std::string bytes = ReadFile(TestModel("affine.onnx"));
  Session first = Session::FromMemory(bytes);
  bytes.assign(bytes.size(), 'x');  // not needed any more
  Session second = std::move(first);
  EXPECT_THAT(second.Run({Floats({1, 3}, {1, 1, 1}), Int64s({1}, {-9})})[0].values<float>(),
              ElementsAre(0, 3));
}

struct TypeCase {
  DataType type;
  uint64_t code_of_one;
};

TEST(Session, MapsEveryElementTypeBothWays) {
  const std::vector<TypeCase> cases = {{DataType::kUInt8, 1},
                                       {DataType::kInt8, 1},
                                       {DataType::kUInt16, 1},
                                       {DataType::kInt16, 1},
                                       {DataType::kInt32, 1},
                                       {DataType::kInt64, 1},
                                       {DataType::kBool, 1},
                                       {DataType::kFloat16, 0x3C00},
                                       {DataType::kDouble, 0x3FF0000000000000},
                                       {DataType::kUInt32, 1},
                                       {DataType::kUInt64, 1},
                                       {DataType::kBFloat16, 0x3F80},
                                       {DataType::kFloat8E4M3FN, 0x38},
                                       {DataType::kFloat8E4M3FNUZ, 0x40},
                                       {DataType::kFloat8E5M2, 0x3C},
                                       {DataType::kFloat8E5M2FNUZ, 0x40},
                                       {DataType::kUInt4, 1},
                                       {DataType::kInt4, 1},
                                       {DataType::kFloat8E8M0, 127},
                                       {DataType::kUInt2, 1},
                                       {DataType::kInt2, 1}};
  Session session(TestModel("types.onnx"));
  ASSERT_EQ(session.inputs().size(), cases.size() + 1);
  const std::vector<float> x = {1, 0, 1, 1, 0};
  std::vector<Tensor> inputs = {Floats({5}, x)};
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(session.inputs()[i + 1].name, DataTypeName(cases[i].type));
    EXPECT_EQ(session.inputs()[i + 1].type, cases[i].type);
    // The codes of 1 0 1 1 0, packed from the low bits up.
    const size_t bits = ElementBits(cases[i].type);
    Tensor codes{.type = cases[i].type, .dims = {5}, .bytes = {}};
    codes.bytes.resize((5 * bits + 7) / 8);
    for (size_t j = 0; j < 5; ++j) {
      if (x[j] == 0) continue;
      for (size_t bit = 0; bit < bits; ++bit) {
        const size_t position = j * bits + bit;
        if ((cases[i].code_of_one >> bit) & 1) {
          codes.bytes[position / 8] |= std::byte{1} << (position % 8);
        }
      }
    }
    inputs.push_back(std::move(codes));
  }
  const std::vector<Tensor> outputs = session.Run(inputs);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(DataTypeName(cases[i].type));
    for (size_t j = 0; j < 5; ++j) {
      EXPECT_NEAR(outputs[2 * i].values<float>()[j], x[j], 1e-30);  // E8M0 has no 0, but 2^-127
    }
    EXPECT_EQ(outputs[2 * i + 1].type, cases[i].type);
    EXPECT_EQ(outputs[2 * i + 1].bytes, inputs[i + 1].bytes);
  }
}

TEST(SessionError, WrongNumberOfInputs) {
  Session session(TestModel("affine.onnx"));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] {
                            session.Run({Floats({1, 3}, {1, 2, 3})});
                          }),
              HasSubstr("has 2 inputs, but 1 were given"));
}

TEST(SessionError, WrongType) {
  Session session(TestModel("affine.onnx"));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] {
                            session.Run({Int64s({1, 3}, {1, 2, 3}), Int64s({1}, {0})});
                          }),
              HasSubstr("input 'x' is INT64, expected FLOAT"));
}

TEST(SessionError, WrongShape) {
  Session session(TestModel("affine.onnx"));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] {
                            session.Run({Floats({1, 2}, {1, 2}), Int64s({1}, {0})});
                          }),
              HasSubstr("input 'x' has shape [1, 2], expected [?, 3]"));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] {
                            session.Run({Floats({3}, {1, 2, 3}), Int64s({1}, {0})});
                          }),
              HasSubstr("input 'x' has shape [3], expected [?, 3]"));
}

TEST(SessionError, TooFewBytes) {
  Session session(TestModel("affine.onnx"));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] {
                            session.Run({Floats({1, 3}, {1, 2}), Int64s({1}, {0})});
                          }),
              HasSubstr("input 'x' holds 8 bytes, expected 12"));
}

TEST(SessionError, Strings) {
  Session session(TestModel("strings.onnx"));
  EXPECT_EQ(session.inputs()[0].type, DataType::kString);
  Tensor text{.type = DataType::kString, .dims = {1}, .bytes = {}};
  EXPECT_THAT(ExpectError(ErrorCode::kUnsupported, [&] { session.Run({text}); }),
              HasSubstr("input 'x' is not a tensor of numbers"));
}

// Nothing measures such outputs, but the others of the model count.
TEST(Session, OutputsThatAreNoNumbersComeWithoutBytes) {
  const graph::Model model = graph::Model::Parse(ReadFile(TestModel("other_outputs.onnx")));
  Session session = Session::FromMemory(model.Serialize());
  const std::vector<Tensor> outputs = session.Run({Floats({2}, {-1, 2})});
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_THAT(outputs[0].values<float>(), testing::ElementsAre(0, 2));
  EXPECT_EQ(outputs[1].type, DataType::kUndefined) << "a sequence";
  EXPECT_EQ(outputs[2].type, DataType::kString);
  EXPECT_THAT(outputs[2].dims, testing::ElementsAre(2));
  EXPECT_TRUE(outputs[1].bytes.empty() && outputs[2].bytes.empty());
}

TEST(SessionError, MissingFileAndFolder) {
  TemporaryFolder folder;
  EXPECT_THAT(ExpectError(ErrorCode::kIo, [&] { Session(folder / "no.onnx"); }),
              HasSubstr("no.onnx' not found"));
  EXPECT_THAT(ExpectError(ErrorCode::kIo, [&] { Session session(folder.path()); }),
              HasSubstr("is a folder"));
}

TEST(SessionError, DamagedFilesAreInvalidModels) {
  TemporaryFolder folder;
  const std::string whole = ReadFile(TestModel("clean_up.onnx"));
  const std::vector<std::string> contents = {"", "not a model", whole.substr(0, 100),
                                             whole.substr(0, whole.size() - 1)};
  for (const std::string& content : contents) {
    WriteBytes(folder / "m.onnx", content);
    EXPECT_THAT(ExpectError(ErrorCode::kInvalidModel, [&] { Session(folder / "m.onnx"); }),
                HasSubstr("m.onnx: "));
  }
}

// A session takes some time, and so these are a part of the whole tests alone.
TEST(WholeSessionError, NeverCrashesOnFlippedBytes) {
  const std::string whole = ReadFile(TestModel("clean_up.onnx"));
  size_t num_refused = 0;
  for (size_t i = 0; i < whole.size(); i += 7) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x15);
    try {
      const Session session = Session::FromMemory(damaged, {.num_threads = 1});
    } catch (const Error&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 10u);
}

TEST(SessionError, UnknownOperatorIsNamedAndNothingIsPrinted) {
  testing::internal::CaptureStderr();
  const std::string message =
      ExpectError(ErrorCode::kRuntime, [] { Session(TestModel("unknown_operator.onnx")); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(message, HasSubstr("unknown_operator.onnx: there is no operator "
                                 "no.such.domain:Mystery, needed by Mystery 'mystery_node'; name "
                                 "the library that has it with option 'operator_library"));
  const std::string bytes = ReadFile(TestModel("unknown_operator.onnx"));
  EXPECT_THAT(ExpectError(ErrorCode::kRuntime, [&] { Session::FromMemory(bytes); }),
              HasSubstr("needed by Mystery 'mystery_node'"));
}

TEST(SessionError, OperatorMissingFromTheLibraryIsNamed) {
  // The fake library also is an operator library, of no operators.
  EXPECT_THAT(ExpectError(ErrorCode::kRuntime,
                          [] {
                            Session session(TestModel("quark_operator.onnx"),
                                            {.operator_library = BITPRESS_FAKE_OLD_ORT});
                          }),
              testing::AllOf(HasSubstr("no operator com.amd.quark:MXQuantizeDequantize, needed by "
                                       "MXQuantizeDequantize 'quantize_h'; '"),
                             HasSubstr(BITPRESS_FAKE_OLD_ORT "' does not have it")));
}

TEST(SessionError, OperatorLibrary) {
  TemporaryFolder folder;
  EXPECT_THAT(ExpectError(ErrorCode::kIo,
                          [&] {
                            Session session(TestModel("affine.onnx"),
                                            {.operator_library = folder / "ops.so"});
                          }),
              HasSubstr("ops.so' not found"));
  WriteBytes(folder / "ops.so", "no library");
  EXPECT_THAT(ExpectError(ErrorCode::kRuntime,
                          [&] {
                            Session session(TestModel("affine.onnx"),
                                            {.operator_library = folder / "ops.so"});
                          }),
              HasSubstr("ops.so' cannot be loaded"));
}

TEST(SessionError, NumbersOfThreadsThatAreNone) {
  EXPECT_EQ(SessionThreads(0), 0);
  EXPECT_EQ(SessionThreads(1024), 1024);
  // The first number was -1 in a caller's int. The others are 0 and 1 if they are cut to 32 bits.
  for (const size_t number : {~size_t{0}, size_t{1} << 32, (size_t{1} << 32) + 1}) {
    EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { SessionThreads(number); }),
                HasSubstr("threads are too many"));
  }
}

TEST(SessionError, NegativeThreads) {
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [] { Session session(TestModel("affine.onnx"), {.num_threads = -1}); }),
              HasSubstr("number of threads is -1"));
}

TEST(Session, WholeNetworkGivesTheSameOnAnyNumberOfThreads) {
  const std::filesystem::path model =
      std::filesystem::path(BITPRESS_SHARED_DIR) / "models" / "efficientnet_lite0.onnx";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "no " << model;
  const Tensor input = MakeNoise({2, 3, 224, 224});
  std::vector<Tensor> results;
  for (const int num_threads : {1, 2, 5}) {
    Session session(model, {.num_threads = num_threads});
    std::vector<Tensor> outputs = session.Run({input});
    ASSERT_EQ(outputs.size(), 1u);
    ASSERT_THAT(outputs[0].dims, ElementsAre(2, 1000));
    results.push_back(std::move(outputs[0]));
  }
  EXPECT_EQ(results[1].bytes, results[0].bytes);
  EXPECT_EQ(results[2].bytes, results[0].bytes);
  float largest = 0;
  for (const float logit : results[0].values<float>()) largest = std::max(largest, std::abs(logit));
  EXPECT_GT(largest, 1.0f);
  EXPECT_LT(largest, 100.0f);
}

}  // namespace
}  // namespace bitpress::runtime
