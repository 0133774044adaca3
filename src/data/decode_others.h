// The decoders of photos that are neither JPEG nor PNG. BMP is read here. WebP and TIFF are read by
// libwebp and libtiff, which are opened when such a photo comes: most machines have them, and no
// package of Bitpress needs them.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "data/photo.h"

namespace bitpress::data {

// Throws Error(kInvalidArgument) if a picture has no size that is read; called before memory for it
// is taken.
using CheckPhotoSize = std::function<void(int64_t width, int64_t height)>;

bool IsBmp(std::string_view bytes);
bool IsWebp(std::string_view bytes);
bool IsTiff(std::string_view bytes);

// Decode a picture. Throw Error(kInvalidArgument) if it is damaged, Error(kUnsupported) for kinds
// that are not read, and if the library is not on this machine.
Photo DecodeBmp(std::string_view bytes, const CheckPhotoSize& check);
Photo DecodeWebp(std::string_view bytes, const CheckPhotoSize& check);
Photo DecodeTiff(std::string_view bytes, const CheckPhotoSize& check);

}  // namespace bitpress::data
