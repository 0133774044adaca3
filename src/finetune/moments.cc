#include "finetune/moments.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

namespace bitpress::finetune {
namespace {

std::vector<double> Rounded(const std::vector<ExactSum>& sums) {
  std::vector<double> numbers;
  numbers.reserve(sums.size());
  for (const ExactSum& sum : sums) numbers.push_back(sum.Round());
  return numbers;
}

// Returns sums as numbers, and releases them.
SpillableArray<double> Take(SumMatrix& sums, const MatrixShape& shape, ArrayPlace place) {
  SpillableArray<double> numbers(static_cast<size_t>(shape.groups * shape.rows * shape.columns),
                                 place);
  if (numbers.size() > 0) sums.ToDoubles(numbers.data());
  sums = {};
  return numbers;
}

}  // namespace

MomentSums::MomentSums(const MomentShape& of, ArrayPlace at)
    : shape(of),
      place(at),
      inputs(of.inputs(), at),
      cross(of.cross(), at),
      input_sums(static_cast<size_t>(of.groups * of.columns)),
      output_sums(static_cast<size_t>(of.groups * of.rows)),
      output_squares(output_sums.size()) {}

Moments MomentSums::Finish() {
  Moments moments;
  moments.has_outputs = shape.rows > 0;
  moments.num_positions = static_cast<int64_t>(num_positions);
  moments.num_skipped = static_cast<int64_t>(num_skipped);
  moments.inputs = Take(inputs, shape.inputs(), place);
  moments.cross = Take(cross, shape.cross(), place);
  moments.input_sums = Rounded(input_sums);
  moments.output_sums = Rounded(output_sums);
  moments.output_squares = Rounded(output_squares);
  *this = {};
  return moments;
}

void MomentSums::Write(ByteWriter& out) const {
  out.Compact(num_positions);
  out.Compact(num_skipped);
  out.Compact(num_terms);
  for (const std::vector<ExactSum>* sums : {&input_sums, &output_sums, &output_squares}) {
    for (const ExactSum& sum : *sums) out.Sum(sum);
  }
  inputs.Write(out);
  cross.Write(out);
}

void MomentSums::AddFrom(ByteReader& in, ThreadPool& pool) {
  constexpr uint64_t kMostPositions = uint64_t{1} << 62;
  const auto add_count = [&](uint64_t& to, uint64_t most) {
    const uint64_t count = in.Compact();
    if (count > most - to) in.FailDamaged("it counts too many positions");
    to += count;
    return count;
  };
  add_count(num_positions, kMostPositions);
  add_count(num_skipped, kMostPositions);
  const uint64_t added = add_count(num_terms, kMostWideTerms);
  for (std::vector<ExactSum>* sums : {&input_sums, &output_sums, &output_squares}) {
    for (ExactSum& sum : *sums) sum.Add(in.Sum());
  }
  inputs.AddFrom(in, added, pool);
  cross.AddFrom(in, added, pool);
}

uint64_t MomentSums::LeastBytes(const MomentShape& shape) {
  constexpr uint64_t kLeastHead = 3;  // the counts
  const auto sums = static_cast<uint64_t>(shape.groups) *
                    (static_cast<uint64_t>(shape.columns) + 2 * static_cast<uint64_t>(shape.rows));
  return kLeastHead + sums * ExactSum::kNumWords * sizeof(uint64_t) +
         SumMatrix::LeastBytes(shape.inputs()) + SumMatrix::LeastBytes(shape.cross());
}

void MomentSums::Release() const {
  inputs.Release();
  cross.Release();
}

void SubtractBias(const LinearLayer& layer, std::span<const float> bias, Moments& moments) {
  BITPRESS_DCHECK(std::ssize(bias) == layer.num_outputs());
  if (moments.num_positions == 0 || !moments.has_outputs) return;
  const auto count = static_cast<double>(moments.num_positions);
  for (size_t output = 0; output < bias.size(); ++output) {
    const double b = bias[output];
    const auto group = static_cast<int64_t>(output) / layer.rows;
    const double* const x_sums = moments.input_sums.data() + group * layer.columns;
    double* const cross = moments.cross.data() + static_cast<int64_t>(output) * layer.columns;
    for (int64_t k = 0; k < layer.columns; ++k) cross[k] -= b * x_sums[k];
    moments.output_squares[output] += b * (b * count - 2 * moments.output_sums[output]);
    moments.output_sums[output] -= b * count;
  }
}

void AddMoments(const Moments& from, Moments& to) {
  const auto add = [](const auto& of, auto& sums) {
    BITPRESS_DCHECK(of.size() == sums.size());
    std::transform(of.begin(), of.end(), sums.begin(), sums.begin(), std::plus<>());
  };
  to.num_positions += from.num_positions;
  to.num_skipped += from.num_skipped;
  add(from.inputs, to.inputs);
  add(from.cross, to.cross);
  add(from.input_sums, to.input_sums);
  add(from.output_sums, to.output_sums);
  add(from.output_squares, to.output_squares);
}

Moments SumOf(const Moments& a, const Moments& b) {
  Moments sum;
  sum.has_outputs = a.has_outputs;
  const auto copy = [](const auto& of, auto& array) {
    array = {of.size(), ArrayPlace::kHeap};
    std::ranges::copy(of, array.begin());
  };
  copy(a.inputs, sum.inputs);
  copy(a.cross, sum.cross);
  sum.num_positions = a.num_positions;
  sum.num_skipped = a.num_skipped;
  sum.input_sums = a.input_sums;
  sum.output_sums = a.output_sums;
  sum.output_squares = a.output_squares;
  AddMoments(b, sum);
  return sum;
}

uint64_t MomentBytes(const MomentShape& shape) {
  const auto groups = static_cast<uint64_t>(shape.groups);
  const auto values = static_cast<uint64_t>(shape.columns + shape.rows);
  return groups * values * static_cast<uint64_t>(shape.columns) * sizeof(double);
}

uint64_t SumBytes(const MomentShape& shape) {
  const auto groups = static_cast<uint64_t>(shape.groups);
  const auto columns = static_cast<uint64_t>(shape.columns);
  const auto rows = static_cast<uint64_t>(shape.rows);
  return SumMatrix::NumBytes(shape.inputs()) + SumMatrix::NumBytes(shape.cross()) +
         groups * (columns + 2 * rows) * sizeof(ExactSum);
}

}  // namespace bitpress::finetune
