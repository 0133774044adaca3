#include "finetune/moments.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <utility>

#include "base/byte_stream.h"
#include "base/check.h"
#include "kernels/row_products.h"

namespace bitpress::finetune {
namespace {

// Number of floats, of positions that wait to be summed up.
constexpr int64_t kBufferedFloats = int64_t{1} << 20;
// Rows of a matrix that are multiplied together: two such tiles of the longest buffered rows fit
// the second-level cache.
constexpr int64_t kTileRows = 64;

int64_t BufferedPositions(const LinearLayer& layer, const MomentOptions& options) {
  const int64_t num_outputs = options.observes_outputs ? layer.rows : 0;
  const int64_t num_rows = layer.groups * (layer.columns + num_outputs);
  constexpr auto kStep = static_cast<int64_t>(kernels::kRowProductStep);
  const int64_t wanted = std::clamp<int64_t>(kBufferedFloats / num_rows, 64, 4096);
  return wanted / kStep * kStep;
}

int64_t KeptPositions(const LinearLayer& layer, int64_t wanted) {
  constexpr int64_t kMostFloats = int64_t{1} << 22;
  return std::min(wanted, kMostFloats / (layer.groups * (layer.columns + layer.rows)));
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

// Returns whether a number is NaN or infinite.
bool IsSpecial(float x) { return (std::bit_cast<uint32_t>(x) & 0x7F800000U) == 0x7F800000U; }

}  // namespace

struct MomentAccumulator::State {
  State(const LinearLayer& of, const MomentOptions& with)
      : layer(of),
        options(with),
        // Layers that share moments choose the same positions, whichever of them comes first.
        random(with.seed ^
               Crc32c(with.observes_outputs ? of.weight : fmt::format("input {}", of.float_input))),
        rows_of_group(with.observes_outputs ? of.rows : 0),
        capacity(BufferedPositions(of, with)) {
    const auto groups = static_cast<size_t>(layer.groups);
    const auto rows = static_cast<size_t>(rows_of_group);
    moments.has_outputs = options.observes_outputs;
    const auto columns = static_cast<size_t>(layer.columns);
    const ArrayPlace place = options.is_spilled ? ArrayPlace::kTemporaryFile : ArrayPlace::kHeap;
    moments.inputs = {groups * columns * columns, place};
    moments.cross = {groups * rows * columns, place};
    moments.input_sums.resize(groups * columns);
    moments.output_sums.resize(groups * rows);
    moments.output_squares.resize(groups * rows);
    x = {groups * columns * static_cast<size_t>(capacity), place};
    y = {groups * rows * static_cast<size_t>(capacity), place};
    MomentRows& kept = moments.kept;
    kept.capacity = KeptPositions(layer, options.num_kept);
    kept.x = {groups * columns * static_cast<size_t>(kept.capacity), place};
    kept.y = {groups * rows * static_cast<size_t>(kept.capacity), place};
  }

  float* InputRow(int64_t row) { return x.data() + row * capacity; }
  float* OutputRow(int64_t row) { return y.data() + row * capacity; }

  std::vector<int64_t> ChoosePositions(int64_t first, int64_t num_positions);
  void KeepSome(int64_t begin, int64_t end);
  void Flush(const runtime::ParallelTasks& run_parallel);
  void SkipSpecials();
  void AddGroupTile(int64_t group, int64_t tile, int64_t length);

  // Releases the memory of spilled arrays until they are used again.
  void Release() const {
    moments.inputs.Release();
    moments.cross.Release();
    moments.kept.x.Release();
    moments.kept.y.Release();
    x.Release();
    y.Release();
  }

