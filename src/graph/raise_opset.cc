// The raising of a model to a later version of the standard operator set.
//
// It changes nodes in place: names, documentation, metadata and descriptions of values stay, and a
// planned use of a value stays one. ONNX's converter would lose them, refuses models with other
// parts, and gives Resize other positions. Most operators mean the same in every later version.
// The table at the end lists those that do not, as ONNX Runtime computes them.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/reference.h"
#include "graph/clean_up.h"
#include "graph/model_impl.h"
#include "onnx/defs/schema.h"

namespace bitpress::graph {
namespace {

// ONNX Runtime computes no operator that changed up to this version in its older form.
constexpr int64_t kOldestOpset = 7;

// Returns the first IR version that may hold the operator set (ONNX's table of versions).
int64_t IrVersionFor(int64_t opset) {
  constexpr std::pair<int64_t, int64_t> kFirst[] = {{25, 12}, {23, 11}, {21, 10},
                                                    {19, 9},  {15, 8},  {12, 7}};
  for (const auto& [version, ir_version] : kFirst) {
    if (opset >= version) return ir_version;
  }
  return 4;
}

template <typename T>
Tensor TensorOf(DataType type, std::vector<int64_t> dims, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span<const T>(values));
  return {type, std::move(dims), {bytes.begin(), bytes.end()}};
}

Tensor ListOf(const std::vector<int64_t>& numbers) {
  return TensorOf(DataType::kInt64, {static_cast<int64_t>(numbers.size())}, numbers);
}

// Returns a number as a scalar of that type of floats. Types other than these are taken for FLOAT.
Tensor ScalarOf(float number, DataType type) {
  using formats::ElementType;
  if (type == DataType::kDouble) return TensorOf<double>(type, {}, {number});
  if (type == DataType::kFloat16 || type == DataType::kBFloat16) {
    const uint32_t code = formats::ref::EncodeFloat(
        number, type == DataType::kFloat16 ? ElementType::kFloat16 : ElementType::kBFloat16);
    return TensorOf<uint16_t>(type, {}, {static_cast<uint16_t>(code)});
  }
  return TensorOf<float>(DataType::kFloat, {}, {number});
}

class OpsetRaiser {
 public:
  explicit OpsetRaiser(Model& model) : model_(model) {}

  // Raises all nodes. Throws Error(kUnsupported) naming a node that has no later form.
  void Raise(int64_t from, int64_t to);

  // Writes a Softmax that normalizes over several dimensions as one over a matrix. Returns whether
  // it was one.
  bool Flatten(Node node) {
    const std::string input = node.input(0);
    const ValueInfo info = model_.InfoOf(input);
    const int64_t axis = node.GetInt("axis", 1);
    if (OnlyAxis(node)) return false;
    const std::string output = node.output(0);
    const std::string matrix = model_.FreshName(input + "_flat");
    const std::string result = model_.FreshName(output + "_flat");
    node.set_output(0, result);
    model_.InsertNode({"", "Flatten", "", {input}, {matrix}, {{"axis", axis}}}, node);
    const std::string shape = ShapeOf(input, info, node);
    node.set_input(0, matrix);
    SetInt(node, "axis", 1);
    model_.InsertNode({"", "Reshape", "", {result, shape}, {output}, {}}, model_.NodeBehind(result),
                      node);
    if (info.type == DataType::kUndefined) return true;
    const ValueInfo flat{info.type, true, std::vector<Dimension>(2)};
    for (const std::string& value : {matrix, result}) model_.SetInfo(value, flat);
    return true;
  }

 private:
  struct Step {
    int64_t version;
    std::string_view op_type;
    void (OpsetRaiser::*raise)(Node);
  };
  static const Step kSteps[];

  [[noreturn]] static void Refuse(const Node& node, std::string_view why) {
    Fail(ErrorCode::kUnsupported, "{} {}", node.Describe(), why);
  }

