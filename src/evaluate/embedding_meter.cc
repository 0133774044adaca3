// Embeddings: how alike two models place samples among each other.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

using Vector = std::vector<double>;

double Dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Scales a vector to length 1. One of zeros stays.
Vector Normalized(Vector vector) {
  const double norm = std::sqrt(Dot(vector, vector));
  if (norm > 0) {
    for (double& x : vector) x /= norm;
  }
  return vector;
}

// Returns the vector of a sample: the output, or the mean of its rows that the mask counts.
Vector Pooled(const SampleOutput& output, std::span<const int64_t> mask, bool takes_first) {
  if (output.dims.size() < 2) return Normalized({output.values.begin(), output.values.end()});
  const auto num_rows = static_cast<size_t>(output.dims[0]);
  const size_t size = num_rows == 0 ? 0 : output.values.size() / num_rows;
  Vector sum(size, 0.0);
  for (size_t row = 0; row < num_rows; ++row) {
    if (takes_first && row > 0) break;
    if (!mask.empty() && (row >= mask.size() || mask[row] == 0)) continue;
    for (size_t i = 0; i < size; ++i) sum[i] += output.values[row * size + i];
  }
  return Normalized(std::move(sum));
}

class EmbeddingMeter : public TaskMeter {
 public:
  EmbeddingMeter(const TaskSpec& spec, size_t output, std::map<std::string, std::string> texts)
      : output_(output), texts_(std::move(texts)), k_(static_cast<size_t>(spec.Number("k", 10))) {
    const std::string pool = spec.Text("pool", "mean");
    if (pool != "mean" && pool != "first" && pool != "none") {
      Fail(ErrorCode::kInvalidArgument, "pool '{}' is not one of mean|first|none", pool);
    }
    takes_first_ = pool == "first";
    takes_each_ = pool == "none";
  }

  void Add(const TaskSample& sample) override {
    ++num_samples_;
    // Similarities are those of pairs, so that their number grows with the square.
    constexpr size_t kMostKept = 1000;
    if (sample.reference.empty()) return;
    if (takes_each_ && sample.outputs[output_].NumRows() > 1) return AddEach(sample);
    Vector found = Pooled(sample.outputs[output_], sample.mask, takes_first_);
    Vector wanted = Pooled(sample.reference[output_], sample.mask, takes_first_);
    AddCosine(Dot(found, wanted));
    if (found_.size() >= kMostKept) return;
    has_one_size_ = has_one_size_ && (wanted_.empty() || wanted_[0].size() == wanted.size());
    found_.push_back(std::move(found));
    wanted_.push_back(std::move(wanted));
    const std::string* const text = LabelOf(texts_, sample.name);
    names_.push_back(text != nullptr ? *text : sample.name);
  }

  TaskReport Result() const override {
    TaskReport report{.task = "embedding", .num_samples = num_samples_};
    if (num_vectors_ == 0) return report;
    if (num_vectors_ > num_samples_) {
      report.how = fmt::format("{} vectors", num_vectors_);
    }
    const double mean = cosines_ / static_cast<double>(num_vectors_);
    report.figures = {{"cosine to the float vector, mean", mean, {}},
                      {"cosine to the float vector, least", least_cosine_, {}}};
    report.SetLoss(1 - mean, "1 - cosine");
    constexpr size_t kLeastRanked = 8;  // fewer samples have too few pairs to rank
    if (found_.size() < kLeastRanked || !has_one_size_) return report;
    const double rank = RankCorrelation(Similarities(wanted_), Similarities(found_));
    report.figures.push_back({"rank agreement of similarities", rank, {}});
    const size_t k = std::min(k_, found_.size() / 2);
    const std::vector<BothOrders> orders = NearestOfAll(std::max(k, kShownNeighbours));
    report.figures.push_back({fmt::format("recall@{}", k), Recall(orders, k), {}});
    report.neighbours = ChangedNeighbours(orders);
    report.SetLoss(1 - rank, "1 - rank agreement");
    return report;
  }

 private:
  void AddCosine(double cosine) {
    ++num_vectors_;
    cosines_ += std::isfinite(cosine) ? cosine : 0;
    least_cosine_ = std::min(least_cosine_, std::isfinite(cosine) ? cosine : 0);
  }

  // Adds each vector of a sample by itself. Neighbours are not ranked then: those in time are
  // alike.
  void AddEach(const TaskSample& sample) {
    const SampleOutput &outputs = sample.outputs[output_], &wanted = sample.reference[output_];
    const size_t num_rows = outputs.NumRows(), size = outputs.values.size() / num_rows;
    const auto row = [&](const SampleOutput& output, size_t i) {
      const auto values = output.values.subspan(i * size, size);
      return Normalized({values.begin(), values.end()});
    };
    for (size_t i = 0; i < num_rows; ++i) AddCosine(CosineOf(row(wanted, i), row(outputs, i)));
  }

