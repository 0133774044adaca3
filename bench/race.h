// Measures things in turn, so that what disturbs one disturbs all, and makes the models and numbers
// that they need. For benches that stand beside ONNX Runtime.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random_normal.h"
#include "base/tensor.h"
#include "graph/model.h"
#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"

namespace bitpress {

inline Tensor FloatTensor(std::vector<int64_t> dims, const std::vector<float>& values) {
  Tensor tensor{DataType::kFloat, std::move(dims), {}};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

inline graph::Model ModelOf(const std::string& text) {
  onnx::ModelProto proto;
  const auto status = onnx::OnnxParser(text.c_str()).Parse(proto);
  if (!status.IsOK()) Fail(ErrorCode::kInvalidModel, "{}", status.ErrorMessage());
  return graph::Model::Parse(proto.SerializeAsString());
}

// Something that is measured.
struct Contender {
  std::string name;
  std::function<void()> run;
};

inline double Microseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

// Runs the contenders in turn until each had its time, and prints the least of each, and how many
// times as fast as `float` it is.
inline void Race(const std::string& label, const std::vector<Contender>& contenders,
                 double seconds) {
  std::map<std::string, double> least;
  double spent = 0;
  do {
    for (const Contender& contender : contenders) {
      const double time = Microseconds(contender.run);
      const auto [found, is_new] = least.emplace(contender.name, time);
      if (!is_new) found->second = std::min(found->second, time);
      spent += time;
    }
  } while (spent < seconds * 1e6 * static_cast<double>(contenders.size()));
  for (const Contender& contender : contenders) {
    const double time = least[contender.name];
    std::printf("%-28s %-20s %10.1f us  of_float %5.2f", label.c_str(), contender.name.c_str(),
                time, least["float"] / time);
    if (least.contains("MatMulNBits4")) {
      std::printf("  of_nbits4 %5.2f", least["MatMulNBits4"] / time);
    }
    std::printf("\n");
  }
}

}  // namespace bitpress
