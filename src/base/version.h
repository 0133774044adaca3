// The version of Bitpress, and that of what it alone writes into models. docs/versions.md says when
// they are raised, and where the versions of other files stand.
#pragma once

#include <cstdint>
#include <string_view>

#include "bitpress/version.h"

namespace bitpress {

// The metadata key with the version of a model's other metadata, of the forms in which its weights
// lie, and of our operators; and that version. Models without the key have version 1.
inline constexpr const char* kModelFormatMetadata = "bitpress.format_version";
inline constexpr int64_t kModelFormatVersion = 1;

// Throws Error(kInvalidArgument) if a file has another version than 1 to `newest`, naming both.
// `what` has the version, and begins the sentence: "plan".
void CheckFormatVersion(std::string_view what, int64_t found, int64_t newest);

}  // namespace bitpress
