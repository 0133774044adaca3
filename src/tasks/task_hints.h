// The hints at its task that a model's file and the way of reading its samples give.
#pragma once

#include "data/source.h"
#include "evaluate/task.h"
#include "graph/model.h"

namespace bitpress::tasks {

// Returns the characters that a recognizer of text lists in its metadata, as PaddleOCR's do, how
// photos are fitted into the model's input, and the texts of samples. Throws Error naming the table
// of these if it is wrong.
evaluate::TaskHints HintsOf(const graph::Model& model, const data::SourceOptions& source);

}  // namespace bitpress::tasks
