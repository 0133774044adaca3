// The task `doctor`: tells what Bitpress finds on this machine, and what of it will be slow or will
// not work. Use it when a command fails or is slower than expected, and in reports of errors.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/words.h"

namespace bitpress::tasks {

// Something that the user should know.
struct Finding {
  enum class Kind { kNote, kWarning, kProblem };  // a problem makes some commands fail
  Kind kind = Kind::kNote;
  std::string text;  // what it is, what follows, and what helps
};
inline constexpr std::array<std::pair<std::string_view, Finding::Kind>, 3> kFindingWords{
    {{"note", Finding::Kind::kNote},
     {"warning", Finding::Kind::kWarning},
     {"problem", Finding::Kind::kProblem}}};
constexpr Words<Finding::Kind> FieldWords(const Finding::Kind*) { return kFindingWords; }
constexpr auto FieldsOf(const Finding*) {
  return std::tuple(Field{"kind", &Finding::kind}, Field{"text", &Finding::text});
}

struct DoctorReport {
  std::string version;
  std::string build;         // compiler, and versions of the libraries that are linked
  std::string processor;     // name; "" if the system does not tell
  std::string architecture;  // "x86-64", "aarch64" or ""
  // Instruction sets that matter here and that the processor has, by the system's names.
  std::vector<std::string> instruction_sets;
  std::string kernels;                         // the target that our kernels run on
  std::vector<std::string> supported_kernels;  // the best first
  size_t num_threads = 0;                      // threads that commands use by default
  std::optional<uint64_t> available_memory;    // bytes
  std::filesystem::path temporary_folder;
  std::optional<uint64_t> temporary_bytes;  // that are free there
  std::filesystem::path ort_library;        // empty: not found
  std::string ort_version;
  std::filesystem::path operator_library;  // empty: not found
  bool runs_models = false;                // ONNX Runtime ran a small model with our operators
  std::vector<Finding> findings;

  bool has_problem() const;
};
constexpr auto FieldsOf(const DoctorReport*) {
  using Report = DoctorReport;
  return std::tuple(
      Field{"version", &Report::version}, Field{"build", &Report::build},
      Field{"processor", &Report::processor}, Field{"architecture", &Report::architecture},
      Field{"instruction_sets", &Report::instruction_sets}, Field{"kernels", &Report::kernels},
      Field{"supported_kernels", &Report::supported_kernels},
      Field{"threads", &Report::num_threads}, Field{"available_memory", &Report::available_memory},
      Field{"temporary_folder", &Report::temporary_folder},
      Field{"temporary_bytes", &Report::temporary_bytes},
      Field{"operator_library", &Report::operator_library},
      Field{"runs_models", &Report::runs_models}, Field{"findings", &Report::findings});
}

// Looks at this machine. It throws nothing for what is missing: that is a finding.
DoctorReport Examine();

// Returns the report as `doctor --json` writes it.
nlohmann::ordered_json ToJson(const DoctorReport& report);
// Returns "note", "warning" or "problem".
std::string_view KindName(Finding::Kind kind);

}  // namespace bitpress::tasks
