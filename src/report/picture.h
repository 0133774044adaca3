// Pictures of samples for the page, with what both models found in them.
#pragma once

#include <optional>
#include <string>

#include "evaluate/task.h"
#include "report/report.h"

namespace bitpress::report {

// Returns the picture as a small JPEG. What the models saw may be of any scale: its least value
// becomes black, its largest white. `is_bgr`: its first channel is blue. Masks are laid over it:
// green where both models have one, red where they differ. Nothing if the input is no picture of
// one or three channels.
std::optional<PictureReport> MakePicture(const evaluate::TaskPicture& picture, bool is_bgr);

// Returns bytes in Base64, as RFC 4648 has it.
std::string Base64(std::string_view bytes);

}  // namespace bitpress::report
