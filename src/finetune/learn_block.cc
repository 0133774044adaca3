#include "finetune/learn_block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "finetune/block_crops.h"

namespace bitpress::finetune {
namespace {

// The rates of the first step: in steps of the format, in parts of the outputs' root mean square,
// and in parts of the factor itself.
constexpr double kWeightRate = 0.05, kRateFromRoundings = 0.02;
constexpr double kBiasRate = 0.01;
constexpr double kFactorRate = 0.005;
// In this share of the steps weights are rounded more and more, in the others wholly. Gradients of
// weights that jump from the start say less about where they should go.
constexpr double kSoftShare = 0.5;
// The steps from given roundings as a share of the others.
constexpr double kStepsFromRoundings = 0.5;
// The state is validated so often while it learns.
constexpr size_t kNumValidations = 5;
// Training samples that the error on them is measured with.
constexpr size_t kMostMeasured = 32;

// The moments of Adam (Kingma and Ba, 2015).
class AdamMoments {
 public:
  explicit AdamMoments(size_t size) : first_(size), second_(size) {}
  // Begins a step, which are counted from 0 on.
  void Begin(size_t step) {
    const auto count = static_cast<double>(step + 1);
    first_factor_ = 1 / (1 - std::pow(kFirst, count));
    second_factor_ = 1 / (1 - std::pow(kSecond, count));
  }
  // Returns the move for one gradient, for a rate of 1. Several threads may call it for different
  // i.
  double Move(size_t i, double gradient) {
    const double mean = kFirst * double{first_[i]} + (1 - kFirst) * gradient;
    const double square = kSecond * double{second_[i]} + (1 - kSecond) * gradient * gradient;
    first_[i] = static_cast<float>(mean);
    second_[i] = static_cast<float>(square);
    const double root = std::sqrt(square * second_factor_);
    return root > 0 ? mean * first_factor_ / root : 0.0;
  }

 private:
  static constexpr double kFirst = 0.9, kSecond = 0.999;
  std::vector<float> first_, second_;
  double first_factor_ = 1, second_factor_ = 1;
};

// A weight W + V * step, and its rounding.
class LearningWeight {
 public:
  LearningWeight(BlockWeight& weight, ThreadPool& pool)
      : weight_(weight),
        moves_(weight.wanted.size()),
        steps_(weight.wanted.size()),
        moments_(weight.learns ? weight.wanted.size() : 0) {
    ForElements(pool, [&](size_t i) {
      steps_[i] = static_cast<float>(weight_.grid.StepAt(i, double{weight_.wanted[i]}));
    });
    KeepLargestOfBlocks();
  }

  void Round(std::vector<float>& values, ThreadPool& pool) const {
    values.resize(moves_.size());
    ForElements(pool, [&](size_t i) { values[i] = weight_.grid.Round(i, ValueOf(i)); });
    if (!weight_.grid.has_pairs()) return;
    std::vector<float> wanted(moves_.size());
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<float>(ValueOf(i));
    weight_.grid.FitPairs(wanted, values, pool);
  }

  // Gives values between x and those of the grid (WeightGrid::RoundSoftly).
  void RoundSoftly(double sharpness, std::vector<float>& values, ThreadPool& pool) const {
    values.resize(moves_.size());
    ForElements(pool, [&](size_t i) {
      values[i] = steps_[i] == 0 ? weight_.grid.Round(i, ValueOf(i))
                                 : weight_.grid.RoundSoftly(i, ValueOf(i), sharpness);
    });
  }

  void Learn(const std::vector<float>& gradient, const std::vector<float>& values, size_t step,
             double rate, ThreadPool& pool) {
    moments_.Begin(step);
    ForElements(pool, [&](size_t i) {
      const double size = double{steps_[i]};
      // A saturated value does not move.
      if (size == 0 || std::abs(double{values[i]} - ValueOf(i)) > size) return;
      const double before = double{moves_[i]};
      const double move = moments_.Move(i, double{gradient[i]} * size) + weight_.decay * before;
      moves_[i] = static_cast<float>(std::clamp(before - rate * move, -0.5, 0.5));
    });
  }

  BlockWeight& weight() const { return weight_; }
  std::vector<float>& moves() { return moves_; }

