// A picture of what was found: cost against loss.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace bitpress::search {

struct PlotPoint {
  double cost = 0;
  double predicted_db = 0;
  std::optional<double> measured_db;
};

// An SVG document of its own: predicted SQNR as a line, measured ones as dots, the chosen point
// ringed. Points are by rising cost; `chosen` is an index, or nothing. Readable in print and in
// dark pages alike.
std::string FrontToSvg(std::span<const PlotPoint> points, std::optional<size_t> chosen,
                       const std::string& cost_label);

}  // namespace bitpress::search
