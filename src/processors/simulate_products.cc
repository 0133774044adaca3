#include "processors/simulate_products.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "base/words.h"
#include "graph/model.h"
#include "processors/integer_products.h"
#include "runtime/optimize.h"
#include "runtime/pair_sums.h"

namespace bitpress::processors {
namespace {

using graph::Model;
using graph::Node;
using graph::NodeSpec;

constexpr std::string_view kKnown[] = {
    "QLinearConv",          "QLinearMatMul",         "QGemm",
    "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulInteger"};

// Replaces one product by several operators, the last of which gives its output.
class TakenApart {
 public:
  // `pairs` are the pairs of the product that saturate; empty: the sums are exact.
  TakenApart(Model& model, const IntegerProduct& product,
             std::span<const kernels::SaturatingPair> pairs)
      : model_(model),
        product_(product),
        pairs_(pairs),
        node_(product.node),
        output_(node_.output(0)) {}

  // Returns whether this class can replace the product: it knows the operator, and the exact
  // operators can take the weight.
  static bool Knows(const Model& model, const IntegerProduct& product) {
    const bool is_known = std::ranges::count(kKnown, product.node.op_type()) > 0;
    if (!is_known || product.node.GetInt("transA", 0) != 0) return false;
    const bool has_batch = !product.is_image && model.Initializer(product.weight).dims.size() > 2;
    return !has_batch && ZeroPointOf(model, product).has_value() && HasConstants(model, product);
  }

  void Run() {
    model_.Replace({node_}, [&] { Compute(); });
  }

 private:
  void Compute() {
    const std::string& op = node_.op_type();
    if (op == "QLinearConv" || op == "QLinearMatMul") {
      const std::string sums = Sums(Input(0), Input(2));
      const std::string biased = op == "QLinearConv" ? AddBias(sums, Input(8)) : sums;
      Requantize(Scaled(biased, Constant(Ratios(Input(1), Input(4), Input(6), 1))), Input(7));
    } else if (op == "QGemm") {
      const std::string sums = AddBias(Sums(Input(0), Input(2)), Input(6));
      const float alpha = node_.GetFloat("alpha", 1);
      const std::string scaled =
          Scaled(sums, Constant(Ratios(Input(1), Input(4), Input(7), alpha)));
      Input(7).empty() ? Rename(scaled) : Requantize(scaled, Input(8));
    } else if (op == "MatMulIntegerToFloat") {
      ToFloat(Sums(Input(0), Input(4)), Input(2), Input(3), Input(6));
    } else if (op == "DynamicQuantizeMatMul") {
      const std::string codes = Fresh("codes"), scale = Fresh("scale"), zero = Fresh("zero_point");
      Insert("DynamicQuantizeLinear", {Input(0)}, {codes, scale, zero});
      ToFloat(Sums(codes, zero), scale, Input(2), Input(4));
    } else {  // MatMulInteger
      Rename(Sums(Input(0), Input(2)));
    }
  }

  std::string Input(size_t i) const { return InputOf(node_, i); }
  static std::string InputOf(const Node& node, size_t i) {
    return i < node.num_inputs() ? node.input(i) : std::string();
  }

  // Returns whether what is computed from when the product is taken apart are constants of the
  // types that are read. Scales may be FLOAT16 or come from a node instead: ONNX Runtime puts a
  // Cast between a FLOAT16 scale and its reader.
  static bool HasConstants(const Model& model, const IntegerProduct& product) {
    const auto is_constant = [&](size_t input, std::initializer_list<DataType> types, bool is_one) {
      const std::string name = InputOf(product.node, input);
      if (!model.IsInitializer(name) || model.IsDeferred(name)) return false;
      const graph::InitializerView view = model.Initializer(name);
      const int64_t count = NumElements(view.dims);
      return std::ranges::count(types, view.type) > 0 && (is_one ? count == 1 : count > 0);
    };
    const auto is_absent = [&](size_t input) { return InputOf(product.node, input).empty(); };
    const std::string& op = product.node.op_type();
    const bool is_gemm = op == "QGemm";
    if (op != "QLinearConv" && op != "QLinearMatMul" && !is_gemm) return true;
    const size_t bias = is_gemm ? 6 : 8;
    const size_t scale = is_gemm ? 7 : 6;
    const size_t zero_point = scale + 1;
    return is_constant(1, {DataType::kFloat}, true) && is_constant(4, {DataType::kFloat}, false) &&
           (is_absent(bias) || is_constant(bias, {DataType::kInt32}, false)) &&
           ((is_gemm && is_absent(scale)) || is_constant(scale, {DataType::kFloat}, true)) &&
           (is_absent(zero_point) ||
            is_constant(zero_point, {DataType::kUInt8, DataType::kInt8}, true));
  }
  std::string Fresh(const std::string& what) { return model_.FreshName(output_ + "_" + what); }

