// Quantizes a model to INT8 with samples from memory, and says how close it stays.
//
//   press model.onnx model_int8.onnx 1x3x224x224
#include <bitpress/bitpress.h>

#include <cstdio>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

// Samples of noise, for a model with one input. Yours would read a camera, a database, a queue.
class Noise : public bitpress::SampleReader {
 public:
  Noise(std::vector<int64_t> shape, int count) : shape_(std::move(shape)), count_(count) {
    size_t size = 1;
    for (const int64_t dim : shape_) size *= static_cast<size_t>(dim);
    values_.resize(size);
  }

  bool Next(std::vector<bitpress::Array>& inputs) override {
    if (done_ == count_) return false;
    ++done_;
    for (float& value : values_) value = static_cast<float>(random_() % 2001) / 1000.0F - 1.0F;
    inputs = {{bitpress::ElementType::kFloat32, shape_, values_.data()}};
    return true;
  }

  void Rewind() override {
    random_.seed(1);
    done_ = 0;
  }

 private:
  std::vector<int64_t> shape_;
  std::vector<float> values_;
  std::mt19937 random_;
  int count_, done_ = 0;
};

std::vector<int64_t> ShapeOf(const std::string& text) {
  std::vector<int64_t> shape;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, 'x');) shape.push_back(std::stoll(word));
  return shape;
}

int Run(const char* model, const char* output, const std::vector<int64_t>& shape) {
  bitpress::Samples samples;
  samples.reader = [shape] { return std::make_unique<Noise>(shape, 16); };

  bitpress::QuantizeOptions options;
  options.model = model;
  options.output = output;
  options.configuration.name = "INT8";
  options.samples = samples;
  options.progress = [](std::string_view stage, size_t done, size_t total) {
    std::fprintf(stderr, "\r%.*s: %zu of %zu ", static_cast<int>(stage.size()), stage.data(), done,
                 total);
  };
  const bitpress::QuantizeResult quantized = bitpress::Quantize(options);
  std::fprintf(stderr, "\n");
  std::printf("%s: %llu bytes (%llu before)\n", output,
              static_cast<unsigned long long>(quantized.output_bytes),
              static_cast<unsigned long long>(quantized.input_bytes));
  for (const auto& [part, formats] : quantized.formats) {
    for (const auto& [format, count] : formats) {
      std::printf("  %zu x %s %s\n", count, format.c_str(), part.c_str());
    }
  }

  bitpress::EvaluateOptions question;
  question.model = output;
  question.reference = model;
  question.samples = samples;
  const bitpress::EvaluateResult closeness = bitpress::Evaluate(question);
  if (closeness.sqnr_db) std::printf("  outputs: SQNR %.1f dB\n", *closeness.sqnr_db);
  const auto library = bitpress::OperatorLibraryPath().u8string();  // paths are wide on Windows
  std::printf("  for sessions: %s\n", reinterpret_cast<const char*>(library.c_str()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: press MODEL OUTPUT SHAPE    (SHAPE: 1x3x224x224)\n");
    return 2;
  }
  try {
    return Run(argv[1], argv[2], ShapeOf(argv[3]));
  } catch (const bitpress::Error& error) {
    std::fprintf(stderr, "press: %s\n", error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "press: unexpected: %s\n", error.what());
  }
  return 1;
}
