// The search for the few among many roundings that spoil an output, in few measurements: errors add
// up, so that a part of the roundings that brings little contains none that brings much. Pure but
// for the measurements.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace bitpress::calibrate {

// Some roundings that follow each other, begin .. end - 1, and the noise of each output if they
// alone take place.
struct NoisyPart {
  size_t begin = 0;
  size_t end = 0;
  std::vector<double> noise;

  size_t size() const { return end - begin; }
};

struct PartSearch {
  std::vector<double> allowed;  // the noise of each output that is allowed
  double least_share = 0;       // parts that bring a smaller share of it do not count
  size_t most_measurements = 0;
  // Returns the noise of the roundings begin .. end - 1.
  std::function<std::vector<double>(size_t begin, size_t end)> measure;
};

// Halves the loudest parts first. What the number of measurements does not suffice for stays in
// parts of several roundings. If it does not suffice for all halves, the second one is measured,
// which concerns less of a model, and the first one has what is left of the noise of both. Returns
// the parts that count, the loudest of one size first. `noise` is that of all `size` roundings.
std::vector<NoisyPart> FindNoisyParts(size_t size, std::vector<double> noise,
                                      const PartSearch& search);

}  // namespace bitpress::calibrate
