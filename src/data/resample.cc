// The image scaler: stb_image_resize, compiled here once.
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#define STB_IMAGE_RESIZE_STATIC
#include <stb_image_resize.h>

#include <new>

#include "data/photo.h"

namespace bitpress::data {
namespace {

Photo ScaleTo(const Photo& photo, int width, int height) {
  Photo result{.width = width, .height = height, .rgb = {}};
  result.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  // "Linear" means that values are taken as they are, as PIL and torchvision do.
  const int done =
      stbir_resize_uint8_generic(photo.rgb.data(), photo.width, photo.height, 0, result.rgb.data(),
                                 width, height, 0, 3, STBIR_ALPHA_CHANNEL_NONE, 0, STBIR_EDGE_CLAMP,
                                 STBIR_FILTER_CATMULLROM, STBIR_COLORSPACE_LINEAR, nullptr);
  if (done == 0) throw std::bad_alloc();  // its only failure for arguments like these
  return result;
}

}  // namespace

Photo Resample(const Photo& photo, int width, int height) {
  // Rows are scaled first, then columns, with 8 bits between. PIL rounds and clips there, and the
  // networks were trained on its pictures.
  return ScaleTo(ScaleTo(photo, width, photo.height), width, height);
}

}  // namespace bitpress::data