  // Returns the cosine of two normalized vectors; 1 if both are zeros.
  static double CosineOf(const Vector& wanted, const Vector& found) {
    return wanted == found ? 1 : Dot(wanted, found);
  }

  // Returns the cosines of all pairs.
  static std::vector<double> Similarities(const std::vector<Vector>& vectors) {
    std::vector<double> similarities;
    for (size_t i = 0; i < vectors.size(); ++i) {
      for (size_t j = i + 1; j < vectors.size(); ++j) {
        similarities.push_back(Dot(vectors[i], vectors[j]));
      }
    }
    return similarities;
  }

  // The nearest other samples of one, the nearest first.
  struct BothOrders {
    std::vector<size_t> wanted, found;
  };

  static std::vector<size_t> Nearest(const std::vector<Vector>& vectors, size_t i, size_t k) {
    std::vector<std::pair<double, size_t>> others;
    for (size_t j = 0; j < vectors.size(); ++j) {
      if (j != i) others.emplace_back(-Dot(vectors[i], vectors[j]), j);
    }
    std::ranges::partial_sort(others, others.begin() + static_cast<ptrdiff_t>(k));
    std::vector<size_t> nearest;
    for (size_t j = 0; j < k; ++j) nearest.push_back(others[j].second);
    return nearest;
  }

  std::vector<BothOrders> NearestOfAll(size_t k) const {
    std::vector<BothOrders> orders;
    for (size_t i = 0; i < found_.size(); ++i) {
      orders.push_back({Nearest(wanted_, i, k), Nearest(found_, i, k)});
    }
    return orders;
  }

  // Returns the share of the float model's k nearest neighbours that are the model's, too.
  static double Recall(const std::vector<BothOrders>& orders, size_t k) {
    size_t num_found = 0;
    for (const auto& [wanted, found] : orders) {
      const std::span<const size_t> others = std::span(found).first(k);
      num_found +=
          static_cast<size_t>(std::ranges::count_if(std::span(wanted).first(k), [&](size_t j) {
            return std::ranges::find(others, j) != others.end();
          }));
    }
    return static_cast<double>(num_found) / static_cast<double>(k * orders.size());
  }

  // Returns the samples most of whose neighbours have other places, the first of equals first.
  NeighbourReport ChangedNeighbours(const std::vector<BothOrders>& orders) const {
    constexpr size_t kMostSamples = 6;
    NeighbourReport report{.num_neighbours = kShownNeighbours, .num_samples = orders.size()};
    std::vector<std::pair<size_t, size_t>> changed;  // places that are the same, sample
    for (size_t i = 0; i < orders.size(); ++i) {
      size_t num_same = 0;
      for (size_t p = 0; p < kShownNeighbours; ++p) {
        num_same += orders[i].wanted[p] == orders[i].found[p];
      }
      if (num_same == kShownNeighbours) {
        ++report.num_same;
      } else {
        changed.emplace_back(num_same, i);
      }
    }
    std::ranges::sort(changed);
    changed.resize(std::min(changed.size(), kMostSamples));
    for (const auto& [num_same, i] : changed) {
      report.changed.push_back({.name = names_[i],
                                .found = Named(orders[i].found, i, found_, wanted_),
                                .wanted = Named(orders[i].wanted, i, wanted_, found_)});
    }
    return report;
  }

  std::vector<Neighbour> Named(const std::vector<size_t>& order, size_t i,
                               const std::vector<Vector>& vectors,
                               const std::vector<Vector>& others) const {
    const std::vector<size_t> ranks = Nearest(others, i, others.size() - 1);
    std::vector<Neighbour> neighbours;
    for (const size_t j : std::span(order).first(kShownNeighbours)) {
      const auto rank = std::ranges::find(ranks, j) - ranks.begin() + 1;
      neighbours.push_back({names_[j], Dot(vectors[i], vectors[j]), static_cast<uint64_t>(rank)});
    }
    return neighbours;
  }

  static constexpr size_t kShownNeighbours = 5;

  size_t output_;
  std::map<std::string, std::string> texts_;
  size_t k_;
  bool takes_first_ = false, takes_each_ = false;
  bool has_one_size_ = true;  // vectors of several sizes have no similarities
  uint64_t num_samples_ = 0, num_vectors_ = 0;
  double cosines_ = 0, least_cosine_ = 1;
  std::vector<Vector> found_, wanted_;
  std::vector<std::string> names_;  // of these samples, or their texts
};

}  // namespace

std::unique_ptr<TaskMeter> MakeEmbeddingMeter(const TaskSpec& spec, size_t output,
                                              std::map<std::string, std::string> texts) {
  return std::make_unique<EmbeddingMeter>(spec, output, std::move(texts));
}

}  // namespace bitpress::evaluate
