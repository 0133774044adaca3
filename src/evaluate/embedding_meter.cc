// Embeddings: how alike two models place samples among each other.
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "base/content_hash.h"
#include "base/error.h"
#include "evaluate/metrics.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

using Vector = std::vector<double>;

double Dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Returns the cosine of two vectors of length 1; 0 if numbers are lost.
double Similarity(const Vector& a, const Vector& b) {
  const double cosine = Dot(a, b);
  return std::isfinite(cosine) ? cosine : 0;
}

// A sample by its file, the name by which people know it, and what both models make of it.
struct Embedded {
  std::string file, name;
  Vector found, wanted;

  void Write(ByteWriter& writer) const {
    for (const std::string* const text : {&file, &name}) writer.Text(*text);
    for (const Vector* const vector : {&found, &wanted}) {
      writer.Compact(vector->size());
      for (const double x : *vector) writer.Number(std::bit_cast<uint64_t>(x));
    }
  }

  static Embedded Read(ByteReader& reader) {
    Embedded sample;
    for (std::string* const text : {&sample.file, &sample.name}) *text = reader.Text();
    for (Vector* const vector : {&sample.found, &sample.wanted}) {
      vector->resize(reader.Count(sizeof(uint64_t)));
      for (double& x : *vector) x = std::bit_cast<double>(reader.Number<uint64_t>());
    }
    return sample;
  }
};

// Keeps the samples whose content has the lowest hashes, so that the kept ones do not depend on the
// order in which samples come.
class KeptSamples {
 public:
  void Add(Embedded sample) {
    // Similarities are those of pairs, so that their number grows with the square.
    constexpr size_t kMostKept = 1000;
    ByteWriter content;
    sample.Write(content);
    ContentHash hash;
    hash.Add(content.bytes());
    samples_.emplace(hash.value(), std::move(sample));
    if (samples_.size() > kMostKept) samples_.erase(std::prev(samples_.end()));
  }

  void Add(const KeptSamples& other) {
    for (const auto& [hash, sample] : other.samples_) Add(sample);
  }

  // Returns the samples in the order of their files.
  std::vector<const Embedded*> ByFile() const {
    std::vector<const Embedded*> sorted;
    for (const auto& [hash, sample] : samples_) sorted.push_back(&sample);
    std::ranges::stable_sort(sorted, {}, &Embedded::file);
    return sorted;
  }

  void Write(ByteWriter& writer) const {
    writer.Compact(samples_.size());
    for (const auto& [hash, sample] : samples_) sample.Write(writer);
  }

  static KeptSamples Read(ByteReader& reader) {
    constexpr size_t kLeastBytes = 4;
    KeptSamples samples;
    for (size_t i = reader.Count(kLeastBytes); i > 0; --i) samples.Add(Embedded::Read(reader));
    return samples;
  }

