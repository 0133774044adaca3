// The options of quantize with the words and texts that users have for them: the rows of
// bitpress/quantize_options.inc, for what reads options from text, the command line and Python.
// Pure functions.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/words.h"
#include "bitpress/quantize_options.h"
#include "tasks/run.h"

namespace bitpress {

inline constexpr std::array<std::pair<std::string_view, Storage>, 3> kStorageWords{
    {{"packed", Storage::kPacked}, {"simulated", Storage::kSimulated}, {"qdq", Storage::kQdq}}};
inline constexpr std::array<std::pair<std::string_view, AccuracyLevel>, 2> kAccuracyLevelWords{
    {{"1", AccuracyLevel::kFloat}, {"4", AccuracyLevel::kInt8}}};
inline constexpr std::array<std::pair<std::string_view, IntegerForm>, 2> kIntegerFormWords{
    {{"qdq", IntegerForm::kQdq}, {"qoperator", IntegerForm::kQOperator}}};

inline Words<Storage> FieldWords(const Storage*) { return kStorageWords; }
inline Words<AccuracyLevel> FieldWords(const AccuracyLevel*) { return kAccuracyLevelWords; }
inline Words<IntegerForm> FieldWords(const IntegerForm*) { return kIntegerFormWords; }

}  // namespace bitpress

namespace bitpress::tasks {

// What an option is about.
enum class OptionUse {
  kInput,    // a file that is read
  kSteps,    // the steps up to the quantized weights
  kWriting,  // the written model, which tasks that do a part of the work do not have
};

struct OptionRow {
  std::string_view key;
  OptionUse use = OptionUse::kSteps;
  std::string_view meaning;

  bool is_of_writing() const { return use == OptionUse::kWriting; }
};

// Calls visit(row, field) for each option, in the order of help texts, with the fields of two
// objects: QuantizeChoices and RunOptions or what is derived of them, const or not.
template <typename Choices, typename Run, typename Visit>
void VisitOptions(Choices& choices, Run& run, Visit&& visit) {
#define BITPRESS_OPTION(type, field, key, value, use, meaning) \
  visit(OptionRow{#key, OptionUse::use, meaning}, choices.field);
#define BITPRESS_FORM_OPTION(type, field, key, value, use, meaning) \
  visit(OptionRow{#key, OptionUse::use, meaning}, choices.field);
#define BITPRESS_RUN_OPTION(type, field, key, value, use, meaning) \
  visit(OptionRow{#key, OptionUse::use, meaning}, run.field);
#include "bitpress/quantize_options.inc"
}

}  // namespace bitpress::tasks