  Node Insert(const std::string& op, std::vector<std::string> inputs,
              std::vector<std::string> outputs,
              std::vector<std::pair<std::string, graph::Attribute>> attributes = {}) {
    return model_.InsertNode({outputs[0] + "_" + op, op, "", std::move(inputs), std::move(outputs),
                              std::move(attributes)},
                             node_);
  }
  std::string Insert(const std::string& op, std::vector<std::string> inputs,
                     const std::string& what) {
    std::string output = Fresh(what);
    Insert(op, std::move(inputs), std::vector<std::string>{output});
    return output;
  }
  void Rename(const std::string& value) { Insert("Identity", {value}, std::vector{output_}); }

  template <typename T>
  std::string Constant(DataType type, std::vector<int64_t> dims, const std::vector<T>& values) {
    const std::string name = Fresh("constant");
    model_.SetInitializer(name, type, dims, std::as_bytes(std::span<const T>(values)));
    return name;
  }

  // Returns the shape of a constant with one element for each channel of the output.
  std::vector<int64_t> ChannelDims(size_t count) const {
    std::vector<int64_t> dims = {static_cast<int64_t>(count)};
    if (!product_.is_image) return dims;
    const size_t rank = model_.Initializer(product_.weight).dims.size();
    dims.resize(rank - 1, 1);
    return dims;
  }
  std::string Constant(const std::vector<float>& values) {
    return Constant(DataType::kFloat, ChannelDims(values.size()), values);
  }

  // Returns the weight's zero point. Null if channels have different ones.
  static std::optional<int32_t> ZeroPointOf(const Model& model, const IntegerProduct& product) {
    const std::string& name = product.weight_zero_point;
    if (name.empty()) return 0;
    if (!model.IsInitializer(name)) return std::nullopt;
    const std::span<const int8_t> values = model.Initializer(name).values<int8_t>();
    const bool is_one = std::ranges::all_of(values, [&](int8_t v) { return v == values[0]; });
    return is_one && !values.empty() ? std::optional<int32_t>(values[0]) : std::nullopt;
  }

  // Computes the sums in 32 bits, with the weight as uint8, which no kernel saturates. Then adds
  // the losses of the pairs that saturate.
  std::string Sums(const std::string& activations, const std::string& zero_point) {
    const graph::InitializerView view = model_.Initializer(product_.weight);
    std::vector<int64_t> dims(view.dims.begin(), view.dims.end());
    const std::span<const int8_t> codes = view.values<int8_t>();
    std::vector<uint8_t> bytes(codes.size());
    if (product_.is_transposed) std::swap(dims[0], dims[1]);
    for (size_t i = 0; i < codes.size(); ++i) {
      size_t to = i;
      if (product_.is_transposed) {
        const auto columns = static_cast<size_t>(dims[0]);
        to = i % columns * static_cast<size_t>(dims[1]) + i / columns;
      }
      bytes[to] = static_cast<uint8_t>(codes[i] + 128);
    }
    const std::vector<uint8_t> middle = {
        static_cast<uint8_t>(*ZeroPointOf(model_, product_) + 128)};
    std::string of_activations = zero_point;
    if (of_activations.empty()) {
      of_activations = Constant(DataType::kUInt8, {}, std::vector<uint8_t>{0});
    }
    NodeSpec exact{Fresh("exact"),
                   product_.is_image ? "ConvInteger" : "MatMulInteger",
                   "",
                   {activations, Constant(DataType::kUInt8, dims, bytes), of_activations,
                    Constant(DataType::kUInt8, {}, middle)},
                   {Fresh("sums")},
                   {}};
    if (product_.is_image) {
      exact.attributes_of = node_;
      exact.dropped_attributes = {"channels_last"};
    }
    model_.InsertNode(exact, node_);
    if (pairs_.empty()) return exact.outputs[0];
    std::vector<int32_t> fields;
    for (const kernels::SaturatingPair& pair : pairs_) {
      fields.insert(fields.end(), {pair.sum, pair.channel[0], pair.channel[1], pair.position[0],
                                   pair.position[1], pair.weight[0], pair.weight[1]});
    }
    NodeSpec lossy{Fresh("lossy"),
                   "AddPairSaturation",
                   "bitpress",
                   {exact.outputs[0], activations, of_activations,
                    Constant(DataType::kInt32,
                             {static_cast<int64_t>(pairs_.size()),
                              static_cast<int64_t>(kernels::SaturatingPair::kNumFields)},
                             fields)},
                   {Fresh("saturated")},
                   {}};
    if (product_.is_image) {
      lossy.attributes_of = node_;
      lossy.dropped_attributes = {"channels_last", "group"};
      if (!node_.HasAttribute("kernel_shape")) {
        const std::vector<int64_t> kernel(dims.begin() + 2, dims.end());
        lossy.attributes.emplace_back("kernel_shape", kernel);
      }
    }
    model_.SetOpsetImport("bitpress", 1);
    model_.InsertNode(lossy, node_);
    return lossy.outputs[0];
  }

