// Rules of functions of one value: y = f(x), with f' from x and y.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gradients/rules.h"

namespace bitpress::gradients {
namespace {

// F has T Value(T x) and T Slope(T x, T y).
template <typename T, typename F>
class UnaryRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  UnaryRule(F function, ThreadPool& pool) : function_(function), pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    outputs[0]->Reshape(inputs[0]->dims);
    const T* const x = inputs[0]->data();
    T* const y = outputs[0]->data();
    ForParts(pool_, inputs[0]->size(), [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) y[i] = function_.Value(x[i]);
    });
  }

  void Backward(Inputs inputs, Inputs outputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    if (gradients[0] == nullptr) return;
    const T* const x = inputs[0]->data();
    const T* const y = outputs[0]->data();
    const T* const g = output_gradients[0]->data();
    T* const out = gradients[0]->data();
    ForParts(pool_, inputs[0]->size(), [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) out[i] += g[i] * function_.Slope(x[i], y[i]);
    });
  }

 private:
  F function_;
  ThreadPool& pool_;
};

template <typename T>
struct ClipFunction {
  T least, most;
  T Value(T x) const { return std::min(std::max(x, least), most); }
  // Without branches, so that compilers vectorize it.
  T Slope(T x, T) const { return static_cast<T>((x > least) & (x < most)); }
};
template <typename T>
struct LeakyFunction {
  T alpha;
  T Value(T x) const { return x >= 0 ? x : alpha * x; }
  T Slope(T x, T) const { return x >= 0 ? T{1} : alpha; }
};
template <typename T>
struct SigmoidFunction {
  T Value(T x) const { return 1 / (1 + std::exp(-x)); }
  T Slope(T, T y) const { return y * (1 - y); }
};
template <typename T>
struct TanhFunction {
  T Value(T x) const { return std::tanh(x); }
  T Slope(T, T y) const { return 1 - y * y; }
};
template <typename T>
struct HardSigmoidFunction {
  T alpha, beta;
  T Value(T x) const { return std::min(std::max(alpha * x + beta, T{0}), T{1}); }
  T Slope(T, T y) const { return y > 0 && y < 1 ? alpha : T{0}; }
};
template <typename T>
struct HardSwishFunction {
  T Value(T x) const { return x * std::min(std::max(x / 6 + T{0.5}, T{0}), T{1}); }
  T Slope(T x, T) const { return x <= -3 ? T{0} : x >= 3 ? T{1} : x / 3 + T{0.5}; }
};
template <typename T>
struct SwishFunction {
  T alpha;
  T Value(T x) const { return x / (1 + std::exp(-alpha * x)); }
  T Slope(T x, T) const {
    const T share = 1 / (1 + std::exp(-alpha * x));
    return share * (1 + alpha * x * (1 - share));
  }
};
constexpr double kRootOfTwo = 1.4142135623730951;
constexpr double kRootOfTwoPi = 2.5066282746310002;
template <typename T>
struct GeluFunction {
  T Value(T x) const { return x * T{0.5} * (1 + std::erf(x / static_cast<T>(kRootOfTwo))); }
  T Slope(T x, T) const {
    return T{0.5} * (1 + std::erf(x / static_cast<T>(kRootOfTwo))) +
           x * std::exp(-x * x / 2) / static_cast<T>(kRootOfTwoPi);
  }
};
// The form of Gelu with a tangent.
template <typename T>
struct TanhGeluFunction {
  static constexpr T kFactor = static_cast<T>(0.7978845608028654);
  static constexpr T kCube = static_cast<T>(0.044715);
  T Value(T x) const { return x / 2 * (1 + std::tanh(kFactor * (x + kCube * x * x * x))); }
  T Slope(T x, T) const {
    const T tangent = std::tanh(kFactor * (x + kCube * x * x * x));
    return (1 + tangent) / 2 + x / 2 * (1 - tangent * tangent) * kFactor * (1 + 3 * kCube * x * x);
  }
};
template <typename T>
struct ErfFunction {
  T Value(T x) const { return std::erf(x); }
  T Slope(T x, T) const { return static_cast<T>(2 * kRootOfTwo / kRootOfTwoPi) * std::exp(-x * x); }
};
template <typename T>
struct EluFunction {
  T alpha;
  T Value(T x) const { return x >= 0 ? x : alpha * std::expm1(x); }
  T Slope(T x, T y) const { return x >= 0 ? T{1} : y + alpha; }
};
template <typename T>
struct SoftplusFunction {
  T Value(T x) const { return std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x))); }
  T Slope(T x, T) const { return 1 / (1 + std::exp(-x)); }
};
template <typename T>
struct ExpFunction {
  T Value(T x) const { return std::exp(x); }
  T Slope(T, T y) const { return y; }
};
template <typename T>
struct LogFunction {
  T Value(T x) const { return std::log(x); }
  T Slope(T x, T) const { return 1 / x; }
};
template <typename T>
struct SqrtFunction {
  T Value(T x) const { return std::sqrt(x); }
  T Slope(T, T y) const { return 1 / (2 * y); }
};
template <typename T>
struct ReciprocalFunction {
  T Value(T x) const { return 1 / x; }
  T Slope(T, T y) const { return -y * y; }
};
template <typename T>
struct NegFunction {
  T Value(T x) const { return -x; }
  T Slope(T, T) const { return T{-1}; }
};
template <typename T>
struct AbsFunction {
  T Value(T x) const { return std::abs(x); }
  T Slope(T x, T) const { return x > 0 ? T{1} : x < 0 ? T{-1} : T{0}; }
};

