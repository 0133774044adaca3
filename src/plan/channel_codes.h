// What the channels of a calibrated uint8 activation hold, as codes: what weights are chosen for
// that must be right on every processor. Plain data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bitpress::plan {

struct ChannelCodes {
  // How many values of each channel came in all samples. 0: nothing more than `largest` is known.
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

// By value name. An activation that is missing may have any code in any channel.
using ChannelCodesTable = std::map<std::string, ChannelCodes>;

}  // namespace bitpress::plan
