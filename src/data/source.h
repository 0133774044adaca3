// Samples for evaluation and calibration: folders of photos, .npy/.npz files or ONNX TensorProto
// files, or token ids, read one batch at a time so that memory does not grow with their number. For
// example:
//
//   const std::unique_ptr<Source> source = OpenSource({.folder = "images", .image = spec});
//   while (const std::optional<Batch> batch = source->Next(8)) Use(*batch);
//
// A folder holds one kind of data file. Files with other kinds of names are not looked at:
//   photos                    .jpg .jpeg .png .webp .bmp .tif .tiff, all in the folder or in one
//                             subfolder a class
//   arrays, one input         .npy, .npz with one member, or .pb, likewise
//   arrays, several inputs    .npz with a member for each input name, or one subfolder for each
//                             input name with equally named .npy or .pb files
//   ONNX's own test data      input_0.pb, input_1.pb, ... in the folder or in its subfolders
// Files come in the order of their paths, or of the CSV. An array file holds as many samples as its
// first dimension says. Files are split and joined to the wanted batch size while types and the
// other dimensions agree; if they do not, a batch ends early. Inputs of one sample whose first
// dimensions differ have no batch dimension. Such a sample stays alone.
//
// A Source is used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"
#include "data/failures.h"
#include "data/token_inputs.h"
#include "graph/model.h"

namespace bitpress::data {

// The way from a photo to a tensor: decode, scale the shorter side to `resize` (antialiased
// bicubic), centre-crop, map to [0, 1], subtract mean, divide by std, lay out. Sizes and positions
// are rounded as torchvision does. Grey becomes RGB, CMYK is converted, transparency is dropped, 16
// bits become 8. An EXIF orientation is not applied, as in the usual ImageNet evaluation.
struct ImageSpec {
  // How a photo gets the size `resize`: its shorter side has it, it is fitted into a square of it
  // and surrounded by grey, or both sides are stretched to it.
  enum class Fit : uint8_t { kShorter, kLetterbox, kStretch };

  int resize = 0;  // pixels; 0: no scaling
  Fit fit = Fit::kShorter;
  int crop = 0;  // pixels of the square cut from the centre; 0: the whole picture
  // Mean and deviation of red, green and blue (for any channel order), in [0, 1].
  float mean[3] = {0, 0, 0};
  float std[3] = {1, 1, 1};
  bool nhwc = false;  // layout: channels last instead of channels first
  bool bgr = false;   // channel order: blue first
};

// Parses a text such as "resize=256,crop=224,mean=0.498,std=0.502". Keys are resize, fit, crop,
// mean, std, layout and channels. fit is shorter, letterbox or stretch. mean and std take one value
// or three (red/green/blue) separated by '/'. layout is nchw or nhwc, channels rgb or bgr. Throws
// Error(kInvalidArgument) with the nearest key or the allowed values.
ImageSpec ParseImageSpec(std::string_view text);

// Samples stacked along the first dimension, one tensor for each model input, with the class of
// each sample if it is known.
struct Batch {
  std::vector<Tensor> inputs;
  std::vector<int64_t> labels;     // class of each sample; empty if there are none
  std::vector<std::string> names;  // file of each sample, with "[i]" for row i of several
  size_t num_samples = 0;
  // Samples in their place that could not be read; see SourceOptions::keeps_failures.
  std::vector<FailedSample> failed = {};

  // Returns whether the inputs are rows of samples, not one sample without a batch dimension.
  bool HasRows() const;
  // Returns some of the samples. REQUIRES: HasRows, first + count <= num_samples.
  Batch Rows(size_t first, size_t count) const;
};

// One of several parts of the samples, or of whatever else can be counted. They are ranges of
// almost equal length, so that all shards one after another are everything in its order.
struct Shard {
  size_t index = 0, count = 1;  // the first shard is 0

