#include "graph/origins.h"

#include <memory>
#include <utility>

#include "graph/model_impl.h"

namespace bitpress::graph {

void SetOrigins(Model& model, Origins origins) {
  ModelAccess::Impl(model).origins = std::make_shared<const Origins>(std::move(origins));
}

const Origins& OriginsOf(const Model& model) {
  static const Origins none;
  const auto& origins = ModelAccess::Impl(model).origins;
  return origins == nullptr ? none : *origins;
}

}  // namespace bitpress::graph
