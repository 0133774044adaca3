#include "finetune/layer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/mapped_memory.h"
#include "kernels/half.h"
#include "ops/operator_traits.h"

namespace bitpress::finetune {
namespace {

using graph::Model;
using graph::Node;

// Learned weights from this size on lie in temporary files: all of them together may be larger than
// memory.
constexpr size_t kLeastSpilledBytes = size_t{1} << 20;

void SetFloats(Model& model, const std::string& name, DataType type,
               const std::vector<int64_t>& dims, std::span<const float> values) {
  const size_t num_bytes =
      values.size() * (type == DataType::kFloat ? sizeof(float) : sizeof(uint16_t));
  if (num_bytes >= kLeastSpilledBytes) {
    auto file = std::make_shared<MappedMemory>(num_bytes);
    if (type == DataType::kFloat) {
      std::ranges::copy(std::as_bytes(values), file->data());
    } else {
      kernels::FloatToHalf(values, reinterpret_cast<uint16_t*>(file->data()));
    }
    file->Release();
    const std::span<const std::byte> bytes{file->data(), file->size()};
    model.SetHeldInitializer(name, {type, dims, bytes, std::move(file), /*is_mapped=*/true});
    return;
  }
  if (type == DataType::kFloat) {
    model.SetInitializer(name, type, dims, std::as_bytes(values));
    return;
  }
  std::vector<uint16_t> halves(values.size());
  kernels::FloatToHalf(values, halves.data());
  model.SetInitializer(name, type, dims, std::as_bytes(std::span<const uint16_t>(halves)));
}

// The reason why a weight cannot be learned. Thrown and caught in this file only.
struct LeftOut {
  std::string reason;
};

std::vector<int64_t> OrOnes(std::vector<int64_t> values, size_t count) {
  if (values.empty()) values.assign(count, 1);
  if (values.size() != count) throw LeftOut{"its attributes do not fit its rank"};
  return values;
}

void DescribeWindow(const Node& node, std::span<const int64_t> dims, LinearLayer& layer) {
  const size_t num_spatial = dims.size() - 2;
  Window& window = layer.window;
  window.kernel.assign(dims.begin() + 2, dims.end());
  window.strides = OrOnes(node.GetInts("strides"), num_spatial);
  window.dilations = OrOnes(node.GetInts("dilations"), num_spatial);
  window.auto_pad = node.GetString("auto_pad", "NOTSET");
  std::vector<int64_t> pads = node.GetInts("pads");
  if (pads.empty()) pads.assign(2 * num_spatial, 0);
  if (pads.size() != 2 * num_spatial) throw LeftOut{"its attributes do not fit its rank"};
  window.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(num_spatial));
}

void DescribeConvolution(const Node& node, std::span<const int64_t> dims, LinearLayer& layer) {
  if (dims.size() < 3 || dims.size() > 5) throw LeftOut{"it has no spatial dimensions, or over 3"};
  layer.groups = node.GetInt("group", 1);
  if (layer.groups < 1 || dims[0] % layer.groups != 0) throw LeftOut{"its groups do not fit"};
  DescribeWindow(node, dims, layer);
  const int64_t taps = layer.num_taps();
  if (ops::TraitsOf(node).product == ops::Product::kConv) {
    layer.layout = PositionLayout::kWindows;
    layer.rows = dims[0] / layer.groups;
    layer.columns = dims[1] * taps;
    layer.row_stride = layer.columns;
    layer.channel_stride = taps;
    layer.group_stride = layer.rows * layer.columns;
  } else {
    if (node.HasAttribute("output_shape") || layer.window.auto_pad != "NOTSET") {
      throw LeftOut{"its padding depends on the shape of its output"};
    }
    layer.layout = PositionLayout::kScatter;
    layer.rows = dims[1];
    layer.columns = dims[0] / layer.groups * taps;
    layer.row_stride = taps;
    layer.channel_stride = layer.rows * taps;
    layer.group_stride = dims[0] / layer.groups * layer.channel_stride;
  }
}

void DescribeMatrix(const Node& node, size_t input, std::span<const int64_t> dims,
                    LinearLayer& layer) {
  if (dims.size() != 2) throw LeftOut{"it is no matrix"};
  bool is_transposed = false;
  if (ops::TraitsOf(node).product == ops::Product::kGemm) {
    if (input != 1 || node.GetInt("transA", 0) != 0) throw LeftOut{"it is on the left of a Gemm"};
    if (node.GetFloat("alpha", 1) != 1 || node.GetFloat("beta", 1) != 1) {
      throw LeftOut{"its Gemm has factors"};
    }
    is_transposed = node.GetInt("transB", 0) != 0;
  } else if (input == 0) {
    layer.layout = PositionLayout::kChannelsFirst;
    layer.readings.front().data_input = 1;
    is_transposed = true;
  }
  layer.rows = is_transposed ? dims[0] : dims[1];
  layer.columns = is_transposed ? dims[1] : dims[0];
  layer.row_stride = is_transposed ? layer.columns : 1;
  layer.channel_stride = is_transposed ? 1 : layer.rows;
  layer.group_stride = layer.rows * layer.columns;
}

bool IsFloatType(DataType type) { return type == DataType::kFloat || type == DataType::kFloat16; }

// Returns whether the nodes of one layer are the only readers of a constant. All of the layer's
// `num_readings` nodes are known to read it.
bool IsOfLayer(const Model& model, const std::string& value, size_t num_readings) {
  return model.AllUses(value).size() == num_readings && !model.IsOutput(value);
}

// Returns whether a value is a FLOAT or FLOAT16 constant with one element for each output channel.
bool IsBias(const Model& model, const std::string& value, int64_t num_outputs) {
  if (!model.IsInitializer(value) || !IsFloatType(model.Initializer(value).type)) return false;
  const std::span<const int64_t> dims = model.Initializer(value).dims;
  return !dims.empty() && dims.back() == num_outputs && NumElements(dims) == num_outputs;
}

// Describes a weight W or R of a recurrent operator, both [directions, gates * hidden, inputs].
void DescribeRecurrent(const Model& model, const Node& node, size_t input, size_t num_readings,
                       std::span<const int64_t> dims, LinearLayer& layer) {
  Reading& reading = layer.readings.front();
  if (dims.size() != 3) throw LeftOut{"it has not three dimensions"};
  if (node.GetInt("layout", 0) != 0) throw LeftOut{"its node has layout 1"};
  layer.layout = PositionLayout::kChannelsLast;
  layer.columns = dims[2];
  layer.row_stride = layer.columns;
  layer.channel_stride = 1;
  if (input == 1) {
    layer.recurrent = RecurrentWeight::kInputs;
    layer.rows = dims[0] * dims[1];
  } else {
    if (node.op_type() == "GRU" && node.GetInt("linear_before_reset", 0) == 0) {
      throw LeftOut{"it multiplies states behind a gate (linear_before_reset 0)"};
    }
    layer.recurrent = RecurrentWeight::kStates;
    layer.groups = dims[0];
    layer.rows = dims[1];
    reading.states = model.FreshName(fmt::format("{}_states_of_{}", layer.weight, reading.node));
  }
  layer.group_stride = layer.rows * layer.columns;
  reading.output = model.FreshName(fmt::format("{}_product_of_{}", layer.weight, reading.node));
  const std::string bias = node.num_inputs() > 3 ? node.input(3) : "";
  if (!model.IsInitializer(bias) || !IsOfLayer(model, bias, num_readings)) return;
  const graph::InitializerView view = model.Initializer(bias);
  if (!IsFloatType(view.type) || NumElements(view.dims) != 2 * dims[0] * dims[1]) return;
  layer.bias = bias;
  layer.is_bias_behind = true;
  layer.biases_per_direction = dims[1];
}

// Finds the bias that a node adds, or an Add behind a MatMul. Throws LeftOut if the node's bias
// makes the layer impossible to learn.
void FindBias(const Model& model, const Node& node, size_t num_readings,
              const FindLayersOptions& options, LinearLayer& layer) {
  const std::string& output = layer.readings.front().output;
  if (ops::TraitsOf(node).product != ops::Product::kMatMul) {
    const bool has_none = node.num_inputs() < 3 || node.input(2).empty();
    // Several nodes that share a weight would need one new bias each.
    if (has_none && options.with_new_biases && num_readings == 1) {
      layer.bias = model.FreshName(output + "_bias");
      layer.is_bias_new = true;
    } else if (!has_none) {
      const std::string& bias = node.input(2);
      if (!IsBias(model, bias, layer.num_outputs())) {
        throw LeftOut{"its bias is no constant with a value for each output"};
      }
      (IsOfLayer(model, bias, num_readings) ? layer.bias : layer.fixed_bias) = bias;
    }
    return;
  }
  if (layer.layout != PositionLayout::kChannelsLast || model.IsOutput(output)) return;
  const std::vector<graph::Use> uses = model.Uses(output);
  if (uses.size() != 1 || model.IsUsedInSubgraph(output)) return;
  const Node& add = uses[0].node;
  if (add.op_type() != "Add" || !add.domain().empty()) return;
  const std::string& other = add.input(1 - uses[0].input_index);
  if (!IsBias(model, other, layer.num_outputs())) return;
  if (!IsOfLayer(model, other, num_readings)) return;
  layer.bias = other;
  layer.is_bias_behind = true;
}

// Describes the linear map that one of the nodes computes with the weight.
LinearLayer DescribeReading(const Model& model, const plan::NodeIndex& index,
                            const plan::TensorPlan& row, const plan::TensorUse& use,
                            const FindLayersOptions& options) {
  const size_t num_readings = row.uses.size();
  const Node node = index.Find(use);
  const auto input = static_cast<size_t>(use.input);
  const ops::OperatorTraits& traits = ops::TraitsOf(node);
  if (!node.domain().empty() || !traits.multiplies()) {
    throw LeftOut{fmt::format("a weight of {} has no linear map here", node.op_type())};
  }
  for (auto owner = model.Owner(node); owner; owner = model.Owner(*owner)) {
    // A sample may run the body several times, or never leave it.
    if (owner->op_type() != "If") throw LeftOut{"the body of a Loop or Scan reads it"};
  }
  const graph::InitializerView weight = model.Initializer(row.value);
  // Learned values are stored in the weight's type. FLOAT16 keeps codes of up to 8 bits apart, and
  // not those of more bits.
  const bool fits_half = !row.integer || row.Spec().element_bits <= 8;
  if (weight.type != DataType::kFloat && !(weight.type == DataType::kFloat16 && fits_half)) {
    throw LeftOut{fmt::format("it is {}, and in {} only FLOAT is tuned", DataTypeName(weight.type),
                              row.format)};
  }
  if (NumElements(weight.dims) == 0) throw LeftOut{"it is empty"};
  LinearLayer layer;
  layer.op_type = node.op_type();
  layer.weight = row.value;
  layer.readings = {{use.node, 0, "", node.output(0)}};
  layer.row = &row;
  if (traits.is_recurrent()) {
    DescribeRecurrent(model, node, input, num_readings, weight.dims, layer);
    return layer;
  }
  if (traits.is_convolution()) {
    if (input != 1) throw LeftOut{"it is the data of a convolution"};
    DescribeConvolution(node, weight.dims, layer);
  } else {
    DescribeMatrix(node, input, weight.dims, layer);
  }
  FindBias(model, node, num_readings, options, layer);
  return layer;
}

// Returns whether two readings of a weight compute the same linear map.
bool MultiplyAlike(const LinearLayer& a, const LinearLayer& b) {
  const auto map = [](const LinearLayer& layer) {
    return std::tie(layer.op_type, layer.layout, layer.window, layer.recurrent, layer.groups,
                    layer.rows, layer.columns, layer.row_stride, layer.channel_stride);
  };
  const auto bias = [](const LinearLayer& layer) {
    return std::tie(layer.bias, layer.is_bias_behind, layer.fixed_bias);
  };
  return map(a) == map(b) && bias(a) == bias(b);
}

LinearLayer Describe(const Model& model, const plan::NodeIndex& index, const plan::TensorPlan& row,
                     const FindLayersOptions& options) {
  if (model.AllUses(row.value).size() != row.uses.size() || model.IsOutput(row.value)) {
    throw LeftOut{"it is also read as it is"};
  }
  LinearLayer layer = DescribeReading(model, index, row, row.uses.front(), options);
  for (const plan::TensorUse& use : std::span(row.uses).subspan(1)) {
    LinearLayer other = DescribeReading(model, index, row, use, options);
    if (!MultiplyAlike(layer, other)) {
      throw LeftOut{"several nodes read it, and add or multiply in other ways"};
    }
    layer.readings.push_back(std::move(other.readings.front()));
  }
  return layer;
}

// Numbers the activations of matrix products that the plan leaves float (LinearLayer::float_input).
// An activation that gets its scale at run time counts as float, as it does while layers learn.
void NumberFloatInputs(const plan::NodeIndex& index, const plan::QuantPlan& plan,
                       std::vector<LinearLayer>& layers) {
  std::set<std::pair<std::string, size_t>> quantized;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (row.role != plan::Role::kActivation || !row.is_quantized() || row.is_dynamic()) continue;
    for (const plan::TensorUse& use : row.uses) {
      quantized.emplace(use.node, static_cast<size_t>(use.input));
    }
  }
  using Inputs = std::tuple<std::vector<std::string>, PositionLayout, int64_t>;
  std::map<Inputs, int64_t> numbers;
  for (LinearLayer& layer : layers) {
    if (!ops::TraitsNamed(layer.op_type).is_matrix_product()) continue;
    Inputs inputs{{}, layer.layout, layer.columns};
    const bool is_float = std::ranges::all_of(layer.readings, [&](const Reading& reading) {
      const Node node =
          index.Find({reading.node, layer.op_type, static_cast<int64_t>(reading.data_input)});
      std::get<0>(inputs).push_back(node.input(reading.data_input));
      return !quantized.contains({reading.node, reading.data_input});
    });
    if (!is_float) continue;
    const auto next = static_cast<int64_t>(numbers.size());
    layer.float_input = numbers.emplace(std::move(inputs), next).first->second;
  }
}

}  // namespace

