#include "tasks/hub.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/fields_json.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/text.h"
#include "data/token_inputs.h"
#include "deploy/check_process.h"
#include "graph/model.h"
#include "graph/stored_bytes.h"
#include "ops/quantizer_nodes.h"
#include "ops/web_operators.h"
#include "tasks/check.h"
#include "tasks/compared_runs.h"
#include "tasks/quantize.h"
#include "tasks/verdict.h"

namespace bitpress::tasks {
namespace {

namespace fs = std::filesystem;

// A file that a runtime looks for.
struct HubFormat {
  std::string_view dtype;
  std::string_view suffix;  // of the file's name, before .onnx
  std::string_view preset;  // empty: the float model as it is
  std::string_view settings;
  std::string_view target = Target::kAutomatic;
  // Everything that is no weight in blocks becomes FLOAT16 in a second step: MatMulNBits and
  // GatherBlockQuantized stay, which FLOAT16 models do not get.
  bool has_half_rest = false;
  bool is_for_one_processor = false;  // a name of sentence-transformers
};

// Names of transformers.js 3 (its src/utils/dtypes.js) and sentence-transformers 5
// (export_dynamic_quantized_onnx_model). The 8-bit models are right on every processor, whatever
// processor their name has.
constexpr std::string_view kUnsigned = "weights=uint8,weight_symmetric=false";
constexpr auto kHubFormats = std::to_array<HubFormat>({
    {"fp32", "", "", ""},
    {"fp16", "_fp16", "FP16", ""},
    {"q8", "_quantized", "INT8_DYNAMIC", ""},
    {"int8", "_int8", "INT8_DYNAMIC", ""},
    {"uint8", "_uint8", "INT8_DYNAMIC", kUnsigned},
    {"q4", "_q4", "INT4_WEIGHTS", "weight_block_size=32", Target::kOnnxRuntime},
    {"q4f16", "_q4f16", "INT4_WEIGHTS", "weight_block_size=32", Target::kOnnxRuntime, true},
    {"qint8_avx512_vnni", "_qint8_avx512_vnni", "INT8_DYNAMIC", "", Target::kAutomatic, false,
     true},
    {"qint8_avx512", "_qint8_avx512", "INT8_DYNAMIC", "", Target::kAutomatic, false, true},
    {"qint8_arm64", "_qint8_arm64", "INT8_DYNAMIC", "", Target::kAutomatic, false, true},
    {"quint8_avx2", "_quint8_avx2", "INT8_DYNAMIC", kUnsigned, Target::kAutomatic, false, true},
});
// Endings of names of other files that are no float models.
constexpr std::array<std::string_view, 9> kOtherSuffixes = {
    "_bnb4", "_q2", "_q1", "_q2f16", "_q1f16", "_O1", "_O2", "_O3", "_O4"};

const HubFormat& FormatOf(const std::string& dtype) {
  for (const HubFormat& format : kHubFormats) {
    if (format.dtype == dtype) return format;
  }
  if (dtype == "bnb4") {
    Fail(ErrorCode::kUnsupported, "dtype 'bnb4' is not made: use q4, which has the same size");
  }
  Fail(ErrorCode::kInvalidArgument, "dtype '{}' is not one of {}{}", dtype, Join(HubDtypes(), ", "),
       DidYouMean(dtype, HubDtypes()));
}

std::vector<HubFormat> FormatsOf(const std::vector<std::string>& dtypes) {
  std::vector<HubFormat> formats;
  for (const std::string& dtype : dtypes) {
    const HubFormat& format = FormatOf(dtype);
    const auto is_same = [&](const HubFormat& other) { return other.dtype == format.dtype; };
    if (std::none_of(formats.begin(), formats.end(), is_same)) formats.push_back(format);
  }
  if (!dtypes.empty()) return formats;
  for (const HubFormat& format : kHubFormats) {
    if (!format.is_for_one_processor) formats.push_back(format);
  }
  return formats;
}

nlohmann::json ReadJson(const fs::path& path) {
  nlohmann::json json = nlohmann::json::parse(ReadFile(path), nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is no JSON object", PathText(path));
  }
  return json;
}

bool IsOtherFormat(const std::string& stem) {
  const auto ends = [&](std::string_view suffix) {
    return !suffix.empty() && stem.size() > suffix.size() && stem.ends_with(suffix);
  };
  return std::any_of(kHubFormats.begin(), kHubFormats.end(),
                     [&](const HubFormat& format) { return ends(format.suffix); }) ||
         std::any_of(kOtherSuffixes.begin(), kOtherSuffixes.end(), ends);
}

// Returns whether a model is a quantized form of another one beside it, as its name and its
// operators tell: model_q8_new.onnx of model.onnx.
bool IsQuantizedForm(const fs::path& folder, const fs::path& model,
                     const std::set<fs::path>& models) {
  const std::string stem = PathText(model.stem());
  const bool has_float = std::ranges::any_of(models, [&](const fs::path& other) {
    const std::string start = PathText(other.stem());
    return stem.size() > start.size() && stem.starts_with(start) &&
           std::string_view("_-.").find(stem[start.size()]) != std::string_view::npos;
  });
  return has_float && !ops::QuantizedOperators(graph::Model::Load(folder / model)).empty();
}

// The models of a folder, relative to it.
struct FolderModels {
  std::vector<fs::path> floats;
  std::vector<fs::path> others;  // in another format
  bool is_genai = false;
  std::set<fs::path> data;  // files of external data
};

// Finds the file names of models in a genai_config.json: "filename" of decoder, encoder, vision,
// ...
void AddGenaiModels(const nlohmann::json& json, std::set<fs::path>& found) {
  if (json.is_object() && json.contains("filename") && json["filename"].is_string()) {
    const auto text = json["filename"].get<std::string>();
    const fs::path name = PathOf(text);
    if (name.extension() == ".onnx") {
      if (!StaysInside(text)) {
        Fail(ErrorCode::kInvalidArgument,
             "genai_config.json names the model '{}', expected a relative path inside the folder",
             text);
      }
      found.insert(name);
    }
  }
  if (!json.is_structured()) return;
  for (const auto& item : json) AddGenaiModels(item, found);
}

FolderModels FindModels(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    Fail(ErrorCode::kIo, "there is no folder '{}'", PathText(folder));
  }
  FolderModels models;
  models.is_genai = fs::exists(folder / "genai_config.json");
  std::set<fs::path> found;
  if (models.is_genai) {
    AddGenaiModels(ReadJson(folder / "genai_config.json"), found);
  } else {
    const fs::path place = fs::is_directory(folder / "onnx") ? "onnx" : "";
    for (const auto& entry : fs::directory_iterator(folder / place)) {
      if (entry.path().extension() == ".onnx") found.insert(place / entry.path().filename());
    }
  }
  for (const fs::path& model : found) {
    const bool is_other = !models.is_genai && (IsOtherFormat(PathText(model.stem())) ||
                                               IsQuantizedForm(folder, model, found));
    (is_other ? models.others : models.floats).push_back(model);
  }
  if (models.floats.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' holds no float model: expected onnx/model.onnx, as Optimum exports it, or .onnx "
         "files in the folder itself{}",
         PathText(folder),
         models.others.empty() ? "" : "; those that are there have another format");
  }
  for (const auto* list : {&models.floats, &models.others}) {
    for (const fs::path& model : *list) {
      for (const auto& entry : fs::directory_iterator((folder / model).parent_path())) {
        // model.onnx_data, model.onnx.data: files that begin with a model's name
        const fs::path name = entry.path().filename();
        if (name != model.filename() && PathText(name).starts_with(PathText(model.filename()))) {
          models.data.insert(model.parent_path() / name);
        }
      }
    }
  }
  return models;
}

