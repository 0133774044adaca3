// The number for the content of a model (Model::Fingerprint).
#include <string>

#include "base/content_hash.h"
#include "base/error.h"
#include "graph/model_impl.h"

namespace bitpress::graph {

uint64_t Model::Fingerprint() const {
  ContentHash hash;
  // Large initializers are stubs in the message.
  std::string message;
  if (!impl_->proto.SerializeToString(&message)) {
    Fail(ErrorCode::kUnsupported, "the model's graph is too large to be serialized");
  }
  hash.Add(message);
  for (const auto& tensor : impl_->graph().initializer()) {
    const ValueEntry* const entry = impl_->Find(tensor.name());
    if (entry == nullptr) continue;
    hash.Add(entry->storage.bytes);
    entry->storage.Release();
  }
  return hash.value();
}

}  // namespace bitpress::graph
