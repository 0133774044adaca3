#include "deploy/check_process.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/available_memory.h"
#include "base/byte_stream.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/fields_json.h"
#include "base/messages.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/text.h"
#include "base/version.h"
#include "runtime/ort_library.h"

namespace bitpress::deploy {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kRequest = "request.json";
constexpr const char* kSamples = "samples";
constexpr const char* kAnswer = "answer.json";
constexpr const char* kStage = "stage.txt";
constexpr const char* kLog = "log.txt";

// Returns the content of a file in one line; "" if there is no such file.
std::string TextIn(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) ? OneLine(ReadFile(path)) : "";
}

std::string Dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

// Writes a file that the other process reads.
void Tell(const fs::path& path, std::string_view content) {
  WriteFile(path, content, Durability::kForReaders);
}

void TellSamples(const fs::path& path, const std::vector<std::vector<Tensor>>& samples) {
  ByteWriter writer;
  writer.Number<uint64_t>(samples.size());
  for (const std::vector<Tensor>& sample : samples) {
    writer.Number<uint64_t>(sample.size());
    for (const Tensor& tensor : sample) {
      writer.Number<uint64_t>(static_cast<uint64_t>(tensor.type));
      writer.Number<uint64_t>(tensor.dims.size());
      for (const int64_t dim : tensor.dims) writer.Number(dim);
      writer.Number<uint64_t>(tensor.bytes.size());
      writer.bytes().append(reinterpret_cast<const char*>(tensor.bytes.data()),
                            tensor.bytes.size());
    }
  }
  Tell(path, writer.bytes());
}

std::vector<std::vector<Tensor>> SamplesIn(const fs::path& path) {
  const std::string content = ReadFile(path);
  ByteReader reader(content, "samples of a check");
  std::vector<std::vector<Tensor>> samples(reader.Number<uint64_t>());
  for (std::vector<Tensor>& sample : samples) {
    sample.resize(reader.Number<uint64_t>());
    for (Tensor& tensor : sample) {
      tensor.type = static_cast<DataType>(reader.Number<uint64_t>());
      tensor.dims.resize(reader.Number<uint64_t>());
      for (int64_t& dim : tensor.dims) dim = reader.Number<int64_t>();
      const std::string_view bytes = reader.Take(reader.Number<uint64_t>());
      const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
      tensor.bytes.assign(first, first + bytes.size());
    }
  }
  return samples;
}

// Returns what the child said before it ended, which may be long: the end of it.
std::string LastWords(const fs::path& folder) {
  constexpr size_t kMost = 600;
  const std::string text = TextIn(folder / kLog);
  if (text.empty()) return "";
  if (text.size() <= kMost) return fmt::format(": {}", text);
  return fmt::format(": ...{}", std::string_view(text).substr(text.size() - kMost));
}

// Returns the outcome of a child that ended without an answer. Throws Error(kRuntime) if the user
// ended it.
CheckOutcome WithoutAnswer(const ChildEnd& end, const fs::path& folder) {
  if (end.kind == ChildEnd::Kind::kKill) {
    return {std::nullopt,
            "the system or a user ended the check with signal 9; the system does so when memory is "
            "short"};
  }
  if (end.kind == ChildEnd::Kind::kInterrupt) {
    Fail(ErrorCode::kRuntime, "the check was interrupted by {}", end.how);
  }
  const std::string stage = TextIn(folder / kStage);
  TargetReport report;
  report.runtime = "ONNX Runtime";
  report.crash = end.how;
  report.error =
      fmt::format("{} ended with {}{}", stage.empty() ? "the process that checks" : stage,
                  report.crash, LastWords(folder));
  return {std::move(report), ""};
}

// Returns whether the text is about an allocation that failed. ONNX Runtime has no code for it.
bool IsLackOfMemory(std::string_view error) {
  constexpr std::array<std::string_view, 4> kWords{"bad_alloc", "Failed to allocate memory",
                                                   "bad allocation", "not enough memory"};
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return error.find(word) != std::string_view::npos; });
}

