// The settings of fine-tuning, and a table of the words that other tools have for theirs. The
// algorithms are in finetune/. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::plan {

struct QuantConfig;
struct Setting;

// The number of samples that fine-tuning learns from unless told otherwise. More samples tell
// layers little more, and each costs an inference.
inline constexpr int64_t kDefaultFinetuneSamples = 100;

// The settings of all passes of fine-tuning.
struct FinetuneSettings {
  // The strength of the penalty that holds weights where they were, in parts of the mean square of
  // the inputs. It is the least strength that is tried.
  double ridge = 0.01;
  // The most rounds over all weights in adaround and adaquant. They end when no weight changes.
  int64_t num_rounds = 20;
  // gptq rounds the weights of inputs with large squares first.
  bool activation_order = true;
  // gptq chooses each block's scale when the block's turn comes, for the weights that it has then.
  // It goes in the order of the inputs.
  bool refresh_scales = false;
  // One of so many samples is held back and judges what was learned from the others. 0: none is
  // held back, and all samples are learned from.
  int64_t hold_back_every = 8;
  // The most samples that are learned from. 0: as many as the run is limited to, or
  // kDefaultFinetuneSamples.
  int64_t num_samples = 0;
  // The number of positions of one layer that are learned from in one sample; 0: all.
  int64_t num_positions = 0;
  // The seed that chooses these positions, and the ones that are kept.
  int64_t seed = 0;
  // The number of positions of each layer that adaround and adaquant keep, for a loss behind the
  // activation function that follows the layer. 0: none, and the loss is that of the layer's
  // outputs.
  int64_t num_kept = 0;
  // The number of groups of layers. Each group learns from a model in which the groups before it
  // are quantized already.
  int64_t num_groups = 1;
  // Layers without a bias get one if that leaves them nearer to the float model.
  bool adds_biases = true;
  // The most megabytes of moments in one pass over the samples. Layers that need more are cut into
  // groups with a pass each.
  int64_t memory_mb = 512;
  // Moments beyond memory_mb lie in temporary files, so that there is one pass.
  bool spills = false;
  // The operator types of the layers that are tuned; empty: all.
  std::vector<std::string> op_types;

  bool operator==(const FinetuneSettings&) const = default;
};

// Adds the rows of these settings to those of AllSettings.
void AddFinetuneSettings(std::vector<Setting>& settings);

// The treatment of an option that a script for another tool sets.
enum class OptionFate {
  kHonoured,  // it is one of our settings
  kAccepted,  // it changes nothing here, and a notice says why
  kRefused,   // we have nothing like it, and an error says what to do instead
};

// An option of another tool.
struct FinetuneOption {
  std::string_view name;  // its name in AMD Quark's or Neural Compressor's documentation
  OptionFate fate;
  std::string_view setting;  // honoured: the key in AllSettings
  std::string_view reason;   // accepted: why it changes nothing; refused: why, and what to do
};

// Returns all options, in the order of docs/finetuning.md.
std::span<const FinetuneOption> AllFinetuneOptions();

// Returns the option of that name. Case and underscores do not count: "num_iterations" is
// NumIterations. Throws Error(kInvalidArgument) with the nearest name.
const FinetuneOption& FindFinetuneOption(std::string_view name);

// Applies the option to `config`. Returns "", or the notice that it changes nothing. Throws
// Error(kInvalidArgument) if it is refused, unknown, or has no such value.
std::string ApplyFinetuneOption(QuantConfig& config, std::string_view name, std::string_view value);

}  // namespace bitpress::plan
