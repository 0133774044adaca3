#include "finetune/block_crops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace bitpress::finetune {
namespace {

using FloatArray = gradients::Array<float>;

// A block computes so many numbers at once: they stay in the second-level cache until the next
// operator, or the next but one, reads them.
constexpr size_t kMostValues = size_t{1} << 20;

// Returns rows and columns [row, row + rows) x [column, ...) of the last two dimensions.
FloatArray PartOf(const FloatArray& array, int64_t row, int64_t column, int64_t size) {
  FloatArray part;
  std::vector<int64_t> dims = array.dims;
  const size_t rank = dims.size();
  const int64_t height = dims[rank - 2];
  const int64_t width = dims[rank - 1];
  dims[rank - 2] = dims[rank - 1] = size;
  part.Reshape(dims);
  const int64_t planes = gradients::Extent(dims, 0, rank - 2);
  float* to = part.data();
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t i = 0; i < size; ++i, to += size) {
      std::copy_n(array.data() + (plane * height + row + i) * width + column, size, to);
    }
  }
  return part;
}

bool IsPicture(const FloatArray& array) {
  return array.dims.size() == 4 && array.dims[2] == array.dims[3];
}

// Returns whether two arrays hold the same numbers but for roundings of sums.
bool AreClose(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    square += std::pow(double{b[i]}, 2);
  }
  // A rounding of a sum may change a code of an activation, and so a few numbers by more.
  return a.size() == b.size() && difference <= 1e-4 * square;
}

std::vector<FloatArray> OutputsOf(gradients::Block<float>& block, const BlockBatch& batch) {
  RunBlock(block, batch);
  std::vector<FloatArray> outputs;
  for (size_t i = 0; i < batch.outputs.size(); ++i) outputs.push_back(block.Output(i));
  return outputs;
}

// Appends the rows of an array to another. One number without dimensions is the same for all.
void Stack(const FloatArray& more, FloatArray& to) {
  if (to.dims.empty()) {
    to = more;
    return;
  }
  to.dims[0] += more.dims[0];
  to.values.insert(to.values.end(), more.values.begin(), more.values.end());
}

bool CanStack(std::span<const FloatArray> a, std::span<const FloatArray> b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].dims != b[i].dims || (a[i].dims.empty() && a[i].values != b[i].values)) return false;
  }
  return true;
}

BlockBatch StackedOf(std::span<const BlockBatch> parts) {
  BlockBatch stacked;
  stacked.inputs.resize(parts[0].inputs.size());
  stacked.outputs.resize(parts[0].outputs.size());
  for (const BlockBatch& part : parts) {
    for (size_t i = 0; i < part.inputs.size(); ++i) Stack(part.inputs[i], stacked.inputs[i]);
    for (size_t i = 0; i < part.outputs.size(); ++i) Stack(part.outputs[i], stacked.outputs[i]);
    stacked.counts.insert(stacked.counts.end(), part.counts.begin(), part.counts.end());
  }
  return stacked;
}

}  // namespace

void RunBlock(gradients::Block<float>& block, const BlockBatch& batch) {
  for (size_t i = 0; i < batch.inputs.size(); ++i) block.Input(i) = batch.inputs[i];
  block.Forward();
}

BlockBatches::BlockBatches(gradients::Block<float>& block, const BlockSamples& samples)
    : samples_(samples) {
  const BlockSample first = samples.read(samples.training.front());
  const BlockSample last = samples.read(samples.training.back());
  TryCrop(block, first);
  if (samples.training.size() < 2 || !CanStack(first.inputs, last.inputs) ||
      !CanStack(first.outputs, last.outputs) ||
      std::ranges::any_of(first.outputs, [](const FloatArray& y) { return y.dims.empty(); })) {
    return;
  }
  const BlockBatch a{first.inputs, first.outputs, {}};
  const BlockBatch b{last.inputs, last.outputs, {}};
  std::vector<FloatArray> alone = OutputsOf(block, a);
  const std::vector<FloatArray> other = OutputsOf(block, b);
  for (size_t i = 0; i < alone.size(); ++i) Stack(other[i], alone[i]);
  try {
    const std::vector<FloatArray> together = OutputsOf(block, StackedOf(std::array{a, b}));
    is_stacked_ = true;
    for (size_t i = 0; i < alone.size(); ++i) {
      is_stacked_ = is_stacked_ && alone[i].dims == together[i].dims &&
                    AreClose(together[i].values, alone[i].values);
    }
  } catch (const Error&) {
    is_stacked_ = false;  // shapes that hold for one run only
  }
  if (!is_stacked_) return;
  std::mt19937_64 random(0);
  RunBlock(block, Cropped(first, random));
  num_stacked_ = std::max<size_t>(1, kMostValues / std::max<size_t>(1, block.NumValues()));
}

