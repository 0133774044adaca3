#include "data/array_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "data/batch_builder.h"
#include "data/npy.h"
#include "graph/model.h"

namespace bitpress::data {
namespace {

Tensor HeaderOf(const NpyHeader& header) {
  return {.type = header.type, .dims = header.dims, .bytes = {}};
}

class NpyArrays : public ArrayFile {
 public:
  explicit NpyArrays(const SampleFiles& sample) {
    for (const std::filesystem::path& path : sample.files) {
      files_.emplace_back(path);
      headers_.push_back(HeaderOf(files_.back().header()));
    }
  }

  std::vector<Tensor> ReadRows(int64_t first, int64_t count) override {
    std::vector<Tensor> rows;
    for (NpyFile& file : files_) rows.push_back(file.ReadRows(first, count));
    return rows;
  }

  std::vector<Tensor> Read() override {
    std::vector<Tensor> tensors;
    for (const NpyFile& file : files_) tensors.push_back(file.Read());
    return tensors;
  }

 private:
  std::vector<NpyFile> files_;
};

// Arrays of files that can only be read whole. They are kept from the first row that is asked for
// to the last.
class WholeArrays : public ArrayFile {
 public:
  std::vector<Tensor> ReadRows(int64_t first, int64_t count) final {
    if (whole_.empty()) whole_ = Read();
    std::vector<Tensor> rows;
    for (const Tensor& tensor : whole_) rows.push_back(CutRows(tensor, first, count));
    if (first + count == whole_[0].dims[0]) whole_ = {};
    return rows;
  }

 private:
  std::vector<Tensor> whole_;
};

class NpzArrays : public WholeArrays {
 public:
  NpzArrays(const std::filesystem::path& path, const std::vector<std::string>& input_names)
      : path_(path) {
    const NpzFile file(path_);
    members_ = MatchMembers(file.names(), input_names);
    for (const size_t member : members_) headers_.push_back(HeaderOf(file.Header(member)));
  }

  // The file is opened for each reading. Thousands of samples must not hold thousands of files
  // open.
  std::vector<Tensor> Read() override {
    const NpzFile file(path_);
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (members_[i] >= file.names().size()) FailChanged();
      tensors.push_back(file.Read(members_[i]));
      if (tensors[i].type != headers_[i].type || tensors[i].dims != headers_[i].dims) {
        FailChanged();
      }
    }
    return tensors;
  }

 private:
  [[noreturn]] void FailChanged() const {
    Fail(ErrorCode::kIo, "{}: the file was changed while it was in use", PathText(path_));
  }

  std::vector<size_t> MatchMembers(const std::vector<std::string>& names,
                                   const std::vector<std::string>& input_names) const {
    if (names.size() == 1 && input_names.size() <= 1) return {0};
    if (input_names.empty()) {
      Fail(ErrorCode::kInvalidArgument, "{} holds {} arrays ({}), expected one", PathText(path_),
           names.size(), Join(names, ", "));
    }
    std::vector<size_t> members;
    for (const std::string& input : input_names) {
      const auto found = std::find(names.begin(), names.end(), input);
      if (found == names.end()) {
        Fail(ErrorCode::kInvalidArgument, "{} holds no array for the input '{}'{}; its arrays: {}",
             PathText(path_), input, DidYouMean(input, names), Join(names, ", "));
      }
      members.push_back(static_cast<size_t>(found - names.begin()));
    }
    return members;
  }

  std::filesystem::path path_;
  std::vector<size_t> members_;  // index in the file, for each input
};

class TensorProtoArrays : public WholeArrays {
 public:
  explicit TensorProtoArrays(const SampleFiles& sample) : files_(sample.files) {
    for (const Tensor& tensor : Read()) {
      headers_.push_back({.type = tensor.type, .dims = tensor.dims, .bytes = {}});
    }
  }

  std::vector<Tensor> Read() override {
    std::vector<Tensor> tensors;
    for (const std::filesystem::path& file : files_) {
      tensors.push_back(graph::LoadTensorProto(file));
    }
    return tensors;
  }

 private:
  std::vector<std::filesystem::path> files_;
};

// Arrays some of which have another type than the model's inputs.
class ConvertedArrays : public ArrayFile {
 public:
  ConvertedArrays(std::unique_ptr<ArrayFile> file, std::vector<DataType> wanted)
      : file_(std::move(file)), wanted_(std::move(wanted)) {
    headers_ = file_->headers();
    ConvertTypes(wanted_, headers_);
  }

  std::vector<Tensor> ReadRows(int64_t first, int64_t count) override {
    return Converted(file_->ReadRows(first, count));
  }
  std::vector<Tensor> Read() override { return Converted(file_->Read()); }

 private:
  std::vector<Tensor> Converted(std::vector<Tensor> inputs) const {
    ConvertTypes(wanted_, inputs);
    return inputs;
  }

  std::unique_ptr<ArrayFile> file_;
  std::vector<DataType> wanted_;
};

std::unique_ptr<ArrayFile> OpenAsItIs(FileKind kind, const SampleFiles& sample,
                                      const std::vector<std::string>& input_names) {
  if (kind == FileKind::kNpz) return std::make_unique<NpzArrays>(sample.files[0], input_names);
  if (kind == FileKind::kNpy) return std::make_unique<NpyArrays>(sample);
  return std::make_unique<TensorProtoArrays>(sample);
}

}  // namespace

std::unique_ptr<ArrayFile> OpenArrayFile(FileKind kind, const SampleFiles& sample,
                                         const SourceOptions& options) {
  std::unique_ptr<ArrayFile> file = OpenAsItIs(kind, sample, options.input_names);
  const std::vector<Tensor>& headers = file->headers();
  bool is_converted = false;
  for (size_t i = 0; i < std::min(headers.size(), options.input_types.size()); ++i) {
    is_converted |= IsConverted(headers[i].type, options.input_types[i]);
  }
  if (!is_converted) return file;
  return std::make_unique<ConvertedArrays>(std::move(file), options.input_types);
}

}  // namespace bitpress::data
