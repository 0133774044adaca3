// The summary of what fine-tuning did to the layers of a model, as text.
#pragma once

#include <string>

#include "finetune/finetune.h"

namespace bitpress::apps {

// Describes how much closer to the float model the outputs of layers came, and what the network's
// outputs made of it. Returns "" without fine-tuning.
std::string DescribeFinetuning(const finetune::FinetuneReport& report);

// Describes which passes were chosen, notes about single layers, and which were not tuned. Returns
// "" if there is nothing to say.
std::string DescribeTunedLayers(const finetune::FinetuneReport& report);

}  // namespace bitpress::apps
