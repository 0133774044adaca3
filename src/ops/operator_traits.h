// One row for each operator of which more is known than its name: what it multiplies, what becomes
// of it in a model of integers, what it does to the sizes of elements, and why it keeps FLOAT in a
// FLOAT16 model. Plans, rewrites, what writes models, the check and reports read it, so that a new
// operator, or a new fact about one, is a change of a row. Pure.
//
// What follows from a row for a node with its attributes and shapes is in ops/compute_ops.h
// (operands and their axes), ops/layer_channels.h and ops/multiply_adds.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/model.h"

namespace bitpress::ops {

// The products that an operator sums.
enum class Product : uint8_t {
  kNone,
  kConv,           // an image with kernels [outputs, channels of a group, spatial...]
  kConvTranspose,  // an image with kernels [channels, outputs of a group, spatial...]
  kGemm,           // two matrices, each transposed or not
  kMatMul,         // two stacks of matrices
  kRecurrent,      // a sequence with W, and its states with R
  kExperts,        // each row with the weights of some experts, stacks of matrices
  kEinsum,         // what its equation says; it has no operands here
};

// What becomes of an operator where the activations around it are integers with a scale. Those that
// multiply compute on codes, and their operands are quantized for them.
enum class OnIntegers : uint8_t {
  kFloats,    // it reads and gives floats, unless it multiplies
  kComputes,  // it computes on codes if its operands are quantized anyway: quantizing them for it
              // alone costs more time and accuracy than it saves
  kMoves,     // it moves or selects elements, so that its input and outputs share a scale
  kJoins,     // it joins its inputs along an axis, so that they share a scale
  kFuses,     // ONNX Runtime computes it with the operator before it
  kCutsOff,   // it limits elements to a constant, the second input, and keeps their scale
};

// The factors s > 0 for which f(s x) = s f(x).
enum class Homogeneous : uint8_t {
  kNo,
  kElements,  // one for each element
  kChannels,  // one for each channel of an image
};

enum class Attention : uint8_t {
  kNone,
  kOfInputs,         // reads queries, keys and values; without keys the first input holds all three
  kHoldsProjection,  // reads the matrix that projects them, too
};

// The inputs of an operator that multiplies codes. -1: it has no such input.
struct CodeInputs {
  Product product = Product::kNone;  // what it sums; kNone: it does not multiply codes
  int activations = -1;
  int activation_zero_point = -1;
  int weight = -1;
  int weight_zero_point = -1;
  int also_weight = -1;    // the recurrent weight of an LSTM
  bool adds_pairs = true;  // some processors add its products in saturating 16 bits
};

// The inputs of an operator that normalizes over its last axes and then multiplies by a vector. Its
// other outputs do not depend on the vector.
struct Norm {
  int scale = -1;     // the vector; -1: the operator is no such one
  int shift = -1;     // the vector that is added behind it
  bool adds = false;  // it adds its first two inputs before
};

// The key-value cache of an attention: the indices of the keys; those of the values follow.
struct CacheSlots {
  int past = -1;             // input
  int present = -1;          // output
  int appended = -1;         // input of the new positions
  bool takes_codes = false;  // the operator reads and writes caches of integers with scales
};

// Further facts, as bits of OperatorTraits::is.
enum Fact : uint16_t {
  kTakesCodes = 1 << 0,    // its kernel in ONNX Runtime moves codes as it moves floats
  kSelects = 1 << 1,       // of several elements it keeps one, by its size
  kNearestOnly = 1 << 2,   // it keeps elements as they are in mode nearest only
  kConverts = 1 << 3,      // gives the same elements in another type
  kMasks = 1 << 4,         // may put a mask's constant into what it gives
  kGivesScores = 1 << 5,   // gives numbers from 0 to 1
  kGivesPlaces = 1 << 6,   // gives places of elements, which jump if elements change a little
  kReadsShape = 1 << 7,    // reads nothing but the shape of its input
  kIsActivation = 1 << 8,  // is an activation function, or a part of one
  kSplits = 1 << 9,        // takes a matrix that two layers gave apart
  kLooksUp = 1 << 10,      // gives rows of a table, its first input
  kIsQuantizer = 1 << 11,  // quantizes a value in a running model, or is a half of such a pair
  kIsCheap = 1 << 12,      // computes each element from one or two others with few digits lost
};

inline constexpr size_t kAllInputs = SIZE_MAX;

// All but the name is empty for an operator of which nothing is known.
struct OperatorTraits {
  std::string_view op_type;
  std::string_view domain = "";
  Product product = Product::kNone;
  OnIntegers on_integers = OnIntegers::kFloats;
  size_t num_operands = 1;  // the number of inputs that are codes if it computes on codes
  // The operator that computes it on codes, in the words of models in QOperator form; "" if ONNX
  // Runtime has none. Those that take codes themselves (kTakesCodes) need none.
  std::string_view qoperator = "";
  std::string_view lacks = "";  // an attribute of the operator that `qoperator` has not
  // The operator that multiplies codes where activations get their scale at every inference.
  std::string_view dynamic = "";
  Homogeneous homogeneous = Homogeneous::kNo;
  Attention attention = Attention::kNone;
  CacheSlots cache = {};
  Norm norm = {};
  CodeInputs codes = {};
  uint16_t is = 0;                     // Facts
  std::string_view why_not_half = "";  // why it keeps FLOAT in a FLOAT16 model; "" if it does not

  bool Is(Fact fact) const { return (is & fact) != 0; }
  // Returns whether ONNX Runtime computes it on 8-bit codes if Q/DQ pairs stand around it.
  bool has_integer_kernel() const { return !qoperator.empty() || Is(kTakesCodes); }
  bool is_convolution() const {
    return product == Product::kConv || product == Product::kConvTranspose;
  }
  bool is_matrix_product() const {
    return product == Product::kGemm || product == Product::kMatMul;
  }
  // Returns whether it multiplies its first two inputs, each of which may be an activation. A
  // recurrent operator multiplies states, too, on which no quantizer can stand.
  bool is_product() const { return is_convolution() || is_matrix_product(); }
  bool is_recurrent() const { return product == Product::kRecurrent; }
  bool has_experts() const { return product == Product::kExperts; }
  // Returns whether weights are the only operands that can be quantized.
  bool has_weights_only() const { return is_recurrent() || has_experts(); }
  bool multiplies() const { return is_product() || has_weights_only(); }
  // Returns whether all that it computes are sums of products of its inputs.
  bool sums_products() const { return is_product() || product == Product::kEinsum; }
  // Returns whether it multiplies matrices, images or states, attention included: these take most
  // of a model's time.
  bool takes_most_time() const { return multiplies() || attention != Attention::kNone; }
};

// Returns all rows, in the order of op_type.
std::span<const OperatorTraits> AllOperatorTraits();
// Returns the row of a node's operator.
const OperatorTraits& TraitsOf(const graph::Node& node);
// Returns the row of the first operator of this name, those of ONNX before others. Plans name
// operators so, and ONNX Runtime's operators on other layouts have the names of ONNX's.
const OperatorTraits& TraitsNamed(std::string_view op_type);

// Returns whether the node only moves or selects elements: outputs hold elements of input 0. (A
// Resize moves none if it interpolates.)
bool MovesElements(const graph::Node& node);
// Returns whether the node passes on what its inputs hold, all of them alike: it moves them by
// their places, not by their sizes, or joins or converts them.
bool PassesElementsOn(const graph::Node& node);
// Returns whether the node passes on what its inputs need: it moves, selects or joins elements, or
// computes each of them from one or two others.
bool IsCheapOnElements(const graph::Node& node);

}  // namespace bitpress::ops
