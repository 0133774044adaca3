// Reads samples from Python, from an object of bitpress._samples.Samples.
#pragma once

#include <nanobind/nanobind.h>

#include "data/source.h"
#include "work.h"

namespace bitpress::python {

// Returns an opener for `samples`, or an empty one for None. `samples` and `work` must outlive the
// opened source. The interpreter's lock is taken only for calls into Python.
data::SourceOpener OpenerOf(nb::object samples, Work& work);

}  // namespace bitpress::python
