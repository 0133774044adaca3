#include "kernels/pair_saturation.h"

#include <algorithm>

#include "base/check.h"
#include "formats/pair_sums.h"

namespace bitpress::kernels {
namespace {

int32_t LossOf(const SaturatingPair& pair, uint8_t first, uint8_t second) {
  const int32_t sum = pair.weight[0] * first + pair.weight[1] * second;
  return std::clamp(sum, formats::kLeastPairSum, formats::kLargestPairSum) - sum;
}

int64_t Product(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

bool IsBelow(const std::array<int32_t, 2>& numbers, int64_t end) {
  return std::ranges::all_of(numbers, [&](int32_t number) { return number >= 0 && number < end; });
}

// Reads the activation that one element of a pair meets at each place of the kernel.
class Reader {
 public:
  Reader(const SaturatingPair& pair, size_t i, const uint8_t* image, const ConvWindow& window,
         uint8_t padding)
      : channel_(image + pair.channel[i] * Product(window.input)),
        window_(window),
        padding_(padding),
        offsets_(window.kernel.size()) {
    int64_t position = pair.position[i];
    for (size_t d = offsets_.size(); d-- > 0;) {
      offsets_[d] = position % window.kernel[d] * window.dilations[d] - window.pads_begin[d];
      position /= window.kernel[d];
    }
  }

  uint8_t At(std::span<const int64_t> place) const {
    int64_t index = 0;
    for (size_t d = 0; d < offsets_.size(); ++d) {
      const int64_t at = place[d] * window_.strides[d] + offsets_[d];
      if (at < 0 || at >= window_.input[d]) return padding_;
      index = index * window_.input[d] + at;
    }
    return channel_[index];
  }

 private:
  const uint8_t* channel_;
  const ConvWindow& window_;
  uint8_t padding_;
  std::vector<int64_t> offsets_;
};

}  // namespace

void MatrixSaturation(std::span<const SaturatingPair> pairs, const uint8_t* activations,
                      int64_t rows, int64_t channels, int64_t num_sums, int32_t* products) {
  BITPRESS_DCHECK(std::ranges::all_of(pairs, [&](const SaturatingPair& pair) {
    return IsBelow({pair.sum, pair.sum}, num_sums) && IsBelow(pair.channel, channels);
  }));
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* const x = activations + row * channels;
    int32_t* const of_row = products + row * num_sums;
    for (const SaturatingPair& pair : pairs) {
      of_row[pair.sum] += LossOf(pair, x[pair.channel[0]], x[pair.channel[1]]);
    }
  }
}

void ConvSaturation(std::span<const SaturatingPair> pairs, const uint8_t* image,
                    const ConvWindow& window, uint8_t padding, int32_t* products) {
  BITPRESS_DCHECK(std::ranges::all_of(pairs, [&](const SaturatingPair& pair) {
    return IsBelow(pair.position, Product(window.kernel));
  }));
  const int64_t num_places = Product(window.output);
  std::vector<int64_t> place(window.output.size());
  for (const SaturatingPair& pair : pairs) {
    const Reader first(pair, 0, image, window, padding);
    const Reader second(pair, 1, image, window, padding);
    std::ranges::fill(place, 0);
    for (int64_t i = 0; i < num_places; ++i) {
      products[i] += LossOf(pair, first.At(place), second.At(place));
      for (size_t d = place.size(); d-- > 0;) {
        if (++place[d] < window.output[d]) break;
        place[d] = 0;
      }
    }
  }
}

}  // namespace bitpress::kernels
