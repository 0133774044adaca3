#include "finetune/moment_accumulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/check.h"
#include "base/content_hash.h"
#include "kernels/row_products.h"

namespace bitpress::finetune {
namespace {

constexpr auto kProductStep = static_cast<int64_t>(kernels::kRowProductStep);
// Number of floats, of positions that wait to be summed up.
constexpr int64_t kBufferedFloats = int64_t{1} << 20;
// Rows of a matrix that are multiplied together: two such tiles of the longest buffered rows fit
// the second-level cache.
constexpr int64_t kSumTileRows = SumMatrix::kTile;

// Returns the positions of one term, and that the buffer has room for. Terms must follow from the
// layer alone, so that sums do not depend on how runs are divided.
int64_t PositionsOfTerm(const MomentShape& shape) {
  const int64_t num_rows = shape.groups * (shape.columns + shape.rows);
  const int64_t wanted = std::clamp<int64_t>(kBufferedFloats / num_rows, 64, 4096);
  return wanted / kProductStep * kProductStep;
}

// Writes the elements of a row at `positions`, which ascend. `read(first, count, out)` reads
// consecutive elements of the row.
void ReadSome(std::span<const int64_t> positions,
              const std::function<void(int64_t first, int64_t count, float* out)>& read,
              float* out) {
  constexpr int64_t kMostTogether = 4096;
  std::vector<float> elements;
  for (size_t i = 0; i < positions.size();) {
    const int64_t first = positions[i];
    size_t end = i + 1;
    while (end < positions.size() && positions[end] - first < kMostTogether) ++end;
    elements.resize(static_cast<size_t>(positions[end - 1] - first) + 1);
    read(first, static_cast<int64_t>(elements.size()), elements.data());
    for (; i < end; ++i) *out++ = elements[static_cast<size_t>(positions[i] - first)];
  }
}

// Returns whether no sum can hold a number: it is NaN, infinite or far too large.
bool IsSpecial(float x) { return !(std::fabs(x) < kMostMagnitude); }

}  // namespace

MomentShape ShapeOf(const LinearLayer& layer) {
  return {.groups = layer.groups,
          .rows = layer.observes_outputs() ? layer.rows : 0,
          .columns = layer.columns};
}

uint64_t AccumulatorBytes(const LinearLayer& layer) {
  const MomentShape shape = ShapeOf(layer);
  return SumBytes(shape) + static_cast<uint64_t>(shape.groups * (shape.columns + shape.rows) *
                                                 PositionsOfTerm(shape)) *
                               sizeof(float);
}

struct MomentAccumulator::State {
  State(const LinearLayer& of, const MomentOptions& with)
      : layer(of),
        options(with),
        shape(ShapeOf(of)),
        // Layers that share moments choose the same positions, whichever of them comes first.
        seed(with.seed ^
             Crc32c(of.observes_outputs() ? of.weight : fmt::format("input {}", of.float_input))),
        capacity(PositionsOfTerm(shape)),
        sums(shape, with.is_spilled ? ArrayPlace::kTemporaryFile : ArrayPlace::kHeap) {
    x = {static_cast<size_t>(num_inputs() * capacity), sums.place};
    y = {static_cast<size_t>(num_outputs() * capacity), sums.place};
  }

  int64_t num_inputs() const { return shape.groups * shape.columns; }
  int64_t num_outputs() const { return shape.groups * shape.rows; }
  float* InputRow(int64_t row) { return x.data() + row * capacity; }
  float* OutputRow(int64_t row) { return y.data() + row * capacity; }
  // Returns row i of all values: inputs, and outputs behind them.
  float* Row(int64_t row) {
    return row < num_inputs() ? InputRow(row) : OutputRow(row - num_inputs());
  }
  // Returns a random number that follows from these.
  uint64_t Random(uint64_t run, uint64_t place) const {
    ContentHash hash;
    for (const uint64_t number : {seed, run, place}) hash.AddNumber(number);
    return hash.value();
  }

  std::vector<int64_t> ChoosePositions(const RunPart& of, int64_t first, int64_t count) const;
  void SkipSpecials(int64_t begin, int64_t count);
  void Flush(const runtime::ParallelTasks& run_parallel);
  void AddProducts(int64_t group, int64_t first, int64_t count, const float* rows, SumMatrix& to);
  void AddGroupTile(int64_t group, int64_t tile);

  // Releases the memory of spilled arrays until they are used again.
  void Release() const {
    sums.Release();
    x.Release();
    y.Release();
  }

  // Positions in the buffer whose products are one term.
  struct Term {
    int64_t begin = 0;
    int64_t count = 0;   // positions
    int64_t length = 0;  // with zeros behind them
  };

