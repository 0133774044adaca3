// Pass add-portable-functions: gives a model with our quantizers (bitpress::QuantizeDequantize_*)
// model-local functions of the same names that do the same in standard operators. With our operator
// library ONNX Runtime takes the library's operators, without it the functions: slower, but bit for
// bit the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format_spec.h"
#include "graph/model.h"

namespace bitpress::emit {

// The oldest standard operator set that the functions are written in, and the oldest one in which
// they take float16 too: CastLike came then.
inline constexpr int64_t kFirstPortableOpset = 13;
inline constexpr int64_t kFirstPortableHalfOpset = 15;

// The operator `bitpress.<op_type>` as a function: y = x quantized and dequantized, of float32 and,
// from kFirstPortableHalfOpset on, float16. Of the node's attributes it reads `axis` (blocked
// formats, which need it on every node); the other ones are what `spec` says. REQUIRES: opset >=
// kFirstPortableOpset, which is also the model's; spec is one of Bitpress's own operators, that is,
// a format from formats::FindFormat with any scale choice and rounding.
graph::FunctionSpec PortableFunction(const formats::FormatSpec& spec, std::string_view op_type,
                                     int64_t opset);

struct PortableFunctions {
  struct Omission {
    std::string op_type;
    std::string reason;  // "the model's operator set 12 is older than 13, ..."
  };
  std::vector<std::string> op_types;  // operators whose function the model has now
  std::vector<Omission> omissions;    // operators that run with our library only
  bool is_changed = false;            // functions came or went
};

// Adds the functions of all our quantizers in the model, bodies of control flow included, or puts
// them in the place of older ones; run again, it changes nothing. An operator whose nodes want
// different things from one body (attributes that are words cannot steer it) gets none, and loses
// one that it had. REQUIRES: types of values are known where the model has an operator set below
// kFirstPortableHalfOpset (Model::InferShapes); unknown ones are taken for float32.
PortableFunctions AddPortableFunctions(graph::Model& model);

}  // namespace bitpress::emit