// Copies all files but models, their data, and what lies in `to`. Returns their names.
std::vector<std::string> CopyOthers(const fs::path& from, const fs::path& to,
                                    const FolderModels& models) {
  std::vector<std::string> copied;
  std::set<fs::path> skipped = models.data;
  skipped.insert(models.floats.begin(), models.floats.end());
  skipped.insert(models.others.begin(), models.others.end());
  for (auto entry = fs::recursive_directory_iterator(from); entry != fs::end(entry); ++entry) {
    const fs::path name = entry->path().lexically_relative(from);
    if (entry->is_directory() && fs::equivalent(entry->path(), to)) {
      entry.disable_recursion_pending();
    }
    if (!entry->is_regular_file() || skipped.contains(name)) continue;
    fs::create_directories((to / name).parent_path());
    fs::copy_file(entry->path(), to / name, fs::copy_options::overwrite_existing);
    copied.push_back(PortablePathText(name));
  }
  std::sort(copied.begin(), copied.end());
  return copied;
}

// Returns the number of tokens that a model knows, by its config.json; 0: not known.
int64_t VocabularyOf(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  if (!fs::exists(path)) return 0;
  const nlohmann::json config = ReadJson(path);
  for (const nlohmann::json* part :
       {&config, config.contains("text_config") ? &config["text_config"] : &config}) {
    if (part->is_object() && part->contains("vocab_size") &&
        (*part)["vocab_size"].is_number_integer()) {
      return (*part)["vocab_size"].get<int64_t>();
    }
  }
  return 0;
}