Json Answer(const fs::path& folder, const Json& request) {
  const auto memory = AvailableMemory();
  if (memory) LimitMemory(*memory);
  const std::vector<std::vector<Tensor>> samples = SamplesIn(folder / kSamples);
  for (const Json& path : request.at("operator_libraries")) {
    runtime::UseOperatorLibrary(PathOf(path.get<std::string>()));
  }
  CheckTargetOptions options;
  options.is_described = request.at("is_described").get<bool>();
  options.are_made_up = request.at("are_made_up").get<bool>();
  options.given = PathOf(request.at("given").get<std::string>());
  options.wanted_db = request.at("wanted_db").get<double>();
  options.on_checked = [&](const TargetReport& report) {
    Tell(folder / kAnswer, Dump(FieldsToJson(report, NonFinite::kText)));
  };
  options.on_stage = [&](std::string_view stage) { Tell(folder / kStage, stage); };
  try {
    const TargetReport report =
        CheckTarget(PathOf(request.at("model").get<std::string>()), samples, options);
    if (!memory || !IsLackOfMemory(report.error)) return FieldsToJson(report, NonFinite::kText);
  } catch (const std::bad_alloc&) {
  }
  return {{"why_not", fmt::format("the check needs more memory than the {} that are free",
                                  HumanBytes(memory.value_or(0)))}};
}

}  // namespace

CheckOutcome CheckInSubprocess(const CheckRequest& request) {
  const fs::path program = runtime::FindProgram();
  if (program.empty()) {
    return {std::nullopt,
            "the program 'bitpress', which runs the check in a process of its own, is neither "
            "beside this library or program nor in ../bin of it; install it there"};
  }
  const auto memory = AvailableMemory();
  if (memory && request.num_bytes > *memory) {
    return {std::nullopt, fmt::format("the model has {}, and {} of memory are free",
                                      HumanBytes(request.num_bytes), HumanBytes(*memory))};
  }
  const ScratchFolder folder;
  std::vector<std::string> libraries;
  for (const fs::path& path : runtime::UsedOperatorLibraries()) libraries.push_back(PathText(path));
  Tell(folder.path() / kRequest, Dump({{"version", Version()},
                                       {"parent", ProcessNumber()},
                                       {"model", PathText(request.model)},
                                       {"given", PathText(request.given)},
                                       {"wanted_db", request.wanted_db},
                                       {"operator_libraries", libraries},
                                       {"are_made_up", request.are_made_up},
                                       {"is_described", request.is_described}}));
  TellSamples(folder.path() / kSamples, request.samples);
  std::vector<std::pair<std::string, std::string>> environment;
  if (const fs::path library = runtime::ChosenOrtLibrary(); !library.empty()) {
    environment.emplace_back("BITPRESS_ONNXRUNTIME", PathText(library));
  }
  const ChildEnd end =
      RunProgram(program, {kCheckWord, PathText(folder.path())}, environment, folder.path() / kLog);
  std::error_code error;
  if (!fs::exists(folder.path() / kAnswer, error)) return WithoutAnswer(end, folder.path());
  const Json answer = Json::parse(ReadFile(folder.path() / kAnswer));
  if (answer.contains("why_not")) return {std::nullopt, answer["why_not"].get<std::string>()};
  return {FieldsFromJson<TargetReport>(answer), ""};
}

void AnswerCheck(const fs::path& folder) {
  const Json request = Json::parse(ReadFile(folder / kRequest), nullptr, false);
  if (!request.is_object() || request.value("version", "") != Version()) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' holds no request of Bitpress {}; the program and the library that starts it must be "
         "of one version",
         PathText(folder), Version());
  }
  EndWithParent(request.at("parent").get<int64_t>());
  Json answer;
  try {
    answer = Answer(folder, request);
  } catch (const Error& error) {
    // The model is not to blame: ONNX Runtime is not found, or the disk is full.
    answer = {{"why_not", error.what()}};
  }
  Tell(folder / kAnswer, Dump(answer));
}

}  // namespace bitpress::deploy
