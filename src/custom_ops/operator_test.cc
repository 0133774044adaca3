// Tests that the operators' C callbacks turn exceptions into statuses, with a stand-in for ONNX
// Runtime.
#include "custom_ops/operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <thread>

#include "base/error.h"
#include "ort/kernels.h"

namespace {

// Number of allocations of this thread that succeed before one fails; negative: all succeed.
thread_local int allocations_left = -1;

}  // namespace

// The allocation functions of this program fail on demand. They must not be inlined: the compiler
// would take `free` for the wrong partner of `new`.
[[gnu::noinline]] void* operator new(size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* const memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace bitpress::custom_ops {
namespace {

using testing::HasSubstr;

// The status of the stand-in. It does not use the allocation functions that fail.
struct Status {
  OrtErrorCode code = ORT_OK;
  char text[200] = {};
};

OrtStatusPtr NewStatus(OrtErrorCode code, const char* text) noexcept {
  auto* const status = static_cast<Status*>(std::malloc(sizeof(Status)));
  status->code = code;
  std::snprintf(status->text, sizeof status->text, "%s", text);
  return reinterpret_cast<OrtStatusPtr>(status);
}

const Status& Read(const OrtStatus* status) { return *reinterpret_cast<const Status*>(status); }

bool has_exception_escaped = false;  // a task threw into the stand-in
int some_object = 0;                 // the object that handles of the stand-in point at

template <typename Handle>
OrtStatusPtr HandOut(Handle** handle) noexcept {
  *handle = reinterpret_cast<Handle*>(&some_object);
  return nullptr;
}

OrtStatusPtr RunTasks(const OrtKernelContext*, void (*task)(void*, size_t), size_t num_tasks,
                      size_t, void* data) noexcept {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < num_tasks; ++i) {
    threads.emplace_back([=] {
      try {
        task(data, i);
      } catch (...) {
        has_exception_escaped = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return nullptr;
}

// Returns the functions of ONNX Runtime that the tested callbacks call. Nodes have no name, and
// inputs have the shape [2, N].
OrtApi MakeApi() {
  OrtApi api{};
  api.CreateStatus = NewStatus;
  api.GetErrorCode = [](const OrtStatus* status) noexcept { return Read(status).code; };
  api.GetErrorMessage = [](const OrtStatus* status) noexcept { return +Read(status).text; };
  api.ReleaseStatus = [](OrtStatus* status) { std::free(status); };
  api.KernelContext_ParallelFor = RunTasks;
  api.KernelInfo_GetNodeName = [](const OrtKernelInfo*, char* name, size_t* size) noexcept {
    if (name != nullptr) *name = '\0';
    *size = 1;
    return OrtStatusPtr();
  };
  api.ShapeInferContext_GetInputTypeShape = [](const OrtShapeInferContext*, size_t,
                                               OrtTensorTypeAndShapeInfo** info) noexcept {
    return HandOut(info);
  };
  api.GetDimensionsCount = [](const OrtTensorTypeAndShapeInfo*, size_t* count) noexcept {
    *count = 2;
    return OrtStatusPtr();
  };
  api.GetDimensions = [](const OrtTensorTypeAndShapeInfo*, int64_t* dims, size_t) noexcept {
    dims[0] = 2;
    dims[1] = -1;
    return OrtStatusPtr();
  };
  api.GetSymbolicDimensions = [](const OrtTensorTypeAndShapeInfo*, const char** names,
                                 size_t) noexcept {
    names[0] = "";
    names[1] = "N";
    return OrtStatusPtr();
  };
  api.GetTensorElementType = [](const OrtTensorTypeAndShapeInfo*,
                                ONNXTensorElementDataType* type) noexcept {
    *type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    return OrtStatusPtr();
  };
  api.CreateTensorTypeAndShapeInfo = [](OrtTensorTypeAndShapeInfo** info) noexcept {
    return HandOut(info);
  };
  api.SetTensorElementType = [](OrtTensorTypeAndShapeInfo*, ONNXTensorElementDataType) noexcept {
    return OrtStatusPtr();
  };
  api.SetDimensions = [](OrtTensorTypeAndShapeInfo*, const int64_t*, size_t) noexcept {
    return OrtStatusPtr();
  };
  api.SetSymbolicDimensions = [](OrtTensorTypeAndShapeInfo*, const char**, size_t) noexcept {
    return OrtStatusPtr();
  };
  api.ShapeInferContext_SetOutputTypeShape = [](const OrtShapeInferContext*, size_t,
                                                const OrtTensorTypeAndShapeInfo*) noexcept {
    return OrtStatusPtr();
  };
  api.ReleaseTensorTypeAndShapeInfo = [](OrtTensorTypeAndShapeInfo*) {};
  return api;
}

class OperatorTest : public testing::Test {
 protected:
  OperatorTest() { Ort::InitApi(&api_); }

  // Calls a callback again and again, each time with a later allocation that fails, until none
  // fails. Each call must return a status and must not throw.
  template <class Callback>
  static void FailEachAllocation(const Callback& callback) {
    for (int num_allocations = 0; num_allocations < 100; ++num_allocations) {
      OrtStatusPtr status = nullptr;
      bool has_thrown = false;
      allocations_left = num_allocations;
      try {
        status = callback();
      } catch (...) {
        has_thrown = true;
      }
      allocations_left = -1;
      ASSERT_FALSE(has_thrown) << "allocation " << num_allocations;
      if (status == nullptr) {
        EXPECT_GT(num_allocations, 0) << "nothing was allocated";
        return;
      }
      EXPECT_EQ(Read(status).code, ORT_FAIL);
      EXPECT_THAT(Read(status).text, HasSubstr("not enough memory"));
      Ort::GetApi().ReleaseStatus(status);
    }
    FAIL() << "it never succeeds";
  }

  const OrtApi api_ = MakeApi();
};

// A kernel that runs a given function.
class TestKernel : public OperatorKernel {
 public:
  explicit TestKernel(std::function<void(Ort::KernelContext&)> compute)
      : compute_(std::move(compute)) {}
  void Compute(Ort::KernelContext& context) const override { compute_(context); }

 private:
  std::function<void(Ort::KernelContext&)> compute_;
};

OrtKernelContext* AnyContext() { return reinterpret_cast<OrtKernelContext*>(&some_object); }

OperatorSpec TestSpec() {
  OperatorSpec spec;
  spec.name = "AnOperatorWithANameThatIsTooLongForAShortString";
  spec.input_types = {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT};
  spec.may_run_in_place = true;
  spec.make_kernel = [](const NodeInfo&) {
    return std::make_unique<TestKernel>([](Ort::KernelContext&) {});
  };
  return spec;
}

TEST_F(OperatorTest, WhatATaskThrowsBecomesAStatus) {
  const auto status_of = [](const std::function<void(size_t)>& task) {
    TestKernel kernel([&](Ort::KernelContext& context) { ort::ParallelFor(context, 8, task); });
    kernel.set_description("Op 'node'");
    const Ort::Status status(kernel.ComputeV2(AnyContext()));
    return status.IsOK() ? "fine" : status.GetErrorMessage();
  };
  EXPECT_EQ(status_of([](size_t) {}), "fine");
  EXPECT_EQ(status_of([](size_t i) {
              if (i == 5) throw std::bad_alloc();
            }),
            "Op 'node': there is not enough memory");
  EXPECT_EQ(status_of([](size_t) { Fail(ErrorCode::kInvalidModel, "no axis"); }),
            "Op 'node': no axis");
  EXPECT_FALSE(has_exception_escaped);
}

TEST_F(OperatorTest, AStatusNeedsNoMemory) {
  TestKernel kernel([](Ort::KernelContext&) {
    allocations_left = 0;
    throw std::bad_alloc();
  });
  kernel.set_description("a node whose name is too long for a short string");
  OrtStatusPtr status = nullptr;
  EXPECT_NO_THROW(status = kernel.ComputeV2(AnyContext()));
  allocations_left = -1;
  ASSERT_NE(status, nullptr);
  EXPECT_STREQ(Read(status).text, "there is not enough memory");
  Ort::GetApi().ReleaseStatus(status);
}

TEST_F(OperatorTest, ShapesAreInferredOrMissMemory) {
  const Operator op(TestSpec());
  FailEachAllocation([&] { return op.InferOutputShapeFn(&op, nullptr); });
}

TEST_F(OperatorTest, KernelsAreMadeOrMissMemory) {
  const Operator op(TestSpec());
  const auto* const info = reinterpret_cast<const OrtKernelInfo*>(&some_object);
  void* kernel = nullptr;
  FailEachAllocation([&] {
    const OrtCustomOp& callbacks = op;
    return callbacks.CreateKernelV2(&op, &api_, info, &kernel);
  });
  ASSERT_NE(kernel, nullptr);
  op.KernelDestroy(kernel);
}

// A quantizer that lacks a row for CUDA would run on the CPU there, with copies of each tensor.
TEST_F(OperatorTest, QuantizersHaveRowsForBothProviders) {
  std::map<std::string, std::array<int, 2>> rows;
  for (const auto* const domain : {&BitpressOperators(), &QuarkOperators(), &OldQuarkOperators()}) {
    for (const auto& op : *domain) {
      ++rows[op->GetName()][op->GetExecutionProviderType() != nullptr ? 1 : 0];
    }
  }
  int quantizers = 0;
  for (const auto& [name, count] : rows) {
    const bool is_quantizer = name.find("Quantize") != std::string::npos ||
                              name.find("quantize") != std::string::npos ||
                              name.find("FixNeuron") != std::string::npos;
    EXPECT_EQ(count[1], is_quantizer ? count[0] : 0) << name;
    quantizers += is_quantizer ? 1 : 0;
  }
  EXPECT_GT(quantizers, 20);
}

TEST_F(OperatorTest, PlacesNeedNoMemory) {
  const Operator op(TestSpec());
  int* input = nullptr;
  int* output = nullptr;
  allocations_left = 0;
  size_t count = 0;
  EXPECT_NO_THROW(count = op.GetMayInplace(&input, &output));
  allocations_left = -1;
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(*input, 0);
  EXPECT_EQ(*output, 0);
  op.ReleaseMayInplace(input, output);
}

}  // namespace
}  // namespace bitpress::custom_ops
