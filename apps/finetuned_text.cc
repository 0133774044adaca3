#include "finetuned_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

namespace bitpress::apps {
namespace {

// Says on which samples the errors of the layers were measured.
std::string DescribeValidation(const finetune::FinetuneReport& report) {
  using finetune::ValidatedOn;
  for (const ValidatedOn samples : {ValidatedOn::kHeldBack, ValidatedOn::kHalves,
                                    ValidatedOn::kPositions, ValidatedOn::kLearned}) {
    const size_t num_others = report.layers.size() - report.NumValidatedOn(samples) -
                              report.NumValidatedOn(ValidatedOn::kNone);
    if (num_others == 0) return fmt::format(" on {}", finetune::SamplesOf(samples));
  }
  return "";
}

// Says how many layers were validated on the samples that they learned from. Returns "" if none.
std::string DescribeMissingValidation(const finetune::FinetuneReport& report) {
  const size_t num_layers = report.NumValidatedOn(finetune::ValidatedOn::kLearned);
  if (num_layers == 0) return "";
  return fmt::format(
      "  {} of {} layers were validated on the samples that they learned from only, because "
      "finetune_hold_back=0: overfitting is not seen\n",
      num_layers, report.layers.size());
}

// Names the passes whose weights the layers have: "  chosen:      adaquant (3), gptq (1)\n".
std::string DescribeChoices(const finetune::FinetuneReport& report) {
  std::map<std::string, size_t> counts;
  for (const finetune::TunedLayerReport& layer : report.layers) {
    if (layer.is_tuned) ++counts[layer.taken_from];
  }
  std::string text;
  for (const auto& [pass, count] : counts) {
    text += fmt::format("{}{} ({})", text.empty() ? "  chosen:      " : ", ", pass, count);
  }
  return text.empty() ? "" : text + "\n";
}

// Says how the network's outputs changed by what was learned: "every layer" or "every block".
std::string DescribeNetwork(const std::optional<finetune::NetworkValidation>& validation,
                            std::string_view whole) {
  if (!validation) return "";
  const finetune::NetworkValidation& network = *validation;
  if (network.num_lost_runs > 0) {
    return fmt::format(
        "  network:     what was learned gives NaN or infinity in {} runs where the float model "
        "gives numbers, so {} stays as it was\n",
        network.num_lost_runs, whole);
  }
  if (network.num_runs == 0) {
    return fmt::format("  network:     its outputs cannot be compared; {} was validated alone\n",
                       whole);
  }
  std::string text = fmt::format(
      "  network:     SQNR of its outputs {:+.1f} dB, uncertain by {:.1f} dB, in {} runs for "
      "validation; of single runs {:+.1f} dB, uncertain by {:.1f} dB",
      network.gain_db, network.uncertainty_db, network.num_runs, network.run_gain_db,
      network.run_uncertainty_db);
  if (network.is_better) return text + "\n";
  return text + fmt::format(
                    "; the output with the least gain {:+.1f} dB: not clearly better, so {} stays "
                    "as it was\n",
                    network.least_gain_db, whole);
}

// Says what the blocks of pass blocks learned, or why there is none. Returns "" without the pass.
std::string DescribeBlocks(const finetune::TunedBlocks& learned) {
  if (learned.blocks.empty()) {
    if (learned.left_out.empty()) return "";
    const auto& [weight, why] = learned.left_out.front();
    return fmt::format("  fine-tuned:  no block: '{}' stays: {}\n", weight, why);
  }
  size_t num_tuned = 0;
  double logs[4] = {0, 0, 0, 0};
  for (const finetune::TunedBlockReport& block : learned.blocks) {
    if (!block.is_tuned) continue;
    ++num_tuned;
    const double errors[4] = {block.training_before, block.training_after, block.validation_before,
                              block.validation_after};
    for (size_t i = 0; i < 4; ++i) logs[i] += std::log10(std::max(errors[i], 1e-12));
  }
  std::string text =
      fmt::format("  fine-tuned:  {} of {} blocks", num_tuned, learned.blocks.size());
  if (learned.num_samples > 0) text += fmt::format(" from {} samples", learned.num_samples);
  if (num_tuned > 0) {
    const auto decibels = [&](size_t i) { return -10 * logs[i] / static_cast<double>(num_tuned); };
    const bool is_held_back = learned.num_validation_runs > 0;
    text += fmt::format(", SQNR of their outputs on {} {:.1f} -> {:.1f} dB",
                        is_held_back ? "held-back samples" : "the samples that they learned from",
                        decibels(2), decibels(3));
    if (is_held_back && learned.num_resumed == 0) {
      text += fmt::format(", on those learned from {:.1f} -> {:.1f} dB", decibels(0), decibels(1));
    }
  }
  if (learned.num_resumed > 0) {
    text += fmt::format(" ({} were in the journal of a stopped run)", learned.num_resumed);
  }
  return text + "\n" + DescribeNetwork(learned.network, "every block");
}

}  // namespace

std::string DescribeFinetuning(const finetune::FinetuneReport& report) {
  const std::string blocks = DescribeBlocks(report.blocks);
  if (report.layers.empty() && report.left_out.empty()) return blocks;
  size_t num_tuned = 0;
  double log_before = 0;
  double log_after = 0;
  for (const finetune::TunedLayerReport& layer : report.layers) {
    if (!layer.is_tuned) continue;
    ++num_tuned;
    log_before += std::log10(layer.error_before);
    log_after += std::log10(std::max(layer.error_after, 1e-12));
  }
  std::string text = fmt::format("  fine-tuned:  {} of {} layers", num_tuned,
                                 report.layers.size() + report.left_out.size());
  if (report.num_samples > 0) text += fmt::format(" from {} samples", report.num_samples);
  if (num_tuned > 0) {
    const auto count = static_cast<double>(num_tuned);
    text += fmt::format(", SQNR of their outputs{} {:.1f} -> {:.1f} dB", DescribeValidation(report),
                        -10 * log_before / count, -10 * log_after / count);
  }
  if (report.num_resumed > 0) {
    text += fmt::format(" ({} were in the journal of a stopped run)", report.num_resumed);
  }
  return text + "\n" + DescribeNetwork(report.network, "every layer") +
         DescribeMissingValidation(report) + blocks;
}

std::string DescribeTunedLayers(const finetune::FinetuneReport& report) {
  std::string text = DescribeChoices(report);
  constexpr size_t kMostNotes = 20;
  size_t num_notes = 0;
  for (const finetune::TunedLayerReport& layer : report.layers) {
    if (layer.note.empty() || num_notes++ >= kMostNotes) continue;
    text += fmt::format("  {}: {}: {}\n", finetune::NameOf(layer),
                        layer.is_tuned ? "tuned" : "not tuned", layer.note);
  }
  if (num_notes > kMostNotes) {
    text += fmt::format("  and {} more layers with such a note: --report FILE lists them all\n",
                        num_notes - kMostNotes);
  }
  for (const finetune::TunedBlockReport& block : report.blocks.blocks) {
    if (block.note.empty()) continue;
    text += fmt::format("  block '{}': {}\n", block.output, block.note);
  }
  for (const auto* const left_out : {&report.left_out, &report.blocks.left_out}) {
    for (const auto& [weight, reason] : *left_out) {
      text += fmt::format("  not tuned: '{}': {}\n", weight, reason);
    }
  }
  return text;
}

}  // namespace bitpress::apps