 private:
  double ValueOf(size_t i) const {
    return double{weight_.wanted[i]} + double{moves_[i]} * double{steps_[i]};
  }
  template <typename Run>
  void ForElements(ThreadPool& pool, const Run& run) const {
    constexpr size_t kAtOnce = 8192;
    const size_t count = moves_.size();
    pool.ParallelFor((count + kAtOnce - 1) / kAtOnce, [&](size_t task) {
      const size_t end = std::min(count, (task + 1) * kAtOnce);
      for (size_t i = task * kAtOnce; i < end; ++i) run(i);
    });
  }
  // The writer chooses the scale of a block by its largest value. If that is no power of two, the
  // largest value has to stay.
  void KeepLargestOfBlocks() {
    if (!weight_.grid.has_scales_of_largest()) return;
    std::vector<size_t> largest(weight_.grid.num_scales(), std::numeric_limits<size_t>::max());
    for (size_t i = 0; i < moves_.size(); ++i) {
      size_t& known = largest[weight_.grid.ScaleIndexOf(i)];
      const bool is_larger =
          known >= moves_.size() || std::abs(weight_.wanted[i]) > std::abs(weight_.wanted[known]);
      if (is_larger) known = i;
    }
    for (const size_t i : largest) {
      if (i < steps_.size()) steps_[i] = 0;
    }
  }

  BlockWeight& weight_;
  std::vector<float> moves_;  // V
  std::vector<float> steps_;  // 0: the weight stays
  AdamMoments moments_;
};

struct LearningVector {
  BlockVector vector;
  std::vector<double> rates = {};  // of the elements
  AdamMoments moments{0};
};

class BlockLearner {
 public:
  BlockLearner(gradients::Block<float>& block, std::vector<BlockWeight>& weights,
               std::span<const BlockVector> vectors, const BlockSamples& samples,
               const LearnBlockOptions& options, ThreadPool& pool)
      : block_(block), block_weights_(weights), samples_(samples), options_(options), pool_(pool) {
    for (const BlockVector& vector : vectors) vectors_.push_back({vector});
    Begin();
    RoundAll();
    batches_.emplace(block, samples);
  }

  LearnedBlock Run() {
    LearnedBlock learned;
    learned.before = learned.after = MeasureBoth();
    SetVectorRates();
    Keep();
    least_ = learned.before.validation;
    is_rounded_ = options_.start == BlockStart::kRoundings;
    LearnFor(0, options_.num_steps, learned);
    if (options_.start == BlockStart::kBoth) {
      Undo();
      Begin();
      is_rounded_ = true;
      LearnFor(options_.num_steps, NumStepsOf(options_) - options_.num_steps, learned);
    }
    TakeBack();
    learned.is_better = least_ < options_.most_error * learned.before.validation;
    if (!learned.is_better) {
      Undo();
      return learned;
    }
    Store(learned);
    learned.after = MeasureBoth();
    return learned;
  }

 private:
  // Forgets what was learned, but for the vectors.
  void Begin() {
    weights_.clear();
    for (BlockWeight& weight : block_weights_) weights_.emplace_back(weight, pool_);
    for (LearningVector& vector : vectors_) {
      vector.moments = AdamMoments(ValuesOf(vector).size());
    }
  }

  // Learns from the present start, and keeps the state if it is the best one so far. `first` steps
  // were before.
  void LearnFor(size_t first, size_t num_steps, LearnedBlock& learned) {
    num_steps_ = num_steps;
    std::mt19937_64 random(options_.seed);
    std::vector<size_t> order;
    for (size_t step = 0; step < num_steps; ++step) {
      const std::vector<size_t> runs = NextRuns(order, random);
      RoundFor(step);
      const double loss = LearnStep(batches_->Read(runs, random), step);
      if (options_.progress) options_.progress(first + step + 1, loss);
      const bool is_last = step + 1 == num_steps;
      const size_t every = std::max<size_t>(1, num_steps / kNumValidations);
      if ((step + 1) % every != 0 && !is_last) continue;
      RoundAll();
      const double error = Measure(samples_.validation);
      if (error < least_) {
        least_ = error;
        learned.best_step = first + step + 1;
        Keep();
      }
    }
  }

  std::vector<float>& ValuesOf(const LearningVector& vector) const {
    return block_.Constant(vector.vector.name).values;
  }

  void RoundAll() {
    for (LearningWeight& weight : weights_) {
      weight.Round(block_.Constant(weight.weight().name).values, pool_);
    }
  }

  // Gives the block the weights of a step.
  void RoundFor(size_t step) {
    if (is_rounded_) return RoundAll();
    const double part = static_cast<double>(step) / (kSoftShare * static_cast<double>(num_steps_));
    if (part >= 1) return RoundAll();
    for (LearningWeight& weight : weights_) {
      std::vector<float>& values = block_.Constant(weight.weight().name).values;
      if (weight.weight().learns) weight.RoundSoftly(1 / (1 - part), values, pool_);
    }
  }

  // Returns the runs of the next step: all training runs come once in a random order, then again.
  std::vector<size_t> NextRuns(std::vector<size_t>& order, std::mt19937_64& random) const {
    std::vector<size_t> runs;
    while (runs.size() < std::min(options_.batch_size, samples_.training.size())) {
      if (order.empty()) {
        order = samples_.training;
        // Not std::shuffle, whose order depends on the library.
        for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
      }
      runs.push_back(order.back());
      order.pop_back();
    }
    return runs;
  }

