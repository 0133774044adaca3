#include "interop/import_weights.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/mapped_memory.h"
#include "base/paths.h"
#include "interop/block_sums.h"
#include "interop/files.h"
#include "interop/input_order.h"
#include "interop/weights_file.h"
#include "ops/operator_traits.h"

namespace bitpress::interop {
namespace {

using graph::Model;
using graph::Node;

// Weights below this cosine to those of the model are of another network. Fine-tuning and folded
// scales keep them above it, rows in another order do not.
constexpr double kLeastCosine = 0.25;

// A weight of the model that files have.
struct Target {
  std::string value;
  TensorPlace place;
  bool is_transposed = false;  // [inputs, outputs], as MatMul reads it
};

// The sums of products of two arrays, from which follows how alike they are.
struct Likeness {
  double xx = 0, xy = 0, yy = 0;
  void operator+=(const Likeness& other) {
    xx += other.xx;
    xy += other.xy;
    yy += other.yy;
  }
  double Cosine() const { return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : xx == yy ? 1 : 0; }
};

// Reads the weight that a model has in rows of outputs.
class ModelRows {
 public:
  ModelRows(const graph::InitializerView& view, bool is_transposed)
      : values_(view.values<float>()), is_transposed_(is_transposed) {
    const bool is_matrix = view.dims.size() == 2;
    num_rows_ = is_matrix ? view.dims[is_transposed ? 1 : 0] : 1;
    length_ = is_matrix ? view.dims[is_transposed ? 0 : 1] : NumElements(view.dims);
  }
  int64_t num_rows() const { return num_rows_; }
  int64_t length() const { return length_; }
  // Returns a vector as a matrix of one column.
  ModelRows AsColumn() const {
    ModelRows column = *this;
    std::swap(column.num_rows_, column.length_);
    return column;
  }
  float At(int64_t row, int64_t i) const {
    return values_[static_cast<size_t>(is_transposed_ ? i * num_rows_ + row : row * length_ + i)];
  }

 private:
  std::span<const float> values_;
  bool is_transposed_;
  int64_t num_rows_ = 0, length_ = 0;
};

// Returns how alike a weight, its rows taken in an order, and the model's rows from `first` on are.
Likeness Compare(const FileWeight& weight, std::span<const int64_t> order, const ModelRows& rows,
                 int64_t first, ThreadPool& pool) {
  std::vector<Likeness> of_rows(order.size());
  pool.ParallelFor(order.size(), [&](size_t task) {
    std::vector<float> values(static_cast<size_t>(weight.row_length));
    weight.DecodeRow(order[task], values);
    weight.AddOffsets(order[task], values);
    for (int64_t i = 0; i < weight.row_length; ++i) {
      const double x = values[static_cast<size_t>(i)];
      const double y = rows.At(first + static_cast<int64_t>(task), weight.InputOf(i));
      of_rows[task].xx += x * x;
      of_rows[task].xy += x * y;
      of_rows[task].yy += y * y;
    }
  });
  Likeness all;
  for (const Likeness& row : of_rows) all += row;
  return all;
}

// Returns the order that puts rows of pairs into halves of heads.
std::vector<int64_t> HalvesOfHeads(int64_t num_rows, int64_t num_heads) {
  const int64_t head = num_rows / num_heads;
  std::vector<int64_t> order;
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t i = row % head;
    order.push_back(row - i + i % (head / 2) * 2 + i / (head / 2));
  }
  return order;
}

class Importer {
 public:
  Importer(const WeightsFile& file, Model& model, ThreadPool& pool)
      : file_(file), model_(model), pool_(pool) {}

  ImportedWeights Run() {
    for (const Target& target : Targets()) {
      if (target.place.is_bias || !IsMatrix(target.value)) {
        ImportVector(target);
      } else {
        ImportMatrix(target);
      }
    }
    for (const auto& [place, name] : file_.tensors()) {
      if (!used_.contains(name)) result_.report.unused.push_back(name);
    }
    for (const std::string& name : file_.others()) result_.report.unused.push_back(name);
    result_.decisions.names_all = false;
    return std::move(result_);
  }

 private:
  bool IsMatrix(const std::string& value) const {
    return model_.Initializer(value).dims.size() == 2;
  }

