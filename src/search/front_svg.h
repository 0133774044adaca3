// The picture of a search's front: cost against loss, as an SVG. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace bitpress::search {

// A point of the picture. Losses are in dB, and the larger the better.
struct PlotPoint {
  double cost = 0;
  double predicted_db = 0;
  std::optional<double> measured_db;
};

// Returns an SVG document with the predicted losses as a line, measured ones as dots, and a ring
// around the chosen point. Points come by rising cost; `chosen` is an index, or nothing. The
// picture is readable in print and on dark pages alike.
std::string FrontToSvg(std::span<const PlotPoint> points, std::optional<size_t> chosen,
                       const std::string& cost_label,
                       const std::string& loss_label = "SQNR of the outputs (dB)");

}  // namespace bitpress::search
