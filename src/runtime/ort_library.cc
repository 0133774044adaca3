#include "runtime/ort_library.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/shared_library.h"
#include "base/system_error.h"
#include "base/system_files.h"
#include "base/text.h"
#include "runtime/ort_internal.h"

namespace bitpress::runtime {
namespace {

namespace fs = std::filesystem;

// Releases of ONNX Runtime before 2 keep this name.
std::string LibraryName() {
  std::string name = LibraryFileName("onnxruntime");
  if (name.ends_with(".so")) name += ".1";
  return name;
}

struct OpenLibrary {
  fs::path path;
  std::string version;
  std::unique_ptr<Ort::Env> env;
};

struct LibraryState {
  std::mutex mutex;
  fs::path wanted;                    // path from SetOrtLibraryPath
  std::vector<fs::path> operators;    // libraries from UseOperatorLibrary
  std::unique_ptr<OpenLibrary> open;  // the library, set once
};

// Returns the state, which is never destroyed; see OrtEnv.
LibraryState& State() {
  static LibraryState* const state = new LibraryState;
  return *state;
}

// Returns the folders where our own files may lie: that of the program, and that of the library
// this code is part of (a Python module, for example).
std::vector<fs::path> OwnFolders() {
  std::vector<fs::path> folders;
  std::error_code error;
  if (const fs::path program = ProgramFile(); !program.empty()) {
    folders.push_back(program.parent_path());
  }
  const fs::path code = FileOfCode(reinterpret_cast<const void*>(&OwnFolders));
  const fs::path self = code.empty() ? fs::path() : fs::canonical(code, error);
  if (!self.empty() && (folders.empty() || self.parent_path() != folders.front())) {
    folders.push_back(self.parent_path());
  }
  return folders;
}

std::vector<fs::path> OwnPlaces(const std::string& file_name) {
  std::vector<fs::path> places;
  for (const fs::path& folder : OwnFolders()) {
    places.push_back(folder / file_name);
    places.push_back(folder.parent_path() / "lib" / file_name);
    places.push_back((folder / BITPRESS_LIBRARIES_FROM_PROGRAM).lexically_normal() / file_name);
  }
  return places;
}

// Returns ONNX Runtime's API version, the second number of "1.31.1"; 0 if the text is something
// else.
unsigned ApiVersionOf(std::string_view version) {
  if (!version.starts_with("1.")) return 0;
  unsigned minor = 0;
  std::from_chars(version.data() + 2, version.data() + version.size(), minor);
  return minor;
}

// Opens one candidate and fills in `library`; otherwise returns why not.
std::string TryOpen(const fs::path& path, OpenLibrary& library) {
  // Another copy in this process (Python's onnxruntime) keeps its own symbols.
  std::string why;
  SharedLibrary handle(path, why);
  if (!handle.is_open()) return why;
  using GetApiBase = const OrtApiBase*(ORT_API_CALL*)();
  void* const symbol = handle.Find("OrtGetApiBase");
  if (symbol == nullptr) {
    handle.Close();
    return "it is not ONNX Runtime (no OrtGetApiBase)";
  }
  const OrtApiBase* const base = reinterpret_cast<GetApiBase>(symbol)();
  const std::string version = base->GetVersionString();
  // The version is asked before GetApi, because GetApi of an old library prints to stderr.
  const OrtApi* const api =
      ApiVersionOf(version) >= ORT_API_VERSION ? base->GetApi(ORT_API_VERSION) : nullptr;
  if (api == nullptr) {
    handle.Close();
    return fmt::format("it is ONNX Runtime {}, but 1.{} or later is needed", version,
                       ORT_API_VERSION);
  }
  Ort::InitApi(api);
  const fs::path file = FileOfCode(symbol);
  library.path = file.empty() ? path : file;
  library.version = version;
  return "";
}

OpenLibrary& OpenLocked(LibraryState& state) {
  if (state.open) return *state.open;
  std::vector<fs::path> candidates;
  if (!state.wanted.empty()) {
    candidates = {state.wanted};
  } else {
    candidates = OwnPlaces(LibraryName());
#ifdef BITPRESS_ORT_LIBRARY
    candidates.push_back(PathOf(BITPRESS_ORT_LIBRARY));
#endif
    candidates.push_back(PathOf(LibraryName()));
  }
  std::vector<std::string> reasons;
  auto library = std::make_unique<OpenLibrary>();
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    if (candidate.has_parent_path() && !fs::exists(candidate, ignored)) {
      reasons.push_back(fmt::format("{}: no such file", PathText(candidate)));
      continue;
    }
    const std::string reason = TryOpen(candidate, *library);
    if (reason.empty()) break;
    reasons.push_back(reason.find(PathText(candidate)) == std::string::npos
                          ? fmt::format("{}: {}", PathText(candidate), reason)
                          : reason);
  }
  if (library->version.empty()) {
    Fail(ErrorCode::kRuntime,
         "cannot open ONNX Runtime; put {} beside the program, install it, or name its path. "
         "Tried:\n  {}",
         LibraryName(), Join(reasons, "\n  "));
  }
  try {
    // ONNX Runtime's own builds collect usage data from the moment the environment is made, into a
    // database in the user's cache folder, before the call below can stop it. This variable is the
    // only earlier switch.
    const VariableForNow variable("ORT_DISABLE_TELEMETRY", "1");
    // Warnings are about ONNX Runtime's own optimizations, and errors come to us as exceptions.
    library->env = std::make_unique<Ort::Env>(ORT_LOGGING_LEVEL_FATAL, "bitpress");
    library->env->DisableTelemetryEvents();
  } catch (const Ort::Exception& error) {
    Fail(ErrorCode::kRuntime, "ONNX Runtime {} ({}) does not start: {}", library->version,
         PathText(library->path), CleanMessage(error));
  }
  state.open = std::move(library);
  return *state.open;
}

OpenLibrary& Open() {
  LibraryState& state = State();
  const std::lock_guard lock(state.mutex);
  return OpenLocked(state);
}

}  // namespace

