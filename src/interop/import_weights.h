// Weights that another tool quantized, taken into a float model of the same network: the model gets
// their values, the plan their formats, and the emitter their scales, so that each code is written
// as the file has it. For example:
//
//   ImportedWeights imported = ImportWeights("model.Q4_K_M.gguf", model, pool);
//   GiveFormats(imported, model, plan);
//   ... the plan is resolved ...
//   GiveScales(imported, resolved);
//
// Elements that are scale * code + offset (Q4_1, Q4_K, ...) become two products: that of the codes,
// and that of the sums of the blocks of the input with the offsets. MatMulNBits would take such
// offsets as zero points that are floats, but decodes the weight at each run then (measured with
// ONNX Runtime 1.31.1: 15 to 28 times the time for one row, docs/benchmarks/imported_weights.md).
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/thread_pool.h"
#include "formats/qparams.h"
#include "graph/model.h"
#include "interop/decisions.h"
#include "plan/resolved_plan.h"

namespace bitpress::interop {

// One weight of the model and what it was taken from.
struct ImportedWeight {
  std::string value;   // its name in the model
  std::string source;  // that of the tensors in the file
  std::string type;    // as the file calls it, such as "Q4_K"
  std::string format;  // ours; "none": float
  std::string reason;  // why its codes were not kept; "" if they were
  bool is_kept() const { return reason.empty() && format != "none"; }
};
constexpr auto FieldsOf(const ImportedWeight*) {
  using Weight = ImportedWeight;
  return std::tuple(
      Field{"value", &Weight::value, "", "name"},
      Field{"source", &Weight::source, "The tensors of the file that it was taken from."},
      Field{"type", &Weight::type, "Their type as the file calls it, such as 'Q4_K'."},
      Field{"format", &Weight::format, "The format in the model. 'none': float."},
      Field{"reason", &Weight::reason, "Why its codes were not kept. '' if they were."},
      ComputedField{"is_kept", [](const Weight& weight) { return weight.is_kept(); },
                    "Every code is that of the file."});
}

struct WeightImport {
  std::vector<ImportedWeight> weights;   // matrices and tables, in the order of the model
  size_t num_vectors = 0;                // norms and biases whose values were taken
  std::vector<std::string> not_in_file;  // weights of the model that it has nothing for
  std::vector<std::string> unused;       // tensors of the file that the model does not read
  size_t num_kept() const;
};
constexpr auto FieldsOf(const WeightImport*) {
  using Import = WeightImport;
  return std::tuple(
      Field{"weights", &Import::weights, "Matrices and tables that were taken from the file."},
      ComputedField{"num_kept", [](const Import& import) { return import.num_kept(); },
                    "Weights whose codes are those of the file."},
      Field{"num_vectors", &Import::num_vectors,
            "Norms and biases that were taken from the file, as floats."},
      Field{"not_in_file", &Import::not_in_file,
            "Weights of the model that the file has nothing for: the configuration decides."},
      Field{"unused", &Import::unused, "Tensors of the file that the model does not read."});
}

struct ImportedWeights {
  WeightImport report;
  Decisions decisions;  // for each imported weight
  // The scales of the blocks, in the order of weights::IntegerWeight::scale_dims.
  std::map<std::string, std::vector<formats::QParams>> scales;
};

// Reads the weights of a decoder (weights_file.h has the kinds of files) and gives them to the
// model. A weight is found by its name, by that of its reader, or by its role (ops/layer_roles.h).
// The weights that the model has tell whether rows of queries and keys lie pair by pair.
// Throws Error naming file, tensor and weight if the file has no tensor for a layer that it should
// have, or one of another shape or of a type that is not read, or if a tensor is so unlike the
// weight of the model that it must be that of another network.
ImportedWeights ImportWeights(const std::filesystem::path& path, graph::Model& model,
                              ThreadPool& pool);

// Gives the rows of a plan for the model their formats. Weights that the plan has no row for, such
// as tables in a plan without formats, get one.
void GiveFormats(const ImportedWeights& imported, const graph::Model& model, plan::QuantPlan& plan);

// Gives imported weights their scales.
void GiveScales(ImportedWeights imported, plan::ResolvedPlan& resolved);

}  // namespace bitpress::interop
