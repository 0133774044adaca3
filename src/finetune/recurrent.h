// LSTM, GRU and RNN compute their products inside: what a weight multiplies and what comes out is
// made visible here, by nodes beside them.
#pragma once

#include <span>

#include "finetune/layer.h"
#include "graph/model.h"

namespace bitpress::finetune {

// Adds, for each reading of a recurrent layer, nodes that compute its `output` from what its node
// reads or gives, and for a weight of states those states as `states`; time and batch come first in
// all of them. States are those of all steps that the node gives: the next step reads them, and
// those of the last one stand for those that the first one was given. Others of `layers` are left
// alone. REQUIRES: the nodes of recurrent layers have layout 0.
void AddProducts(graph::Model& model, std::span<const LinearLayer> layers);

}  // namespace bitpress::finetune
