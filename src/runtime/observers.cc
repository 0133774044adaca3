#include "runtime/observers.h"

#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ort/kernels.h"
#include "ort/status.h"
#include "runtime/observers_internal.h"

namespace bitpress::runtime {
namespace {

class ObserverKernel {
 public:
  ObserverKernel(const OrtKernelInfo* info, ObserverSink& sink, DataType type, bool passes)
      : sink_(sink),
        type_(type),
        passes_(passes),
        id_(Ort::ConstKernelInfo(info).GetAttribute<int64_t>("id")) {}

  OrtStatusPtr ComputeV2(OrtKernelContext* ort_context) const {
    return ort::AsStatus(std::string(), [&] {
      Ort::KernelContext context(ort_context);
      const Ort::ConstValue input = context.GetInput(0);
      const std::vector<int64_t> dims = input.GetTensorTypeAndShapeInfo().GetShape();
      static constexpr float kNothing = 0;  // an empty tensor has no address
      const void* data = input.GetTensorRawData();
      const ObservedTensor tensor{id_, type_, dims, data == nullptr ? &kNothing : data};
      const ParallelTasks run_parallel = [&](size_t num_tasks,
                                             const std::function<void(size_t)>& task) {
        ort::ParallelFor(context, num_tasks, task);
      };
      sink_.Observe(tensor, run_parallel);
      if (passes_) {
        void* const output = context.GetOutput(0, dims).GetTensorMutableRawData();
        const uint64_t num_bytes = NumBytes(type_, NumElements(dims));
        if (output != data && num_bytes > 0) std::memcpy(output, data, num_bytes);
        if (num_bytes > 0) sink_.Change(tensor, output, run_parallel);
      } else {
        *context.GetOutput(0, std::vector<int64_t>()).GetTensorMutableData<int64_t>() = 0;
      }
      return OrtStatusPtr();
    });
  }

 private:
  ObserverSink& sink_;
  DataType type_;
  bool passes_;
  int64_t id_;
};

class ObserverOperator
    : public Ort::CustomOpBase<ObserverOperator, ObserverKernel, /*WithStatus=*/true> {
 public:
  ObserverOperator(ObserverSink& sink, DataType type, bool passes)
      : sink_(sink), type_(type), passes_(passes) {
    // The output may be the input itself, where nothing else needs that any more.
    if (passes) ort::AllowInPlace(*this);
  }

  OrtStatusPtr CreateKernelV2(const OrtApi&, const OrtKernelInfo* info, void** kernel) const {
    return ort::AsStatus(GetName(), [&] {
      *kernel = new ObserverKernel(info, sink_, type_, passes_);
      return OrtStatusPtr();
    });
  }
  const char* GetName() const { return passes_ ? kObservePass : kObserve; }
  size_t GetInputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ToOrtType(type_); }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const {
    return ToOrtType(passes_ ? type_ : DataType::kInt64);
  }

 private:
  ObserverSink& sink_;
  DataType type_;
  bool passes_;
};

}  // namespace

struct ObserverOperators::Impl {
  explicit Impl(ObserverSink& sink)
      : operators{ObserverOperator(sink, DataType::kFloat, false),
                  ObserverOperator(sink, DataType::kFloat16, false),
                  ObserverOperator(sink, DataType::kFloat, true),
                  ObserverOperator(sink, DataType::kFloat16, true)} {}

  std::array<ObserverOperator, 4> operators;
  // The domain is made when it is first registered. Before that, ONNX Runtime may not be open.
  std::optional<Ort::CustomOpDomain> domain;
};

void ObserverSink::Change(const ObservedTensor&, void*, const ParallelTasks&) {}

ObserverOperators::ObserverOperators(ObserverSink& sink) : impl_(std::make_unique<Impl>(sink)) {}
ObserverOperators::~ObserverOperators() = default;

void RegisterObservers(Ort::SessionOptions& options, const ObserverOperators& operators) {
  ObserverOperators::Impl& impl = operators.impl();
  if (!impl.domain) {
    impl.domain.emplace(kObserverDomain);
    for (const ObserverOperator& op : impl.operators) impl.domain->Add(&op);
  }
  options.Add(*impl.domain);
}

}  // namespace bitpress::runtime
