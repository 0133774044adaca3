#include "cuda/test_ptx_machine.h"

#include <algorithm>

namespace bitpress::cuda {
namespace {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kMany = 0xFFFFFFFFu;

uint32_t NumberOf(const Thread& thread) {
  return thread.block * thread.block_size + thread.index + 1;
}

// Returns the warp of a thread with this number.
uint32_t WarpOf(uint32_t number, uint32_t block_size) {
  const uint32_t thread = number - 1;
  return thread / block_size * ((block_size + kWarp - 1) / kWarp) + thread % block_size / kWarp;
}

size_t WordsOf(std::span<const size_t> bytes) {
  size_t words = 0;
  for (const size_t of : bytes) words += (of + 7) / 8;
  return words;
}

}  // namespace

void Machine::Fail(const Thread& thread, const std::string& what) const {
  throw std::runtime_error(std::string(kernel_->name) + ", block " + std::to_string(thread.block) +
                           ", thread " + std::to_string(thread.index) + ": " + what);
}

Machine::Tracked& Machine::Find(const Thread& thread, uint64_t address, size_t bytes,
                                const char* what) {
  for (Tracked& tracked : tracked_) {
    const auto begin = reinterpret_cast<uint64_t>(tracked.region.begin);
    if (address >= begin && address + bytes <= begin + tracked.region.bytes) {
      if (address % bytes != 0) Fail(thread, std::string(what) + " that is not aligned");
      if (bytes % tracked.region.granule != 0)
        Fail(thread, std::string(what) + " of part of an element");
      return tracked;
    }
  }
  Fail(thread, std::string(what) + " outside of the launch's memory");
}

void Machine::CheckLoad(const Thread& thread, uint64_t address, size_t bytes) {
  Tracked& tracked = Find(thread, address, bytes, "a read");
  if (!tracked.region.is_writable) return;
  const size_t first =
      (address - reinterpret_cast<uint64_t>(tracked.region.begin)) / tracked.region.granule;
  const uint32_t self = NumberOf(thread);
  for (size_t i = first; i < first + bytes / tracked.region.granule; ++i) {
    Shadow& shadow = tracked.shadows[i];
    if (shadow.writer != 0 && shadow.writer != self)
      Fail(thread, "a read of what another thread writes");
    if (shadow.reader != 0 && shadow.reader != self) {
      const uint32_t warp = WarpOf(shadow.reader, thread.block_size) + 1;
      shadow.other_warp = shadow.other_warp == 0 || shadow.other_warp == warp ? warp : kMany;
      shadow.other_meetings = std::max(shadow.other_meetings, shadow.reader_meetings);
    }
    shadow.reader = self;
    shadow.reader_meetings = thread.meetings;
  }
}

void Machine::CheckStore(const Thread& thread, uint64_t address, size_t bytes) {
  Tracked& tracked = Find(thread, address, bytes, "a write");
  if (!tracked.region.is_writable) Fail(thread, "a write to memory that is only read");
  const size_t first =
      (address - reinterpret_cast<uint64_t>(tracked.region.begin)) / tracked.region.granule;
  const uint32_t self = NumberOf(thread);
  for (size_t i = first; i < first + bytes / tracked.region.granule; ++i) {
    Shadow& shadow = tracked.shadows[i];
    if (shadow.writer != 0 && shadow.writer != self)
      Fail(thread, "a write to what another thread writes");
    // A value that was read before the lanes met is in its register.
    const uint32_t warp = WarpOf(self, thread.block_size) + 1;
    const bool last_has_met = WarpOf(shadow.reader, thread.block_size) + 1 == warp &&
                              shadow.reader_meetings < thread.meetings;
    const bool others_have_met =
        shadow.other_warp == warp && shadow.other_meetings < thread.meetings;
    if ((shadow.reader != 0 && shadow.reader != self && !last_has_met) ||
        (shadow.other_warp != 0 && !others_have_met)) {
      Fail(thread, "a write to what another thread reads");
    }
    shadow.writer = self;
  }
}

void Machine::CheckShared(const Thread& thread, uint64_t address, size_t bytes, bool writes) {
  const auto begin = reinterpret_cast<uint64_t>(shared_.data());
  if (address < begin || address + bytes > begin + shared_.size() * 8) {
    Fail(thread, "an access outside of shared memory");
  }
  if (address % bytes != 0 || bytes != 4)
    Fail(thread, "an access to shared memory that is not one aligned word");
  uint32_t& writer = shared_writers_[(address - begin) / 4];
  const uint32_t self = thread.index + 1;
  if (writes && writer != 0 && writer != self)
    Fail(thread, "a write to shared memory of another thread");
  if (!writes && writer != self)
    Fail(thread, "a read of shared memory that this thread has not written");
  writer = self;
}

uint64_t Thread::ParameterAddress() const {
  return reinterpret_cast<uint64_t>(machine->parameters_.data());
}
uint64_t Thread::SharedAddress(size_t variable) const {
  const std::span<const size_t> before(machine->kernel_->shared_bytes.data(), variable);
  return reinterpret_cast<uint64_t>(machine->shared_.data() + WordsOf(before));
}
void Thread::Align(uint64_t address, size_t bytes) const {
  if (address % bytes != 0) machine->Fail(*this, "an access that is not aligned");
}
void Thread::Meet(int at, uint32_t sent, uint32_t bits, uint32_t lanes) {
  resume = at;
  value = sent;
  lane_bits = bits;
  mask = lanes;
  if ((lanes >> (index % kWarp) & 1u) == 0)
    machine->Fail(*this, "a lane that is not in the mask of its meeting");
}

void Machine::Exchange(std::span<Thread> lanes) {
  const Thread& first = *std::ranges::find_if(lanes, [](const Thread& t) { return !t.has_ended; });
  for (uint32_t lane = 0; lane < kWarp; ++lane) {
    if ((first.mask >> lane & 1u) == 0) continue;
    if (lane >= lanes.size()) Fail(first, "a meeting with lanes that the block does not have");
    if (lanes[lane].has_ended) Fail(first, "a meeting with a lane that has ended");
    if (lanes[lane].resume != first.resume || lanes[lane].mask != first.mask) {
      Fail(first, "lanes that meet at different instructions");
    }
  }
  for (uint32_t lane = 0; lane < lanes.size(); ++lane) {
    const uint32_t other = lane ^ (lanes[lane].lane_bits & (kWarp - 1));
    if ((first.mask >> other & 1u) == 0) Fail(lanes[lane], "a value of a lane that does not meet");
    lanes[lane].received = lanes[other].value;
    ++lanes[lane].meetings;
  }
}

void Machine::RunWarp(std::span<Thread> lanes) {
  for (;;) {
    for (Thread& thread : lanes) {
      if (!thread.has_ended) kernel_->run(thread);
    }
    if (std::ranges::all_of(lanes, [](const Thread& t) { return t.has_ended; })) return;
    Exchange(lanes);
  }
}

uint64_t Machine::Launch(const TranslatedKernel& kernel, uint32_t num_blocks, uint32_t block_size,
                         const void* parameters, std::span<const Region> regions) {
  kernel_ = &kernel;
  const auto* const bytes = static_cast<const uint8_t*>(parameters);
  parameters_.assign(bytes, bytes + kernel.parameter_bytes);
  tracked_.clear();
  for (const Region& region : regions) {
    tracked_.push_back(
        {region, std::vector<Shadow>(region.is_writable ? region.bytes / region.granule : 0)});
  }
  std::vector<Thread> threads(block_size);
  std::vector<uint64_t> registers((kernel.register_bytes + 7) / 8 * block_size);
  uint64_t executed = 0;
  for (uint32_t block = 0; block < num_blocks; ++block) {
    const size_t words = WordsOf(kernel.shared_bytes);
    shared_.assign(words, 0xFFFFFFFFFFFFFFFFull);
    shared_writers_.assign(words * 2, 0);
    std::ranges::fill(registers, 0);
    for (uint32_t i = 0; i < block_size; ++i) {
      threads[i] = Thread{};
      threads[i].index = i;
      threads[i].block_size = block_size;
      threads[i].block = block;
      threads[i].num_blocks = num_blocks;
      threads[i].registers = registers.data() + (kernel.register_bytes + 7) / 8 * i;
      threads[i].machine = this;
    }
    for (uint32_t first = 0; first < block_size; first += kWarp) {
      RunWarp({&threads[first], std::min(kWarp, block_size - first)});
    }
    for (const Thread& thread : threads) executed += thread.executed;
  }
  return executed;
}

}  // namespace bitpress::cuda