  // Returns whether an operator reads a matrix as layers and tables do, and how it lies there.
  static bool ReadsMatrix(const Node& node, size_t input, bool& is_transposed) {
    const ops::OperatorTraits& traits = ops::TraitsOf(node);
    if (traits.Is(ops::kLooksUp)) return is_transposed = false, input == 0;
    if (node.op_type() != "MatMul" && node.op_type() != "Gemm") return false;
    is_transposed = node.GetInt("transB", 0) == 0;
    return input == 1;
  }

  // Returns the weights whose place in the decoder is known, in the order of their readers.
  std::vector<Target> Targets() {
    const ops::LayerRoles roles(model_);
    std::vector<Target> targets;
    std::set<std::string> known;
    for (const Node& node : model_.AllNodes()) {
      for (size_t input = 0; input < node.num_inputs(); ++input) {
        const std::string& value = node.input(input);
        if (value.empty() || !model_.IsInitializer(value) || model_.IsDeferred(value)) continue;
        const graph::InitializerView view = model_.Initializer(value);
        if (!IsFloat(view.type) || view.dims.empty() || view.dims.size() > 2) continue;
        if (known.contains(value)) continue;
        bool is_transposed = false;
        const bool is_matrix = view.dims.size() == 2 && ReadsMatrix(node, input, is_transposed);
        std::optional<TensorPlace> place = PlaceOfName(value);
        if (is_matrix) {
          if (!place) place = PlaceOfName(node.name());
          const std::optional<ops::LayerPlace> role = roles.Of(node);
          if (!place && role) place = PlaceOfRole(*role);
          if (!place) {
            known.insert(value);
            result_.report.not_in_file.push_back(value);
            continue;
          }
          place->is_bias = false;
        } else if (!place || view.dims.size() != 1 ||
                   !(value.ends_with(".weight") || place->is_bias)) {
          continue;
        }
        if (view.type != DataType::kFloat) {
          Fail(ErrorCode::kUnsupported,
               "the model's weight '{}' is {}: give the network in float32, into which the codes "
               "are put",
               value, DataTypeName(view.type));
        }
        known.insert(value);
        targets.push_back({value, std::move(*place), is_transposed});
      }
    }
    return targets;
  }

  // Returns the names of the tensors that make up a weight, the first rows first; none: the file
  // has nothing for it. A tied head is the table of embeddings.
  std::vector<std::string> SourcesOf(const Target& target) const {
    const auto& tensors = file_.tensors();
    const auto whole = tensors.find(target.place);
    if (whole != tensors.end()) return {whole->second};
    TensorPlace place = target.place;
    if (place.part == "lm_head") place.part = "embed_tokens";
    std::vector<std::string> names, missing;
    for (const TensorPlace& part : PartsOf(place)) {
      const auto found = tensors.find(part);
      if (found == tensors.end()) {
        missing.push_back(Describe(part));
      } else {
        names.push_back(found->second);
      }
    }
    if (missing.empty()) return names;
    const auto is_in_layer = [&](const auto& tensor) { return tensor.first.layer == place.layer; };
    // A network with more layers, or an incomplete file, is a mistake; extra biases are not.
    if (!place.is_bias && place.layer && std::ranges::none_of(tensors, is_in_layer)) {
      Fail(ErrorCode::kInvalidArgument,
           "the model's weight '{}' is in layer {}, which the file does not have: is it the same "
           "network?",
           target.value, *place.layer);
    }
    if (!place.is_bias && place.layer && IsMatrix(target.value)) {
      Fail(ErrorCode::kInvalidArgument,
           "the model's weight '{}' needs {}, which the file does not have", target.value,
           fmt::join(missing, ", "));
    }
    return {};
  }

