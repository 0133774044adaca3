// The encoder of photos: JPEG through TurboJPEG.
#include <turbojpeg.h>

#include <memory>
#include <type_traits>

#include "base/check.h"
#include "base/error.h"
#include "data/photo.h"

namespace bitpress::data {

std::string ToJpeg(const Photo& photo) {
  BITPRESS_DCHECK(photo.width > 0 && photo.height > 0);
  struct Destroy {
    void operator()(void* handle) const { tjDestroy(handle); }
  };
  const std::unique_ptr<std::remove_pointer_t<tjhandle>, Destroy> encoder(tjInitCompress());
  if (!encoder) Fail(ErrorCode::kRuntime, "libjpeg-turbo does not start");
  constexpr int kQuality = 80;
  std::string bytes(tjBufSize(photo.width, photo.height, TJSAMP_420), '\0');
  auto* data = reinterpret_cast<unsigned char*>(bytes.data());
  auto size = static_cast<unsigned long>(bytes.size());
  if (tjCompress2(encoder.get(), photo.rgb.data(), photo.width, 0, photo.height, TJPF_RGB, &data,
                  &size, TJSAMP_420, kQuality, TJFLAG_NOREALLOC) != 0) {
    Fail(ErrorCode::kRuntime, "a picture cannot be written: {}", tjGetErrorStr2(encoder.get()));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace bitpress::data
