// Makes the matrix products inside LSTM, GRU and RNN visible as values of the model, so that the
// moments of their weights can be observed. Nodes beside the operator compute the products again.
#pragma once

#include <span>

#include "finetune/layer.h"
#include "graph/model.h"

namespace bitpress::finetune {

// Adds nodes that compute the product `output` of each reading of a recurrent layer. For a weight
// of states they also compute the states it multiplies, as `states`. All these values begin with
// the dimensions time and batch.
//
// The states are the node's output of all steps. Each step but the first reads the states of the
// step before; the states of the last step stand for the initial ones. Layers that are not
// recurrent are left alone. REQUIRES: the nodes of recurrent layers have layout 0.
void AddProducts(graph::Model& model, std::span<const LinearLayer> layers);

}  // namespace bitpress::finetune
