// Fuzzes the readers of the smaller files that users give: arrays, tensors, plans, decisions and
// weights of other tools, and the files in which statistics, evaluations, moments and journals lie.
// The first byte chooses the reader. A reader may only succeed or throw Error. Files that add up
// are added up, and their sum must be readable.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/fields_json.h"
#include "base/thread_pool.h"
#include "calibrate/calibration_file.h"
#include "data/array_file.h"
#include "data/npy.h"
#include "evaluate/state.h"
#include "finetune/journal.h"
#include "finetune/moments_file.h"
#include "fuzz/temporary_folder.h"
#include "graph/model.h"
#include "interop/decisions.h"
#include "interop/weights_file.h"
#include "plan/quant_plan.h"
#include "search/goals.h"
#include "search/journal.h"
#include "search/sensitivity.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

fs::path PathOf(const char* name) {
  static const TemporaryFolder folder;
  return folder.path() / name;
}

fs::path FileOf(std::string_view bytes) {
  const fs::path path = PathOf("input");
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

void Check(bool is_right, const char* what) {
  if (is_right) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// Returns what `read` returns, which may not fail: it reads what was written from a good input.
template <typename Function>
auto MustSucceed(const Function& read) {
  try {
    return read();
  } catch (const Error& error) {
    Check(false, error.what());
    throw;
  }
}

void ReadNpy(const fs::path& path) {
  data::NpyFile file(path);
  file.Read();
  if (!file.header().dims.empty() && file.header().dims[0] > 0) file.ReadRows(0, 1);
}

void ReadNpz(const fs::path& path) {
  const data::NpzFile file(path);
  for (size_t i = 0; i < file.names().size(); ++i) {
    file.Header(i);
    file.Read(i);
  }
}

// Reads a plan, and checks that writing and reading it again gives the same plan.
void ReadPlan(std::string_view text) {
  const plan::QuantPlan plan = plan::FromJson(text);
  if (plan::FromJson(plan::ToJson(plan)) != plan) std::abort();
}

// Reads statistics, and adds them to themselves.
void ReadCalibration(std::string_view bytes) {
  calibrate::CalibrationTable table = calibrate::FromBytes(bytes);
  const calibrate::CalibrationTable same = table;
  table.Merge(same);
  const auto again = MustSucceed([&] { return calibrate::FromBytes(calibrate::ToBytes(table)); });
  Check(again == table, "a sum of statistics was not written as it is");
}

// Reads the state of an evaluation, adds it to itself, and describes the sum.
void ReadEvaluation(std::string_view bytes) {
  evaluate::EvaluationState state = evaluate::EvaluationStateFromBytes(bytes);
  const evaluate::EvaluationState same = state;
  state.Merge(same);
  const auto again =
      MustSucceed([&] { return evaluate::EvaluationStateFromBytes(evaluate::ToBytes(state)); });
  Check(again == state, "a sum of evaluations was not written as it is");
  if (state.num_samples > 0) evaluate::ToJson(evaluate::ReportOf(state));
}

// Reads moments, as a sum and as the numbers that layers learn from. The sums of each layer are
// added twice, as those of two files are.
void ReadMoments(std::string_view bytes) {
  static ThreadPool pool(1);
  const std::vector<fs::path> input{FileOf(bytes)};
  const std::vector<fs::path> sum{PathOf("sum")};
  const fs::path again = PathOf("again");
  finetune::MomentsReader reader(std::make_unique<std::istringstream>(std::string(bytes)));
  for (size_t entry = 0; entry < reader.entries().size(); ++entry) {
    finetune::LayerSums sums = reader.Empty(entry);
    for (int i = 0; i < 2; ++i) reader.Add(entry, reader.Read(entry), sums, pool);
    sums.learned.Finish();
  }
  finetune::MergeMoments(input, sum[0], pool);
  MustSucceed([&] { return finetune::MergeMoments(sum, again, pool); });
  Check(ReadFile(sum[0]) == ReadFile(again), "a sum of moments was not written as it is");
}

// Reads the journal of learned layers, and opens it to go on from it.
void ReadLearned(std::string_view bytes) {
  const std::vector<fs::path> input{FileOf(bytes)};
  const std::vector<fs::path> sum{PathOf("sum")};
  const size_t num_layers = finetune::MergeLearningJournals(input, sum[0]);
  const size_t again =
      MustSucceed([&] { return finetune::MergeLearningJournals(sum, PathOf("again")); });
  Check(again == num_layers, "a sum of journals was not written as it is");
  std::ifstream file(sum[0], std::ios::binary);
  std::string key;
  std::getline(file, key);
  std::getline(file, key);
  const finetune::LearningJournal journal(sum[0], key);
  Check(journal.num_found() == num_layers, "a journal was not found as it was written");
}

// Reads the journal of a sensitivity or a search, and all measurements in it.
void ReadMeasured(std::string_view bytes) {
  const std::vector<fs::path> input{FileOf(bytes)};
  const std::vector<fs::path> sum{PathOf("sum")};
  const size_t num_records = search::MergeJournals(input, sum[0]);
  const size_t again = MustSucceed([&] { return search::MergeJournals(sum, PathOf("again")); });
  Check(again == num_records, "a sum of journals was not written as it is");
  std::ifstream file(sum[0], std::ios::binary);
  std::string line;
  std::getline(file, line);
  const auto header = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!header.contains("key") || !header["key"].is_string()) return;
  const search::MeasurementJournal journal(sum[0], header["key"]);
  for (const auto& [name, record] : journal.found()) {
    try {
      journal.Find(name, search::LayerLossFromJson);
    } catch (const Error&) {  // it is a measurement of all layers
      journal.Find(name, FieldsFromJson<search::Measurement>);
    }
  }
}

// Reads every weight, as its rows are when they are joined with others.
void ReadWeights(std::string_view bytes, const char* name) {
  const fs::path path = PathOf(name);
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto file = interop::OpenWeightsFile(path);
  for (const auto& [place, tensor] : file->tensors()) {
    const interop::FileWeight weight = file->Read(tensor);
    interop::JoinRows({weight, weight});
    std::vector<float> values(static_cast<size_t>(weight.row_length));
    weight.DecodeRow(weight.num_rows - 1, values);
    weight.AddOffsets(weight.num_rows - 1, values);
  }
}

// Reads decisions, gives them to a configuration, and writes them as each kind of file.
void ReadDecisions(std::string_view bytes) {
  const fs::path path = PathOf("decisions.json");
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const interop::Decisions decisions = interop::ReadDecisions(path);
  plan::QuantConfig config;
  interop::Configure(decisions, config);
  for (const auto& [word, kind] : interop::kFileKindWords) {
    std::vector<std::string> notes;
    interop::Write(decisions, kind, notes);
  }
}

void Run(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0]) {
    case 'y':
      return ReadNpy(FileOf(rest));
    case 'z':
      return ReadNpz(FileOf(rest));
    case 'p':
      graph::LoadTensorProto(FileOf(rest));
      return;
    case 'j':
      return ReadPlan(rest);
    case 'c':
      return ReadCalibration(rest);
    case 'e':
      return ReadEvaluation(rest);
    case 'm':
      return ReadMoments(rest);
    case 'l':
      return ReadLearned(rest);
    case 's':
      return ReadMeasured(rest);
    case 'd':
      return ReadDecisions(rest);
    case 'g':
      return ReadWeights(rest, "weights.gguf");
    case 't':
      return ReadWeights(rest, "weights.safetensors");
  }
}

}  // namespace
}  // namespace bitpress

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t* data,
                                                                             size_t size) {
  try {
    bitpress::Run({reinterpret_cast<const char*>(data), size});
  } catch (const bitpress::Error&) {
  }
  return 0;
}
