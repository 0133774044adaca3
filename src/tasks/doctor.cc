#include "tasks/doctor.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/available_memory.h"
#include "base/error.h"
#include "base/fields_json.h"
#include "base/messages.h"
#include "base/paths.h"
#include "base/processors.h"
#include "base/text.h"
#include "base/version.h"
#include "base/words.h"
#include "kernels/cpu_target.h"
#include "runtime/ort_library.h"
#include "runtime/session.h"

namespace bitpress::tasks {
namespace {

using Kind = Finding::Kind;
namespace fs = std::filesystem;

// The instruction sets that our kernels or ONNX Runtime's make use of, as Linux names them.
constexpr std::array<std::string_view, 16> kInstructionSets{
    "sse4_2",      "avx2",     "fma",      "f16c",     "avx512f",     "avx512bw",
    "avx512_vnni", "avx_vnni", "amx_int8", "amx_bf16", "avx512_bf16", "asimd",
    "asimddp",     "i8mm",     "bf16",     "sve"};

// Returns the smallest model there is: y = Identity(x), [1] floats.
std::string SmallestModel() {
  const auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  const auto number = [](int field_number, int value) {
    return std::string{static_cast<char>(field_number << 3), static_cast<char>(value)};
  };
  // The fields are those of onnx.proto.
  const std::string type = field(1, number(1, 1) + field(2, field(1, number(1, 1))));
  const auto value = [&](const std::string& name) { return field(1, name) + field(2, type); };
  const std::string node = field(1, "x") + field(2, "y") + field(4, "Identity");
  const std::string graph =
      field(1, node) + field(2, "g") + field(11, value("x")) + field(12, value("y"));
  return number(1, 8) + field(7, graph) + field(8, number(2, 13));
}

// Returns "1.30" < "1.9" by the numbers of two versions.
bool IsOlder(std::string_view version, int major, int minor) {
  std::istringstream numbers{std::string(version)};
  int found_major = 0, found_minor = 0;
  char point = 0;
  if (!(numbers >> found_major >> point >> found_minor)) return false;
  return std::pair(found_major, found_minor) < std::pair(major, minor);
}

class Examination {
 public:
  DoctorReport Run() {
    report_.version = Version();
    report_.build = BuildDescription();
    ExamineProcessor();
    ExamineMemory();
    ExamineRuntime();
    return std::move(report_);
  }

 private:
  void Add(Kind kind, std::string text) { report_.findings.push_back({kind, std::move(text)}); }
  bool Has(std::string_view set) const {
    return std::ranges::find(report_.instruction_sets, set) != report_.instruction_sets.end();
  }

  void ExamineProcessor() {
    report_.processor = ProcessorName();
#if defined(__x86_64__)
    report_.architecture = "x86-64";
#elif defined(__aarch64__)
    report_.architecture = "aarch64";
#endif
    for (const std::string& set : InstructionSets()) {
      if (std::ranges::find(kInstructionSets, set) != kInstructionSets.end()) {
        report_.instruction_sets.push_back(set);
      }
    }
    report_.num_threads = UsableProcessors();
    report_.kernels = kernels::CurrentTarget();
    report_.supported_kernels = kernels::SupportedTargets();
    if (report_.kernels != report_.supported_kernels.front()) {
      Add(Kind::kWarning,
          fmt::format("BITPRESS_KERNELS makes our kernels use {}, and {} is the best "
                      "that this processor has: unset it",
                      report_.kernels, report_.supported_kernels.front()));
    } else if (report_.kernels == "PORTABLE") {
      Add(Kind::kWarning,
          "our kernels have no vectors on this processor, so that quantizing and "
          "our operators are several times slower");
    }
    if (kernels::AreTilesRefused()) {
      Add(Kind::kWarning,
          "the system does not let this process use the processor's tiles (AMX), so that products "
          "from codes take up to three times as long: Linux lets it since version 5.16, unless a "
          "container forbids arch_prctl; Bitpress does not use them on Windows yet");
    }
    const bool has_vnni = Has("avx512_vnni") || Has("avx_vnni");
    if (report_.architecture == "x86-64" && !has_vnni) {
      Add(Kind::kWarning,
          "the processor has no VNNI: integers of 8 bits are hardly faster than float here, and "
          "ONNX "
          "Runtime's products of uint8 and int8 saturate. The setting integer_kernels=safe, the "
          "default, keeps results right");
    }
  }

  void ExamineMemory() {
    constexpr uint64_t kLittle = 1'000'000'000;
    report_.available_memory = AvailableMemory();
    if (report_.available_memory && *report_.available_memory < kLittle) {
      Add(Kind::kWarning, fmt::format("only {} of memory are free: fine-tuning takes about 1.3 GB, "
                                      "and finetune_memory makes it take less",
                                      HumanBytes(*report_.available_memory)));
    }
    std::error_code error;
    report_.temporary_folder = fs::temp_directory_path(error);
    if (error) {
      Add(Kind::kProblem, "there is no folder for temporary files: set TMPDIR to one");
      return;
    }
    const fs::space_info space = fs::space(report_.temporary_folder, error);
    if (error) return;
    report_.temporary_bytes = space.available;
    if (space.available < kLittle) {
      Add(Kind::kWarning,
          fmt::format("only {} are free for temporary files in '{}': large models need about their "
                      "own size. TMPDIR names another folder",
                      HumanBytes(space.available), PathText(report_.temporary_folder)));
    }
  }

  void ExamineRuntime() {
    report_.operator_library = runtime::FindOperatorLibrary();
    if (report_.operator_library.empty()) {
      Add(Kind::kNote,
          runtime::OperatorLibraryName() +
              " is not beside the program or in ../lib: models run without our operators, in the "
              "same numbers, and often slower");
    }
    try {
      report_.ort_version = runtime::OrtVersion();
      report_.ort_library = runtime::OrtLibraryPath();
    } catch (const Error& error) {
      Add(Kind::kProblem, fmt::format("{}. Commands that run models fail", OneLine(error.what())));
      return;
    }
    try {
      runtime::Session session = runtime::Session::FromMemory(SmallestModel());
      session.Run({{DataType::kFloat, {1}, std::vector<std::byte>(sizeof(float))}});
      report_.runs_models = true;
    } catch (const Error& error) {
      Add(Kind::kProblem, fmt::format("ONNX Runtime does not run the smallest model{}: {}",
                                      report_.operator_library.empty() ? "" : " with our operators",
                                      OneLine(error.what())));
    }
    if (IsOlder(report_.ort_version, 1, 27)) {
      Add(Kind::kNote, "ONNX Runtime before 1.27 does not hold key-value caches of int8 and int4");
    }
  }

  DoctorReport report_;
};

}  // namespace

bool DoctorReport::has_problem() const {
  return std::ranges::any_of(findings,
                             [](const Finding& finding) { return finding.kind == Kind::kProblem; });
}

std::string_view KindName(Finding::Kind kind) { return WordOf<Finding::Kind>(kFindingWords, kind); }

DoctorReport Examine() { return Examination().Run(); }

nlohmann::ordered_json ToJson(const DoctorReport& report) {
  nlohmann::ordered_json json = VersionedJson("bitpress_doctor", report);
  json["onnxruntime"] = {{"version", report.ort_version},
                         {"library", PathText(report.ort_library)}};
  return json;
}

}  // namespace bitpress::tasks
