// The options of gathering moments (gather.h), and of the runs for it (observed_network.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "bitpress/progress.h"
#include "calibrate/model_pieces.h"

namespace bitpress::finetune {

struct GatherOptions {
  size_t num_threads = 0;  // threads of ONNX Runtime; 0: one per core
  size_t batch_size = 8;   // samples read at once
  // One run in this number is held back where the samples are plenty: it counts for `held_back` and
  // not for `learned`. 0: none is ever held back. See Split for where the samples are few.
  size_t hold_back_every = 0;
  // Positions of each run that count, and the seed that chooses them: see MomentOptions.
  int64_t num_positions = 0;
  uint64_t seed = 0;
  // Bytes that the moments and learning from them may take. Moments that do not fit get a pass of
  // the samples of their own (GroupLayers) or, if is_spilled, lie in temporary files.
  uint64_t memory_limit = 512'000'000;
  // A LayerTuner learns from the moments, one layer after another, and releases them layer by
  // layer. So its memory counts too.
  bool is_for_tuner = true;
  bool is_spilled = false;
  // Most bytes of the constants of one piece. Larger networks run piece by piece.
  uint64_t most_piece_bytes = calibrate::kMostPieceBytes;
  std::filesystem::path operator_library = {};  // as in runtime::SessionOptions
  std::string stage = "observe layers";         // name for progress, which counts samples
  ProgressSink progress = {};                   // may be empty
};

}  // namespace bitpress::finetune
