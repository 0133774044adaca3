#include "formats/qparams_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace bitpress::formats {
namespace {

constexpr double kStop = 2.5;  // factor on the least error beyond which no smaller range is better

class Search {
 public:
  Search(double range_min, double range_max, const IntegerSpec& spec, const QParamsError& error)
      : min_(std::min(range_min, 0.0)),
        max_(std::max(range_max, 0.0)),
        spec_(spec),
        error_(error),
        best_(QParamsForRange(min_, max_, spec)),
        least_(error(best_)) {}

  const QParams& best() const { return best_; }

  void SearchRanges() {
    ClipMagnitudes();
    const bool has_one_end = spec_.is_symmetric || min_ == 0 || max_ == 0;
    has_one_end ? RefineFactor() : RefineEnds();
  }

  void SearchPositions() {
    const double scale = WholeScale();
    const double nearest = AllowedScale(scale, ScaleKind::kPowerOfTwo);
    for (int halvings = -1; halvings <= 3; ++halvings) {
      const float candidate = AllowedScale(std::ldexp(nearest, -halvings), ScaleKind::kPowerOfTwo);
      if (spec_.is_symmetric) {
        Try(QParams{candidate, best_.zero_point});
      } else {
        SearchZeroPoint(candidate);
      }
    }
  }

  // Returns (max - min) / steps, with which QParamsForRange begins.
  double WholeScale() const {
    const CodeRange codes = UsedCodes(spec_);
    const double width = spec_.is_symmetric ? 2 * std::max(-min_, max_) : max_ - min_;
    return width / static_cast<double>(codes.quant_max - codes.quant_min);
  }

 private:
  struct Ends {
    double min = 0;
    double max = 0;
  };

  bool Try(const QParams& params) {
    const double error = error_(params);
    last_ = error;
    if (!(error < least_)) return false;
    least_ = error;
    best_ = params;
    return true;
  }
  bool Try(const Ends& ends) { return Try(QParamsForRange(ends.min, ends.max, spec_)); }
  // Returns the ends after magnitudes are clipped to a part of the largest one.
  Ends Clipped(double factor) const {
    if (factor > 1) return {min_ * factor, max_ * factor};
    const double amax = std::max(-min_, max_) * factor;
    return {std::max(min_, -amax), std::min(max_, amax)};
  }

  void ClipMagnitudes() {
    for (int eighths = spec_.scale_kind == ScaleKind::kInt16 ? -2 : 1; eighths < 8 * 24;
         ++eighths) {
      const double factor = std::exp2(-eighths / 8.0);
      if (Try(Clipped(factor))) {
        factor_ = factor;
      } else if (eighths > 0 && last_ > kStop * least_) {
        return;
      }
      if (least_ == 0) return;
    }
  }

  void RefineFactor() {
    const double limit = std::max(1.0, factor_);
    for (int level = 4; level <= 7; ++level) {
      const double step = std::exp2(std::exp2(-level));
      const double center = factor_;
      for (const double factor : {center * step, center / step}) {
        if (factor <= limit && Try(Clipped(factor))) factor_ = factor;
      }
    }
  }

  void RefineEnds() {
    Ends ends = Clipped(std::min(1.0, factor_));
    for (double step = (ends.max - ends.min) / 8; step > (max_ - min_) / 1024; step /= 2) {
      for (int moves = 0; moves < 8; ++moves) {
        const Ends before = ends;
        for (const double move : {step, -step}) {
          const Ends left{std::clamp(ends.min + move, min_, 0.0), ends.max};
          if (left.min != ends.min && Try(left)) ends = left;
          const Ends right{ends.min, std::clamp(ends.max - move, 0.0, max_)};
          if (right.max != ends.max && Try(right)) ends = right;
        }
        if (before.min == ends.min && before.max == ends.max) break;
      }
    }
  }

  // Searches from the best of three starts: the same part cut off both ends, or all of it off one.
  void SearchZeroPoint(float scale) {
    const CodeRange codes = UsedCodes(spec_);
    const auto steps = static_cast<double>(codes.quant_max - codes.quant_min);
    const double part = std::min(1.0, steps * scale / (max_ - min_));
    int64_t center = codes.quant_min;
    double here = std::numeric_limits<double>::infinity();
    const auto move = [&](double codes_below_zero) {
      const int64_t candidate =
          codes.quant_min + std::llround(std::clamp(codes_below_zero, 0.0, steps));
      Try(QParams{scale, candidate});
      if (!(last_ < here)) return false;
      here = last_;
      center = candidate;
      return true;
    };
    for (const double start : {-min_ * part / scale, -min_ / scale, steps - max_ / scale}) {
      move(start);
    }
    for (double step = std::max(1.0, std::floor(steps / 8)); step >= 1;
         step = std::floor(step / 2)) {
      const auto below = static_cast<double>(center - codes.quant_min);
      if (!move(below - step)) move(below + step);
    }
  }

  double min_;
  double max_;
  const IntegerSpec& spec_;
  const QParamsError& error_;
  QParams best_;
  double least_;
  double last_ = 0;    // error of the parameters that were tried last
  double factor_ = 1;  // factor of the best clipped range
};

}  // namespace

CodeRange SearchedCodes(const IntegerSpec& spec) {
  return spec.is_reduced ? UsedCodes(spec) : IntegerRange(spec.element_type);
}

QParams LeastErrorQParams(double range_min, double range_max, const IntegerSpec& spec,
                          const QParamsError& error) {
  BITPRESS_DCHECK(std::isfinite(range_min) && std::isfinite(range_max) && range_min <= range_max);
  Search search(range_min, range_max, spec, error);
  if (!(search.WholeScale() >= std::numeric_limits<float>::min())) return search.best();
  if (spec.scale_kind == ScaleKind::kPowerOfTwo) {
    search.SearchPositions();
  } else {
    search.SearchRanges();
  }
  return search.best();
}

}  // namespace bitpress::formats
