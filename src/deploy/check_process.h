// Runs CheckTarget in a process of its own, so that a crash of ONNX Runtime is a result and not the
// end of the caller. Use it wherever a model is written or checked.
//
// The process is the program `bitpress` (runtime::FindProgram), started with a word that its users
// do not see and a temporary folder: the request lies there, and the child writes its answer there.
// It is spawned, not forked, because a fork copies locks that other threads hold. It may allocate
// the memory that is free when it starts, and ends with its parent, even if that is killed. Its
// first answer is about the model alone: if the given model crashes later, that answer holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "deploy/check_target.h"

namespace bitpress::deploy {

struct CheckRequest {
  std::filesystem::path model;
  uint64_t num_bytes = 0;  // size of its files, external data included
  // The samples to run, each with a tensor for each input of the model; empty: one is made up.
  std::vector<std::vector<Tensor>> samples = {};
  // The caller made them up: they say whether the model runs, and nothing about its accuracy.
  bool are_made_up = false;
  // The model that it was made of, whose outputs are compared with its own. Empty: none.
  std::filesystem::path given = {};
  double wanted_db = kLeastDb;  // what the outputs should reach then
  // The operators of the model are described, which holds its optimized form in a temporary file.
  bool is_described = true;
};

struct CheckOutcome {
  std::optional<TargetReport> report;
  // The reason why nothing was checked; empty if there is a report.
  std::string why_not;
};

// Checks a model. The child may take the memory that is free when it starts. A model that needs
// more is not checked, nor is one where the program or ONNX Runtime is not found. Throws Error(kIo)
// if temporary files cannot be written.
CheckOutcome CheckInSubprocess(const CheckRequest& request);

// The first argument of the program that asks for AnswerCheck(second argument).
inline constexpr const char* kCheckWord = "answer-check";

// Checks in the process that CheckInSubprocess started. `folder` holds the request and gets the
// answer. Throws Error if the request cannot be read or the answer cannot be written.
void AnswerCheck(const std::filesystem::path& folder);

}  // namespace bitpress::deploy
