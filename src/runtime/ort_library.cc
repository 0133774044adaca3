#include "runtime/ort_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "runtime/ort_internal.h"

namespace bitpress::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraryName = "libonnxruntime.so.1";
constexpr const char* kOperatorLibraryName = "libbitpress_ops.so";
constexpr const char* kProgramName = "bitpress";

// The environment of this process with one more variable, which ONNX Runtime is to see at its
// start. setenv would change the host's own environment, and the memory in which other threads may
// be reading it. Here nothing of it changes but the pointer to it, for a moment.
class VariableForNow {
 public:
  // `entry` is "NAME=value". A value that the user has set stays. `entries` must live as long as
  // the process, because other threads may still read them then.
  VariableForNow(const std::string& name, char* entry, std::vector<char*>& entries)
      : given_(environ) {
    if (std::getenv(name.c_str()) != nullptr) return;
    entries.clear();
    for (char** at = environ; at != nullptr && *at != nullptr; ++at) entries.push_back(*at);
    entries.push_back(entry);
    entries.push_back(nullptr);
    environ = changed_ = entries.data();
  }
  // If another thread set a variable meanwhile, the environment is its own now.
  ~VariableForNow() {
    if (environ == changed_) environ = given_;
  }
  VariableForNow(const VariableForNow&) = delete;
  VariableForNow& operator=(const VariableForNow&) = delete;

 private:
  char** given_;
  char** changed_ = nullptr;
};

struct OpenLibrary {
  fs::path path;
  std::string version;
  std::unique_ptr<Ort::Env> env;
};

struct LibraryState {
  std::mutex mutex;
  fs::path wanted;                    // path from SetOrtLibraryPath
  std::vector<char*> environment;     // that ONNX Runtime sees at its start
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
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path());
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&OwnFolders), &info) != 0 && info.dli_fname != nullptr) {
    const fs::path self = fs::canonical(info.dli_fname, error);
    if (!error && (folders.empty() || self.parent_path() != folders.front())) {
      folders.push_back(self.parent_path());
    }
  }
  return folders;
}

std::vector<fs::path> OwnPlaces(const char* file_name) {
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
  // RTLD_LOCAL lets another copy in this process (Python's onnxruntime) keep its own symbols.
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return dlerror();
  using GetApiBase = const OrtApiBase* (*)();
  void* const symbol = dlsym(handle, "OrtGetApiBase");
  if (symbol == nullptr) {
    dlclose(handle);
    return "it is not ONNX Runtime (no OrtGetApiBase)";
  }
  const OrtApiBase* const base = reinterpret_cast<GetApiBase>(symbol)();
  const std::string version = base->GetVersionString();
  // The version is asked before GetApi, because GetApi of an old library prints to stderr.
  const OrtApi* const api =
      ApiVersionOf(version) >= ORT_API_VERSION ? base->GetApi(ORT_API_VERSION) : nullptr;
  if (api == nullptr) {
    dlclose(handle);
    return fmt::format("it is ONNX Runtime {}, but 1.{} or later is needed", version,
                       ORT_API_VERSION);
  }
  Ort::InitApi(api);
  Dl_info info;
  const bool has_file = dladdr(symbol, &info) != 0 && info.dli_fname != nullptr;
  library.path = has_file ? fs::path(info.dli_fname) : path;
  library.version = version;
  return "";
}

OpenLibrary& OpenLocked(LibraryState& state) {
  if (state.open) return *state.open;
  std::vector<fs::path> candidates;
  if (!state.wanted.empty()) {
    candidates = {state.wanted};
  } else {
    candidates = OwnPlaces(kLibraryName);
#ifdef BITPRESS_ORT_LIBRARY
    candidates.emplace_back(BITPRESS_ORT_LIBRARY);
#endif
    candidates.emplace_back(kLibraryName);
  }
  std::vector<std::string> reasons;
  auto library = std::make_unique<OpenLibrary>();
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    if (candidate.has_parent_path() && !fs::exists(candidate, ignored)) {
      reasons.push_back(fmt::format("{}: no such file", candidate.string()));
      continue;
    }
    const std::string reason = TryOpen(candidate, *library);
    if (reason.empty()) break;
    reasons.push_back(reason.find(candidate.string()) == std::string::npos
                          ? fmt::format("{}: {}", candidate.string(), reason)
                          : reason);
  }
  if (library->version.empty()) {
    Fail(ErrorCode::kRuntime,
         "cannot open ONNX Runtime; put {} beside the program, install it, or name its path. "
         "Tried:\n  {}",
         kLibraryName, Join(reasons, "\n  "));
  }
  try {
    // ONNX Runtime's own builds collect usage data from the moment the environment is made, into a
    // database in the user's cache folder, before the call below can stop it. This variable is the
    // only earlier switch.
    static char no_telemetry[] = "ORT_DISABLE_TELEMETRY=1";
    const VariableForNow variable("ORT_DISABLE_TELEMETRY", no_telemetry, state.environment);
    // Warnings are about ONNX Runtime's own optimizations, and errors come to us as exceptions.
    library->env = std::make_unique<Ort::Env>(ORT_LOGGING_LEVEL_FATAL, "bitpress");
    library->env->DisableTelemetryEvents();
  } catch (const Ort::Exception& error) {
    Fail(ErrorCode::kRuntime, "ONNX Runtime {} ({}) does not start: {}", library->version,
         library->path.string(), CleanMessage(error));
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
         path.string(), state.open->path.string());
  }
  state.wanted = path;
}

std::string OrtVersion() { return Open().version; }

std::filesystem::path OrtLibraryPath() { return Open().path; }

std::filesystem::path FindOperatorLibrary() {
  std::error_code ignored;
  for (const fs::path& place : OwnPlaces(kOperatorLibraryName)) {
    if (fs::exists(place, ignored)) return place;
  }
  return {};
}

void UseOperatorLibrary(const std::filesystem::path& path) {
  std::error_code error;
  const fs::path library = fs::canonical(path, error);
  if (error) Fail(ErrorCode::kIo, "operator library '{}': {}", path.string(), error.message());
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
  for (const fs::path& folder : folders) {
    std::vector<fs::path> places = {folder / kProgramName,
                                    folder.parent_path() / "bin" / kProgramName};
    places.push_back((folder / BITPRESS_PROGRAM_FROM_LIBRARIES).lexically_normal() / kProgramName);
    for (const fs::path& place : places) {
      std::error_code ignored;
      if (fs::is_regular_file(place, ignored) && ::access(place.c_str(), X_OK) == 0) return place;
    }
  }
  return {};
}

const Ort::Env& OrtEnv() { return *Open().env; }

}  // namespace bitpress::runtime
