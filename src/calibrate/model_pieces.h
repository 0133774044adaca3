// A model cut into consecutive pieces, so that a network larger than memory can run piece by piece
// (piece_runs.h). A piece is a part of the main graph's nodes, with the constants that they read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::calibrate {

// Most bytes of the constants of one piece, unless an option says otherwise.
inline constexpr uint64_t kMostPieceBytes = 256'000'000;

struct ModelPiece {
  std::vector<std::string> inputs;   // values that earlier pieces compute and this one needs
  std::vector<std::string> outputs;  // values that this piece computes and later ones need
};

class ModelPieces {
 public:
  // Cuts a model so that `wanted` values can be computed, each by one piece. The constants of a
  // piece have `most_bytes` at most, unless a single node reads more, or there is no place to cut.
  // Of the places that allow that, those are taken where the fewest values cross, and not between
  // the producers of a group of `together` where that can be avoided. Where it cannot, the values
  // of the group that are computed first are inputs of the last one's piece. Sequences and strings
  // never cross. Nodes that depend on constants alone stand in each piece that needs them. `model`
  // must outlive the pieces. There is one piece only if everything fits, or if a wanted value lies
  // in the body of an If, Loop or Scan.
  ModelPieces(const graph::Model& model, std::span<const std::string> wanted, uint64_t most_bytes,
              std::span<const std::vector<std::string>> together = {});

  size_t size() const { return pieces_.size(); }
  const ModelPiece& piece(size_t i) const { return pieces_[i]; }
  // Returns the number of the piece that computes a value; the first one for inputs of the graph,
  // constants, and values that do not exist.
  size_t PieceOf(const std::string& value) const;
  // Returns the piece that has all of a group of values as inputs or computes them.
  // REQUIRES: one value, or a group of `together`.
  size_t PieceOf(std::span<const std::string> group) const;
  // Returns the last piece that reads a value of ModelPiece::inputs.
  size_t LastReaderOf(const std::string& value) const;

 private:
  void HandOn(const std::string& value, size_t from, size_t to);

  std::map<std::string, size_t> piece_of_;
  std::vector<ModelPiece> pieces_;
};

}  // namespace bitpress::calibrate
