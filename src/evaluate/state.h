// A state holds what an evaluation counted: all of its report but times and memory. States of
// different samples add up exactly, so that one of all samples is the same bytes however they were
// divided. They have files (.bpe), see docs/guides/evaluate.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"
#include "evaluate/evaluate.h"
#include "evaluate/language.h"
#include "evaluate/metrics.h"
#include "evaluate/task_state.h"

namespace bitpress::evaluate {

// A model that was evaluated. One that is not there has no name.
struct EvaluatedModel {
  std::string name;          // of the file, without its folder
  uint64_t fingerprint = 0;  // graph::Model::Fingerprint
  uint64_t file_bytes = 0;   // with external data

  bool operator==(const EvaluatedModel&) const = default;
};

struct EvaluationState {
  EvaluatedModel model, reference;
  processors::ProcessorKind processor = processors::ProcessorKind::kExact;
  // The model has sums of 8-bit products that saturate on some processors: then results of two
  // kinds do not add up.
  bool depends_on_processor = false;
  std::string class_output;               // empty: no output has class scores
  std::vector<std::string> output_names;  // of the model
  uint64_t num_samples = 0;
  std::vector<std::string> left_out;      // names of samples that failed, sorted
  uint64_t num_nonfinite = 0;             // values of outputs that are NaN or infinite
  RankCounter ranks, reference_ranks;     // of samples with a label
  RankCounter agreements;                 // rank 0: both models rank the same class first
  ExpectedTop1 expected;                  // of the samples in `agreements`
  std::vector<OutputComparison> outputs;  // by output_names; none without a reference
  OutputComparison all;                   // of all outputs, or of the one that was asked for
  std::optional<LanguageSums> language;   // null: the samples are no tokens
  std::optional<TaskState> task;          // null: none was named

  // Adds the samples of another state. Throws Error(kInvalidArgument) if it is of another model or
  // reference, or if the two cannot be added.
  void Merge(const EvaluationState& other);
  bool operator==(const EvaluationState&) const = default;

 private:
  void AddSamples(const EvaluationState& other);
};

inline constexpr FileFormat kEvaluationFile = {"BITPEVAL", "evaluation file",
                                               1};  // docs/versions.md

// Returns the bytes of a file. The same state gives the same bytes on every machine.
std::string ToBytes(const EvaluationState& state);
// Reads such bytes, which may come from anywhere. Throws Error(kInvalidArgument) as OpenFile, and
// if they contradict themselves.
EvaluationState EvaluationStateFromBytes(std::string_view bytes);

// Returns the report, without times, memory and the comparison with other processors. REQUIRES: the
// state has samples.
EvaluationReport ReportOf(const EvaluationState& state);

}  // namespace bitpress::evaluate