// Returns a few samples of random tokens for a model that takes tokens; none for others.
std::vector<std::vector<Tensor>> RandomTokens(const graph::Model& model, int64_t vocabulary) {
  constexpr size_t kNumSamples = 8;
  constexpr int64_t kNumTokens = 32;
  if (vocabulary < 2) return {};
  try {
    const data::TokenInputs inputs(model);
    std::mt19937_64 random(1);  // the same for every file
    std::vector<std::vector<Tensor>> samples;
    for (size_t i = 0; i < kNumSamples; ++i) {
      Tensor ids{.type = DataType::kInt64,
                 .dims = {std::max<int64_t>(1, inputs.fixed_batch()),
                          inputs.fixed_length() > 0 ? inputs.fixed_length() : kNumTokens},
                 .bytes = {}};
      ids.bytes.resize(NumBytes(ids.type, ids.num_elements()));
      for (int64_t& id : ids.values<int64_t>()) {
        id = static_cast<int64_t>(random() % static_cast<uint64_t>(vocabulary));
      }
      samples.push_back(inputs.Make(ids));
    }
    return samples;
  } catch (const Error&) {
    return {};  // it takes something else
  }
}

// Samples of one float model, for all of its files.
struct HubSamples {
  std::vector<std::vector<Tensor>> samples;
  bool are_random = false;
};

HubSamples SamplesFor(const fs::path& path, const HubOptions& options) {
  const graph::Model model = graph::Model::Load(path);
  HubSamples found;
  if (options.samples.is_given()) {
    found.samples = FirstSamples(model, options.samples, kLeastToCompare,
                                 [](const auto&) { return kLeastToCompare; });
  } else {
    found.samples = RandomTokens(model, VocabularyOf(options.folder));
    found.are_random = !found.samples.empty();
  }
  return found;
}

plan::QuantConfig ConfigOf(const HubFormat& format) {
  plan::QuantConfig config = plan::ConfigByName(format.preset);
  for (const std::string& setting : Split(format.settings, ',')) {
    if (!setting.empty()) plan::ApplySetting(config, setting);
  }
  return config;
}

std::string NameOf(const fs::path& model, const HubFormat& format) {
  return PathText(model.stem()) + std::string(format.suffix) + ".onnx";
}

