// Libraries that are opened while the program runs, and where the code that runs lies. Any thread
// may call these functions.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace bitpress {

// A library that stays open when the object dies, as code of it may be in use: that of ONNX Runtime
// and of drivers ends with the process.
class SharedLibrary {
 public:
  // Opens the library at a path; one with a name only is looked for where the system has libraries.
  // Its symbols are not seen by others. Otherwise the object is empty, and `why` the reason.
  SharedLibrary(const std::filesystem::path& path, std::string& why);

  bool is_open() const { return handle_ != nullptr; }
  // Returns the address of what the library exports, or nullptr.
  void* Find(const char* name) const;
  // Closes the library again, of which nothing is in use.
  void Close();

 private:
  void* handle_ = nullptr;
};

// Returns the file of the program that runs; empty if the system does not tell.
std::filesystem::path ProgramFile();

// Returns the file of the library or program that an address of code belongs to, as it was opened;
// empty if the system does not tell.
std::filesystem::path FileOfCode(const void* address);

// Returns the name of a library's file: "libNAME.so", "libNAME.dylib", "NAME.dll".
std::string LibraryFileName(std::string_view name);

// Returns the name of a program's file: "NAME" or "NAME.exe".
std::string ProgramFileName(std::string_view name);

}  // namespace bitpress
