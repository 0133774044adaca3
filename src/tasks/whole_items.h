// Finds whether the rows of an item of samples belong together, such as views of one thing or the
// steps of a song, or are samples of their own, by running some of them.
#pragma once

#include "graph/model.h"
#include "tasks/run.h"

namespace bitpress::tasks {

// Returns whether the first item has several rows that do not run alone while the whole item does,
// or that give something else beside each other than alone. Everything else, and what cannot be
// read, is for the task itself to find.
bool RowsBelongTogether(const graph::Model& model, const RunOptions& run);

}  // namespace bitpress::tasks