  const LinearLayer& layer;
  MomentOptions options;
  std::mt19937_64 random;
  int64_t rows_of_group;  // observed outputs of one group
  int64_t capacity;
  int64_t num_buffered = 0;
  uint64_t num_offered = 0;    // positions that could have been kept
  SpillableArray<float> x, y;  // rows of `capacity` positions
  Moments moments;
};

// Cuts the positions from `first` on into as many equal parts as positions count, and chooses one
// position of each, in ascending order. Returns nothing if all count.
std::vector<int64_t> MomentAccumulator::State::ChoosePositions(int64_t first,
                                                               int64_t num_positions) {
  const int64_t count = options.num_positions;
  if (count == 0 || num_positions <= count) return {};
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = first + i * num_positions / count;
    const int64_t end = first + (i + 1) * num_positions / count;
    chosen.push_back(begin + static_cast<int64_t>(random() % static_cast<uint64_t>(end - begin)));
  }
  return chosen;
}

// Keeps some of the buffered positions [begin, end), by Vitter's algorithm R.
void MomentAccumulator::State::KeepSome(int64_t begin, int64_t end) {
  MomentRows& kept = moments.kept;
  if (kept.capacity == 0) return;
  const int64_t num_inputs = layer.groups * layer.columns;
  const int64_t num_outputs = layer.groups * rows_of_group;
  for (int64_t i = begin; i < end; ++i) {
    ++num_offered;
    int64_t slot = kept.count;
    if (slot == kept.capacity) slot = static_cast<int64_t>(random() % num_offered);
    if (slot >= kept.capacity) continue;
    bool is_special = false;
    for (int64_t row = 0; row < num_inputs; ++row) is_special |= IsSpecial(InputRow(row)[i]);
    for (int64_t row = 0; row < num_outputs; ++row) is_special |= IsSpecial(OutputRow(row)[i]);
    if (is_special) continue;
    kept.count = std::max(kept.count, slot + 1);
    for (int64_t row = 0; row < num_inputs; ++row) {
      kept.x.data()[row * kept.capacity + slot] = InputRow(row)[i];
    }
    for (int64_t row = 0; row < num_outputs; ++row) {
      kept.y.data()[row * kept.capacity + slot] = OutputRow(row)[i];
    }
  }
}

// Sets buffered positions with a NaN or infinity to 0 and does not count them.
void MomentAccumulator::State::SkipSpecials() {
  std::vector<uint8_t> is_special(static_cast<size_t>(num_buffered));
  const auto mark = [&](const SpillableArray<float>& values, int64_t num_rows) {
    for (int64_t row = 0; row < num_rows; ++row) {
      const float* const from = values.data() + row * capacity;
      for (size_t i = 0; i < is_special.size(); ++i) {
        is_special[i] = IsSpecial(from[i]) ? uint8_t{1} : is_special[i];
      }
    }
  };
  const int64_t num_inputs = layer.groups * layer.columns;
  const int64_t num_outputs = layer.groups * rows_of_group;
  mark(x, num_inputs);
  mark(y, num_outputs);
  int64_t num_special = 0;
  for (size_t i = 0; i < is_special.size(); ++i) {
    if (is_special[i] == 0) continue;
    ++num_special;
    for (int64_t row = 0; row < num_inputs; ++row) InputRow(row)[i] = 0;
    for (int64_t row = 0; row < num_outputs; ++row) OutputRow(row)[i] = 0;
  }
  moments.num_positions += num_buffered - num_special;
  moments.num_skipped += num_special;
}

// Adds one tile of a group: rows of the lower triangle of x x' or, after those, rows of y x'.
void MomentAccumulator::State::AddGroupTile(int64_t group, int64_t tile, int64_t length) {
  const int64_t columns = layer.columns;
  const int64_t num_input_tiles = (columns + kTileRows - 1) / kTileRows;
  const auto stride = static_cast<size_t>(capacity);
  const auto multiply = [&](const float* a, int64_t num_a, int64_t num_b, double* out) {
    // The second operand is cut into tiles too, so that the first stays in the cache.
    for (int64_t begin = 0; begin < num_b; begin += kTileRows) {
      const auto count = static_cast<size_t>(std::min(kTileRows, num_b - begin));
      kernels::AddRowProducts({a, static_cast<size_t>(num_a), stride},
                              {InputRow(group * columns + begin), count, stride},
                              static_cast<size_t>(length), out + begin,
                              static_cast<size_t>(columns));
    }
  };
  const auto add_sums = [&](const float* from, int64_t num_rows, double* sums, double* squares) {
    for (int64_t row = 0; row < num_rows; ++row) {
      double sum = 0;
      double square = 0;
      for (int64_t i = 0; i < num_buffered; ++i) {
        const double value = from[row * capacity + i];
        sum += value;
        square += value * value;
      }
      sums[row] += sum;
      if (squares != nullptr) squares[row] += square;
    }
  };
  if (tile < num_input_tiles) {
    const int64_t begin = tile * kTileRows;
    const int64_t count = std::min(kTileRows, columns - begin);
    const float* const from = InputRow(group * columns + begin);
    multiply(from, count, begin + count,
             moments.inputs.data() + (group * columns + begin) * columns);
    add_sums(from, count, moments.input_sums.data() + group * columns + begin, nullptr);
  } else {
    const int64_t begin = (tile - num_input_tiles) * kTileRows;
    const int64_t count = std::min(kTileRows, rows_of_group - begin);
    const int64_t first = group * rows_of_group + begin;
    multiply(OutputRow(first), count, columns, moments.cross.data() + first * columns);
    add_sums(OutputRow(first), count, moments.output_sums.data() + first,
             moments.output_squares.data() + first);
  }
}

void MomentAccumulator::State::Flush(const runtime::ParallelTasks& run_parallel) {
  if (num_buffered == 0) return;
  SkipSpecials();
  constexpr auto kStep = static_cast<int64_t>(kernels::kRowProductStep);
  const int64_t length = (num_buffered + kStep - 1) / kStep * kStep;
  for (int64_t row = 0; length > num_buffered && row < layer.groups * layer.columns; ++row) {
    std::fill(InputRow(row) + num_buffered, InputRow(row) + length, 0.0F);
  }
  for (int64_t row = 0; length > num_buffered && row < layer.groups * rows_of_group; ++row) {
    std::fill(OutputRow(row) + num_buffered, OutputRow(row) + length, 0.0F);
  }
  const int64_t num_tiles =
      (layer.columns + kTileRows - 1) / kTileRows + (rows_of_group + kTileRows - 1) / kTileRows;
  run_parallel(static_cast<size_t>(layer.groups * num_tiles), [&](size_t task) {
    // The longest rows of the triangle come first, so that threads end at about the same time.
    const auto reversed = layer.groups * num_tiles - 1 - static_cast<int64_t>(task);
    AddGroupTile(reversed / num_tiles, reversed % num_tiles, length);
  });
  num_buffered = 0;
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

uint64_t MomentBytes(const LinearLayer& layer, const MomentOptions& options) {
  const auto groups = static_cast<uint64_t>(layer.groups);
  const auto rows = static_cast<uint64_t>(options.observes_outputs ? layer.rows : 0);
  const auto columns = static_cast<uint64_t>(layer.columns);
  return groups * (columns + rows) *
         (columns * sizeof(double) + static_cast<uint64_t>(BufferedPositions(layer, options) +
                                                           KeptPositions(layer, options.num_kept)) *
                                         sizeof(float));
}

MomentAccumulator::MomentAccumulator(const LinearLayer& layer, const MomentOptions& options)
    : state_(std::make_unique<State>(layer, options)) {}
MomentAccumulator::~MomentAccumulator() = default;
MomentAccumulator::MomentAccumulator(MomentAccumulator&&) noexcept = default;
MomentAccumulator& MomentAccumulator::operator=(MomentAccumulator&&) noexcept = default;

void MomentAccumulator::Add(std::span<const int64_t> input_dims, const float* input,
                            std::span<const int64_t> output_dims, const float* output,
                            const runtime::ParallelTasks& run_parallel, PositionPart part) {
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
  const int64_t num_inputs = state.layer.groups * state.layer.columns;
  const int64_t num_outputs = state.layer.groups * state.rows_of_group;
  // Rows of one task: enough to be worth the start of a task.
  constexpr int64_t kRowsOfTask = 16;
  const int64_t num_tasks = (num_inputs + num_outputs + kRowsOfTask - 1) / kRowsOfTask;
  const int64_t middle = (reader.num_positions() + 1) / 2;
  const int64_t begin_of_part = part == PositionPart::kSecondHalf ? middle : 0;
  const int64_t end_of_part = part == PositionPart::kFirstHalf ? middle : reader.num_positions();
  const std::vector<int64_t> chosen =
      state.ChoosePositions(begin_of_part, end_of_part - begin_of_part);
  const int64_t num_positions =
      chosen.empty() ? end_of_part - begin_of_part : static_cast<int64_t>(chosen.size());
  for (int64_t first = 0; first < num_positions;) {
    const int64_t count = std::min(num_positions - first, state.capacity - state.num_buffered);
    const auto read_row = [&](int64_t row, int64_t from, int64_t length, float* out) {
      if (row < num_inputs) {
        reader.ReadInputRow(input, row, from, length, out);
      } else {
        reader.ReadOutputRow(output, row - num_inputs, from, length, out);
      }
    };
    run_parallel(static_cast<size_t>(num_tasks), [&](size_t task) {
      const int64_t begin = static_cast<int64_t>(task) * kRowsOfTask;
      for (int64_t row = begin; row < std::min(begin + kRowsOfTask, num_inputs + num_outputs);
           ++row) {
        float* const out =
            (row < num_inputs ? state.InputRow(row) : state.OutputRow(row - num_inputs)) +
            state.num_buffered;
        if (chosen.empty()) {
          read_row(row, begin_of_part + first, count, out);
        } else {
          ReadSome(
              std::span(chosen).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
              [&](int64_t from, int64_t length, float* to) { read_row(row, from, length, to); },
              out);
        }
      }
    });
    state.KeepSome(state.num_buffered, state.num_buffered + count);
    state.num_buffered += count;
    first += count;
    if (state.num_buffered == state.capacity) state.Flush(run_parallel);
  }
  state.Release();
}

Moments MomentAccumulator::Finish(const runtime::ParallelTasks& run_parallel) {
  State& state = *state_;
  state.Flush(run_parallel);
  const auto columns = static_cast<size_t>(state.layer.columns);
  for (size_t group = 0; group < static_cast<size_t>(state.layer.groups); ++group) {
    double* const matrix = state.moments.inputs.data() + group * columns * columns;
    for (size_t i = 0; i < columns; ++i) {
      // Tiles on the diagonal were computed whole, and their two halves are the same sums.
      for (size_t j = 0; j < i; ++j) matrix[j * columns + i] = matrix[i * columns + j];
    }
  }
  state.Release();
  state.x = {};
  state.y = {};
  return std::move(state.moments);
}

}  // namespace bitpress::finetune