  std::string AddBias(const std::string& sums, const std::string& bias) {
    if (bias.empty()) return sums;
    const std::span<const int32_t> values = model_.Initializer(bias).values<int32_t>();
    const std::vector<int32_t> copy(values.begin(), values.end());
    return Insert("Add", {sums, Constant(DataType::kInt32, ChannelDims(copy.size()), copy)},
                  "biased");
  }

  // Returns a constant that must have an element. Throws Error(kInvalidModel) if it has none.
  graph::InitializerView NonEmpty(const std::string& name) const {
    const graph::InitializerView view = model_.Initializer(name);
    if (view.bytes.empty()) {
      Fail(ErrorCode::kInvalidModel, "{}: '{}' has no element", node_.Describe(), name);
    }
    return view;
  }

  // Returns the factors that turn sums into codes of the output, computed in the order in which
  // ONNX Runtime computes them.
  std::vector<float> Ratios(const std::string& of_activations, const std::string& of_weight,
                            const std::string& of_output, float alpha) const {
    const float x = NonEmpty(of_activations).values<float>()[0];
    const std::span<const float> w = model_.Initializer(of_weight).values<float>();
    const float y = of_output.empty() ? 1 : NonEmpty(of_output).values<float>()[0];
    std::vector<float> ratios;
    for (const float scale : w) ratios.push_back(alpha * (x * scale) / y);
    return ratios;
  }

  std::string Scaled(const std::string& sums, const std::string& scale) {
    const std::string floats = Fresh("floats");
    Insert("Cast", {sums}, std::vector{floats}, {{"to", static_cast<int64_t>(DataType::kFloat)}});
    return Insert("Mul", {floats, scale}, "scaled");
  }

  void ToFloat(const std::string& sums, const std::string& x_scale, const std::string& w_scale,
               const std::string& bias) {
    const std::string scaled = Scaled(sums, Insert("Mul", {x_scale, w_scale}, "scales"));
    Rename(bias.empty() ? scaled : Insert("Add", {scaled, bias}, "biased"));
  }

  void Requantize(const std::string& scaled, const std::string& zero_point) {
    const bool is_known = !zero_point.empty();
    const DataType type = is_known ? model_.Initializer(zero_point).type : DataType::kUInt8;
    const bool is_signed = type == DataType::kInt8;
    float zero = 0;
    if (is_known) {
      const auto byte = std::to_integer<uint8_t>(NonEmpty(zero_point).bytes[0]);
      zero = is_signed ? static_cast<float>(static_cast<int8_t>(byte)) : static_cast<float>(byte);
    }
    const auto scalar = [&](float value) {
      return Constant(DataType::kFloat, {}, std::vector<float>{value});
    };
    const std::string rounded = Insert("Round", {scaled}, "rounded");
    const std::string moved = Insert("Add", {rounded, scalar(zero)}, "moved");
    const std::string bounded = Insert("Max", {moved, scalar(is_signed ? -128 : 0)}, "bounded");
    const std::string clipped = Insert("Min", {bounded, scalar(is_signed ? 127 : 255)}, "clipped");
    Insert("Cast", {clipped}, std::vector{output_}, {{"to", static_cast<int64_t>(type)}});
  }

  Model& model_;
  const IntegerProduct& product_;
  std::span<const kernels::SaturatingPair> pairs_;
  Node node_;
  std::string output_;
};

}  // namespace

ProcessorKind ThisProcessor() {
  return runtime::SaturatesPairSums() ? ProcessorKind::kSaturating : ProcessorKind::kExact;
}

ProcessorKind OtherKind(ProcessorKind kind) {
  return kind == ProcessorKind::kExact ? ProcessorKind::kSaturating : ProcessorKind::kExact;
}

std::string_view DescribeProcessor(ProcessorKind kind) {
  return kind == ProcessorKind::kExact
             ? "adds 8-bit products in 32 bits (as x86 with VNNI)"
             : "adds 8-bit products in saturating 16 bits (x86 without VNNI)";
}

std::optional<ProcessorKind> ParseProcessor(std::string_view word) {
  return ParseWord<std::optional<ProcessorKind>>(kProcessorWords, word, "processor");
}

SimulatedModel SimulateProducts(const std::filesystem::path& path, ProcessorKind kind,
                                const std::filesystem::path& out) {
  SimulatedModel result;
  if (kind == ThisProcessor()) return result;
  const std::filesystem::path optimized = WithSuffix(out, ".optimized.onnx");
  runtime::OptimizeAs(runtime::Optimization::kExtended, path, optimized);
  Model model = Model::Load(optimized);
  std::set<std::string> left;
  for (const IntegerProduct& product : SaturatingKernels(model)) {
    std::vector<kernels::SaturatingPair> pairs = product.Pairs(model);
    if (pairs.empty()) continue;
    if (!TakenApart::Knows(model, product)) {
      left.insert(product.node.Describe());
      continue;
    }
    if (kind == ProcessorKind::kExact) pairs.clear();
    TakenApart(model, product, pairs).Run();
    ++result.num_nodes;
  }
  result.left.assign(left.begin(), left.end());
  if (result.is_changed()) model.Save(out);
  return result;
}

}  // namespace bitpress::processors
