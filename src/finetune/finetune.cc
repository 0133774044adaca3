#include "finetune/finetune.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "base/error.h"
#include "calibrate/byte_stream.h"
#include "finetune/awq.h"
#include "finetune/learn_layer.h"
#include "kernels/half.h"

namespace bitpress::finetune {
namespace {

using graph::Model;

std::vector<float> FloatsOf(const Model& model, const std::string& name) {
  if (name.empty()) return {};
  const graph::InitializerView view = model.Initializer(name);
  if (view.type == DataType::kFloat16) {
    const auto halves = view.values<uint16_t>();
    std::vector<float> values(halves.size());
    kernels::HalfToFloat(halves, values.data());
    return values;
  }
  const auto values = view.values<float>();
  return {values.begin(), values.end()};
}

void SetFloats(Model& model, const std::string& name, std::span<const float> values) {
  const graph::InitializerView view = model.Initializer(name);
  const std::vector<int64_t> dims(view.dims.begin(), view.dims.end());
  if (view.type == DataType::kFloat16) {
    std::vector<uint16_t> halves(values.size());
    kernels::FloatToHalf(values, halves.data());
    model.SetInitializer(name, DataType::kFloat16, dims,
                         std::as_bytes(std::span<const uint16_t>(halves)));
    return;
  }
  model.SetInitializer(name, DataType::kFloat, dims, std::as_bytes(values));
}

// "tune layers: Conv 'conv1' 21.3 -> 24.0 dB".
std::string StageOf(const LayerReport& layer) {
  const std::string what = fmt::format("tune layers: {} '{}'", layer.op_type, layer.node);
  if (!layer.is_tuned) return what + " stays";
  const auto decibels = [](double error) { return -10 * std::log10(std::max(error, 1e-12)); };
  return fmt::format("{} {:.1f} -> {:.1f} dB", what, decibels(layer.error_before),
                     decibels(layer.error_after));
}

class Finetuner {
 public:
  Finetuner(Model& model, const plan::QuantPlan& plan, transform::ApplyOptions& apply,
            data::Source& source, const FinetuneOptions& options, ThreadPool& pool)
      : model_(model),
        plan_(plan),
        apply_(apply),
        source_(source),
        options_(options),
        pool_(pool),
        float_model_(model.Clone()) {}

  FinetuneReport Run() {
    Layers layers = FindLayers(float_model_, plan_);
    report_.left_out = std::move(layers.left_out);
    std::erase_if(layers.found, [&](const Layer& layer) {
      const bool is_wanted =
          options_.op_types.empty() || std::ranges::count(options_.op_types, layer.op_type) > 0;
      if (!is_wanted) {
        report_.left_out.emplace_back(layer.weight,
                                      fmt::format("{} is not in finetune_op_types", layer.op_type));
      }
      return !is_wanted;
    });
    num_layers_ = layers.found.size();
    Journal journal(options_.journal, JournalKey());
    // Layers of the journal need no samples any more.
    std::vector<Layer> missing;
    for (const Layer& layer : layers.found) {
      const auto known = journal.found().find(layer.weight);
      if (known != journal.found().end() && Fits(layer, known->second)) {
        Take(layer, known->second);
        ++report_.num_resumed;
      } else {
        missing.push_back(layer);
      }
    }
    if (!missing.empty()) Learn(missing, journal);
    std::map<std::string, size_t> order;
    for (const Layer& layer : layers.found) order.emplace(layer.weight, order.size());
    std::ranges::sort(report_.layers, {},
                      [&](const LayerReport& layer) { return order.at(layer.weight); });
    return std::move(report_);
  }

 private:
  // What results depend on.
  std::string JournalKey() {
    if (options_.journal.empty()) return "";
    calibrate::ByteWriter writer;
    writer.Text(plan::ToJson(plan_));
    writer.Text(plan::FinetunePassNames(options_.passes));
    for (const auto& [name, params] : apply_.params) {
      writer.Text(name);
      writer.Float(params.scale);
      writer.Number(params.zero_point);
    }
    writer.Number(options_.gather.hold_back_every);
    writer.Number(std::bit_cast<uint64_t>(options_.tuner.ridge));
    writer.Number(options_.tuner.num_rounds);
    writer.Number(static_cast<uint8_t>(options_.tuner.activation_order ? 1 : 0));
    writer.Number(static_cast<uint8_t>(options_.tuner.refresh_scales ? 1 : 0));
    writer.Number(source_.num_samples());
    source_.Rewind();
    if (const std::optional<data::Batch> first = source_.Next(1)) {
      for (const Tensor& input : first->inputs) {
        writer.Text({reinterpret_cast<const char*>(input.bytes.data()), input.bytes.size()});
      }
    }
    return fmt::format("{:016x} {:08x}", float_model_.Fingerprint(),
                       calibrate::Crc32c(writer.bytes()));
  }

