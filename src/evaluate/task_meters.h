// The meters of single tasks, and what they share. See task.h.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluate/task.h"

namespace bitpress::evaluate {

// Each takes the index of the output that it measures.
std::unique_ptr<TaskMeter> MakeClassMeter(size_t output);
// `texts` are those of the hints.
std::unique_ptr<TaskMeter> MakeEmbeddingMeter(const TaskSpec& spec, size_t output,
                                              std::map<std::string, std::string> texts = {});
std::unique_ptr<TaskMeter> MakeRegressionMeter(const TaskSpec& spec, size_t output);
std::unique_ptr<TaskMeter> MakeSegmentationMeter(const TaskSpec& spec, size_t output);
// `characters` are those of the hints.
std::unique_ptr<TaskMeter> MakeTextMeter(const TaskSpec& spec, size_t output,
                                         const std::vector<std::string>& characters = {});
// `layout` is the way in which the outputs hold boxes (detection.h).
std::unique_ptr<TaskMeter> MakeDetectionMeter(const TaskSpec& spec, const std::string& layout);

// Returns the meter of a task that wrote these bytes. Throws Error(kInvalidArgument) if they are
// damaged.
std::unique_ptr<TaskMeter> ReadMeter(Task task, ByteReader& reader);
// Throws the Error(kInvalidArgument) of meters that do not add up.
[[noreturn]] void FailOtherSettings();

// Returns the rank correlation of two lists (Spearman), with ties at their middle rank. 1 if one of
// them is constant and both are equal, 0 if only one is constant.
double RankCorrelation(std::span<const double> a, std::span<const double> b);

// Returns the fewest insertions, deletions and replacements that make `found` of `wanted`.
size_t EditDistance(std::span<const int64_t> wanted, std::span<const int64_t> found);

// Returns the labels in a column of a CSV file by the names of files in its column "file". Throws
// Error naming the file if it is missing or wrong.
std::map<std::string, std::string> ReadColumn(const std::filesystem::path& csv,
                                              const std::string& column);
// Returns the clause that says that no sample has a label in a file.
std::string NoLabelIn(const std::string& file);
// Returns the label of a sample, whose file may be listed with its folders or without; null: none.
const std::string* LabelOf(const std::map<std::string, std::string>& labels,
                           const std::string& sample);

}  // namespace bitpress::evaluate