 private:
  std::multimap<uint64_t, Embedded> samples_;  // by the hashes of their content
};

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
      : output_(output),
        texts_(std::move(texts)),
        k_(static_cast<size_t>(spec.Integer("k", 10, 1, std::numeric_limits<int32_t>::max()))) {
    const std::string pool = spec.Text("pool", "mean");
    if (pool != "mean" && pool != "first" && pool != "none") {
      Fail(ErrorCode::kInvalidArgument, "pool '{}' is not one of mean|first|none", pool);
    }
    takes_first_ = pool == "first";
    takes_each_ = pool == "none";
  }

  void Add(const TaskSample& sample) override {
    ++num_samples_;
    if (sample.reference.empty()) return;
    if (takes_each_ && sample.outputs[output_].NumRows() > 1) return AddEach(sample);
    Vector found = Pooled(sample.outputs[output_], sample.mask, takes_first_);
    Vector wanted = Pooled(sample.reference[output_], sample.mask, takes_first_);
    AddCosine(Dot(found, wanted));
    const std::string* const text = LabelOf(texts_, sample.name);
    kept_.Add(
        {sample.name, text != nullptr ? *text : sample.name, std::move(found), std::move(wanted)});
  }

  TaskReport Result() const override {
    TaskReport report{.task = "embedding", .num_samples = num_samples_};
    if (num_vectors_ == 0) return report;
    if (num_vectors_ > num_samples_) {
      report.how = fmt::format("{} vectors", num_vectors_);
    }
    const double mean = cosines_.value() / static_cast<double>(num_vectors_);
    report.figures = {{"cosine to the float vector, mean", mean, {}},
                      {"cosine to the float vector, least", least_cosine_, {}}};
    report.SetLoss(1 - mean, "1 - cosine");
    AddRanks(report);
    return report;
  }

  void Merge(const TaskMeter& other) override {
    const auto& same = dynamic_cast<const EmbeddingMeter&>(other);
    if (k_ != same.k_) FailOtherSettings();
    num_samples_ += same.num_samples_;
    num_vectors_ += same.num_vectors_;
    cosines_.Add(same.cosines_);
    least_cosine_ = std::min(least_cosine_, same.least_cosine_);
    kept_.Add(same.kept_);
  }

  void Write(ByteWriter& writer) const override {
    for (const uint64_t count : {uint64_t{k_}, num_samples_, num_vectors_}) writer.Compact(count);
    cosines_.Write(writer);
    writer.Number(std::bit_cast<uint64_t>(least_cosine_));
    kept_.Write(writer);
  }

  void Read(ByteReader& reader) override {
    k_ = static_cast<size_t>(reader.Compact());
    if (k_ == 0) reader.FailDamaged("no neighbours are compared");
    for (uint64_t* const count : {&num_samples_, &num_vectors_}) *count = reader.Compact();
    cosines_ = OrderlessSum::Read(reader);
    least_cosine_ = std::bit_cast<double>(reader.Number<uint64_t>());
    if (!std::isfinite(least_cosine_)) reader.FailDamaged("the least cosine is not finite");
    kept_ = KeptSamples::Read(reader);
  }

 private:
  void AddCosine(double cosine) {
    ++num_vectors_;
    cosines_.Add(std::isfinite(cosine) ? cosine : 0);
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

  // Adds the ranks of the similarities, and the nearest neighbours, of samples whose vectors have
  // one size.
  void AddRanks(TaskReport& report) const {
    constexpr size_t kLeastRanked = 8;  // fewer samples have too few pairs to rank
    const std::vector<const Embedded*> samples = kept_.ByFile();
    const bool has_one_size = std::ranges::all_of(samples, [&](const Embedded* sample) {
      const size_t size = samples[0]->wanted.size();
      return sample->wanted.size() == size && sample->found.size() == size;
    });
    if (samples.size() < kLeastRanked || !has_one_size) return;
    const double rank = RankCorrelation(Similarities(samples, &Embedded::wanted),
                                        Similarities(samples, &Embedded::found));
    report.figures.push_back({"rank agreement of similarities", rank, {}});
    const size_t k = std::min(k_, samples.size() / 2);
    const std::vector<BothOrders> orders = NearestOfAll(samples, std::max(k, kShownNeighbours));
    report.figures.push_back({fmt::format("recall@{}", k), Recall(orders, k), {}});
    report.neighbours = ChangedNeighbours(samples, orders);
    report.SetLoss(1 - rank, "1 - rank agreement");
  }

  // Returns the cosine of two normalized vectors; 1 if both are zeros.
  static double CosineOf(const Vector& wanted, const Vector& found) {
    return wanted == found ? 1 : Dot(wanted, found);
  }

  using Samples = std::vector<const Embedded*>;
  using Model = Vector Embedded::*;  // the vectors of one of both

  // Returns the cosines of all pairs.
  static std::vector<double> Similarities(const Samples& samples, Model model) {
    std::vector<double> similarities;
    for (size_t i = 0; i < samples.size(); ++i) {
      for (size_t j = i + 1; j < samples.size(); ++j) {
        similarities.push_back(Similarity(samples[i]->*model, samples[j]->*model));
      }
    }
    return similarities;
  }

  // The nearest other samples of one, the nearest first.
  struct BothOrders {
    std::vector<size_t> wanted, found;
  };

  static std::vector<size_t> Nearest(const Samples& samples, Model model, size_t i, size_t k) {
    std::vector<std::pair<double, size_t>> others;
    for (size_t j = 0; j < samples.size(); ++j) {
      if (j != i) others.emplace_back(-Similarity(samples[i]->*model, samples[j]->*model), j);
    }
    std::ranges::partial_sort(others, others.begin() + static_cast<ptrdiff_t>(k));
    std::vector<size_t> nearest;
    for (size_t j = 0; j < k; ++j) nearest.push_back(others[j].second);
    return nearest;
  }

  static std::vector<BothOrders> NearestOfAll(const Samples& samples, size_t k) {
    std::vector<BothOrders> orders;
    for (size_t i = 0; i < samples.size(); ++i) {
      orders.push_back(
          {Nearest(samples, &Embedded::wanted, i, k), Nearest(samples, &Embedded::found, i, k)});
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
  static NeighbourReport ChangedNeighbours(const Samples& samples,
                                           const std::vector<BothOrders>& orders) {
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
      report.changed.push_back(
          {.name = samples[i]->name,
           .found = Named(orders[i].found, i, samples, &Embedded::found, &Embedded::wanted),
           .wanted = Named(orders[i].wanted, i, samples, &Embedded::wanted, &Embedded::found)});
    }
    return report;
  }

  static std::vector<Neighbour> Named(const std::vector<size_t>& order, size_t i,
                                      const Samples& samples, Model model, Model other) {
    const std::vector<size_t> ranks = Nearest(samples, other, i, samples.size() - 1);
    std::vector<Neighbour> neighbours;
    for (const size_t j : std::span(order).first(kShownNeighbours)) {
      const auto rank = std::ranges::find(ranks, j) - ranks.begin() + 1;
      neighbours.push_back({samples[j]->name, Similarity(samples[i]->*model, samples[j]->*model),
                            static_cast<uint64_t>(rank)});
    }
    return neighbours;
  }

  static constexpr size_t kShownNeighbours = 5;

  size_t output_;
  std::map<std::string, std::string> texts_;
  size_t k_;
  bool takes_first_ = false, takes_each_ = false;
  uint64_t num_samples_ = 0, num_vectors_ = 0;
  OrderlessSum cosines_;
  double least_cosine_ = 1;
  KeptSamples kept_;
};

}  // namespace

std::unique_ptr<TaskMeter> MakeEmbeddingMeter(const TaskSpec& spec, size_t output,
                                              std::map<std::string, std::string> texts) {
  return std::make_unique<EmbeddingMeter>(spec, output, std::move(texts));
}

}  // namespace bitpress::evaluate
