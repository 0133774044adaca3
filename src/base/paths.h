// Paths as text. The text of a path in arguments, messages, JSON and models is UTF-8 on every
// system; the path itself is in the form that the system wants, wide on Windows. The standard
// library would take the text for one of the user's code page there, so that only these functions
// turn one into the other.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace bitpress {

// Returns the path as UTF-8. What is no valid text in it becomes U+FFFD on Windows; elsewhere the
// bytes are those of the path.
std::string PathText(const std::filesystem::path& path);

// Returns the path with `/` between its parts, as names of samples and of external data have it on
// every system.
std::string PortablePathText(const std::filesystem::path& path);

// Returns the path that the text names. A long one has the form that Windows reads beyond 260
// characters, with room for names that are made of it.
std::filesystem::path PathOf(std::string_view text);

// Returns the path in a form that the calls of the system take whatever its length is. Elsewhere
// than on Windows it is the path itself.
std::filesystem::path SystemPath(const std::filesystem::path& path);

// Returns the path with more behind its last name: "m.onnx" and ".data" give "m.onnx.data".
std::filesystem::path WithSuffix(std::filesystem::path path, std::string_view suffix);

// Returns whether a location that a file names stays inside the folder it lies in, for readers on
// every system: on Windows a backslash divides as well, there are drives, and dots and spaces at
// the end of a name count for nothing. The file of one system must not be a trap on another. Links
// are not followed.
bool StaysInside(std::string_view location);

}  // namespace bitpress
