// The Python module `bitpress._native`. It translates arguments to options and gives the library's
// reports to Python. Each function below is one file that adds to the module; code that they share
// is in work.h and samples.h.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/quant_config.h"

namespace bitpress::python {

namespace nb = nanobind;

void BindErrors(nb::module_& module);   // bitpress.Error and the classes derived from it
void BindConfig(nb::module_& module);   // Config, presets, settings, formats
void BindReports(nb::module_& module);  // reports that the functions return
void BindWork(nb::module_& module);     // quantize, plan, calibrate, evaluate, ...
void BindSearch(nb::module_& module);   // sensitivity, search, auto
void BindEngines(nb::module_& module);  // models that stay loaded
void BindArrays(nb::module_& module);   // quantize_dequantize
void BindPhotos(nb::module_& module);   // photos as arrays

// Returns a message of the library with options spelt as arguments of functions.
std::string AsPythonSpells(std::string_view message);

// Returns the configuration with changes, made as on the command line: first settings (key, value),
// then rules, which are texts or JSON objects. Throws Error.
plan::QuantConfig Changed(plan::QuantConfig config,
                          const std::vector<std::pair<std::string, std::string>>& settings,
                          const std::vector<std::string>& rules);

}  // namespace bitpress::python
