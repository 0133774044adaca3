// The Python module `bitpress._native`: arguments in, reports out. One function for each file that
// adds to the module; what they share is in work.h and samples.h.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/quant_config.h"

namespace bitpress::python {

namespace nb = nanobind;

void BindErrors(nb::module_& module);   // bitpress.Error and its kin
void BindConfig(nb::module_& module);   // Config, presets, settings, formats
void BindReports(nb::module_& module);  // what the functions give back
void BindWork(nb::module_& module);     // quantize, plan, calibrate, evaluate, ...
void BindSearch(nb::module_& module);   // sensitivity, search, autotune
void BindArrays(nb::module_& module);   // quantize_dequantize

// The configuration with changes, as on the command line: settings (key, value) first, then rules,
// which are texts or JSON objects. Throws Error.
plan::QuantConfig Changed(plan::QuantConfig config,
                          const std::vector<std::pair<std::string, std::string>>& settings,
                          const std::vector<std::string>& rules);

}  // namespace bitpress::python
