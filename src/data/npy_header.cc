// The header of an .npy file: magic, version, and a Python dictionary such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
#include <cctype>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "data/npy.h"

namespace bitpress::data {
namespace {

// The longest header. NumPy itself refuses headers over 10,000 bytes; a plain array's has about
// 100.
constexpr uint64_t kMaxHeaderBytes = 65536;

[[noreturn]] void FailHeader(std::string_view text) {
  Fail(ErrorCode::kInvalidArgument, "the .npy header '{}' is damaged", Trim(text));
}

// A parser that walks over the dictionary.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  bool TryTake(char wanted) {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void Take(char wanted) {
    if (!TryTake(wanted)) FailHeader(text_);
  }

  std::string TakeString() {
    const char quote = TryTake('"') ? '"' : '\'';
    if (quote == '\'') Take('\'');
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) FailHeader(text_);
    const std::string result(text_.substr(at_, end - at_));
    at_ = end + 1;
    return result;
  }

  bool TakeBool() {
    for (const std::string_view word : {"True", "False"}) {
      if (TryTake(word[0])) {
        if (text_.substr(at_, word.size() - 1) != word.substr(1)) FailHeader(text_);
        at_ += word.size() - 1;
        return word == "True";
      }
    }
    FailHeader(text_);
  }

  std::vector<int64_t> TakeShape() {
    std::vector<int64_t> dims;
    Take('(');
    while (!TryTake(')')) {
      TryTake(' ');
      const size_t begin = at_;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
      if (at_ == begin || at_ - begin > 18) FailHeader(text_);
      dims.push_back(ParseInt(text_.substr(begin, at_ - begin), "dimension"));
      TryTake('L');  // Python 2
      if (!TryTake(',')) {
        Take(')');
        break;
      }
    }
    return dims;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

DataType ParseElementType(const std::string& description) {
  const std::string_view text = description;
  if (text.starts_with('>') && text != ">i1" && text != ">u1") {
    Fail(ErrorCode::kUnsupported,
         "the array is big-endian ('{}'); store it as little-endian, such as '<{}'", description,
         text.substr(1));
  }
  const std::string_view kind = text.empty() ? text : text.substr(1);
  if (kind == "f2") return DataType::kFloat16;
  if (kind == "f4") return DataType::kFloat;
  if (kind == "f8") return DataType::kDouble;
  if (kind == "i1") return DataType::kInt8;
  if (kind == "u1") return DataType::kUInt8;
  if (kind == "i2") return DataType::kInt16;
  if (kind == "u2") return DataType::kUInt16;
  if (kind == "i4") return DataType::kInt32;
  if (kind == "u4") return DataType::kUInt32;
  if (kind == "i8") return DataType::kInt64;
  if (kind == "u8") return DataType::kUInt64;
  if (kind == "b1") return DataType::kBool;
  if (kind.starts_with('U') || kind.starts_with('S')) {
    Fail(ErrorCode::kUnsupported,
         "the array holds texts ('{}'), and samples are numbers: give none to a model that takes "
         "texts, with a configuration that needs none (INT8_DYNAMIC, INT8_WEIGHTS, MX6, ...), or "
         "quantize the part of the model behind its tokenizer",
         description);
  }
  Fail(ErrorCode::kUnsupported,
       "the array has element type '{}', expected a float, integer or bool of 1 to 8 bytes",
       description);
}

NpyHeader ParseDictionary(std::string_view text) {
  NpyHeader header;
  std::string description;
  bool has_order = false;
  bool has_shape = false;
  HeaderParser parser(text);
  parser.Take('{');
  while (!parser.TryTake('}')) {
    const std::string key = parser.TakeString();
    parser.Take(':');
    if (key == "descr") {
      if (parser.TryTake('[')) {
        Fail(ErrorCode::kUnsupported, "the array has structured elements, expected plain numbers");
      }
      description = parser.TakeString();
    } else if (key == "fortran_order") {
      header.is_fortran_order = parser.TakeBool();
      has_order = true;
    } else if (key == "shape") {
      header.dims = parser.TakeShape();
      has_shape = true;
    } else {
      FailHeader(text);
    }
    if (!parser.TryTake(',')) {
      parser.Take('}');
      break;
    }
  }
  if (description.empty() || !has_order || !has_shape) FailHeader(text);
  header.type = ParseElementType(description);
  return header;
}

}  // namespace

NpyHeader ReadNpyHeader(const ReadFunction& read, uint64_t num_file_bytes) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  unsigned char start[12] = {};
  if (num_file_bytes < 10) {
    Fail(ErrorCode::kInvalidArgument, "not an .npy file: it has only {} bytes", num_file_bytes);
  }
  read(start, 10);
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0) {
    Fail(ErrorCode::kInvalidArgument, "not an .npy file: it does not begin with NumPy's mark");
  }
  const int version = start[6];
  if (version < 1 || version > 3) {
    Fail(ErrorCode::kUnsupported, ".npy format version {} is unknown, expected 1 to 3", version);
  }
  uint64_t num_text_bytes = start[8] + 256u * start[9];
  uint64_t num_start_bytes = 10;
  if (version > 1) {
    if (num_file_bytes < 12) Fail(ErrorCode::kInvalidArgument, "the .npy file is cut off");
    read(start + 10, 2);
    num_text_bytes += (uint64_t{start[10]} << 16) + (uint64_t{start[11]} << 24);
    num_start_bytes = 12;
  }
  if (num_text_bytes > kMaxHeaderBytes || num_start_bytes + num_text_bytes > num_file_bytes) {
    Fail(ErrorCode::kInvalidArgument, "the .npy header is said to have {} bytes, the file has {}",
         num_text_bytes, num_file_bytes);
  }
  std::string text(num_text_bytes, '\0');
  read(text.data(), text.size());
  NpyHeader header = ParseDictionary(text);
  header.num_header_bytes = num_start_bytes + num_text_bytes;
  const uint64_t wanted = NumBytes(header.type, NumElements(header.dims));
  const uint64_t found = num_file_bytes - header.num_header_bytes;
  if (wanted != found) {
    Fail(ErrorCode::kInvalidArgument,
         "the array of shape [{}] needs {} bytes, but the file holds {} after its header",
         fmt::join(header.dims, ", "), wanted, found);
  }
  return header;
}

}  // namespace bitpress::data