bool BlockBatches::TryCrop(gradients::Block<float>& block, const BlockSample& sample) {
  constexpr int64_t kLeastHeight = 56;
  if (sample.inputs.size() != 1 || sample.outputs.size() != 1) return false;
  const FloatArray& input = sample.inputs[0];
  if (!IsPicture(input) || !IsPicture(sample.outputs[0])) return false;
  const int64_t height = input.dims[2];
  const int64_t out_height = sample.outputs[0].dims[2];
  if (height < kLeastHeight || out_height == 0 || height % out_height != 0) return false;
  const int64_t stride = height / out_height;
  const int64_t wanted = height >= 224 ? 64 : height >= 112 ? 40 : 28;
  const int64_t size = wanted / (2 * stride) * 2 * stride;
  if (size < 4 * stride || size >= height) return false;
  const BlockBatch whole{sample.inputs, sample.outputs, {}};
  const FloatArray all = OutputsOf(block, whole)[0];
  if (!IsPicture(all)) return false;
  const int64_t offset = (height - size) / (2 * stride) * stride;
  try {
    const FloatArray part = OutputsOf(block, {{PartOf(input, offset, offset, size)}, {all}, {}})[0];
    if (!IsPicture(part) || part.dims[2] != size / stride) return false;
    for (const int64_t margin : {0, 1, 2, 3}) {
      const int64_t inner = size / stride - 2 * margin;
      if (inner < 4) return false;
      const int64_t at = offset / stride + margin;
      if (!AreClose(PartOf(part, margin, margin, inner).values, PartOf(all, at, at, inner).values))
        continue;
      crop_ = {size, stride, margin};
      return true;
    }
  } catch (const Error&) {
    return false;  // it computes with whole pictures only
  }
  return false;
}

BlockBatch BlockBatches::Cropped(const BlockSample& sample, std::mt19937_64& random) const {
  BlockBatch batch{sample.inputs, sample.outputs, {}};
  const bool fits = crop_.size > 0 && IsPicture(sample.inputs[0]) && IsPicture(sample.outputs[0]) &&
                    sample.inputs[0].dims[2] > crop_.size &&
                    sample.outputs[0].dims[2] * crop_.stride == sample.inputs[0].dims[2];
  if (!fits) return batch;
  const int64_t places = (sample.inputs[0].dims[2] - crop_.size) / crop_.stride + 1;
  const auto place = [&] { return static_cast<int64_t>(random() % static_cast<uint64_t>(places)); };
  const int64_t row = place();
  const int64_t column = place();
  const int64_t size = crop_.size / crop_.stride;
  batch.inputs[0] = PartOf(sample.inputs[0], row * crop_.stride, column * crop_.stride, crop_.size);
  batch.outputs[0] = PartOf(sample.outputs[0], row, column, size);
  // At an edge of the picture the part has the same padding as the whole.
  const auto counts = [&](int64_t at, int64_t first) {
    const bool is_early = at < crop_.margin && first > 0;
    const bool is_late = at >= size - crop_.margin && first < places - 1;
    return !is_early && !is_late;
  };
  const int64_t samples = batch.outputs[0].dims[0];
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j < size; ++j) {
        batch.counts.push_back(counts(i, row) && counts(j, column) ? 1.0F : 0.0F);
      }
    }
  }
  return batch;
}

std::vector<BlockBatch> BlockBatches::Read(std::span<const size_t> runs,
                                           std::mt19937_64& random) const {
  std::vector<BlockBatch> parts;
  for (const size_t run : runs) parts.push_back(Cropped(samples_.read(run), random));
  if (!is_stacked_ || parts.empty()) return parts;
  const auto fits = [&](const BlockBatch& part) {
    return CanStack(part.inputs, parts[0].inputs) && part.counts.size() == parts[0].counts.size();
  };
  if (!std::ranges::all_of(parts, fits)) return parts;
  std::vector<BlockBatch> stacked;
  for (size_t i = 0; i < parts.size(); i += num_stacked_) {
    stacked.push_back(
        StackedOf(std::span(parts).subspan(i, std::min(num_stacked_, parts.size() - i))));
  }
  return stacked;
}

}  // namespace bitpress::finetune
