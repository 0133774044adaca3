// Photos as arrays, for users who run models by themselves.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings.h"
#include "data/source.h"

namespace bitpress::python {
namespace {

using FloatArray = nb::ndarray<nb::numpy, float>;

class PhotoReader {
 public:
  PhotoReader(const std::filesystem::path& folder, const std::string& image,
              const std::optional<std::filesystem::path>& labels, size_t samples, size_t threads)
      : source_(data::OpenSource({.folder = folder,
                                  .labels_csv = labels.value_or(""),
                                  .image = data::ParseImageSpec(image),
                                  .limit = samples,
                                  .num_threads = threads,
                                  .read_ahead = true})) {}

  // Returns (pixels, classes, files) of the next at most `count` photos, None at the end.
  nb::object Next(size_t count) {
    std::optional<data::Batch> batch;
    {
      const nb::gil_scoped_release release;
      batch = source_->Next(count);
    }
    if (!batch) return nb::none();
    auto* const pixels = new Tensor(std::move(batch->inputs.at(0)));
    const nb::capsule owner(pixels,
                            [](void* memory) noexcept { delete static_cast<Tensor*>(memory); });
    const std::vector<size_t> shape(pixels->dims.begin(), pixels->dims.end());
    return nb::make_tuple(FloatArray(pixels->bytes.data(), shape.size(), shape.data(), owner),
                          batch->labels, batch->names);
  }

  size_t num_samples() const { return source_->num_samples(); }
  bool has_labels() const { return source_->has_labels(); }

 private:
  std::unique_ptr<data::Source> source_;
};

}  // namespace

void BindPhotos(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<PhotoReader>(module, "PhotoReader")
      .def(nb::init<const std::filesystem::path&, const std::string&,
                    const std::optional<std::filesystem::path>&, size_t, size_t>(),
           "folder"_a, "image"_a, "labels"_a.none(), "samples"_a, "threads"_a)
      .def("next", &PhotoReader::Next, "count"_a)
      .def_prop_ro("num_samples", &PhotoReader::num_samples)
      .def_prop_ro("has_labels", &PhotoReader::has_labels);
}

}  // namespace bitpress::python
