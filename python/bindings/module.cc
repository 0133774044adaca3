// The module, its errors, and functions about the library as a whole.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <new>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/messages.h"
#include "base/version.h"
#include "bindings.h"
#include "graph/staged_model.h"
#include "kernels/cpu_target.h"
#include "processors/simulate_products.h"
#include "runtime/ort_library.h"

namespace bitpress::python {
namespace {

const char* ClassFor(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgumentError";
    case ErrorCode::kInvalidModel:
      return "InvalidModelError";
    case ErrorCode::kUnsupported:
      return "UnsupportedError";
    case ErrorCode::kIo:
      return "FileError";
    case ErrorCode::kRuntime:
      return "ExecutionError";
  }
  return "Error";
}

}  // namespace

std::string AsPythonSpells(std::string_view message) {
  return SpellOptions(message, [](std::string_view option) -> std::string {
    // Neither is an argument: one holds for the process, one belongs to the samples.
    if (option == "operator_library") return "use_operator_library()";
    if (option == "whole_items") return "data=WholeItems(...)";
    return fmt::format("{}=", option);
  });
}

void BindErrors(nb::module_& /*module*/) {
  nb::register_exception_translator([](const std::exception_ptr& failure, void*) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      const nb::object type = nb::module_::import_("bitpress._errors").attr(ClassFor(error.code()));
      PyErr_SetString(type.ptr(), AsPythonSpells(error.what()).c_str());
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    }
  });
}

}  // namespace bitpress::python

NB_MODULE(_native, module) {
  namespace nb = nanobind;
  using namespace nb::literals;
  using namespace bitpress;
  module.doc() = "Bitpress's C++ library; bitpress is its interface.";
  python::BindErrors(module);
  python::BindConfig(module);
  python::BindReports(module);
  python::BindWork(module);
  python::BindSearch(module);
  python::BindEngines(module);
  python::BindArrays(module);
  python::BindPhotos(module);
  module.def("version", &Version, "The version of Bitpress.");
  module.def("cpu_target", &kernels::CurrentTarget,
             "The instruction set that kernels use on this machine.");
  module.def("replaced_data_note", &graph::ReplacedDataNote, "output"_a,
             "What a model written to `output` removes, in a sentence; '' if nothing.");
  module.def("use_operator_library", &runtime::UseOperatorLibrary, "path"_a,
             "Makes later sessions know the operators of a library.");
  module.def("used_operator_libraries", &runtime::UsedOperatorLibraries,
             "The libraries that use_operator_library named.");
  module.def("set_onnxruntime", &runtime::SetOrtLibraryPath, "path"_a,
             "Sets the ONNX Runtime library to use. It is opened at first use.");
  module.def("onnxruntime_version", &runtime::OrtVersion,
             "The version of the ONNX Runtime in use. Opens its library.");
  module.def(
      "saturates_products",
      [] { return processors::ThisProcessor() == processors::ProcessorKind::kSaturating; },
      "Whether this processor adds pairs of 8-bit products in saturating 16 bits. Runs a small "
      "product in ONNX Runtime.");
  module.def("onnxruntime_path", &runtime::OrtLibraryPath,
             "The path of the ONNX Runtime in use. Opens its library.");
}
