// Samples from Python: an object of bitpress._samples.Samples.
#pragma once

#include <nanobind/nanobind.h>

#include "data/source.h"
#include "work.h"

namespace bitpress::python {

// Opens `samples`, or gives no opener for None. Both must outlive what it opens; the lock is taken
// only for the calls into Python.
data::SourceOpener OpenerOf(nb::object samples, Work& work);

}  // namespace bitpress::python