Layers FindLayers(const Model& model, const plan::QuantPlan& plan,
                  const FindLayersOptions& options) {
  Layers layers;
  const plan::NodeIndex index(model);
  std::map<std::string, size_t> num_rows;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (row.role == plan::Role::kWeight && row.is_quantized()) ++num_rows[row.value];
  }
  for (const plan::TensorPlan& row : plan.tensors) {
    if (row.role != plan::Role::kWeight || !row.is_quantized()) continue;
    try {
      if (num_rows.at(row.value) != 1) throw LeftOut{"it is quantized in several ways"};
      if (!model.IsInitializer(row.value)) throw LeftOut{"it is no constant"};
      layers.found.push_back(Describe(model, index, row, options));
    } catch (const LeftOut& left_out) {
      layers.left_out.emplace_back(row.value, left_out.reason);
    }
  }
  // Rows of a plan may have any order.
  std::map<std::string, size_t> order;
  const std::vector<Node> nodes = model.AllNodes();
  for (size_t i = 0; i < nodes.size(); ++i) order.emplace(index.KeyOf(nodes[i]), i);
  std::ranges::stable_sort(layers.found, {},
                           [&](const LinearLayer& layer) { return order[layer.node()]; });
  NumberFloatInputs(index, plan, layers.found);
  return layers;
}