  const LinearLayer& layer;
  MomentOptions options;
  MomentShape shape;
  uint64_t seed;
  int64_t capacity;
  int64_t num_buffered = 0;
  std::vector<Term> terms;     // in the buffer
  SpillableArray<float> x, y;  // rows of `capacity` positions
  MomentSums sums;
};

// Cuts the positions from `first` on into as many equal parts as positions count, and chooses one
// position of each, in ascending order. Returns nothing if all count.
std::vector<int64_t> MomentAccumulator::State::ChoosePositions(const RunPart& of, int64_t first,
                                                               int64_t count) const {
  const int64_t wanted = options.num_positions;
  if (wanted == 0 || count <= wanted) return {};
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t begin = first + i * count / wanted;
    const int64_t end = first + (i + 1) * count / wanted;
    const uint64_t random = Random(of.run, static_cast<uint64_t>(begin)) >> 32;
    chosen.push_back(begin + static_cast<int64_t>(random % static_cast<uint64_t>(end - begin)));
  }
  return chosen;
}

// Sets buffered positions with special values to 0 and does not count them.
void MomentAccumulator::State::SkipSpecials(int64_t begin, int64_t count) {
  std::vector<uint8_t> is_special(static_cast<size_t>(count));
  const int64_t num_rows = num_inputs() + num_outputs();
  for (int64_t row = 0; row < num_rows; ++row) {
    const float* const from = Row(row) + begin;
    for (size_t i = 0; i < is_special.size(); ++i) {
      is_special[i] = IsSpecial(from[i]) ? uint8_t{1} : is_special[i];
    }
  }
  uint64_t num_special = 0;
  for (size_t i = 0; i < is_special.size(); ++i) {
    if (is_special[i] == 0) continue;
    ++num_special;
    for (int64_t row = 0; row < num_rows; ++row) Row(row)[begin + static_cast<int64_t>(i)] = 0;
  }
  sums.num_positions += static_cast<uint64_t>(count) - num_special;
  sums.num_skipped += num_special;
}

// Adds the products of `count` rows of x or y, from `first` of the group on, with rows of x.
void MomentAccumulator::State::AddProducts(int64_t group, int64_t first, int64_t count,
                                           const float* rows, SumMatrix& to) {
  const bool is_symmetric = &to == &sums.inputs;
  const int64_t end = is_symmetric ? first + count : shape.columns;
  const int64_t rows_before = group * (is_symmetric ? shape.columns : shape.rows) + first;
  const auto stride = static_cast<size_t>(capacity);
  alignas(64) std::array<float, static_cast<size_t>(kSumTileRows * SumMatrix::kTile)> products = {};
  // The second operand is cut into tiles too, so that the first stays in the cache.
  for (int64_t begin = 0; begin < end; begin += SumMatrix::kTile) {
    const int64_t width = std::min(SumMatrix::kTile, end - begin);
    std::array<SumMatrix::TileRow, static_cast<size_t>(kSumTileRows)> tile_rows;
    for (int64_t row = 0; row < count; ++row) {
      tile_rows[static_cast<size_t>(row)] = to.At(rows_before + row, begin / SumMatrix::kTile);
    }
    for (const Term& term : terms) {
      kernels::RowProducts({rows + term.begin, static_cast<size_t>(count), stride},
                           {InputRow(group * shape.columns + begin) + term.begin,
                            static_cast<size_t>(width), stride},
                           static_cast<size_t>(term.length), products.data(), SumMatrix::kTile);
      for (int64_t row = 0; row < count; ++row) {
        float* const sums_of_row = products.data() + row * SumMatrix::kTile;
        // Behind the diagonal there are no sums, and behind the last column neither.
        const int64_t used = is_symmetric ? std::min(first + row + 1 - begin, width) : width;
        std::fill(sums_of_row + used, sums_of_row + SumMatrix::kTile, 0.0F);
        SumMatrix::AddTerms(tile_rows[static_cast<size_t>(row)], sums_of_row);
      }
    }
  }
}

// Adds one tile of a group: rows of the lower triangle of x x' or, after those, rows of y x'.
void MomentAccumulator::State::AddGroupTile(int64_t group, int64_t tile) {
  const int64_t num_input_tiles = (shape.columns + kSumTileRows - 1) / kSumTileRows;
  const auto add_sums = [&](const float* from, int64_t count, ExactSum* to, ExactSum* squares) {
    for (int64_t row = 0; row < count; ++row) {
      for (const Term& term : terms) {
        double sum = 0;
        double square = 0;
        for (int64_t i = term.begin; i < term.begin + term.count; ++i) {
          const double value = from[row * capacity + i];
          sum += value;
          square += value * value;
        }
        to[row].AddDouble(sum);
        if (squares != nullptr) squares[row].AddDouble(square);
      }
    }
  };
  if (tile < num_input_tiles) {
    const int64_t begin = tile * kSumTileRows;
    const int64_t count = std::min(kSumTileRows, shape.columns - begin);
    const float* const from = InputRow(group * shape.columns + begin);
    AddProducts(group, begin, count, from, sums.inputs);
    add_sums(from, count, sums.input_sums.data() + group * shape.columns + begin, nullptr);
  } else {
    const int64_t begin = (tile - num_input_tiles) * kSumTileRows;
    const int64_t count = std::min(kSumTileRows, shape.rows - begin);
    const int64_t first = group * shape.rows + begin;
    AddProducts(group, begin, count, OutputRow(first), sums.cross);
    add_sums(OutputRow(first), count, sums.output_sums.data() + first,
             sums.output_squares.data() + first);
  }
}

