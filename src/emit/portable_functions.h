// Adds model-local functions for our quantizers, so that a model runs without our operator library
// (pass add-portable-functions). A function has the name of its quantizer
// (bitpress::QuantizeDequantize_*) and does the same in standard operators. With our library ONNX
// Runtime takes the operators of the library. Without it, it takes the functions: slower, but the
// same bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "formats/format_spec.h"
#include "graph/model.h"

namespace bitpress::emit {

// The oldest standard operator sets for the functions: the oldest of all, and the oldest in which
// they take float16, too. CastLike came with the latter.
inline constexpr int64_t kFirstPortableOpset = 13;
inline constexpr int64_t kFirstPortableHalfOpset = 15;

// Returns the operator `bitpress.<op_type>` as a function: y = x quantized and dequantized. It
// takes float32 and, from kFirstPortableHalfOpset on, float16. The function reads only the
// attribute `axis` of its node. Blocked formats need `axis` on every node. `spec` says the other
// attributes. REQUIRES: opset >= kFirstPortableOpset, and it is the model's operator set. REQUIRES:
// spec is one of Bitpress's own operators, that is, a format from formats::FindFormat with any
// scale choice and rounding.
graph::FunctionSpec PortableFunction(const formats::FormatSpec& spec, std::string_view op_type,
                                     int64_t opset);

// Returns the format that one of our quantizers computes, with the defaults of its operator. Throws
// Error(kUnsupported) or Error(kInvalidArgument) if there is no such operator. REQUIRES: the node
// is bitpress.QuantizeDequantize_*.
formats::FormatSpec FormatOfQuantizer(const graph::Node& node);

struct PortableFunctions {
  struct Omission {
    std::string op_type;
    std::string reason;  // "the model's operator set 12 is older than 13, ..."
  };
  std::vector<std::string> op_types;  // operators whose function the model has now
  std::vector<Omission> omissions;    // operators that run only with our library
  bool is_changed = false;            // functions came or went
};
constexpr auto FieldsOf(const PortableFunctions::Omission*) {
  return std::tuple(Field{"op_type", &PortableFunctions::Omission::op_type},
                    Field{"reason", &PortableFunctions::Omission::reason});
}

// Adds the functions of all our quantizers in the model, also of those in bodies of control flow.
// Replaces older functions. A second run changes nothing. An operator gets no function if its nodes
// need different bodies, because attributes that are words cannot steer a body. It loses a function
// that it had. REQUIRES: the types of values are known (Model::InferShapes) if the model's operator
// set is below kFirstPortableHalfOpset. Unknown types are taken for float32.
PortableFunctions AddPortableFunctions(graph::Model& model);

}  // namespace bitpress::emit
