// The corridor: the only code that sees every room. One function for each thing a user may want
// from start to end; the command line and the bindings to come only translate arguments into these
// options and the reports into text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/tensor.h"
#include "calibrate/calibrate.h"
#include "data/source.h"
#include "evaluate/check_target.h"
#include "evaluate/evaluate.h"
#include "finetune/finetune.h"
#include "graph/model.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "transform/apply_plan.h"
#include "transform/equalize.h"
#include "transform/remove_reorders.h"
#include "transform/smooth.h"
#include "transform/unsigned_weights.h"

namespace bitpress::pipeline {

// "0.1.0"
std::string_view Version();

// Whether a model is cleaned up before it is planned.
enum class Preparation {
  // ONNX Runtime's basic optimizations: constants folded, BatchNorm folded into Conv, dead nodes
  // gone. What exporters write
  // is quantizable then.
  kOptimize,
  // Only Constant nodes become initializers: for models with operators that this machine does not
  // have.
  kAsIs,
};

// Loads a model, checks it and makes it ready to be planned: cleaned up, equalized if wished,
// shapes inferred. The same file and options give the same model, so that plans and calibrations
// fit it. Uses a temporary folder, which is gone at the end. Throws Error naming the file.
graph::Model Prepare(const std::filesystem::path& model,
                     Preparation preparation = Preparation::kOptimize,
                     const std::optional<plan::EqualizeOptions>& equalization = {},
                     transform::EqualizeReport* report = nullptr);

struct CalibrateOptions {
  std::filesystem::path model;
  std::filesystem::path output;      // a .bpc file. Written as by Quantize
  std::filesystem::path data;        // a folder, see data::OpenSource
  std::filesystem::path labels_csv;  // of the files that count; empty: all
  std::string image;                 // see data::ParseImageSpec; empty: the data are no photos
  data::SourceOpener open_source;    // opens samples instead of `data` and `labels_csv`
  // Watches only the activations that this configuration quantizes, of the model that it equalizes
  // if it does; nothing: every float one of the model as it is.
  std::optional<plan::QuantConfig> config = std::nullopt;
  Preparation preparation = Preparation::kOptimize;
  // Also the extremes and sums of each channel of whatever matrix products and convolutions read;
  // without it of those inputs that pair-safe weights are chosen for, which leaves out depthwise
  // convolutions and products of two activations.
  bool is_per_channel = false;
  size_t batch_size = 8;   // samples read at once; the model runs them one at a time
  size_t num_samples = 0;  // at most; 0: all
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};

struct CalibrateReport {
  calibrate::CalibrationResult result;
  uint64_t output_bytes = 0;
};

// Prepares the model as Quantize does, so that the names of values are the same, runs the samples
// through it, and writes their statistics. Throws Error; nothing is left behind then.
CalibrateReport Calibrate(const CalibrateOptions& options);

// Reads a calibration file. Throws Error naming the file.
calibrate::CalibrationTable ReadCalibration(const std::filesystem::path& path);
// Whether a file starts like one. False also where it cannot be read.
bool IsCalibration(const std::filesystem::path& path);

// Adds files of one model and the same values up and writes the result, which may be one of them:
// exactly what one pass over all samples would have given, in whatever order. Throws Error naming
// the file that does not fit.
calibrate::CalibrationTable MergeCalibrations(std::span<const std::filesystem::path> paths,
                                              const std::filesystem::path& output);

// Reads a configuration, see plan::ConfigFromJson; without a name it gets the file's. Throws Error
// naming the file.
plan::QuantConfig ReadConfig(const std::filesystem::path& path);

// What `bitpress plan` writes.
plan::QuantPlan MakePlan(const std::filesystem::path& model, const plan::QuantConfig& config,
                         Preparation preparation = Preparation::kOptimize);

// Reads a plan file. Throws Error naming the file.
plan::QuantPlan ReadPlan(const std::filesystem::path& path);

struct CheckOptions {
  std::filesystem::path model;
  // The first sample is run; no folder: one that is made up, whose dimensions may not suit.
  std::filesystem::path data;
  std::filesystem::path labels_csv;
  std::string image;
  data::SourceOpener open_source;  // opens samples instead of `data` and `labels_csv`
};

// What ONNX Runtime on this machine makes of a model. Throws Error if the file is no model or there
// is no sample; what is wrong with running it is in the report.
evaluate::TargetReport CheckTarget(const CheckOptions& options);

struct QuantizeOptions {
  std::filesystem::path model;
  // May be `model` itself. Written at the end and all at once: there is the old file or the new
  // one, never a part. Fine-tuning keeps `<output>.journal` beside it until then, with which a run
  // that was stopped goes on.
  std::filesystem::path output;
  plan::QuantConfig config;
  std::filesystem::path
      plan_file;  // not empty: the decisions come from there and `config` is not read
  Preparation preparation = Preparation::kOptimize;
  // Integer activations: a file of Calibrate, or the samples to gather statistics from.
  std::filesystem::path calibration;
  std::filesystem::path data;
  std::filesystem::path labels_csv;
  std::string image;
  // Opens samples instead of `data` and `labels_csv`, perhaps several times, one after the other.
  data::SourceOpener open_source;
  size_t num_samples = 0;  // at most; 0: all
  // Its parameters are filled in from calibration and fine-tuning.
  transform::ApplyOptions apply;
  bool is_external = false;  // initializers in a file of their own even if one would do
  // Loads what was written and runs a sample. Nothing: if it is no larger than kMostCheckedBytes,
  // because ONNX Runtime holds a model in memory several times.
  std::optional<bool> is_checked = std::nullopt;
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};
inline constexpr uint64_t kMostCheckedBytes = 100'000'000;

struct QuantizeReport {
  plan::QuantPlan plan;
  std::optional<transform::EqualizeReport> equalized;
  std::optional<transform::SmoothReport> smoothed;
  // Nothing: it was not asked for, or the check's temporary files could not be written.
  std::optional<evaluate::TargetReport> target;
  // Integer activations that stay float, with the reason.
  std::vector<std::pair<std::string, std::string>> left_float;
  // Weights that are uint8 instead of int8 (integer_kernels=safe).
  std::vector<transform::UnsignedWeight> unsigned_weights;
  finetune::FinetuneReport finetune;  // empty without passes
  transform::TransformReport transform;
  uint64_t input_bytes = 0;  // of the files, external data included
  uint64_t output_bytes = 0;
};

// Prepares, plans (or reads the plan), quantizes, writes. Throws Error; nothing is left behind
// then.
QuantizeReport Quantize(const QuantizeOptions& options);

// Metadata of a model that OptimizeForMachine wrote: the machine, as in OptimizeReport.
inline constexpr const char* kMachineMetadata = "bitpress.optimized_for";

struct UnpackOptions {
  std::filesystem::path model;
  std::filesystem::path output;  // may be `model` itself. Written as by Quantize
  bool drop_quantizers = false;  // take the quantizers of activations out as well
  bool is_external = false;
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};

struct UnpackReport {
  size_t num_weights = 0;
  size_t num_quantizers = 0;  // dropped
  uint64_t input_bytes = 0;   // of the files, external data included
  uint64_t output_bytes = 0;
};

// Writes the float equivalent of a packed model: every weight as the floats that its codes mean.
// Throws Error; nothing is left behind then.
UnpackReport Unpack(const UnpackOptions& options);

struct OptimizeOptions {
  std::filesystem::path model;  // float or quantized
  std::filesystem::path
      output;  // not `model`: only that one runs elsewhere. Written as by Quantize
};

struct OptimizeReport {
  std::string machine;  // "ONNX Runtime 1.31.1, AVX-512"
  transform::RemovedReorders reorders;
  uint64_t input_bytes = 0;  // of the files, external data included
  uint64_t output_bytes = 0;
};

// The last step before a model is deployed, for machines like this one: ONNX Runtime's full
// optimizations, then quantizers without blocks work in its blocked layout
// (transform/remove_reorders.h). The outputs stay the same, bit for bit. What it wrote cannot be
// quantized, planned or optimized any more, nor evaluated on another kind of machine. Throws Error;
// nothing is left behind then.
OptimizeReport OptimizeForMachine(const OptimizeOptions& options);

struct EvaluateOptions {
  std::filesystem::path model;
  std::filesystem::path reference;   // empty: none
  std::filesystem::path data;        // a folder, see data::OpenSource
  std::filesystem::path labels_csv;  // empty: none
  std::string image;                 // see data::ParseImageSpec; empty: the data are no photos
  data::SourceOpener open_source;    // opens samples instead of `data` and `labels_csv`
  size_t batch_size = 20;
  size_t num_samples = 0;                                           // at most; 0: all
  size_t num_threads = 0;                                           // 0: one per core
  std::optional<evaluate::ProcessorKind> processor = std::nullopt;  // see evaluate/evaluate.h
  ProgressSink progress;                                            // may be empty
};

evaluate::EvaluationReport Evaluate(const EvaluateOptions& options);

// A constant of the model: an initializer, or the weight that packed initializers hold.
struct ConstantReport {
  std::string name;
  std::string format;  // "mxfp8_e4m3", or the element type: "FLOAT"
  std::vector<int64_t> dims;
  uint64_t num_bytes = 0;
  // Why a float constant of a model that we wrote is one, and what its values are: "float: too
  // short", "mx6 as floats: ...".
  std::string reason;
  std::string held_format;  // whose values a float constant holds: "mx6"; "": any floats

  int64_t num_elements() const { return NumElements(dims); }
};

struct NamedValue {
  std::string name;
  graph::ValueInfo info;
};

struct InspectReport {
  uint64_t file_bytes = 0;  // external data included
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opset_imports;
  std::map<std::string, std::string> metadata;
  std::vector<NamedValue> inputs;
  std::vector<NamedValue> outputs;
  std::map<std::string, size_t> operators;   // "Conv" or "domain::Op" -> how often
  std::map<std::string, size_t> quantizers;  // those of them that quantize a value
  std::vector<ConstantReport> constants;     // in the file's order
  std::vector<std::string> functions;        // "bitpress.Unpack_mx6"
  // Operators whose sums saturate for some activations on x86 without VNNI.
  std::vector<evaluate::SaturatingNode> saturating_nodes;
};

// What is in a model file, as it is. Throws Error naming the file.
InspectReport Inspect(const std::filesystem::path& model);

}  // namespace bitpress::pipeline
