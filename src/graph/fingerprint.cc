// A number for the content of a model.
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"
#include "graph/model_impl.h"

namespace bitpress::graph {
namespace {

// Eight bytes at a time: by multiplying, every bit reaches all higher ones, and the shift brings
// them down again. Against mix-ups, not against intent.
class Hash {
 public:
  void Add(std::span<const std::byte> bytes) {
    AddWord(bytes.size());
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= bytes.size(); i += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + i, sizeof word);
      AddWord(word);
    }
    uint64_t rest = 0;
    if (i < bytes.size()) std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
    AddWord(rest);
  }
  uint64_t value() const { return value_; }

 private:
  void AddWord(uint64_t word) {
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;  // 2^64 divided by the golden ratio
    value_ = (value_ ^ word) * kOdd;
    value_ ^= value_ >> 32;
  }

  uint64_t value_ = 0;
};

}  // namespace

uint64_t Model::Fingerprint() const {
  Hash hash;
  // Large initializers are stubs in the message.
  std::string message;
  if (!impl_->proto.SerializeToString(&message)) {
    Fail(ErrorCode::kUnsupported, "the model's graph is too large to be serialized");
  }
  hash.Add(std::as_bytes(std::span<const char>(message)));
  for (const auto& tensor : impl_->graph().initializer()) {
    const ValueEntry* const entry = impl_->Find(tensor.name());
    if (entry != nullptr) hash.Add(entry->storage.bytes);
  }
  return hash.value();
}

}  // namespace bitpress::graph
