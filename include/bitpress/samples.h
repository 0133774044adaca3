// This header describes the samples that calibration, fine-tuning and evaluation run through a
// model: files, token ids, or arrays that the caller has in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bitpress/export.h"

namespace bitpress {

// The element types of arrays, with their numbers in ONNX.
enum class ElementType : int32_t {
  kFloat32 = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
};

// A dense array in row-major order. The elements are the caller's: they must stay until the reader
// is asked for its next item.
struct Array {
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

// The caller's samples. One thread at a time calls it.
class BITPRESS_API SampleReader {
 public:
  virtual ~SampleReader();
  // Gives the next item: one array for each of the model's inputs, in their order. An item holds as
  // many samples as the first dimension of its arrays says. Returns false at the end.
  virtual bool Next(std::vector<Array>& inputs) = 0;
  // Begins from the first item again. It is called before the first item, too.
  virtual void Rewind() = 0;
};

// Samples come from one of `folder`, `tokens` and `reader`.
struct Samples {
  // Photos, .npy or .npz arrays, or TensorProto .pb files.
  std::filesystem::path folder;
  // The way of photos into the model: "resize=256,crop=224,mean=0.498,std=0.502".
  std::string image;
  // A CSV with the columns "file" and "class", for accuracy. Empty: one folder for each class, or
  // no classes.
  std::filesystem::path labels;
  // A one-dimensional .npy of token ids, and how many make a sample.
  std::filesystem::path tokens;
  size_t sequence = 0;
  // Opens a reader; it may be called several times, one after the other.
  std::function<std::unique_ptr<SampleReader>()> reader;
  size_t limit = 0;  // at most so many, from the start; 0: all
  // Each item of the reader and each array file is one sample, whatever its first dimension says.
  // Otherwise that is found by running the first row of an item.
  bool whole_items = false;
};

}  // namespace bitpress