void MomentAccumulator::State::Flush(const runtime::ParallelTasks& run_parallel) {
  if (terms.empty()) return;
  sums.num_terms += terms.size();
  sums.inputs.Reserve(terms.size());
  sums.cross.Reserve(terms.size());
  const int64_t num_tiles = (shape.columns + kSumTileRows - 1) / kSumTileRows +
                            (shape.rows + kSumTileRows - 1) / kSumTileRows;
  run_parallel(static_cast<size_t>(shape.groups * num_tiles), [&](size_t task) {
    // The longest rows of the triangle come first, so that threads end at about the same time.
    const auto reversed = shape.groups * num_tiles - 1 - static_cast<int64_t>(task);
    AddGroupTile(reversed / num_tiles, reversed % num_tiles);
  });
  terms.clear();
  num_buffered = 0;
}

MomentAccumulator::MomentAccumulator(const LinearLayer& layer, const MomentOptions& options)
    : state_(std::make_unique<State>(layer, options)) {}
MomentAccumulator::~MomentAccumulator() = default;
MomentAccumulator::MomentAccumulator(MomentAccumulator&&) noexcept = default;
MomentAccumulator& MomentAccumulator::operator=(MomentAccumulator&&) noexcept = default;

void MomentAccumulator::Add(std::span<const int64_t> input_dims, const float* input,
                            std::span<const int64_t> output_dims, const float* output,
                            const runtime::ParallelTasks& run_parallel, const RunPart& of) {
  State& state = *state_;
  BITPRESS_DCHECK(state.x.size() > 0);  // Finish takes the buffers away
  // Outputs of a matrix product that nobody observes have the shape that follows from its input.
  std::vector<int64_t> dims(output_dims.begin(), output_dims.end());
  if (dims.empty() && !input_dims.empty()) {
    BITPRESS_DCHECK(state.layer.window.kernel.empty());
    dims.assign(input_dims.begin(), input_dims.end());
    const bool is_last = state.layer.layout == PositionLayout::kChannelsLast || dims.size() < 2;
    dims[dims.size() - (is_last ? 1 : 2)] = state.layer.rows;
  }
  const PatchReader reader(state.layer, input_dims, dims);
  const int64_t num_inputs = state.num_inputs();
  const int64_t num_rows = num_inputs + state.num_outputs();
  // Rows of one task: enough to be worth the start of a task.
  constexpr int64_t kRowsOfTask = 16;
  const int64_t num_tasks = (num_rows + kRowsOfTask - 1) / kRowsOfTask;
  const int64_t middle = (reader.num_positions() + 1) / 2;
  const int64_t begin_of_part = of.part == PositionPart::kSecondHalf ? middle : 0;
  const int64_t end_of_part = of.part == PositionPart::kFirstHalf ? middle : reader.num_positions();
  const std::vector<int64_t> chosen =
      state.ChoosePositions(of, begin_of_part, end_of_part - begin_of_part);
  const int64_t num_positions =
      chosen.empty() ? end_of_part - begin_of_part : static_cast<int64_t>(chosen.size());
  std::vector<int64_t> places;
  for (int64_t first = 0; first < num_positions; first += state.capacity) {
    const int64_t count = std::min(num_positions - first, state.capacity);
    const int64_t length = (count + kProductStep - 1) / kProductStep * kProductStep;
    if (state.num_buffered + length > state.capacity) state.Flush(run_parallel);
    places.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < places.size(); ++i) {
      const size_t at = static_cast<size_t>(first) + i;
      places[i] = chosen.empty() ? begin_of_part + static_cast<int64_t>(at) : chosen[at];
    }
    const auto read_row = [&](int64_t row, int64_t from, int64_t many, float* out) {
      if (row < num_inputs) {
        reader.ReadInputRow(input, row, from, many, out);
      } else {
        reader.ReadOutputRow(output, row - num_inputs, from, many, out);
      }
    };
    run_parallel(static_cast<size_t>(num_tasks), [&](size_t task) {
      const int64_t begin = static_cast<int64_t>(task) * kRowsOfTask;
      for (int64_t row = begin; row < std::min(begin + kRowsOfTask, num_rows); ++row) {
        float* const out = state.Row(row) + state.num_buffered;
        if (chosen.empty()) {
          read_row(row, places.front(), count, out);
        } else {
          ReadSome(
              places, [&](int64_t from, int64_t many, float* to) { read_row(row, from, many, to); },
              out);
        }
        std::fill(out + count, out + length, 0.0F);
      }
    });
    state.SkipSpecials(state.num_buffered, count);
    state.terms.push_back({state.num_buffered, count, length});
    state.num_buffered += length;
  }
  state.Release();
}

MomentSums MomentAccumulator::Finish(const runtime::ParallelTasks& run_parallel) {
  State& state = *state_;
  state.Flush(run_parallel);
  state.Release();
  state.x = {};
  state.y = {};
  return std::move(state.sums);
}

}  // namespace bitpress::finetune