  // Reads the tensors of a weight in the order of the model's rows.
  FileWeight Read(const Target& target, const std::vector<std::string>& sources) {
    const ModelRows rows(model_.Initializer(target.value), target.is_transposed);
    const bool is_vector = !IsMatrix(target.value);
    std::vector<FileWeight> parts;
    int64_t num_rows = 0, length = 0;
    bool are_equal = true;  // in what their sizes have to be
    for (const std::string& name : sources) {
      const FileWeight& part = parts.emplace_back(file_.Read(name));
      used_.insert(name);
      num_rows = is_vector ? part.num_rows : num_rows + part.num_rows;
      length = is_vector ? length + part.row_length : part.row_length;
      are_equal = are_equal && (is_vector ? num_rows == 1 : length == rows.length());
    }
    if (!are_equal || num_rows != rows.num_rows() || length != rows.length()) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}' has {} rows of {} elements in the file, but '{}' of the model {} of {}",
           fmt::join(sources, "' + '"), num_rows, length, target.value, rows.num_rows(),
           rows.length());
    }
    const std::vector<TensorPlace> places =
        sources.size() > 1 ? PartsOf(target.place) : std::vector<TensorPlace>{target.place};
    if (is_vector) return JoinVectors(std::move(parts), places, rows);
    Likeness all;
    int64_t first = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      all += PutInOrder(parts[i], places[i], rows, first);
      first += parts[i].num_rows;
    }
    if (all.Cosine() < kLeastCosine) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}' is so unlike the model's weight '{}' (cosine {:.3f}) that it must be that of "
           "another network, or in another order",
           fmt::join(sources, "' + '"), target.value, all.Cosine());
    }
    return JoinRows(std::move(parts));
  }

  // Returns vectors behind each other, those of queries and keys in the order of the model's.
  FileWeight JoinVectors(std::vector<FileWeight> parts, const std::vector<TensorPlace>& places,
                         const ModelRows& values) {
    FileWeight joined;
    for (size_t i = 0; i < parts.size(); ++i) {
      FileWeight& part = parts[i];
      if (!part.is_float()) Fail(ErrorCode::kUnsupported, "a vector is stored in {}", part.type);
      joined.type = part.type;
      std::swap(part.num_rows, part.row_length);  // a column of as many rows
      PutInOrder(part, places[i], values.AsColumn(), joined.row_length);
      joined.floats.insert(joined.floats.end(), part.floats.begin(), part.floats.end());
      joined.row_length += part.num_rows;
    }
    return joined;
  }

  // Puts rows that lie pair by pair into halves of heads if they are nearer to the model's then.
  Likeness PutInOrder(FileWeight& part, const TensorPlace& place, const ModelRows& rows,
                      int64_t first) {
    std::vector<int64_t> order(static_cast<size_t>(part.num_rows));
    std::iota(order.begin(), order.end(), int64_t{0});
    Likeness likeness = Compare(part, order, rows, first, pool_);
    if (place.part != "q_proj" && place.part != "k_proj") return likeness;
    const int64_t num_heads = file_.NumPairedHeads(place);
    if (num_heads == 0 || part.num_rows % (2 * num_heads) != 0) return likeness;
    order = HalvesOfHeads(part.num_rows, num_heads);
    const Likeness halves = Compare(part, order, rows, first, pool_);
    if (halves.Cosine() <= likeness.Cosine()) return likeness;
    part = WithRows(part, order);
    return halves;
  }

  void ImportMatrix(const Target& target) {
    const std::vector<std::string> sources = SourcesOf(target);
    if (sources.empty()) {
      result_.report.not_in_file.push_back(target.value);
      return;
    }
    FileWeight weight = Read(target, sources);
    CutLongBlocks(weight);
    ImportedWeight imported{.value = target.value,
                            .source = fmt::format("{}", fmt::join(sources, " + ")),
                            .type = weight.type,
                            .format = weight.format,
                            .reason = weight.why_rounded};
    if (!weight.why_rounded.empty()) imported.format = "int8";
    if (!weight.offsets.empty()) {
      const std::string why = WhyNoBlockSums(model_, target.value, weight.block_size);
      if (!why.empty()) {
        imported.format = "int8";
        imported.reason = why;
      }
    }
    if (!weight.order.empty()) {
      const std::string why = WhyNoInputOrder(model_, target.value);
      if (!why.empty()) {
        imported.format = "int8";
        imported.reason = why;
      }
    }
    const bool is_kept = imported.is_kept();
    if (imported.reason.empty() && !is_kept) imported.reason = "the file has floats";
    Decision decision{.value = target.value,
                      .is_constant = true,
                      .format = imported.format,
                      .axis = target.is_transposed ? 0 : 1};
    if (IntegerBitsOf(imported.format)) {
      const bool is_per_channel =
          is_kept && weight.num_blocks() == 1 && !IsNativeBlock(weight.block_size);
      decision.granularity =
          is_per_channel ? plan::Granularity::kPerAxis : plan::Granularity::kPerBlock;
      if (is_per_channel) decision.axis = target.is_transposed ? 1 : 0;
      if (!is_per_channel) decision.block_size = is_kept ? weight.block_size : kRoundedBlock;
      decision.is_symmetric = weight.zero_points.empty() || !is_kept;
      if (is_kept) result_.scales[target.value] = ScalesOf(weight, target.is_transposed);
    }
    if (imported.format == "none") decision.axis.reset();
    SetValues(target, weight, is_kept);
    if (is_kept && !weight.offsets.empty()) {
      const std::string offsets = AddBlockSums(model_, target.value, weight.block_size,
                                               OffsetsOf(weight, target.is_transposed));
      result_.decisions.tensors.push_back(
          {.value = offsets, .is_constant = true, .format = "none"});
    }
    if (is_kept && !weight.order.empty()) OrderInputs(model_, target.value, weight.order);
    result_.decisions.tensors.push_back(std::move(decision));
    result_.report.weights.push_back(std::move(imported));
  }

  static constexpr int64_t kRoundedBlock = 32, kLeastBlock = 16;

  // Returns whether MatMulNBits has blocks of this size.
  static bool IsNativeBlock(int64_t size) {
    return size >= kLeastBlock && size <= 256 && (size & (size - 1)) == 0;
  }

  // Cuts blocks that MatMulNBits does not have, such as whole rows, into ones that it has.
  static void CutLongBlocks(FileWeight& weight) {
    if (!IntegerBitsOf(weight.format) || IsNativeBlock(weight.block_size)) return;
    int64_t cut = 128;
    while (cut > kLeastBlock && weight.block_size % cut != 0) cut /= 2;
    if (weight.block_size % cut == 0) CutBlocks(weight, cut);
  }

  // Gives the model the values of a weight, in a temporary file: those of a large model are larger
  // than memory. Kept codes have no offsets among their values, and keep the order of their
  // columns.
  void SetValues(const Target& target, const FileWeight& weight, bool is_kept) {
    const graph::HeldInitializer given = model_.HoldInitializer(target.value);
    auto memory = std::make_shared<MappedMemory>(given.bytes.size());
    const std::span<float> values(reinterpret_cast<float*>(memory->data()),
                                  given.bytes.size() / sizeof(float));
    pool_.ParallelFor(static_cast<size_t>(weight.num_rows), [&](size_t row) {
      std::vector<float> decoded(static_cast<size_t>(weight.row_length));
      weight.DecodeRow(static_cast<int64_t>(row), decoded);
      if (!is_kept) weight.AddOffsets(static_cast<int64_t>(row), decoded);
      for (size_t column = 0; column < decoded.size(); ++column) {
        const auto i =
            is_kept ? column : static_cast<size_t>(weight.InputOf(static_cast<int64_t>(column)));
        values[target.is_transposed ? i * static_cast<size_t>(weight.num_rows) + row
                                    : row * decoded.size() + i] = decoded[column];
      }
    });
    memory->Release();
    const std::span<const std::byte> bytes{memory->data(), memory->size()};
    model_.SetHeldInitializer(
        target.value, {given.type, given.dims, bytes, std::move(memory), /*is_mapped=*/true});
  }

  static std::vector<formats::QParams> ScalesOf(const FileWeight& weight, bool is_transposed) {
    const int64_t num_blocks = weight.num_blocks();
    std::vector<formats::QParams> params(weight.scales.size());
    for (int64_t row = 0; row < weight.num_rows; ++row) {
      for (int64_t block = 0; block < num_blocks; ++block) {
        params[static_cast<size_t>(is_transposed ? block * weight.num_rows + row
                                                 : row * num_blocks + block)] =
            weight.Params(row, block);
      }
    }
    return params;
  }

  // Returns the offsets as [blocks, outputs] for a product, [rows, blocks] for a table.
  static Tensor OffsetsOf(const FileWeight& weight, bool is_transposed) {
    const int64_t num_blocks = weight.num_blocks();
    Tensor tensor{DataType::kFloat,
                  is_transposed ? std::vector<int64_t>{num_blocks, weight.num_rows}
                                : std::vector<int64_t>{weight.num_rows, num_blocks},
                  std::vector<std::byte>(weight.offsets.size() * sizeof(float))};
    for (int64_t row = 0; row < weight.num_rows; ++row) {
      for (int64_t block = 0; block < num_blocks; ++block) {
        tensor.values<float>()[static_cast<size_t>(is_transposed ? block * weight.num_rows + row
                                                                 : row * num_blocks + block)] =
            weight.offsets[static_cast<size_t>(row * num_blocks + block)];
      }
    }
    return tensor;
  }

  // Gives the model the values of a norm or a bias.
  void ImportVector(const Target& target) {
    const std::vector<std::string> sources = SourcesOf(target);
    if (sources.empty()) return;
    const FileWeight weight = Read(target, sources);
    const graph::HeldInitializer given = model_.HoldInitializer(target.value);
    const std::span<const float> old(reinterpret_cast<const float*>(given.bytes.data()),
                                     weight.floats.size());
    // Some networks scale by 1 + weight. Exporters and files have either of the two numbers.
    std::vector<float> values = weight.floats;
    for (const float shift : {1.0F, -1.0F}) {
      if (IsNear(weight.floats, shift, old) && !IsNear(weight.floats, 0, old)) {
        for (float& value : values) value += shift;
        break;
      }
    }
    model_.SetInitializer(target.value, DataType::kFloat, given.dims,
                          std::as_bytes(std::span<const float>(values)));
    ++result_.report.num_vectors;
  }

  // Returns whether x + shift is y but for roundings of few bits.
  static bool IsNear(std::span<const float> x, float shift, std::span<const float> y) {
    double error = 0, power = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += std::pow(double{x[i]} + shift - y[i], 2);
      power += std::pow(y[i], 2);
    }
    return error <= 1e-4 * power;
  }

  const WeightsFile& file_;
  Model& model_;
  ThreadPool& pool_;
  std::set<std::string> used_;
  ImportedWeights result_;
};

}  // namespace