  // Returns the first thing of the shard and the one behind its last. They are the same if there
  // are fewer things than shards, and this one has none.
  std::pair<size_t, size_t> RangeIn(size_t num_things) const;
  // Returns the same of samples. Throws Error(kInvalidArgument) if there are too few for every
  // shard to have one.
  std::pair<size_t, size_t> RangeOf(size_t num_samples) const;
};
// Parses "2/8", the second of eight shards. Throws Error(kInvalidArgument).
Shard ParseShard(std::string_view text);
// The place of a source's samples among all that a work has, of which it may be a part.
struct SamplePlace {
  size_t first = 0;  // samples before them
  size_t all = 0;    // 0: not known
};

// A source of samples.
class Source {
 public:
  virtual ~Source() = default;
  // Returns the number of samples after SourceOptions::limit and shard. 0 means that it is not
  // known before the end (stream_source.h only).
  virtual size_t num_samples() const = 0;
  virtual bool has_labels() const = 0;
  // Returns where SourceOptions::shard or part_of lie among all samples.
  virtual SamplePlace place() const { return {0, num_samples()}; }
  // Returns the next at most `max_samples` samples (1 or more); nothing at the end. Fewer come at
  // the end, where shapes change, and where samples fail: perhaps none. Throws Error naming the
  // file.
  virtual std::optional<Batch> Next(size_t max_samples) = 0;
  // Begins from the first sample again.
  virtual void Rewind() = 0;
  // Gives another shard of the samples from now on, from its start. The folder is not listed again.
  // Throws Error as Shard::RangeOf, and for samples that lie in no file.
  virtual void Select(const Shard& shard);
  // Returns a number that sources share if they give the same samples: element types, shapes,
  // values and classes, whatever the files are called. The numbers of all parts add up to that of
  // the whole, modulo 2^64. Reads all samples and begins from the start again afterwards; photos
  // are read, but not decoded. Throws Error naming the file.
  virtual uint64_t Fingerprint();
};

struct SourceOptions;
// A function that opens samples that lie in no folder, as the options want them.
using SourceOpener = std::function<std::unique_ptr<Source>(const SourceOptions&)>;

class KeptSamples;

// Samples that are made from token ids; see token_source.h.
struct TokenOptions {
  std::filesystem::path file;  // .npy of ids
  size_t length = 0;           // tokens of a sample; 0: as TokensOfSample says
  // Tokens that each sample begins and ends with, such as <bos>.
  std::vector<int64_t> prefix = {}, suffix = {};
  TokenInputs inputs;  // those of the model
};

struct SourceOptions {
  std::filesystem::path folder = {};
  std::optional<TokenOptions> tokens = std::nullopt;  // token ids instead of a folder
  SourceOpener opener = {};  // function that opens the samples instead of a folder
  // A table with the columns "file" and "class"; others are ignored. Only the listed files count,
  // in the table's order.
  std::filesystem::path labels_csv = {};
  std::optional<ImageSpec> image = std::nullopt;  // the way of photos, which need it
  // The names of the model's inputs, by which .npz members and subfolders are found. Empty: one
  // input of any name.
  std::vector<std::string> input_names = {};
  // The element types of these inputs; kUndefined, or none at all: not known. Arrays of DOUBLE
  // become FLOAT for an input of FLOAT, because NumPy's numbers are DOUBLE unless one says more.
  std::vector<DataType> input_types = {};
  size_t limit = 0;  // most samples; 0: all
  Shard shard = {};  // the part of these samples that counts
  // The samples of `opener` are a part of others: some come before them. Other sources know it from
  // `shard`.
  std::optional<SamplePlace> part_of = std::nullopt;
  // Each array file is one sample, whatever its first dimension says. This is for models whose
  // first dimension is time and no batch.
  bool use_whole_items = false;
  size_t num_threads = 0;  // threads that decode photos; 0: one per core
  // A sample that cannot be read is no Error but in Batch::failed, and the next ones are read. It
  // counts where samples are numbered, in `limit` and `shard` for example. An array file that
  // cannot be opened counts as one sample. Samples of a model that fixes several for a run are
  // never kept.
  bool keeps_failures = false;
  // Photos of the next batch are decoded while the caller works on this one. Leave it out if the
  // caller measures time.
  bool read_ahead = false;
  // Keeps the first samples and gives them again; see kept_samples.h. May be null.
  std::shared_ptr<KeptSamples> kept = {};
};

// The samples of a task, as its user describes them, independent of the model.
struct SampleSpec {
  std::filesystem::path folder = {};      // see OpenSource
  std::filesystem::path labels_csv = {};  // of the files that count; empty: all
  std::string image = {};                 // see ParseImageSpec; empty: the samples are no photos
  // Token ids instead of a folder, and the tokens of a sample; see token_source.h. Empty: none.
  std::filesystem::path tokens = {};
  size_t num_tokens = 0;
  std::vector<int64_t> prefix = {}, suffix = {};  // tokens around those of each sample
  // Opens samples instead of `folder` and `labels_csv`, perhaps several times, one after the other.
  SourceOpener opener = {};
  size_t limit = 0;  // at most this many samples, from the start; 0: all
  Shard shard = {};  // the part of these samples that counts
  std::optional<SamplePlace> part_of = std::nullopt;  // as SourceOptions::part_of
  std::shared_ptr<KeptSamples> kept = {};             // as SourceOptions::kept
  bool whole_items = false;  // each item is one sample, whatever its first dimension says
  // Tells whether the first item had to be run as a whole, once a task has tried it. Copies share
  // it: a work must not read its samples in two ways.
  std::shared_ptr<std::optional<bool>> found_whole = std::make_shared<std::optional<bool>>();

  bool is_given() const { return !folder.empty() || !tokens.empty() || opener; }
  // Returns the same samples, but at most `most` of them. REQUIRES: most > 0.
  SampleSpec First(size_t most) const;
  // Returns whether both are shards of the same samples in files.
  bool SharesFilesWith(const SampleSpec& other) const;
};

// Returns the options that open these samples for the inputs of `model`. Throws
// Error(kInvalidArgument) as ParseImageSpec, and Error(kUnsupported) as TokenInputs if there are
// tokens.
SourceOptions ToSourceOptions(const SampleSpec& samples, const graph::Model& model);

// Opens a folder and decides what it holds. Without a CSV, files in one subfolder a class take the
// index of the sorted subfolder as label; files in the folder itself have none. Array files are
// looked into here (types, shapes, sizes), photos only when they are read. Throws Error naming the
// folder if it is missing, empty or mixed, or the file or CSV line that is wrong.
std::unique_ptr<Source> OpenSource(const SourceOptions& options);

}  // namespace bitpress::data