  static void RequireOldest(const Node& node, int64_t from) {
    if (from >= kOldestOpset) return;
    const auto* const schema =
        onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(kOldestOpset), "");
    if (schema != nullptr && schema->since_version() > from) {
      Refuse(node, fmt::format("has an older form than that of operator set {}", kOldestOpset));
    }
  }

  // --- Parts of nodes

  static onnx::AttributeProto& NewAttribute(Node node, std::string_view name) {
    node.RemoveAttribute(name);
    onnx::AttributeProto& attribute = *ModelAccess::Proto(node).add_attribute();
    attribute.set_name(std::string(name));
    return attribute;
  }

  static void SetInt(Node node, std::string_view name, int64_t value) {
    onnx::AttributeProto& attribute = NewAttribute(node, name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }

  static void SetString(Node node, std::string_view name, const std::string& value) {
    onnx::AttributeProto& attribute = NewAttribute(node, name);
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(value);
  }

  static bool HasInput(const Node& node, size_t i) {
    return i < node.num_inputs() && !node.input(i).empty();
  }

  static void SetInputAt(Node node, size_t i, const std::string& value) {
    while (node.num_inputs() <= i) ModelAccess::Proto(node).add_input("");
    node.set_input(i, value);
  }

  void AddConstant(Node node, size_t input, std::string_view what, Tensor tensor) {
    const std::string name = model_.FreshName(fmt::format("{}_{}", node.output(0), what));
    model_.SetInitializer(name, std::move(tensor));
    SetInputAt(node, input, name);
  }

  // Makes an input of an attribute, if the node has it.
  void MoveInts(Node node, std::string_view attribute, size_t input) {
    if (!node.HasAttribute(attribute)) return;
    AddConstant(node, input, attribute, ListOf(node.GetInts(attribute)));
    node.RemoveAttribute(attribute);
  }

  void MoveFloat(Node node, std::string_view attribute, size_t input, DataType type) {
    if (!node.HasAttribute(attribute)) return;
    AddConstant(node, input, attribute, ScalarOf(node.GetFloat(attribute, 0), type));
    node.RemoveAttribute(attribute);
  }

  DataType TypeOfInput(const Node& node) const { return model_.InfoOf(node.input(0)).type; }

  // Returns the floats of a constant, or nothing if they are computed.
  std::vector<float> Floats(const std::string& value) const {
    if (!model_.IsInitializer(value) || model_.IsDeferred(value)) return {};
    const InitializerView view = model_.Initializer(value);
    if (view.type != DataType::kFloat) return {};
    const std::span<const float> floats = view.values<float>();
    return {floats.begin(), floats.end()};
  }

  // --- Softmax

  // Returns the only dimension that the node normalizes over, -1 if it is the last one; nothing if
  // there may be several, which are not known to be 1.
  std::optional<int64_t> OnlyAxis(const Node& node) const {
    int64_t axis = node.GetInt("axis", 1);
    const std::optional<Node> producer = model_.Producer(node.input(0));
    const bool reads_matrix = producer && producer->op_type() == "Flatten";
    if (axis == -1 || (axis == 1 && reads_matrix)) return -1;
    const ValueInfo info = model_.InfoOf(node.input(0));
    if (!info.has_shape) return std::nullopt;
    const auto rank = static_cast<int64_t>(info.shape.size());
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return std::nullopt;
    std::optional<int64_t> only;
    for (int64_t i = axis; i < rank; ++i) {
      if (info.shape[static_cast<size_t>(i)].value == 1) continue;
      if (only) return std::nullopt;
      only = i;
    }
    return only && *only != rank - 1 ? *only : -1;
  }

  // Returns a value that holds the shape: a constant if at most one dimension is unknown.
  std::string ShapeOf(const std::string& value, const ValueInfo& info, const Node& reader) {
    std::vector<int64_t> dims;
    for (const Dimension& dim : info.shape) dims.push_back(dim.value);
    const std::string name = model_.FreshName(value + "_shape");
    if (info.has_shape && std::ranges::count(dims, -1) <= 1 && std::ranges::count(dims, 0) == 0) {
      model_.SetInitializer(name, ListOf(dims));
    } else {
      model_.InsertNode({"", "Shape", "", {value}, {name}, {}}, reader);
    }
    return name;
  }

  void Softmax(Node node) {
    if (Flatten(node)) return;
    SetInt(node, "axis", *OnlyAxis(node));
  }

  // --- Resize

  void Upsample7(Node node) {
    std::vector<float> scales;
    for (const auto& attribute : ModelAccess::Proto(node).attribute()) {
      if (attribute.name() == "scales") {
        scales.assign(attribute.floats().begin(), attribute.floats().end());
      }
    }
    AddConstant(node, 1, "scales",
                TensorOf(DataType::kFloat, {static_cast<int64_t>(scales.size())}, scales));
    node.RemoveAttribute("scales");
  }

  void Upsample9(Node node) { ModelAccess::Proto(node).set_op_type("Resize"); }

  // Before operator set 11, ONNX Runtime divides positions by the scale. The nearest element lies
  // below along dimensions that grow and above along those that shrink.
  void Resize10(Node node) {
    SetString(node, "coordinate_transformation_mode", "asymmetric");
    const std::string scales = node.input(1);
    SetInputAt(node, 2, scales);
    node.set_input(1, "");
    if (node.GetString("mode", "nearest") != "nearest") return;
    const std::vector<float> known = Floats(scales);
    const bool grows = known.empty() || std::ranges::any_of(known, [](float s) { return s > 1; });
    const bool shrinks = known.empty() || std::ranges::any_of(known, [](float s) { return s < 1; });
    SetString(node, "nearest_mode", shrinks && !grows ? "ceil" : "floor");
    if (shrinks && grows) ShrinkBehind(node, scales);
  }

  // Leaves the dimensions that grow to the node, and the others to a second one behind it.
  void ShrinkBehind(Node node, const std::string& scales) {
    const std::string output = node.output(0);
    const std::string one = model_.FreshName(output + "_one");
    model_.SetInitializer(one, TensorOf<float>(DataType::kFloat, {1}, {1.0f}));
    const auto limit = [&](const char* op_type) {
      const std::string limited = model_.FreshName(fmt::format("{}_{}", output, op_type));
      model_.InsertNode({"", op_type, "", {scales, one}, {limited}, {}}, node);
      return limited;
    };
    const std::string growth = limit("Max");
    const std::string shrinkage = limit("Min");
    node.set_input(2, growth);
    const std::string grown = model_.FreshName(output + "_grown");
    node.set_output(0, grown);
    NodeSpec behind{"", "Resize", "", {grown, "", shrinkage}, {output}, {{"nearest_mode", "ceil"}}};
    behind.attributes_of = node;
    behind.dropped_attributes = {"nearest_mode"};
    model_.InsertNode(behind, model_.NodeBehind(grown), node);
  }

  // --- Other operators

  void Scan8(Node node) { Refuse(node, "has a form that no later operator set has"); }

  void BatchNormalization7(Node node) {
    if (node.GetInt("spatial", 1) != 1) Refuse(node, "normalizes each element by itself");
    node.RemoveAttribute("spatial");
  }

  void BatchNormalization13(Node node) {
    for (size_t i = 1; i < node.num_outputs(); ++i) {
      if (!node.output(i).empty()) Refuse(node, "has the outputs of training");
    }
  }

  void Slice1(Node node) {
    MoveInts(node, "starts", 1);
    MoveInts(node, "ends", 2);
    MoveInts(node, "axes", 3);
  }

  void TopK1(Node node) {
    AddConstant(node, 1, "k", ListOf({node.GetInt("k", 0)}));
    node.RemoveAttribute("k");
  }

  void Dropout7(Node node) {
    if (node.num_outputs() > 1 && !node.output(1).empty()) Refuse(node, "gives a mask of floats");
  }

  void Dropout10(Node node) { MoveFloat(node, "ratio", 1, DataType::kFloat); }

  void Clip6(Node node) {
    const DataType type = TypeOfInput(node);
    MoveFloat(node, "min", 1, type);
    MoveFloat(node, "max", 2, type);
  }

  void Pad2(Node node) {
    MoveInts(node, "pads", 1);
    const bool is_constant = node.GetString("mode", "constant") == "constant";
    if (is_constant && node.GetFloat("value", 0) != 0) {
      MoveFloat(node, "value", 2, TypeOfInput(node));
    }
    node.RemoveAttribute("value");
  }

  void Scatter9(Node node) { ModelAccess::Proto(node).set_op_type("ScatterElements"); }

  void MoveAxes(Node node) { MoveInts(node, "axes", 1); }

  void Split11(Node node) { MoveInts(node, "split", 1); }

  void Split13(Node node) {
    if (!HasInput(node, 1)) SetInt(node, "num_outputs", static_cast<int64_t>(node.num_outputs()));
  }

  void RoiAlign10(Node node) {
    if (node.HasAttribute("coordinate_transformation_mode")) return;
    SetString(node, "coordinate_transformation_mode", "output_half_pixel");
  }

  void Dft17(Node node) {
    const std::vector<int64_t> axis{node.GetInt("axis", 1)};
    AddConstant(node, 2, "axis", TensorOf(DataType::kInt64, {}, axis));
    node.RemoveAttribute("axis");
  }

  void GridSample16(Node node) {
    const std::string mode = node.GetString("mode", "bilinear");
    if (mode == "bilinear") SetString(node, "mode", "linear");
    if (mode == "bicubic") SetString(node, "mode", "cubic");
  }

  // Scale and bias were one a group, and are one a channel.
  void GroupNormalization18(Node node) {
    const ValueInfo info = model_.InfoOf(node.input(0));
    const int64_t num_groups = node.GetInt("num_groups", 0);
    const int64_t num_channels = info.shape.size() > 1 ? info.shape[1].value : -1;
    for (const size_t i : {size_t{1}, size_t{2}}) {
      const bool is_known = model_.IsInitializer(node.input(i)) && num_groups > 0 &&
                            num_channels > 0 && num_channels % num_groups == 0;
      if (!is_known) Refuse(node, "has no constant scale and bias, or unknown channels");
      const HeldInitializer held = model_.HoldInitializer(node.input(i));
      if (held.dims != std::vector<int64_t>{num_groups}) {
        Refuse(node, "has no scale and bias for each group");
      }
      const size_t size = held.bytes.size() / static_cast<size_t>(num_groups);
      Tensor repeated{held.type, {num_channels}, {}};
      for (int64_t channel = 0; channel < num_channels; ++channel) {
        const auto group = static_cast<size_t>(channel / (num_channels / num_groups));
        const auto bytes = held.bytes.subspan(group * size, size);
        repeated.bytes.insert(repeated.bytes.end(), bytes.begin(), bytes.end());
      }
      AddConstant(node, i, i == 1 ? "scale" : "bias", std::move(repeated));
    }
  }

  Model& model_;
};

// Each step brings a node to that version. They stand in the order of the versions.
const OpsetRaiser::Step OpsetRaiser::kSteps[] = {
    {9, "BatchNormalization", &OpsetRaiser::BatchNormalization7},
    {9, "Scan", &OpsetRaiser::Scan8},
    {9, "Upsample", &OpsetRaiser::Upsample7},
    {10, "Dropout", &OpsetRaiser::Dropout7},
    {10, "Slice", &OpsetRaiser::Slice1},
    {10, "TopK", &OpsetRaiser::TopK1},
    {10, "Upsample", &OpsetRaiser::Upsample9},
    {11, "Clip", &OpsetRaiser::Clip6},
    {11, "Pad", &OpsetRaiser::Pad2},
    {11, "Resize", &OpsetRaiser::Resize10},
    {11, "Scatter", &OpsetRaiser::Scatter9},
    {12, "Dropout", &OpsetRaiser::Dropout10},
    {13, "Hardmax", &OpsetRaiser::Softmax},
    {13, "LogSoftmax", &OpsetRaiser::Softmax},
    {13, "ReduceSum", &OpsetRaiser::MoveAxes},
    {13, "Softmax", &OpsetRaiser::Softmax},
    {13, "Split", &OpsetRaiser::Split11},
    {13, "Squeeze", &OpsetRaiser::MoveAxes},
    {13, "Unsqueeze", &OpsetRaiser::MoveAxes},
    {14, "BatchNormalization", &OpsetRaiser::BatchNormalization13},
    {16, "RoiAlign", &OpsetRaiser::RoiAlign10},
    {18, "ReduceL1", &OpsetRaiser::MoveAxes},
    {18, "ReduceL2", &OpsetRaiser::MoveAxes},
    {18, "ReduceLogSum", &OpsetRaiser::MoveAxes},
    {18, "ReduceLogSumExp", &OpsetRaiser::MoveAxes},
    {18, "ReduceMax", &OpsetRaiser::MoveAxes},
    {18, "ReduceMean", &OpsetRaiser::MoveAxes},
    {18, "ReduceMin", &OpsetRaiser::MoveAxes},
    {18, "ReduceProd", &OpsetRaiser::MoveAxes},
    {18, "ReduceSumSquare", &OpsetRaiser::MoveAxes},
    {18, "Split", &OpsetRaiser::Split13},
    {20, "DFT", &OpsetRaiser::Dft17},
    {20, "GridSample", &OpsetRaiser::GridSample16},
    {21, "GroupNormalization", &OpsetRaiser::GroupNormalization18},
};

void OpsetRaiser::Raise(int64_t from, int64_t to) {
  for (const Node& node : model_.AllNodes()) {
    if (!node.domain().empty()) continue;
    RequireOldest(node, from);
    // An operator may get another one's name on the way.
    for (const Step& step : kSteps) {
      if (step.version > from && step.version <= to && step.op_type == node.op_type()) {
        (this->*step.raise)(node);
      }
    }
  }
}

int64_t StandardOpset(const Model& model) {
  const auto imports = model.OpsetImports();
  const auto standard = imports.find("");
  return standard == imports.end() ? 0 : standard->second;
}

}  // namespace

std::string Model::RaiseOpset(int64_t version) {
  const int64_t from = StandardOpset(*this);
  if (from == 0 || from >= version) return "";
  if (impl_->proto.functions_size() > 0) return "it has functions, whose operator sets stay";
  RegisterSchemas();
  Model raised = Clone();
  try {
    OpsetRaiser(raised).Raise(from, version);
    raised.SetOpsetImport("", version);
    auto& proto = raised.impl_->proto;
    proto.set_ir_version(std::max(proto.ir_version(), IrVersionFor(version)));
    raised.Check();
  } catch (const Error& error) {
    return error.what();
  }
  *this = std::move(raised);
  return "";
}

size_t FlattenSoftmax(Model& model) {
  if (StandardOpset(model) >= kFirstOpsetWithOneAxis) return 0;
  size_t num_flattened = 0;
  OpsetRaiser raiser(model);
  for (const Node& node : model.AllNodes()) {
    const std::string& op = node.op_type();
    const bool is_one = op == "Softmax" || op == "LogSoftmax" || op == "Hardmax";
    if (is_one && node.domain().empty() && raiser.Flatten(node)) ++num_flattened;
  }
  return num_flattened;
}

}  // namespace bitpress::graph
