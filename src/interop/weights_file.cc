#include "interop/weights_file.h"

#include <cstring>

#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"
#include "base/system_files.h"

namespace bitpress::interop {

std::shared_ptr<const MappedFile> Map(const std::filesystem::path& path) {
  std::error_code error;
  const SystemFile opened(path, SystemFile::Use::kReadRegular, error);
  if (!error && opened.kind() != SystemFile::Kind::kRegular) {
    Fail(ErrorCode::kIo, "cannot read '{}': not a regular file", PathText(path));
  }
  std::shared_ptr<const MappedFile> file;
  if (!error) file = std::make_shared<MappedFile>(opened, error);
  if (error) Fail(ErrorCode::kIo, "cannot read '{}': {}", PathText(path), ErrorText(error));
  return file;
}

std::unique_ptr<WeightsFile> OpenWeightsFile(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored) || path.extension() == ".safetensors") {
    return OpenSafetensors(path);
  }
  std::shared_ptr<const MappedFile> file = Map(path);
  return WithContext(fmt::format("'{}'", PathText(path)), [&] {
    constexpr std::string_view kMagic = "GGUF";
    const std::span<const std::byte> bytes = file->bytes();
    if (bytes.size() < kMagic.size() ||
        std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
      Fail(ErrorCode::kInvalidArgument,
           "it holds no weights that are read here: give a .gguf file, a .safetensors file, or a "
           "folder with config.json and *.safetensors");
    }
    return OpenGguf(std::move(file));
  });
}

}  // namespace bitpress::interop
