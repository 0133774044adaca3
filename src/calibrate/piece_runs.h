// Runs of samples through a model, piece by piece: first all samples through the first piece, then
// what it gave through the second one, and so on. A session holds one piece, and the activations
// between pieces lie in temporary files. So networks run that are larger than memory, and what is
// observed in a piece can be used before the next one begins.
//
//   PieceRuns runs(model, wanted, source, options);
//   for (size_t i = 0; i < runs.num_pieces(); ++i) runs.Run(i, {.observed = ..., ...});
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "bitpress/progress.h"
#include "calibrate/model_pieces.h"
#include "calibrate/sample_runs.h"
#include "calibrate/tensor_files.h"
#include "data/source.h"
#include "graph/model.h"
#include "runtime/observers.h"
#include "runtime/session.h"

namespace bitpress::calibrate {

// Return the inputs and the outputs of a model as a session describes them.
std::vector<runtime::ValueDescription> InputsOf(const graph::Model& model);
std::vector<runtime::ValueDescription> OutputsOf(const graph::Model& model);

struct PieceOptions {
  uint64_t most_bytes = kMostPieceBytes;        // of the constants of one piece
  size_t num_threads = 0;                       // of ONNX Runtime; 0: one per core
  size_t batch_size = 8;                        // samples read at once
  std::filesystem::path operator_library = {};  // as in runtime::SessionOptions
  // Sessions stay loaded for the next pass through their piece, if that is the same but for
  // functions. Memory holds the whole model then.
  bool keeps_sessions = false;
  std::string stage = "run";   // name for progress, which counts samples
  ProgressSink progress = {};  // may be empty
};

// A pass of the samples through a piece.
struct PiecePass {
  // Values of the piece, or that it reads, to observe: values[i] with id i.
  std::vector<std::string> observed = {};
  const runtime::ObserverOperators* operators = nullptr;
  // Values that the piece computes, to hand over after each run.
  std::vector<std::string> outputs = {};
  std::function<void(size_t run, std::span<const Tensor> outputs)> take = {};
  // Is called before each run, which are counted from 1 on, and says whether it takes place.
  // A run must take place in all pieces or in none. Empty: all do.
  std::function<bool(size_t run)> begins = {};
  std::string stage = "";      // for progress; empty: that of the options
  FailureRules failures = {};  // of reading and of this piece
};

class PieceRuns {
 public:
  // `wanted` are all values that passes observe or hand over; `together` are groups of them that
  // one piece has to show. The model and the source must outlive the runs.
  PieceRuns(graph::Model& model, std::span<const std::string> wanted, data::Source& source,
            const PieceOptions& options, std::span<const std::vector<std::string>> together = {});

  size_t num_pieces() const { return pieces_.size(); }
  size_t PieceOf(const std::string& value) const { return pieces_.PieceOf(value); }
  // Returns the piece that shows all of a group of `together`.
  size_t PieceOf(std::span<const std::string> group) const { return pieces_.PieceOf(group); }
  // Returns the samples of each run of a model that fixes them; 0 if they are free.
  size_t rows_of_run() const;

  // Begins with other samples, which must outlive the runs.
  void Begin(data::Source& source, const ProgressSink& progress);

  // Runs all samples through a piece. Keeps what later pieces read of it, once. REQUIRES: the
  // pieces before it were run. Throws Error(kIo) if temporary files have no room, and the errors of
  // reading and running.
  SampleCounts Run(size_t piece, const PiecePass& pass);

 private:
  // A session of a piece, and the pass that it is for.
  struct Opened {
    std::vector<std::string> observed, outputs;
    const runtime::ObserverOperators* operators = nullptr;
    std::shared_ptr<runtime::Session> session;
  };

  std::shared_ptr<runtime::Session> Open(size_t piece, const PiecePass& pass,
                                         std::span<const std::string> outputs);
  // Returns the session that was kept, if it is for this pass. Otherwise opens one.
  std::shared_ptr<runtime::Session> SessionFor(size_t piece, const PiecePass& pass,
                                               const std::vector<std::string>& outputs);

  graph::Model& model_;
  data::Source* source_;
  PieceOptions options_;
  ModelPieces pieces_;
  TensorFiles files_;              // of what later pieces read
  std::set<size_t> done_;          // pieces whose outputs have files
  std::map<size_t, Opened> kept_;  // by piece
};

}  // namespace bitpress::calibrate
