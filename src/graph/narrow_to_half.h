// Makes a FLOAT network one of FLOAT16, operator by operator: the mirror of widen_half.h. Constants
// and activations of the chosen operators become FLOAT16; the others keep FLOAT, with Casts between
// the two. The interface of the network, and that of the bodies of If, Loop and Scan, stays FLOAT.
//
//   std::vector<FloatNode> kept(model.AllNodes().size());  // with a reason: stays FLOAT
//   NarrowToHalf(model, kept);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::graph {

// The inputs and outputs of a node that can become FLOAT16.
struct HalfPorts {
  std::vector<bool> inputs;
  std::vector<bool> outputs;
  std::string why_float;  // the reason why there are none; "" if there are, or nothing is FLOAT
  bool is_exact = false;  // a large constant of the node must not become a Cast of FLOAT16 either
};

// Returns the ports of each of AllNodes(): the FLOAT values whose type the schema of the operator
// leaves open. REQUIRES: types are inferred.
std::vector<HalfPorts> FindHalfPorts(const Model& model);

// A node that keeps FLOAT.
struct FloatNode {
  std::string reason;     // "": the node may become FLOAT16
  bool is_exact = false;  // large constants keep FLOAT, too, instead of a Cast from FLOAT16
};

struct NarrowedConstants {
  size_t num_constants = 0;
  uint64_t num_bytes = 0;   // of these, as FLOAT16
  size_t num_clipped = 0;   // finite elements beyond 65504, which became 65504
  size_t num_vanished = 0;  // elements that became zero
};

// Makes the ports of the nodes without a reason FLOAT16. `kept` has an entry for each of
// AllNodes(). Large constants that only FLOAT operators read are stored as FLOAT16 with a Cast
// behind them. REQUIRES: types are inferred, nothing is FLOAT16.
NarrowedConstants NarrowToHalf(Model& model, std::span<const FloatNode> kept);

}  // namespace bitpress::graph