// Writes a file from the float model. Returns what `quantize` warns of.
std::vector<std::string> WriteFormat(const fs::path& model, const fs::path& output,
                                     const HubFormat& format, const HubOptions& options) {
  QuantizeOptions request;
  request.num_threads = options.num_threads;
  request.progress = options.progress;
  request.model = model;
  request.config = ConfigOf(format);
  request.target = format.target;
  request.is_checked = false;  // it is compared below
  std::vector<std::string> warnings;
  const auto quantize = [&](const fs::path& to) {
    request.output = to;
    const QuantizeReport report = Quantize(request);
    for (const Warning& warning : VerdictOf(report).warnings) {
      // The second step is about a model that the first one made, and beside which it is measured.
      const bool is_second_step =
          request.model != model && (warning.kind == "left_float" || warning.kind == "larger");
      const bool is_expected = warning.kind == "not_checked" || is_second_step;
      if (!is_expected) warnings.push_back(warning.text);
    }
  };
  if (!format.has_half_rest) {
    quantize(output);
    return warnings;
  }
  const ScratchFolder scratch(output);
  const fs::path blocks = scratch.path() / "blocks.onnx";
  quantize(blocks);
  request.model = blocks;
  request.config = plan::ConfigByName("FP16");
  request.target = Target::kAutomatic;
  quantize(output);
  return warnings;
}

// Compares a file with the float model, and says what a browser lacks. Throws Error if ONNX Runtime
// does not load or run it.
void Compare(const fs::path& path, const fs::path& given, const HubSamples& samples,
             HubFile& file) {
  const graph::Model model = graph::Model::Load(path);
  file.missing_in_web = ops::OperatorsMissingInWeb(model);
  deploy::CheckRequest request{.model = path,
                               .num_bytes = file.num_bytes,
                               .samples = samples.samples,
                               .are_made_up = samples.samples.empty(),
                               .given = given,
                               .is_described = false};
  if (request.samples.empty()) request.samples = MadeUpTokens(model);
  const deploy::CheckOutcome outcome = deploy::CheckInSubprocess(request);
  if (!outcome.report) {
    file.why_not_compared = outcome.why_not;
    return;
  }
  const deploy::TargetReport& report = *outcome.report;
  if (!report.is_run && !samples.samples.empty()) {
    Fail(ErrorCode::kRuntime, "'{}' does not {} in {}: {}", PathText(path),
         report.is_loaded ? "run" : "load", report.runtime, report.error);
  }
  if (!report.is_loaded) {
    Fail(ErrorCode::kRuntime, "'{}' does not load in {}: {}", PathText(path), report.runtime,
         report.error);
  }
  if (!report.library_operators.empty()) {
    Fail(ErrorCode::kUnsupported, "'{}' needs the operator library ({})", PathText(path),
         report.library_operators.begin()->first);
  }
  if (!report.closeness || !report.closeness->why_not.empty()) {
    file.why_not_compared =
        report.closeness ? report.closeness->why_not : "there are no samples: give some";
    return;
  }
  file.num_samples = report.closeness->num_runs;
  if (const auto worst = report.closeness->worst()) {
    file.sqnr_db = worst->sqnr_db;
    file.cosine = worst->cosine;
    file.worst_output = worst->name;
  } else {
    file.why_not_compared = "no output is float";
  }
}

bool HaveSameRecipe(const HubFormat& a, const HubFormat& b) {
  return a.preset == b.preset && a.settings == b.settings && a.target == b.target &&
         a.has_half_rest == b.has_half_rest;
}

// Makes a file again under another name. Returns nothing if it has its data in a second file, which
// has the first name in it.
std::optional<HubFile> CopyUnderName(const HubFile& made, const fs::path& model,
                                     const HubFormat& format, const HubOptions& options) {
  const fs::path from = options.output / PathOf(made.file);
  if (fs::file_size(from) != made.num_bytes) return std::nullopt;
  HubFile file = made;
  file.file = PortablePathText(model.parent_path() / PathOf(NameOf(model, format)));
  file.dtype = format.dtype;
  fs::copy_file(from, options.output / PathOf(file.file), fs::copy_options::overwrite_existing);
  return file;
}