  void Learn(std::span<const Layer> layers, Journal& journal) {
    const Model quantized = ActivationsQuantized();
    const auto groups = GroupLayers(layers, options_.memory_limit);
    for (size_t i = 0; i < groups.size(); ++i) {
      GatherOptions gather = options_.gather;
      if (groups.size() > 1) gather.stage += fmt::format(", pass {} of {}", i + 1, groups.size());
      std::vector<LayerMoments> moments =
          GatherMoments(float_model_, quantized, groups[i], source_, gather);
      for (size_t k = 0; k < groups[i].size(); ++k) {
        const LearnedLayer learned = Tune(groups[i][k], moments[k]);
        moments[k] = {};  // as much memory less
        journal.Add(learned);
        Take(groups[i][k], learned);
      }
    }
  }

  bool Fits(const Layer& layer, const LearnedLayer& learned) const {
    if (!learned.report.is_tuned) return true;
    return learned.weights.size() == FloatsOf(float_model_, layer.weight).size() &&
           learned.bias.size() == FloatsOf(float_model_, layer.bias).size();
  }

  void Take(const Layer& layer, const LearnedLayer& learned) {
    if (learned.report.is_tuned) {
      SetFloats(model_, layer.weight, learned.weights);
      if (!layer.bias.empty()) SetFloats(model_, layer.bias, learned.bias);
      if (!learned.params.empty()) apply_.weight_params[layer.weight] = learned.params;
    }
    report_.layers.push_back(learned.report);
    if (options_.gather.progress) {
      options_.gather.progress(StageOf(learned.report), report_.layers.size(), num_layers_);
    }
  }

  // The float model with the quantizers of its activations.
  Model ActivationsQuantized() {
    plan::QuantPlan activations = plan_;
    std::erase_if(activations.tensors, [](const plan::TensorPlan& row) {
      return row.role != plan::Role::kActivation || row.is_dynamic();
    });
    Model quantized = float_model_.Clone();
    transform::ApplyOptions apply;
    apply.is_portable = false;
    apply.params = apply_.params;
    transform::ApplyPlan(quantized, activations, apply, pool_);
    return quantized;
  }

  LearnedLayer Tune(const Layer& layer, const LayerMoments& moments) {
    const std::vector<float> weights = FloatsOf(float_model_, layer.weight);
    const std::vector<float> bias = FloatsOf(float_model_, layer.bias);
    const auto dims = float_model_.Initializer(layer.weight).dims;
    return LearnLayer({.layer = layer,
                       .weights = weights,
                       .bias = bias,
                       .dims = {dims.begin(), dims.end()},
                       .operators = plan_.operators,
                       .passes = options_.passes},
                      moments, options_.tuner, pool_);
  }

  Model& model_;
  const plan::QuantPlan& plan_;
  transform::ApplyOptions& apply_;
  data::Source& source_;
  const FinetuneOptions& options_;
  ThreadPool& pool_;
  Model float_model_;
  size_t num_layers_ = 0;
  FinetuneReport report_;
};

}  // namespace

FinetuneReport Finetune(Model& model, const plan::QuantPlan& plan, transform::ApplyOptions& apply,
                        data::Source& source, const FinetuneOptions& options, ThreadPool& pool) {
  FinetuneOptions learn = options;
  transform::SmoothReport scaled;
  if (std::erase(learn.passes, plan::FinetunePass::kAwq) > 0) {
    GatherOptions gather = options.gather;
    gather.hold_back_every = 0;
    gather.stage = "observe channels";
    scaled = ScaleChannels(model, plan, source, gather, options.memory_limit, pool);
  }
  FinetuneReport report;
  if (!learn.passes.empty()) report = Finetuner(model, plan, apply, source, learn, pool).Run();
  report.scaled = std::move(scaled);
  return report;
}

}  // namespace bitpress::finetune