  // Sets the outputs' gradients of the loss, the sum of squares times `factor`. Returns the sum.
  double SetGradients(const BlockBatch& batch, double factor) {
    double sum = 0;
    for (size_t k = 0; k < batch.outputs.size(); ++k) {
      const gradients::Array<float>& found = block_.Output(k);
      const gradients::Array<float>& wanted = batch.outputs[k];
      gradients::Array<float>& gradient = block_.OutputGradient(k);
      gradient.Reshape(found.dims);
      ForDifferences(batch, k, [&](size_t i, double weight) {
        const double difference = double{found.values[i]} - double{wanted.values[i]};
        sum += weight * difference * difference;
        gradient.values[i] = static_cast<float>(2 * factor * weight * difference);
      });
    }
    return sum;
  }

  // Calls run(element, how much it counts) for the elements of an output.
  template <typename Run>
  void ForDifferences(const BlockBatch& batch, size_t output, const Run& run) const {
    const gradients::Array<float>& wanted = batch.outputs[output];
    if (options_.evens_positions && wanted.size() > 0) return ForEvenPositions(wanted, run);
    if (batch.counts.empty()) {
      for (size_t i = 0; i < wanted.size(); ++i) run(i, 1.0);
      return;
    }
    const std::span<const int64_t> dims = wanted.dims;
    const auto plane = static_cast<size_t>(gradients::Extent(dims, dims.size() - 2, dims.size()));
    const size_t channels = wanted.size() / plane / static_cast<size_t>(dims[0]);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const size_t sample = i / plane / channels;
      run(i, double{batch.counts[sample * plane + i % plane]});
    }
  }

  // The first position of a text may have 25,000 times the square of the others, which read it. If
  // all count alike, the others hardly learn; if each counts by its share, the first one is lost.
  template <typename Run>
  static void ForEvenPositions(const gradients::Array<float>& wanted, const Run& run) {
    const auto length = static_cast<size_t>(wanted.dims.empty() ? 1 : wanted.dims.back());
    for (size_t first = 0; first < wanted.size(); first += length) {
      double square = 0;
      for (size_t i = first; i < first + length; ++i) {
        square += double{wanted.values[i]} * double{wanted.values[i]};
      }
      const double weight = square > 0 ? 1 / std::sqrt(square) : 0.0;
      for (size_t i = first; i < first + length; ++i) run(i, weight);
    }
  }

