// Samples that are left out because they cannot be read or run, and how many of them may be.
//
// Whether a sample fails depends on it alone. So those that fail in shards of the samples are those
// that fail in all of them, and the number that may fail holds for the sum.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/error.h"

namespace bitpress::data {

struct FailedSample {
  std::string name;  // as in Batch::names
  std::string why;   // the message of its error
};

// Returns the error of a sample that cannot be run, with its name. That of a row of an item says
// that rows may belong together.
Error ErrorOfSample(const std::string& name, const Error& error);

class Failures {
 public:
  explicit Failures(size_t most) : most_(most) {}

  // Notes a sample. Throws Error(kInvalidArgument) naming all if these are more than may fail.
  void Add(FailedSample sample);
  const std::vector<FailedSample>& samples() const { return samples_; }
  std::vector<std::string> SortedNames() const;

 private:
  size_t most_;
  std::vector<FailedSample> samples_;
};

// Checks the names of all samples that were left out. Throws Error(kInvalidArgument) naming them if
// they are more than `most`.
void CheckLeftOut(std::span<const std::string> names, size_t most);

// Writes such names at the end of a file, and nothing if there are none: then the file is as it was
// before it could have them.
void WriteLeftOut(ByteWriter& out, std::span<const std::string> names);
// Reads what WriteLeftOut wrote, up to the end of the bytes. Throws Error as ByteReader.
std::vector<std::string> ReadLeftOut(ByteReader& in);

}  // namespace bitpress::data
