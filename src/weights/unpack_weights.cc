#include "weights/unpack_weights.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/packed_tensor.h"
#include "kernels/half.h"
#include "kernels/pack_tensor.h"
#include "ops/quantizer_nodes.h"
#include "weights/decode_standard.h"
#include "weights/native_form.h"
#include "weights/packed_nodes.h"
#include "weights/unpack_functions.h"
#include "weights/unpack_integers.h"

namespace bitpress::weights {
namespace {

using graph::Model;
using graph::Node;

std::span<const uint8_t> BytesOf(const graph::HeldInitializer& source) {
  return {reinterpret_cast<const uint8_t*>(source.bytes.data()), source.bytes.size()};
}

// A packed weight, and the bytes that it is decoded from.
struct Job {
  PackedWeight weight;
  std::vector<graph::HeldInitializer> parts;
  std::string node;  // for messages

  formats::PackedView View() const {
    formats::PackedView view;
    const std::vector<formats::PackedPart> meanings = formats::PartsOf(weight.spec);
    for (size_t i = 0; i < meanings.size() && i < parts.size(); ++i) {
      view[meanings[i]] = BytesOf(parts[i]);
    }
    return view;
  }

  std::vector<float> Decode(ThreadPool& pool) const {
    std::vector<float> y(static_cast<size_t>(NumElements(weight.shape)));
    if (weight.integer) {
      std::vector<std::span<const std::byte>> bytes;
      for (const graph::HeldInitializer& part : parts) bytes.push_back(part.bytes);
      UnpackInteger(weight, bytes, y, pool);
      return y;
    }
    const BlockView& view = weight.view;
    WithContext(node, [&] {
      kernels::UnpackTensor(weight.spec, view.outer, view.axis, view.inner, View(), y, pool);
    });
    return y;
  }
};

// Replaces a node with one output by an initializer of the same name that is computed later.
void ReplaceByConstant(Model& model, const Node& node, DataType type,
                       const std::vector<int64_t>& dims, std::function<Tensor()> compute) {
  const std::string value = node.output(0);
  model.ReleaseOutputs(node);
  model.RemoveNode(node);
  model.DeferInitializers({{value, type, dims}}, [compute = std::move(compute)] {
    std::vector<Tensor> tensors;
    tensors.push_back(compute());
    return tensors;
  });
}

// Returns the Cast to FLOAT16 behind a decoded weight, if nothing else reads the floats.
std::optional<Node> HalfCast(const Model& model, const std::string& value) {
  const std::optional<graph::Use> use = model.OnlyUse(value);
  if (!use || !model.AreInOneGraph(use->node, *model.Producer(value))) return std::nullopt;
  const Node& reader = use->node;
  const bool is_cast = reader.op_type() == "Cast" && reader.domain().empty() &&
                       reader.GetInt("to", 0) == static_cast<int64_t>(DataType::kFloat16);
  return is_cast ? std::optional(reader) : std::nullopt;
}

void RemoveIfUnused(Model& model, const std::vector<std::string>& constants) {
  for (const std::string& name : constants) {
    if (!model.IsRead(name) && model.IsInitializer(name)) model.RemoveInitializer(name);
  }
}

void Unpack(Model& model, Node node, PackedWeight weight, ThreadPool& pool,
            const std::function<void()>& step) {
  const auto job = std::make_shared<Job>(Job{std::move(weight), {}, node.Describe()});
  std::vector<std::string> inputs;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    inputs.push_back(node.input(i));
    job->parts.push_back(WithContext(job->node, [&] { return model.HoldInitializer(inputs[i]); }));
  }
  const std::vector<int64_t> dims = job->weight.shape;
  const std::string value = node.output(0);
  if (const std::optional<Node> cast = HalfCast(model, value)) {
    ReplaceByConstant(model, *cast, DataType::kFloat16, dims, [job, dims, step, &pool] {
      const std::vector<float> y = job->Decode(pool);
      Tensor tensor{DataType::kFloat16, dims, std::vector<std::byte>(y.size() * sizeof(uint16_t))};
      kernels::FloatToHalf(y, tensor.values<uint16_t>().data());
      step();
      return tensor;
    });
    model.RemoveNode(node);
  } else {
    ReplaceByConstant(model, node, DataType::kFloat, dims, [job, dims, step, &pool] {
      const std::vector<float> y = job->Decode(pool);
      Tensor tensor{DataType::kFloat, dims, std::vector<std::byte>(y.size() * sizeof(float))};
      std::ranges::copy(y, tensor.values<float>().begin());
      step();
      return tensor;
    });
  }
  RemoveIfUnused(model, inputs);
}

// Returns a name for the floats of codes.
std::string FloatsNameOf(const Model& model, const std::string& codes) {
  const std::string_view suffix = "_codes";
  return model.FreshName(codes.ends_with(suffix) ? codes.substr(0, codes.size() - suffix.size())
                                                 : codes + "_floats");
}

// Declares the floats of codes, scales and, if there are any, zero points.
void DeferNative(Model& model, const std::string& name, const NativeForm& form,
                 std::vector<graph::HeldInitializer> parts, const std::vector<int64_t>& dims,
                 ThreadPool& pool, const std::function<void()>& step) {
  model.DeferInitializers({{name, DataType::kFloat, dims}}, [=, parts = std::move(parts), &pool] {
    Tensor tensor{DataType::kFloat, dims,
                  std::vector<std::byte>(NumBytes(DataType::kFloat, NumElements(dims)))};
    DecodeNative(form, parts[0].bytes, parts[1].bytes,
                 form.has_zero_points ? parts[2].bytes : std::span<const std::byte>(),
                 tensor.values<float>(), pool);
    step();
    std::vector<Tensor> tensors;
    tensors.push_back(std::move(tensor));
    return tensors;
  });
}

// Replaces a MatMulNBits or GatherBlockQuantized by the MatMul or Gather of floats that it stands
// for. Several such nodes may read one weight: `weights` has its name by the names of its parts.
void UnpackNative(Model& model, const Node& node, const NativeForm& form,
                  std::map<std::string, std::string>& weights, ThreadPool& pool,
                  const std::function<void()>& step) {
  constexpr size_t kBias = 5;
  const NativeParts found = NativePartsOf(model, node);
  const std::string data = node.input(form.is_matmul ? 0 : 1);
  const std::vector<std::string> parts = found.names();
  auto [known, is_new] = weights.try_emplace(
      fmt::format("{} {} x {} of {} bits in {}", fmt::join(parts, "\n"), form.num_rows,
                  form.row_length, form.stored_bits(), form.block_size));
  if (is_new) {
    known->second = FloatsNameOf(model, found.codes);
    std::vector<graph::HeldInitializer> held;
    for (const std::string& part : parts) held.push_back(model.HoldInitializer(part));
    std::vector<int64_t> dims{form.num_rows, form.row_length};
    if (form.is_matmul) std::swap(dims[0], dims[1]);
    DeferNative(model, known->second, form, std::move(held), dims, pool, step);
  }
  const std::string bias =
      form.is_matmul && node.num_inputs() > kBias ? node.input(kBias) : std::string();
  const std::string& output = node.output(0);
  model.Replace({node}, [&, &weight = known->second] {
    if (!form.is_matmul) {
      model.InsertNode({node.name(), "Gather", "", {weight, data}, {output}, {}}, node);
      return;
    }
    const std::string product = bias.empty() ? output : model.FreshName(output + "_product");
    model.InsertNode({node.name(), "MatMul", "", {data, weight}, {product}, {}}, node);
    if (bias.empty()) return;
    model.InsertNode(
        {model.FreshNodeName(output + "_add"), "Add", "", {product, bias}, {output}, {}}, node);
  });
  if (!found.widened.empty() && !model.IsRead(found.widened)) {
    model.RemoveNode(*ops::WidenerOf(model, found.widened));
  }
  RemoveIfUnused(model, parts);
}

// Replaces a QMoE by the MoE of floats that it stands for.
void UnpackExperts(Model& model, const Node& node, const std::vector<ExpertsForm>& forms,
                   ThreadPool& pool, const std::function<void()>& step) {
  graph::NodeSpec spec{node.name(), "MoE", kNativeDomain, {node.input(0), node.input(1)}, {}, {}};
  spec.attributes_of = node;
  spec.dropped_attributes = {"accuracy_level", "block_size", "expert_weight_bits", "quant_type",
                             "weights_prepacked"};
  for (size_t number = 0; number < ops::kNumExpertWeights; ++number) {
    spec.dropped_attributes.push_back(ops::ExpertBitsAttribute(number));
  }
  std::vector<std::string> parts;
  for (const ExpertsForm& found : forms) {
    const NativeForm& form = found.form;
    std::vector<graph::HeldInitializer> held;
    for (const size_t input :
         {found.inputs.weight, found.inputs.scales, found.inputs.zero_points}) {
      if (input == 0) continue;  // no zero points
      parts.push_back(node.input(input));
      held.push_back(model.HoldInitializer(parts.back()));
    }
    const std::string weight = FloatsNameOf(model, node.input(found.inputs.weight));
    const std::vector<int64_t> dims{form.num_stacked, form.num_rows / form.num_stacked,
                                    form.row_length};
    DeferNative(model, weight, form, std::move(held), dims, pool, step);
    spec.inputs.insert(spec.inputs.end(), {weight, ops::InputOrNone(node, found.inputs.bias)});
  }
  while (spec.inputs.back().empty()) spec.inputs.pop_back();
  model.Replace(node, std::move(spec));
  RemoveIfUnused(model, parts);
}

}  // namespace