template <typename T, typename F>
RuleOf<T> Make(F function, ThreadPool& pool) {
  return std::make_unique<UnaryRule<T, F>>(function, pool);
}

template <typename T>
T AttributeOf(const RuleNode& node, std::string_view name, float fallback) {
  return static_cast<T>(node.node.GetFloat(name, fallback));
}

}  // namespace

template <typename T>
RuleOf<T> MakeUnary(const RuleNode& node) {
  const std::string& type = node.op_type();
  ThreadPool& pool = node.pool;
  constexpr T kAll = std::numeric_limits<T>::infinity();
  const auto real = [](std::optional<float> value, T fallback) {
    return value ? static_cast<T>(*value) : fallback;
  };
  if (type == "Relu") return Make<T>(ClipFunction<T>{T{0}, kAll}, pool);
  if (type == "Clip") {
    return Make<T>(
        ClipFunction<T>{real(node.Scalar(1, "min"), -kAll), real(node.Scalar(2, "max"), kAll)},
        pool);
  }
  if (type == "LeakyRelu") {
    return Make<T>(LeakyFunction<T>{AttributeOf<T>(node, "alpha", 0.01F)}, pool);
  }
  if (type == "Elu") return Make<T>(EluFunction<T>{AttributeOf<T>(node, "alpha", 1)}, pool);
  if (type == "Sigmoid") return Make<T>(SigmoidFunction<T>{}, pool);
  if (type == "Tanh") return Make<T>(TanhFunction<T>{}, pool);
  if (type == "HardSigmoid") {
    return Make<T>(HardSigmoidFunction<T>{AttributeOf<T>(node, "alpha", 0.2F),
                                          AttributeOf<T>(node, "beta", 0.5F)},
                   pool);
  }
  if (type == "HardSwish") return Make<T>(HardSwishFunction<T>{}, pool);
  if (type == "QuickGelu") {
    return Make<T>(SwishFunction<T>{AttributeOf<T>(node, "alpha", 1.702F)}, pool);
  }
  if (type == "Swish") return Make<T>(SwishFunction<T>{AttributeOf<T>(node, "alpha", 1)}, pool);
  if (type == "Gelu") {
    if (node.node.GetString("approximate", "none") == "tanh") {
      return Make<T>(TanhGeluFunction<T>{}, pool);
    }
    return Make<T>(GeluFunction<T>{}, pool);
  }
  if (type == "FastGelu" && node.node.num_inputs() == 1) {
    return Make<T>(TanhGeluFunction<T>{}, pool);
  }
  if (type == "Erf") return Make<T>(ErfFunction<T>{}, pool);
  if (type == "Softplus") return Make<T>(SoftplusFunction<T>{}, pool);
  if (type == "Exp") return Make<T>(ExpFunction<T>{}, pool);
  if (type == "Log") return Make<T>(LogFunction<T>{}, pool);
  if (type == "Sqrt") return Make<T>(SqrtFunction<T>{}, pool);
  if (type == "Reciprocal") return Make<T>(ReciprocalFunction<T>{}, pool);
  if (type == "Neg") return Make<T>(NegFunction<T>{}, pool);
  if (type == "Abs") return Make<T>(AbsFunction<T>{}, pool);
  return nullptr;
}
template RuleOf<float> MakeUnary<float>(const RuleNode&);
template RuleOf<double> MakeUnary<double>(const RuleNode&);

}  // namespace bitpress::gradients
