// The decisions of a quantizer for the tensors of a model: the common form between a plan and the
// files of other tools. A file is read into decisions and applied to a plan; the decisions of a
// plan or of a quantized model are written as such a file. For example:
//
//   const Decisions decisions = ReadDecisions("resnet.encodings");
//   const ImportReport report = Apply(decisions, plan);
//
// Plain data; functions are pure but for reading files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/words.h"
#include "formats/qparams.h"
#include "graph/model.h"
#include "plan/integer_treatment.h"
#include "plan/quant_plan.h"

namespace bitpress::interop {

// A file that decisions are written as.
enum class FileKind {
  kAimet061,   // Qualcomm AIMET's encodings: a list of scales for each name
  kAimet100,   // the same, an object for each tensor
  kAimet200,   // the same in the words of ONNX's QuantizeLinear
  kAimet210,   // the same, with the scales of blocks (LPBQ) in these words, too
  kOverrides,  // ONNX Runtime's TensorQuantOverrides
  kNncf,       // the IgnoredScope of NNCF: which operators stay float
  kGenai,      // the QuantConfig of ONNX Runtime GenAI's model builder: weights of a decoder
  kQuark,      // the QConfig of AMD Quark
};
inline constexpr std::array<std::pair<std::string_view, FileKind>, 8> kFileKindWords{
    {{"aimet-0.6.1", FileKind::kAimet061},
     {"aimet-1.0.0", FileKind::kAimet100},
     {"aimet-2.0.0", FileKind::kAimet200},
     {"aimet-2.1.0", FileKind::kAimet210},
     {"onnxruntime", FileKind::kOverrides},
     {"nncf", FileKind::kNncf},
     {"genai", FileKind::kGenai},
     {"quark", FileKind::kQuark}}};
constexpr Words<FileKind> FieldWords(const FileKind*) { return kFileKindWords; }

// The decision for a tensor.
struct Decision {
  std::string value = {};                  // its name
  std::vector<plan::TensorUse> uses = {};  // where it is read, if that is what tells it
  bool is_constant = false;
  std::string format = {};  // one of ours; "none": it stays float
  plan::Granularity granularity = plan::Granularity::kPerTensor;
  std::optional<int64_t> axis = {};  // nothing: that of the operator's channels
  int64_t block_size = 0;
  bool is_symmetric = true;
  bool is_dynamic = false;  // its scale is computed at run time
  // One for the tensor, one for each index of the axis, or one for each block, in the order of a
  // weight's elements. Empty: the file gives no scales.
  std::vector<formats::QParams> params = {};
  // The scales of blocks that are multiples of those of channels (LPBQ), if the file gives them.
  struct Multiples {
    std::vector<float> channels = {};
    int64_t channel_axis = 0;
    std::vector<int64_t> dims = {};    // of the multiples: a weight's, with blocks along the axis
    std::vector<int64_t> values = {};  // 1 to 16
  };
  std::optional<Multiples> multiples = {};
  // The first elements of a constant, if the file holds them, and how far rounding to another code
  // moves each.
  struct FirstValue {
    float value = 0;
    float step = 0;  // infinite at the ends of the codes, where values are clipped
  };
  std::vector<FirstValue> first_values = {};
  // How a plan chooses the scale where it does not give it.
  plan::RangeMethod range = {};
  formats::ScaleKind scale_kind = formats::ScaleKind::kFloat;
};

struct Decisions {
  std::vector<Decision> tensors = {};
  // The file names every quantized tensor, so that others are float.
  bool names_all = true;
  // These hold for all operators or for some, in the words of configurations.
  std::vector<std::pair<std::string, std::string>> settings = {};
  std::vector<plan::Rule> rules = {};
  // The words of optional rules are the file's own, so that one that fits nothing is told.
  bool tells_unmatched = false;
  // Operators of a plan or model that read nothing quantized, though they could.
  struct FloatNode {
    std::string name;
    std::string op_type;
    bool has_weight = false;
  };
  std::vector<FloatNode> float_nodes = {};
  // The configuration of a plan, with `equalize` as it was resolved, for what it does to layers
  // and learns from samples.
  plan::QuantConfig request = {};
  // Statements of the file that no plan can make, one sentence each.
  std::vector<std::string> notes = {};
};

// Reads a file of any FileKind, or the parameters inside a quantized model; its content tells which
// it is. Throws Error naming the file and what is wrong in it.
Decisions ReadDecisions(const std::filesystem::path& path);

// Return what a plan or the quantizers of a model decided. Rows without scales have none here.
Decisions DecisionsOf(const plan::QuantPlan& plan);
Decisions DecisionsOf(const graph::Model& model);

// Returns the text of a file, and appends to `notes` what it cannot say.
std::string Write(const Decisions& decisions, FileKind kind, std::vector<std::string>& notes);

// Returns a plan that says what was decided, for rules about plans. It cannot be carried out.
plan::QuantPlan AsPlan(const Decisions& decisions);

// Gives rules the names that operators without one have here (their first output), where the file
// calls them by type and number in the given model, as NNCF does: "Conv_nncf_7".
void NameUnnamed(Decisions& decisions, const graph::Model& given);

// Gives a configuration the settings and rules of the decisions, before a plan is made of it.
void Configure(const Decisions& decisions, plan::QuantConfig& config);

struct ImportReport {
  size_t num_rows = 0;                      // rows of the plan that took a decision
  size_t num_rules = 0;                     // settings and rules that the plan was made with
  std::vector<std::string> unmatched = {};  // tensors of the file that the plan does not have
  std::vector<std::string> now_float = {};  // quantized rows that the file does not name
  std::vector<std::string> notes = {};
};

constexpr auto FieldsOf(const ImportReport*) {
  return std::tuple(
      Field{"num_rows", &ImportReport::num_rows, "Tensors of the plan that took a decision."},
      Field{"num_rules", &ImportReport::num_rules,
            "Settings and rules of the file that the plan was made with."},
      Field{"unmatched", &ImportReport::unmatched,
            "Tensors of the file that the plan does not have."},
      Field{"now_float", &ImportReport::now_float,
            "Tensors that stay float, because the file does not name them."},
      Field{"notes", &ImportReport::notes, "What the file says and no plan can say."});
}

// Gives the rows of a plan of `model` the decisions for their tensors. An activation that the file
// does not name takes the decision for the same elements before or behind operators that only move
// them. Biases with the scale of their products keep it while these are integers. Throws
// Error(kInvalidArgument) naming the tensor if a row cannot take its decision.
ImportReport Apply(const Decisions& decisions, const graph::Model& model, plan::QuantPlan& plan);

}  // namespace bitpress::interop