size_t WeightImport::num_kept() const {
  return static_cast<size_t>(std::ranges::count_if(
      weights, [](const ImportedWeight& weight) { return weight.is_kept(); }));
}

ImportedWeights ImportWeights(const std::filesystem::path& path, Model& model, ThreadPool& pool) {
  const std::unique_ptr<WeightsFile> file = OpenWeightsFile(path);
  return WithContext(fmt::format("'{}'", PathText(path)), [&] {
    ImportedWeights imported = Importer(*file, model, pool).Run();
    if (imported.report.weights.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           "none of its {} tensors is a weight of the model: weights are found by the names of "
           "decoders (model.layers.0.self_attn.q_proj.weight) and by their roles in a graph with "
           "attention",
           file->tensors().size() + file->others().size());
    }
    return imported;
  });
}

void GiveFormats(const ImportedWeights& imported, const Model& model, plan::QuantPlan& plan) {
  std::set<std::string> planned;
  for (const plan::TensorPlan& row : plan.tensors) planned.insert(row.value);
  const plan::NodeIndex nodes(model);
  for (const Decision& decision : imported.decisions.tensors) {
    if (decision.format == "none" || planned.contains(decision.value)) continue;
    plan::TensorPlan row;
    row.value = decision.value;
    row.role = plan::Role::kWeight;
    for (const graph::Use& use : model.AllUses(decision.value)) {
      row.uses.push_back(
          {nodes.KeyOf(use.node), use.node.op_type(), static_cast<int64_t>(use.input_index)});
    }
    plan.tensors.push_back(std::move(row));
  }
  Apply(imported.decisions, model, plan);
}

void GiveScales(ImportedWeights imported, plan::ResolvedPlan& resolved) {
  for (const plan::TensorPlan& row : resolved.plan.tensors) {
    const auto found = imported.scales.find(row.value);
    if (found == imported.scales.end() || row.role != plan::Role::kWeight || !row.integer) continue;
    resolved.weight_scales[plan::ScaleKeyOf(row)] = std::move(found->second);
    imported.scales.erase(found);  // rows of one weight have one key
  }
}

}  // namespace bitpress::interop
