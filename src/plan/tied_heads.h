// Finds products that multiply with a table of embeddings, such as the tied head of a language
// model: with the table itself, or with a constant that holds its numbers transposed. Pure.
#pragma once

#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::plan {

struct TiedHead {
  graph::Node head;    // its input 1 is the matrix
  graph::Node lookup;  // its input 0 is the table
};

// Returns the products of the main graph with a FLOAT table that a Gather looks rows up in: a
// MatMul with its transpose, or a Gemm that reads its rows.
std::vector<TiedHead> FindTiedHeads(const graph::Model& model);

// Returns whether two matrices hold the same bits, one of them transposed. False unless both are
// initializers of FLOAT whose bytes are known.
bool HoldsTransposed(const graph::Model& model, const std::string& head, const std::string& table);

}  // namespace bitpress::plan
