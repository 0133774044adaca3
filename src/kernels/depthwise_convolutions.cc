#include "kernels/depthwise_convolutions.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/round_up.h"
#include "kernels/depthwise_task.h"
#include "kernels/product_panels.h"
#include "kernels/scratch.h"

namespace bitpress::kernels {
namespace {

// Columns that are quantized together, at least where there are so many.
constexpr size_t kFilledColumns = 224;
// The most outputs whose sums are turned back together: their sums stay in the first-level cache.
constexpr size_t kMostOutputs = 256;
// The positions of a task, at least: it takes some ten microseconds.
constexpr size_t kLeastPositions = size_t{1} << 14;
// With fewer tasks, rows are divided, too.
constexpr size_t kManyTasks = 16;
constexpr size_t kLeastRows = 8;

size_t Size(int64_t size) { return static_cast<size_t>(size); }

}  // namespace

// The rows of a task in memory.
struct DepthwiseConvolution::Rows {
  Rows(size_t groups, size_t ring, size_t pitch, size_t filled, size_t span, size_t outputs)
      : row_floats(pitch * kPanelColumns),
        group_floats(ring * row_floats),
        piece_stride(RoundUp(filled, kPanelColumns)),
        values((groups * group_floats) * sizeof(float)),
        quantized((span * piece_stride + kPanelColumns) * sizeof(float)),
        sums(outputs * kPanelColumns * sizeof(float)) {}

  float* At(size_t group, size_t slot) const {
    return values.data<float>() + group * group_floats + slot * row_floats;
  }