HubFile MakeFile(const fs::path& model, const HubFormat& format, bool keeps_name,
                 const HubSamples& samples, const HubOptions& options) {
  const fs::path given = options.folder / model;
  const std::string name = keeps_name ? PathText(model.filename()) : NameOf(model, format);
  HubFile file;
  file.model = PortablePathText(model);
  file.file = PortablePathText(model.parent_path() / PathOf(name));
  file.dtype = format.dtype;
  file.float_bytes = graph::StoredBytes(given);
  const fs::path path = options.output / PathOf(file.file);
  fs::create_directories(path.parent_path());
  WithContext(fmt::format("'{}'", file.file), [&] {
    if (!format.preset.empty()) {
      file.warnings = WriteFormat(given, path, format, options);
    } else {
      const graph::Model copied = graph::Model::Load(given);
      if (!ops::QuantizedOperators(copied).empty()) {
        file.warnings.push_back("the model is already quantized: this is no float file");
      }
      if (!fs::exists(path) || !fs::equivalent(given, path)) copied.Save(path);
    }
    file.num_bytes = graph::StoredBytes(path);
    try {
      Compare(path, given, samples, file);
    } catch (const Error&) {
      if (!format.preset.empty()) fs::remove(path);  // it is of no use
      throw;
    }
  });
  return file;
}

HubReport MakeFiles(const HubOptions& options, const std::vector<HubFormat>& formats) {
  const FolderModels models = FindModels(options.folder);
  std::error_code error;
  const bool is_same = fs::equivalent(options.folder, options.output, error);
  if (models.is_genai && (options.dtypes.size() != 1 || is_same)) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' is a folder of ONNX Runtime GenAI, whose files keep their names: give one dtype and "
         "another folder as the output",
         PathText(options.folder));
  }
  HubReport report;
  report.output = options.output;
  fs::create_directories(options.output);
  if (!is_same) report.copied = CopyOthers(options.folder, options.output, models);
  for (const fs::path& other : models.others) report.left_out.push_back(PortablePathText(other));
  for (const fs::path& model : models.floats) {
    const HubSamples samples = WithContext(fmt::format("'{}'", PortablePathText(model)), [&] {
      return SamplesFor(options.folder / model, options);
    });
    report.are_samples_random |= samples.are_random;
    const size_t first = report.files.size();
    for (size_t i = 0; i < formats.size(); ++i) {
      std::optional<HubFile> file;
      for (size_t j = 0; j < i && !file; ++j) {
        if (!HaveSameRecipe(formats[i], formats[j])) continue;
        file = CopyUnderName(report.files[first + j], model, formats[i], options);
      }
      report.files.push_back(file ? *file
                                  : MakeFile(model, formats[i], models.is_genai, samples, options));
    }
  }
  return report;
}

}  // namespace

std::vector<std::string> HubDtypes() {
  std::vector<std::string> words;
  for (const HubFormat& format : kHubFormats) words.emplace_back(format.dtype);
  return words;
}

bool IsOfTransformersJs(const HubFile& file) {
  const HubFormat& format = FormatOf(file.dtype);
  // Files of ONNX Runtime GenAI keep the model's name.
  return !format.is_for_one_processor &&
         PathText(PathOf(file.file).filename()) == NameOf(PathOf(file.model), format);
}

HubReport MakeHubFolder(const HubOptions& options) {
  const std::vector<HubFormat> formats = FormatsOf(options.dtypes);
  std::optional<HubBudget> budget;
  if (!options.budget.empty()) budget = ParseHubBudget(options.budget);
  try {
    HubReport report = MakeFiles(options, formats);
    if (budget) report.choice = ChooseFiles(report.files, *budget);
    return report;
  } catch (const fs::filesystem_error& error) {
    Fail(ErrorCode::kIo, "{}", error.what());
  }
}

nlohmann::ordered_json ToJson(const HubReport& report) {
  return VersionedJson("bitpress_hub", report);
}

}  // namespace bitpress::tasks