std::vector<float> BiasOf(const Model& model, const LinearLayer& layer) {
  BITPRESS_DCHECK(model.IsInitializer(layer.bias));
  const std::vector<float> all = FloatsOf(model, layer.bias);
  std::vector<float> values(static_cast<size_t>(layer.num_outputs()));
  for (int64_t i = 0; i < layer.num_outputs(); ++i) {
    values[static_cast<size_t>(i)] = all[layer.BiasElementOf(i)];
  }
  return values;
}

void SetBias(Model& model, const LinearLayer& layer, std::span<const float> values) {
  BITPRESS_DCHECK(model.IsInitializer(layer.bias));
  BITPRESS_DCHECK(std::ssize(values) == layer.num_outputs());
  std::vector<float> all = FloatsOf(model, layer.bias);
  for (int64_t i = 0; i < layer.num_outputs(); ++i) {
    all[layer.BiasElementOf(i)] = values[static_cast<size_t>(i)];
  }
  SetFloats(model, layer.bias, all);
}

void AddBias(Model& model, const LinearLayer& layer, std::span<const float> values) {
  BITPRESS_DCHECK(layer.is_bias_new && std::ssize(values) == layer.num_outputs());
  const std::vector<int64_t> dims{static_cast<int64_t>(values.size())};
  const DataType type = model.Initializer(layer.weight).type;
  SetFloats(model, layer.bias, type, dims, values);
  const Reading& reading = layer.readings.front();
  Node node = plan::NodeIndex(model).Find(
      {reading.node, layer.op_type, static_cast<int64_t>(reading.data_input)});
  if (node.num_inputs() > 2) {
    node.set_input(2, layer.bias);
    return;
  }
  graph::NodeSpec spec{
      node.name(), node.op_type(), "", {node.input(0), node.input(1), layer.bias}, {}, {}};
  spec.attributes_of = node;
  model.Replace(node, std::move(spec));
}

std::vector<float> FloatsOf(const Model& model, const std::string& name) {
  const graph::InitializerView view = model.Initializer(name);
  if (view.type == DataType::kFloat16) {
    const auto halves = view.values<uint16_t>();
    std::vector<float> values(halves.size());
    kernels::HalfToFloat(halves, values.data());
    return values;
  }
  const auto values = view.values<float>();
  return {values.begin(), values.end()};
}

void SetFloats(Model& model, const std::string& name, std::span<const float> values) {
  const graph::InitializerView view = model.Initializer(name);
  BITPRESS_DCHECK(std::ssize(values) == NumElements(view.dims));
  SetFloats(model, name, view.type, std::vector<int64_t>(view.dims.begin(), view.dims.end()),
            values);
}

}  // namespace bitpress::finetune
