// The Python module `bitpress._native`: arguments in, reports out. One function for each file that
// adds to the module; what they share is in work.h and samples.h.
#pragma once

#include <nanobind/nanobind.h>

namespace bitpress::python {

namespace nb = nanobind;

void BindErrors(nb::module_& module);   // bitpress.Error and its kin
void BindConfig(nb::module_& module);   // Config, presets, settings, formats
void BindReports(nb::module_& module);  // what the functions give back
void BindWork(nb::module_& module);     // quantize, plan, calibrate, evaluate, ...
void BindArrays(nb::module_& module);   // quantize_dequantize

}  // namespace bitpress::python
