// The codes that the channels of a calibrated 8-bit activation hold, as uint8. Weights that must be
// right on every processor are chosen for them. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bitpress::plan {

struct ChannelCodes {
  // The number of values of each channel in all samples. 0: nothing but `largest` is known.
  uint64_t num_reads = 0;
  // The mean square of what quantizing changes in a value.
  double squared_error = 0;
  // The largest code of each channel, or one for all of them.
  std::vector<uint8_t> largest = {255};
  // The mean square of each channel's values: what an error of a weight costs that meets it. Empty:
  // not known.
  std::vector<double> mean_squares;
  // The mean of each channel's values: what an error of a weight moves the mean output by. As many
  // as mean_squares.
  std::vector<double> means;
};

// By value name. An activation that is missing may have any code in any channel; so does one that
// its readers take both as uint8 and as int8.
using ChannelCodesTable = std::map<std::string, ChannelCodes>;

}  // namespace bitpress::plan
