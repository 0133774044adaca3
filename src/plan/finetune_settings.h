// Settings of fine-tuning, and what becomes of the words that other tools have for theirs. Plain
// data; what they do is in finetune/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::plan {

struct QuantConfig;
struct Setting;

// More tell layers little more, and each costs an inference.
inline constexpr int64_t kDefaultFinetuneSamples = 100;

struct FinetuneSettings {
  // How much the weights are held where they were, in parts of the mean square of the inputs. The
  // least of those that are tried.
  double ridge = 0.01;
  // Of adaround and adaquant: rounds over all weights, at most; they end when no weight changes.
  int64_t num_rounds = 20;
  // Of gptq: rounds weights of inputs with large squares first.
  bool activation_order = true;
  // Of gptq: chooses each block's scale when its turn comes, for the weights that it has then. In
  // the order of the inputs.
  bool refresh_scales = false;
  // One of so many samples judges what was learned from the others; 0: none, and all samples are
  // learned from.
  int64_t hold_back_every = 8;
  // Of samples that are learned from, at most; 0: as many as the run is limited to, or
  // kDefaultFinetuneSamples.
  int64_t num_samples = 0;
  // Of the positions of one layer in one sample, so many are learned from; 0: all.
  int64_t num_positions = 0;
  // Decides which positions those are, and which are kept.
  int64_t seed = 0;
  // Of adaround and adaquant: positions of each layer that are kept for a loss that has the
  // activation function behind the layer in it; 0: none, the loss is that of the outputs.
  int64_t num_kept = 0;
  // Groups of layers; each learns where the groups before it are quantized already.
  int64_t num_groups = 1;
  // Layers without a bias get one where that leaves them nearer to the float model.
  bool adds_biases = true;
  // Megabytes of the moments of one pass of the samples; layers that need more are cut into groups,
  int64_t memory_mb = 512;
  // or, if this is set, their moments lie in temporary files, and there is one pass.
  bool spills = false;
  // Of the layers that are tuned; empty: all.
  std::vector<std::string> op_types;

  bool operator==(const FinetuneSettings&) const = default;
};

// Rows for AllSettings.
void AddFinetuneSettings(std::vector<Setting>& settings);

// What becomes of an option that scripts for another tool set.
enum class OptionFate {
  kHonoured,  // it is one of our settings
  kAccepted,  // it changes nothing here, and why is said
  kRefused,   // what it asks for is not there, and what to do instead is said
};

struct FinetuneOption {
  std::string_view name;  // as AMD Quark's or Neural Compressor's documentation writes it
  OptionFate fate;
  std::string_view setting;  // honoured: the key in AllSettings
  std::string_view reason;   // accepted: why it changes nothing; refused: why, and what to do
};

// All of them, in the order of docs/finetuning.md.
std::span<const FinetuneOption> AllFinetuneOptions();

// The option of that name, whatever its case and underscores ("num_iterations" is NumIterations).
// Throws Error(kInvalidArgument) with the nearest name.
const FinetuneOption& FindFinetuneOption(std::string_view name);

// Sets what the option stands for in `config` and returns "", or returns the notice that it changes
// nothing. Throws Error(kInvalidArgument) if it is refused, unknown, or has no such value.
std::string ApplyFinetuneOption(QuantConfig& config, std::string_view name, std::string_view value);

}  // namespace bitpress::plan
