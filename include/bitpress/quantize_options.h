// The types of the options of quantize, and a struct of all that are plain values
// (quantize_options.inc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace bitpress {

// The form in which quantized weights are stored in the model.
enum class Storage {
  kPacked,     // codes and scales at their real width, decoded by a function when the model is
               // loaded
  kSimulated,  // floats that hold the quantized values
  // This is what other tools write and compilers look for: codes of integers behind a
  // DequantizeLinear, and floats behind the quantizers that activations have. Where neither can be,
  // kPacked.
  kQdq,
};

// The purpose of a quantized model: which operators it may use, and the rules of the runtime that
// it is for. It is a name that `bitpress targets` lists, or the path of a JSON file of that form.
class Target {
 public:
  static constexpr std::string_view kAutomatic = "auto";  // kBitpress for block formats, kPortable
                                                          // for integers
  static constexpr std::string_view kPortable = "portable";        // ONNX operators and ours
  static constexpr std::string_view kOnnxRuntime = "onnxruntime";  // also MatMulNBits
  static constexpr std::string_view kBitpress = "bitpress";        // also products from codes
  static constexpr std::string_view kTensorRt = "tensorrt";
  static constexpr std::string_view kCuda = "cuda";
  static constexpr std::string_view kOpenVino = "openvino";

  Target() = default;
  // Names convert, so that a function that takes a target takes its name.
  Target(std::string_view text) : text_(text) {}
  Target(const std::string& text) : text_(text) {}
  Target(const char* text) : text_(text) {}

  const std::string& text() const { return text_; }
  friend bool operator==(const Target& a, const Target& b) { return a.text_ == b.text_; }

 private:
  std::string text_ = std::string(kAutomatic);
};

// The accuracy of MatMulNBits (its attribute `accuracy_level`).
enum class AccuracyLevel : int64_t {
  kFloat = 1,  // products of floats, as a MatMul; ONNX Runtime is fast with it at 4 bits only
  kInt8 = 4,   // activations are rounded to 8 bits in blocks at run time: fast at 2, 4 and 8 bits
};

// The form in which operators on integers are written.
enum class IntegerForm {
  kQdq,        // float operators between DequantizeLinear and QuantizeLinear
  kQOperator,  // operators on codes
};

// The clean-up of a model before it is planned.
enum class Preparation {
  // Models as exporters write them become quantizable: ONNX Runtime's basic optimizations fold
  // constants and BatchNorm, and dead nodes go. A model with weights that we packed is cleaned up
  // already: only dead nodes go, and the weights stay packed.
  kOptimize,
  // Only Constant nodes become initializers. This is for models with operators that this machine
  // does not have.
  kAsIs,
};

// Names of steps (`bitpress quantize --help` lists them).
using PassNames = std::set<std::string, std::less<>>;

// The options of quantize that are plain values.
struct QuantizeChoices {
#define BITPRESS_OPTION(type, field, key, value, ...) type field = value;
#define BITPRESS_FORM_OPTION(type, field, key, value, ...) type field = value;
#include "bitpress/quantize_options.inc"
};

}  // namespace bitpress
