// The time of each layer of a written model beside that of the model that it was made of. A layer
// is an operator that multiplies matrices, images or states, with what follows it up to the next
// one. ONNX Runtime fuses operators, changes their layout and puts quantizers around them, each
// model in another way, so that times are added up by the layers of the given model.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "deploy/run_profile.h"
#include "graph/model.h"

namespace bitpress::deploy {

struct LayerTime {
  std::string name;
  std::string op_type;
  double seconds = 0;
  double given_seconds = 0;
};
constexpr auto FieldsOf(const LayerTime*) {
  return std::tuple(
      Field{"name", &LayerTime::name,
            "The name of the node in the given model, or of its first output if it has none, or if "
            "another node has that name."},
      Field{"op_type", &LayerTime::op_type, "The operator in the given model."},
      Field{"seconds", &LayerTime::seconds,
            "The shortest run of the written model's operators for this layer, quantizers and "
            "conversions of layout included."},
      Field{"given_seconds", &LayerTime::given_seconds, "Likewise, of the given model."});
}

// Names the layers of a model, and finds them in what ONNX Runtime made of it or of a quantized
// form of it.
class LayerMap {
 public:
  // REQUIRES: each node has a name of its own (graph::NameNodes).
  explicit LayerMap(const graph::Model& given);

  // Returns the seconds of each layer that ran, in the order of the layers; 0 for one that did not.
  // `ran` is the graph whose nodes the runs name, each of them once. The shortest run of each node
  // counts.
  std::vector<double> SecondsOf(const graph::Model& ran,
                                const std::vector<std::vector<OperatorRun>>& runs) const;

  // Returns the layers that ran in both models, those first that lose most.
  std::vector<LayerTime> Compare(const std::vector<double>& seconds,
                                 const std::vector<double>& given_seconds) const;

 private:
  struct Layer {
    std::string name;
    std::string op_type;
  };

  int Find(const graph::Node& node) const;

  std::vector<Layer> layers_;
  // The layers of nodes and values of the given model by name.
  std::map<std::string, int, std::less<>> nodes_, values_;
};

}  // namespace bitpress::deploy