void SetOrtLibraryPath(const std::filesystem::path& path) {
  LibraryState& state = State();
  const std::lock_guard lock(state.mutex);
  std::error_code ignored;
  if (state.open && !fs::equivalent(state.open->path, path, ignored)) {
    Fail(ErrorCode::kInvalidArgument, "cannot use ONNX Runtime from '{}': '{}' is in use already",
         PathText(path), PathText(state.open->path));
  }
  state.wanted = path;
}

std::string OrtVersion() { return Open().version; }

std::filesystem::path OrtLibraryPath() { return Open().path; }

std::string OperatorLibraryName() { return LibraryFileName("bitpress_ops"); }

std::filesystem::path FindOperatorLibrary() {
  std::error_code ignored;
  for (const fs::path& place : OwnPlaces(OperatorLibraryName())) {
    if (fs::exists(place, ignored)) return place;
  }
  return {};
}

void UseOperatorLibrary(const std::filesystem::path& path) {
  std::error_code error;
  const fs::path library = fs::canonical(path, error);
  if (error) Fail(ErrorCode::kIo, "operator library '{}': {}", PathText(path), ErrorText(error));
  // It is registered anyway, and no operator may be registered twice.
  if (fs::equivalent(library, FindOperatorLibrary(), error)) return;
  LibraryState& state = State();
  const std::lock_guard lock(state.mutex);
  if (std::ranges::find(state.operators, library) == state.operators.end()) {
    state.operators.push_back(library);
  }
}

std::vector<std::filesystem::path> UsedOperatorLibraries() {
  LibraryState& state = State();
  const std::lock_guard lock(state.mutex);
  return state.operators;
}

std::filesystem::path ChosenOrtLibrary() {
  LibraryState& state = State();
  const std::lock_guard lock(state.mutex);
  return state.open ? state.open->path : state.wanted;
}

std::filesystem::path FindProgram() {
  // The folder of our library goes first, because a script of the same name may lie beside the
  // running program, such as a Python interpreter.
  std::vector<fs::path> folders = OwnFolders();
  std::ranges::reverse(folders);
  const std::string name = ProgramFileName("bitpress");
  for (const fs::path& folder : folders) {
    std::vector<fs::path> places = {folder / name, folder.parent_path() / "bin" / name};
    places.push_back((folder / BITPRESS_PROGRAM_FROM_LIBRARIES).lexically_normal() / name);
    for (const fs::path& place : places) {
      if (IsProgram(place)) return place;
    }
  }
  return {};
}

const Ort::Env& OrtEnv() { return *Open().env; }

}  // namespace bitpress::runtime