  double LearnStep(const std::vector<BlockBatch>& batches, size_t step) {
    const double rate = 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(step) /
                                            static_cast<double>(num_steps_)));
    const double weight_rate = (is_rounded_ ? kRateFromRoundings : kWeightRate) * rate;
    std::vector<std::vector<float>> of_weights(weights_.size()), of_vectors(vectors_.size());
    double sum = 0;
    double signal = 0;
    for (const BlockBatch& batch : batches) {
      RunBlock(block_, batch);
      sum += SetGradients(batch, 1.0);
      signal += SignalOf(batch);
      block_.Backward();
      for (size_t i = 0; i < weights_.size(); ++i) {
        if (weights_[i].weight().learns) Add(weights_[i].weight().name, of_weights[i]);
      }
      for (size_t i = 0; i < vectors_.size(); ++i) Add(vectors_[i].vector.name, of_vectors[i]);
    }
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (!weights_[i].weight().learns) continue;
      const std::vector<float>& values = block_.Constant(weights_[i].weight().name).values;
      weights_[i].Learn(of_weights[i], values, step, weight_rate, pool_);
    }
    for (size_t i = 0; i < vectors_.size(); ++i) {
      std::vector<float>& values = ValuesOf(vectors_[i]);
      vectors_[i].moments.Begin(step);
      for (size_t k = 0; k < values.size(); ++k) {
        const double move = vectors_[i].moments.Move(k, double{of_vectors[i][k]});
        values[k] = static_cast<float>(double{values[k]} - vectors_[i].rates[k] * rate * move);
      }
    }
    return signal > 0 ? sum / signal : 0.0;
  }

  void Add(const std::string& name, std::vector<float>& sum) const {
    const std::vector<float>& gradient = block_.Gradient(name).values;
    if (sum.empty()) {
      sum = gradient;
      return;
    }
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }

  // Returns the sum of squares of what counts of the outputs, about their mean.
  double SignalOf(const BlockBatch& batch) const {
    double signal = 0;
    for (size_t k = 0; k < batch.outputs.size(); ++k) {
      double sum = 0;
      double square = 0;
      double count = 0;
      ForDifferences(batch, k, [&](size_t i, double weight) {
        const double value = double{batch.outputs[k].values[i]};
        sum += weight * value;
        square += weight * value * value;
        count += weight;
      });
      if (count > 0) signal += std::max(square - sum * sum / count, 0.0);
    }
    return signal;
  }

  // Returns the error on samples as a share of the variance. The parts of pictures are the same in
  // each call.
  double Measure(std::span<const size_t> runs) {
    std::mt19937_64 random(options_.seed + 1);
    double sum = 0;
    double signal = 0;
    for (size_t first = 0; first < runs.size(); first += options_.batch_size) {
      const size_t count = std::min(options_.batch_size, runs.size() - first);
      for (const BlockBatch& batch : batches_->Read(runs.subspan(first, count), random)) {
        RunBlock(block_, batch);
        for (size_t k = 0; k < batch.outputs.size(); ++k) {
          const std::vector<float>& found = block_.Output(k).values;
          ForDifferences(batch, k, [&](size_t i, double weight) {
            sum += weight * std::pow(double{found[i]} - double{batch.outputs[k].values[i]}, 2);
          });
        }
        signal += SignalOf(batch);
      }
    }
    return signal > 0 ? sum / signal : sum;
  }

  BlockErrors MeasureBoth() {
    const std::span<const size_t> training = samples_.training;
    return {Measure(training.first(std::min(kMostMeasured, training.size()))),
            Measure(samples_.validation)};
  }

  // Biases move in parts of what they are added to, which the outputs stand for, and factors in
  // parts of themselves.
  void SetVectorRates() {
    double square = 0;
    double count = 0;
    const BlockSample sample = samples_.read(samples_.training.front());
    for (const gradients::Array<float>& output : sample.outputs) {
      for (const float value : output.values) square += double{value} * double{value};
      count += static_cast<double>(output.size());
    }
    const double size = count > 0 ? std::sqrt(square / count) : 0.0;
    for (LearningVector& vector : vectors_) {
      for (const float value : ValuesOf(vector)) {
        const bool is_factor = vector.vector.is_factor;
        vector.rates.push_back(is_factor ? kFactorRate * std::abs(double{value})
                                         : kBiasRate * size);
      }
    }
  }

  struct State {
    std::vector<std::vector<float>> moves, vectors;
  };
  State Present() {
    State state;
    for (LearningWeight& weight : weights_) state.moves.push_back(weight.moves());
    for (const LearningVector& vector : vectors_) state.vectors.push_back(ValuesOf(vector));
    return state;
  }
  void Keep() {
    best_ = Present();
    if (!first_) first_ = best_;
  }
  void Set(const State& state) {
    for (size_t i = 0; i < weights_.size(); ++i) weights_[i].moves() = state.moves[i];
    for (size_t i = 0; i < vectors_.size(); ++i) ValuesOf(vectors_[i]) = state.vectors[i];
    RoundAll();
  }
  void TakeBack() { Set(best_); }
  void Undo() { Set(*first_); }

  // The network stores what the grid makes of the values.
  void Store(LearnedBlock& learned) {
    for (LearningWeight& weight : weights_) {
      if (!weight.weight().learns) continue;
      std::vector<float>& values = block_.Constant(weight.weight().name).values;
      QuantizedWeight stored = weight.weight().grid.Quantize(values, pool_);
      values = stored.values;
      learned.weights.emplace(weight.weight().name, std::move(stored));
    }
    for (const LearningVector& vector : vectors_) {
      learned.vectors.emplace(vector.vector.name, ValuesOf(vector));
    }
  }

  gradients::Block<float>& block_;
  std::vector<BlockWeight>& block_weights_;
  const BlockSamples& samples_;
  const LearnBlockOptions& options_;
  ThreadPool& pool_;
  std::vector<LearningWeight> weights_;
  std::vector<LearningVector> vectors_;
  std::optional<BlockBatches> batches_;
  size_t num_steps_ = 0;     // from the present start
  bool is_rounded_ = false;  // wholly, from the present start
  double least_ = 0;         // validation error of best_
  State best_;
  std::optional<State> first_;
};

}  // namespace

size_t NumStepsOf(const LearnBlockOptions& options) {
  if (options.start != BlockStart::kBoth) return options.num_steps;
  return options.num_steps +
         static_cast<size_t>(kStepsFromRoundings * static_cast<double>(options.num_steps));
}

LearnedBlock LearnBlock(gradients::Block<float>& block, std::vector<BlockWeight>& weights,
                        std::span<const BlockVector> vectors, const BlockSamples& samples,
                        const LearnBlockOptions& options, ThreadPool& pool) {
  return BlockLearner(block, weights, vectors, samples, options, pool).Run();
}

}  // namespace bitpress::finetune
