// The guard of static integers (setting `guard`). It measures what rounding the activations of a
// plan does to the outputs of the model on a few samples, and leaves those activations float that
// spoil an output, together with their neighbours that no operator on integers needs any more. Such
// activations are, for example, powers of spectra before a logarithm, or values that share the
// scale of much larger ones.
//
// Decibels say little of boxes, texts and classes. Where the caller can measure the loss in the
// terms of the model's task (task_check.h), and samples hold enough to know it, no more activations
// become float than that loss asks for (setting `guard_loss`).
//
// Errors of different activations add up, so that few runs find the worst: all are rounded
// together, then each half alone, and so on, as long as the part spoils an output noticeably.
// Results do not depend on the number of threads.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "bitpress/progress.h"
#include "calibrate/calibration_table.h"
#include "calibrate/task_check.h"
#include "data/source.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::calibrate {

// The samples that the guard measures with, and how.
struct GuardOptions {
  data::Source* source = nullptr;  // opened for the model's inputs; the guard takes a few of them
  size_t num_threads = 0;          // threads of ONNX Runtime; 0: one per core
  ProgressSink progress = {};      // counts measurements; may be empty
  TaskMeterMaker task = {};        // measures the loss of the task; empty: decibels decide alone
};
// The samples that are read to take a few from.
inline constexpr size_t kMostGuardCandidates = 128;
// Another range method is chosen for so many dB at least. With few samples, less is noise.
inline constexpr double kLeastRangeGainDb = 1;

// Leaves activations of `resolved` float as its configuration says (guard, guard_share,
// guard_loss): their rows become float rows with a reason, biases of their products become float,
// and weights that multiply no integers any more need not be pair-safe. Fills in resolved.guard.
// Does nothing without `guard`. REQUIRES: the scales are there, channels and unsigned weights are
// not yet.
void GuardActivations(plan::ResolvedPlan& resolved, const graph::Model& model,
                      const CalibrationTable& table, ThreadPool& pool, const GuardOptions& options);

}  // namespace bitpress::calibrate