size_t UnpackWeights(Model& model, ThreadPool& pool, const ProgressSink& progress) {
  ExpandPackedNodes(model);
  // Unpacking removes nodes, but none of this list before its turn.
  std::vector<Node> nodes = model.AllNodes();
  std::vector<std::pair<Node, NativeForm>> native;
  std::vector<std::pair<Node, std::vector<ExpertsForm>>> experts;
  for (const Node& node : nodes) {
    if (const auto form = NativeFormOf(model, node)) native.emplace_back(node, *form);
    if (auto forms = ExpertsFormsOf(model, node); !forms.empty()) {
      experts.emplace_back(node, std::move(forms));
    }
  }
  std::erase_if(nodes, [](const Node& node) { return !ops::IsUnpack(node); });
  // The number of weights is known before the first one is decoded, when the model is written.
  struct Count {
    size_t num_done = 0;
    size_t num_weights = 0;
  };
  const auto count = std::make_shared<Count>();
  const auto step = [count, progress] {
    count->num_done = std::min(count->num_done + 1, count->num_weights);
    if (progress) progress("unpack weights", count->num_done, count->num_weights);
  };
  for (const Node& node : nodes) {
    if (auto weight = PackedWeightOf(model, node)) {
      Unpack(model, node, std::move(*weight), pool, step);
    }
  }
  std::map<std::string, std::string> weights;
  for (const auto& [node, form] : native) UnpackNative(model, node, form, weights, pool, step);
  for (const auto& [node, forms] : experts) UnpackExperts(model, node, forms, pool, step);
  const size_t num_standard = DecodeStandard(model, pool, step);
  // A product that is not decoded here keeps what widens its codes.
  std::set<std::string> called;
  for (const Node& node : model.AllNodes()) {
    if (node.domain() == "bitpress") called.insert(node.op_type());
  }
  for (const auto& [domain, name] : model.Functions()) {
    const bool is_decoder = name.starts_with("Unpack_") || name.starts_with(ops::kWidenPrefix);
    if (domain == "bitpress" && is_decoder && !called.contains(name)) {
      model.RemoveFunction(domain, name);
    }
  }
  count->num_weights = nodes.size() + weights.size() + 2 * experts.size() + num_standard;
  return count->num_weights;
}

size_t DropQuantizers(Model& model) {
  size_t num_dropped = 0;
  for (const Node& node : model.AllNodes()) {
    if (node.domain() != "bitpress" || !ops::IsQuantizer(node)) continue;
    ++num_dropped;
    const std::string source = node.input(0);
    const std::string value = node.output(0);
    model.ReplaceAllUses(value, source);
    if (model.IsOutput(value)) {
      model.Replace(node,
                    {model.FreshNodeName(value + "_identity"), "Identity", "", {source}, {}, {}});
    } else {
      model.RemoveNode(node);
    }
  }
  for (const auto& [domain, name] : model.Functions()) {
    if (domain == "bitpress" && name.starts_with("QuantizeDequantize_")) {
      model.RemoveFunction(domain, name);
    }
  }
  return num_dropped;
}

}  // namespace bitpress::weights