  size_t row_floats, group_floats, piece_stride;
  Scratch values;     // [groups of channels][ring][pitch][kPanelColumns]
  Scratch quantized;  // [span][piece_stride]
  Scratch sums;
  std::vector<const float*> read;  // for each output row, the rows of the kernel
  std::vector<float*> written;
};

DepthwiseConvolution::DepthwiseConvolution(const ConvolutionWeights& weights,
                                           const formats::ConvolutionShape& shape, const float* x,
                                           const ConvolutionOutput& output)
    : weights_(weights),
      shape_(shape),
      x_(x),
      output_(output),
      quantizer_(weights.input_format(), 1, formats::BlockOf(weights.input_format()),
                 kFilledColumns),
      images_(Size(shape.images)),
      out_height_(Size(shape.output(0))),
      out_width_(Size(shape.output(1))) {
  BITPRESS_DCHECK(weights.is_depthwise());
  if (images_ == 0 || out_height_ == 0 || out_width_ == 0) {
    images_ = 0;
    return;
  }
  const size_t channels = Size(shape.channels), width = std::max<size_t>(1, Size(shape.input[1]));
  const auto reach = [&](size_t d) { return Size(shape.dilations[d] * (shape.kernel[d] - 1)) + 1; };
  span_ =
      std::min(std::lcm(weights.input_block(), kPanelColumns), RoundUp(channels, kPanelColumns));
  pitch_ = (out_width_ - 1) * Size(shape.strides[1]) + reach(1);
  // The sums of a piece fill whole vectors if they can, and its new rows enough columns.
  const size_t stride = Size(shape.strides[0]);
  const size_t unit = kPanelColumns / std::gcd(kPanelColumns, out_width_);
  const size_t wanted = CeilDivide(kFilledColumns, stride * width);
  const size_t most = std::max<size_t>(1, kMostOutputs / out_width_);
  piece_rows_ = RoundUp(wanted, unit) <= most ? RoundUp(wanted, unit) : std::min(wanted, most);
  piece_rows_ = std::min(piece_rows_, out_height_);
  ring_ = (piece_rows_ - 1) * stride + reach(0);
  most_filled_ = std::max<size_t>(1, kFilledColumns / width);
  // Tasks take several spans of small planes, and parts of large ones.
  const size_t spans = CeilDivide(channels, span_);
  const size_t of_span = span_ * out_height_ * out_width_ * stride;
  const size_t spans_per_chunk = std::clamp<size_t>(kLeastPositions / of_span, 1, spans);
  channels_per_chunk_ = spans_per_chunk * span_;
  chunks_ = CeilDivide(channels, channels_per_chunk_);
  const size_t most_tiles = std::max<size_t>(1, out_height_ / kLeastRows);
  const size_t tiles = std::min(most_tiles, CeilDivide(kManyTasks, images_ * chunks_));
  rows_per_tile_ = RoundUp(CeilDivide(out_height_, tiles), piece_rows_);
  tiles_ = CeilDivide(out_height_, rows_per_tile_);
}

void DepthwiseConvolution::RunTask(size_t task) const {
  const size_t tile = task % tiles_, chunk = task / tiles_ % chunks_;
  const size_t image = task / tiles_ / chunks_;
  const size_t begin = tile * rows_per_tile_;
  const size_t end = std::min(begin + rows_per_tile_, out_height_);
  const size_t last =
      std::min((chunk + 1) * channels_per_chunk_, static_cast<size_t>(shape_.channels));
  Rows rows(span_ / kPanelColumns, ring_, pitch_, most_filled_ * Size(shape_.input[1]), span_,
            piece_rows_ * out_width_);
  for (size_t channel = chunk * channels_per_chunk_; channel < last; channel += span_) {
    RunSpan(image, channel, std::min(span_, last - channel), begin, end, rows);
  }
}

void DepthwiseConvolution::RunSpan(size_t image, size_t channel, size_t count, size_t begin,
                                   size_t end, Rows& rows) const {
  const size_t stride = Size(shape_.strides[0]), dilation = Size(shape_.dilations[0]);
  const size_t kernel = Size(shape_.kernel[0]), plane = out_height_ * out_width_;
  DepthwiseRows sums;
  sums.width = out_width_;
  sums.kernel = {kernel, Size(shape_.kernel[1])};
  sums.stride = Size(shape_.strides[1]);
  sums.dilation = Size(shape_.dilations[1]);
  sums.sums = rows.sums.data<float>();
  rows.read.resize(piece_rows_ * kernel);
  size_t filled = begin * stride;  // rows before this one are there
  for (size_t row = begin; row < end; row += piece_rows_) {
    sums.num_rows = std::min(piece_rows_, end - row);
    const size_t needed = (row + sums.num_rows - 1) * stride + (kernel - 1) * dilation + 1;
    filled = std::max(filled, row * stride);  // of strides beyond the kernel
    FillRows(image, channel, count, filled, needed, rows);
    filled = needed;
    for (size_t group = 0; group * kPanelColumns < count; ++group) {
      for (size_t i = 0; i < sums.num_rows * kernel; ++i) {
        const size_t read = (row + i / kernel) * stride + i % kernel * dilation;
        rows.read[i] = rows.At(group, read % ring_);
      }
      const size_t first = channel + group * kPanelColumns;
      sums.taps = weights_.taps(first);
      sums.rows = rows.read.data();
      FinishTask finish;
      finish.sums = sums.sums;
      finish.pitch = kPanelColumns;
      finish.count = sums.num_rows * out_width_;
      finish.channels = std::min(kPanelColumns, count - group * kPanelColumns);
      finish.output = &output_;
      finish.first_output = first;
      finish.plane = plane;
      finish.index = (image * Size(shape_.channels) + first) * plane + row * out_width_;
      PrefetchOutputs(finish);
      SumDepthwise(sums);
      FinishPositions(finish);
    }
  }
}

void DepthwiseConvolution::FillRows(size_t image, size_t channel, size_t count, size_t begin,
                                    size_t end, Rows& rows) const {
  const size_t height = Size(shape_.input[0]), width = Size(shape_.input[1]);
  const size_t pad_y = Size(shape_.pads_begin[0]);
  const size_t pad_x = std::min(Size(shape_.pads_begin[1]), pitch_);
  const size_t used = std::min(width, pitch_ - pad_x);
  const size_t groups = CeilDivide(count, kPanelColumns);
  const size_t block = weights_.input_block();
  const auto clear = [&](size_t row, size_t from, size_t to) {
    for (size_t group = 0; group < groups; ++group) {
      float* const values = rows.At(group, row % ring_);
      std::fill(values + from * kPanelColumns, values + to * kPanelColumns, 0.0F);
    }
  };
  for (size_t row = begin; row < end;) {
    if (row < pad_y || row - pad_y >= height || used == 0) {
      clear(row++, 0, pitch_);
      continue;
    }
    const size_t y = row - pad_y;
    const size_t num_rows = std::min({most_filled_, end - row, height - y});
    float* const quantized = rows.quantized.data<float>();
    for (size_t c = 0; c < count; c += block) {
      const size_t plane = image * Size(shape_.channels) + channel + c;
      quantizer_.RunColumns(x_ + plane * height * width + y * width, height * width,
                            quantized + c * rows.piece_stride, rows.piece_stride,
                            std::min(block, count - c), num_rows * width);
    }
    rows.written.resize(num_rows);
    for (size_t group = 0; group < groups; ++group) {
      for (size_t i = 0; i < num_rows; ++i) {
        rows.written[i] = rows.At(group, (row + i) % ring_) + pad_x * kPanelColumns;
      }
      SpreadTask spread;
      spread.from = quantized + group * kPanelColumns * rows.piece_stride;
      spread.stride = rows.piece_stride;
      spread.channels = std::min(kPanelColumns, count - group * kPanelColumns);
      spread.count = num_rows * width;
      spread.width = width;
      spread.used = used;
      spread.rows = rows.written.data();
      SpreadPositions(spread);
    }
    for (size_t i = 0; i < num_rows; ++i) {
      clear(row + i, 0, pad_x);
      clear(row + i, pad_x + used, pitch_);
    }
    row += num_rows;
  }
}

}  // namespace bitpress::kernels
