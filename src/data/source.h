// Samples for evaluation and calibration: folders of photos, .npy/.npz files or ONNX TensorProto files, read one batch at a
// time so that memory does not grow with their number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace bitpress::data {

// How a photo becomes a tensor: decode, scale the shorter side to `resize` (antialiased bicubic), centre-crop, map to
// [0, 1], subtract mean, divide by std, lay out.
struct ImageSpec {
  int resize = 0;                      // pixels of the shorter side; 0: no scaling
  int crop = 0;                        // pixels of the square cut from the centre; 0: the whole picture
  float mean[3] = {0, 0, 0};           // per channel of the picture, in [0, 1]
  float std[3] = {1, 1, 1};
  bool nhwc = false;                   // layout: channels last instead of channels first
  bool bgr = false;                    // channel order: blue first
};

// "resize=256,crop=224,mean=0.498,std=0.502": keys resize crop mean std layout channels; mean and std take one value or
// three separated by '/'. Throws Error(kInvalidArgument) with the nearest key or the allowed values.
ImageSpec ParseImageSpec(std::string_view text);

// Samples stacked along the first dimension, one tensor for each model input, with the class of each sample where known.
struct Batch {
  std::vector<Tensor> inputs;
  std::vector<int64_t> labels;         // empty if there are none
  std::vector<std::string> names;      // the files
  size_t num_samples = 0;
};

class Source {
 public:
  virtual ~Source() = default;
  virtual size_t num_samples() const = 0;
  virtual bool has_labels() const = 0;
  // The next at most `max_samples` samples; nothing at the end. Throws Error naming the file.
  virtual std::optional<Batch> Next(size_t max_samples) = 0;
  virtual void Rewind() = 0;
};

struct SourceOptions {
  std::filesystem::path folder;
  std::filesystem::path labels_csv;    // columns file,class (others ignored): only the listed files count
  std::optional<ImageSpec> image;      // needed for photos
  std::vector<std::string> input_names;  // of the model: .npz members and subfolders are matched by name
  size_t limit = 0;                    // at most this many samples; 0: all
};

// Opens a folder and decides what it holds: photos (.jpg .jpeg .png), .npy or .npz, or .pb. Without a CSV, photos in one
// subfolder a class take the index of the sorted subfolder as label. Throws Error naming the folder if it is missing, empty
// or mixed.
std::unique_ptr<Source> OpenSource(const SourceOptions& options);

}  // namespace bitpress::data
