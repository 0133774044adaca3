#include "search/front_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bitpress::search {
namespace {

constexpr double kWidth = 720, kHeight = 420;
constexpr double kLeft = 64, kRight = 24, kTop = 24, kBottom = 56;

// A linear map of numbers to pixels, with round numbers to write beside it.
struct Axis {
  double first = 0, last = 1;
  double begin = 0, end = 1;  // ends in pixels

  double operator()(double value) const {
    return begin + (value - first) / (last - first) * (end - begin);
  }
  double Step() const {
    const double rough = (last - first) / 6;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= rough) return factor * power;
    }
    return 10 * power;
  }
};

Axis MakeAxis(double least, double most, double begin, double end) {
  if (most - least < 1e-9) {
    least -= 1;
    most += 1;
  }
  const double margin = (most - least) * 0.04;
  return {least - margin, most + margin, begin, end};
}

std::string Ticks(const Axis& x, const Axis& y) {
  std::string svg;
  const double bottom = kHeight - kBottom;
  for (double at = std::ceil(x.first / x.Step()) * x.Step(); at <= x.last; at += x.Step()) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:.6g}</text>\n",
        x(at), kTop, bottom, bottom + 18, at);
  }
  for (double at = std::ceil(y.first / y.Step()) * y.Step(); at <= y.last; at += y.Step()) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.6g}</text>\n",
        kLeft, y(at), kWidth - kRight, kLeft - 8, y(at) + 4, std::abs(at) < 1e-9 ? 0 : at);
  }
  return svg;
}

}  // namespace

std::string FrontToSvg(std::span<const PlotPoint> points, std::optional<size_t> chosen,
                       const std::string& cost_label, const std::string& loss_label) {
  double least_cost = INFINITY, most_cost = -INFINITY, least_db = INFINITY, most_db = -INFINITY;
  for (const PlotPoint& point : points) {
    least_cost = std::min(least_cost, point.cost);
    most_cost = std::max(most_cost, point.cost);
    for (const double db : {point.predicted_db, point.measured_db.value_or(point.predicted_db)}) {
      if (!std::isfinite(db)) continue;
      least_db = std::min(least_db, db);
      most_db = std::max(most_db, db);
    }
  }
  if (least_db > most_db) least_db = most_db = 0;
  const Axis x = MakeAxis(least_cost, most_cost, kLeft, kWidth - kRight);
  const Axis y = MakeAxis(least_db, most_db, kHeight - kBottom, kTop);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-label=\"{3} against {2}\">\n<style>text{{font:12px sans-serif;fill:#888}}"
      ".grid{{stroke:#8884;stroke-width:1}}.line{{fill:none;stroke:#3b82c4;stroke-width:2}}"
      ".dot{{fill:#e07b39}}.ring{{fill:none;stroke:#c0392b;stroke-width:2.5}}</style>\n",
      kWidth, kHeight, cost_label, loss_label);
  svg += Ticks(x, y);
  std::string line;
  for (const PlotPoint& point : points) {
    if (!std::isfinite(point.predicted_db)) continue;
    line += fmt::format("{:.1f},{:.1f} ", x(point.cost), y(point.predicted_db));
  }
  svg += fmt::format("<polyline class=\"line\" points=\"{}\"/>\n", line);
  for (size_t i = 0; i < points.size(); ++i) {
    const PlotPoint& point = points[i];
    const double db = point.measured_db.value_or(point.predicted_db);
    if (!std::isfinite(db)) continue;
    if (point.measured_db) {
      svg += fmt::format(
          "<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{:.6g}: measured "
          "{:.2f} dB, predicted {:.2f} dB</title></circle>\n",
          x(point.cost), y(db), point.cost, db, point.predicted_db);
    }
    if (chosen == i) {
      svg += fmt::format("<circle class=\"ring\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"8\"/>\n",
                         x(point.cost), y(db));
    }
  }
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
      "<text transform=\"translate(16,{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n"
      "<text x=\"{}\" y=\"16\" text-anchor=\"end\">line: predicted, dots: measured, ring: "
      "chosen</text>\n</svg>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 14, cost_label, (kTop + kHeight - kBottom) / 2,
      loss_label, kWidth - kRight);
  return svg;
}

}  // namespace bitpress::search
