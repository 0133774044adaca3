#include "data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/test_support.h"
#include "data/test_files.h"

namespace bitpress::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class NpyTest : public testing::Test {
 protected:
  NpyFile Write(const std::string& bytes) {
    WriteBytes(folder_ / "a.npy", bytes);
    return NpyFile(folder_ / "a.npy");
  }
  std::string Failure(const std::string& bytes, ErrorCode code = ErrorCode::kInvalidArgument) {
    const std::string message = ExpectError(code, [&] { Write(bytes); });
    EXPECT_THAT(message, HasSubstr("a.npy: "));
    return message;
  }

  TemporaryFolder folder_;
};

template <typename T>
std::string_view Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string Header(std::string_view description, std::string_view shape,
                   std::string_view order = "False") {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", description, order,
                     shape);
}

TEST_F(NpyTest, EveryElementType) {
  const std::vector<std::pair<std::string, DataType>> types = {
      {"<f2", DataType::kFloat16}, {"<f4", DataType::kFloat},  {"<f8", DataType::kDouble},
      {"|i1", DataType::kInt8},    {"|u1", DataType::kUInt8},  {"<i2", DataType::kInt16},
      {"<u2", DataType::kUInt16},  {"<i4", DataType::kInt32},  {"<u4", DataType::kUInt32},
      {"<i8", DataType::kInt64},   {"<u8", DataType::kUInt64}, {"|b1", DataType::kBool}};
  for (const auto& [description, type] : types) {
    const std::string data(3 * ElementBits(type) / 8, '\1');
    const Tensor tensor = Write(EncodeNpy(Header(description, "(3,)"), data)).Read();
    EXPECT_EQ(tensor.type, type) << description;
    EXPECT_THAT(tensor.dims, ElementsAre(3));
    EXPECT_EQ(tensor.bytes, std::vector<std::byte>(data.size(), std::byte{1}));
  }
}

TEST_F(NpyTest, EveryVersionAndWayToWriteTheHeader) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  for (const int version : {1, 2, 3}) {
    for (const char* header : {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                               "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}",
                               "{'descr': '=f4', 'fortran_order': False, 'shape': (2L, 3L)}"}) {
      const Tensor tensor = Write(EncodeNpy(header, Bytes(values), version)).Read();
      EXPECT_THAT(tensor.dims, ElementsAre(2, 3));
      EXPECT_THAT(tensor.values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
    }
  }
}

TEST_F(NpyTest, ScalarsAndEmptyArrays) {
  const Tensor scalar = Write(EncodeNpy(Header("<f4", "()"), Bytes<float>({7}))).Read();
  EXPECT_TRUE(scalar.dims.empty());
  EXPECT_THAT(scalar.values<float>(), ElementsAre(7));
  const Tensor empty = Write(EncodeNpy(Header("<f4", "(0, 3)"), "")).Read();
  EXPECT_THAT(empty.dims, ElementsAre(0, 3));
  EXPECT_TRUE(empty.bytes.empty());
}

TEST_F(NpyTest, FortranOrderBecomesRowMajor) {
  // Element (i, j, k) is 100 i + 10 j + k; Fortran order varies i first.
  std::vector<int32_t> stored;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) stored.push_back(100 * i + 10 * j + k);
    }
  }
  NpyFile file = Write(EncodeNpy(Header("<i4", "(2, 3, 4)", "True"), Bytes(stored)));
  const Tensor tensor = file.Read();
  const Tensor second = file.ReadRows(1, 1);
  EXPECT_THAT(second.dims, ElementsAre(1, 3, 4));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) {
        EXPECT_EQ(tensor.values<int32_t>()[static_cast<size_t>(12 * i + 4 * j + k)],
                  100 * i + 10 * j + k);
      }
    }
  }
  EXPECT_EQ(second.values<int32_t>()[0], 100);
  EXPECT_EQ(second.values<int32_t>()[11], 123);
}

TEST_F(NpyTest, RowsAreReadWhereTheyLie) {
  std::vector<float> values(20);
  std::iota(values.begin(), values.end(), 0.0f);
  NpyFile file = Write(EncodeNpy(Header("<f4", "(5, 2, 2)"), Bytes(values)));
  const Tensor rows = file.ReadRows(3, 2);
  EXPECT_THAT(rows.dims, ElementsAre(2, 2, 2));
  EXPECT_THAT(rows.values<float>(), ElementsAre(12, 13, 14, 15, 16, 17, 18, 19));
}

TEST_F(NpyTest, AnArrayInFortranOrderIsReadOnceForAllOfItsRows) {
  const std::string bytes =
      EncodeNpy(Header("<i4", "(3, 2)", "True"), Bytes<int32_t>({0, 10, 20, 1, 11, 21}));
  NpyFile file = Write(bytes);
  EXPECT_THAT(file.ReadRows(0, 1).values<int32_t>(), ElementsAre(0, 1));
  WriteBytes(folder_ / "a.npy", "");  // nothing reads it again before the end
  EXPECT_THAT(file.ReadRows(2, 1).values<int32_t>(), ElementsAre(20, 21));
  ExpectError(ErrorCode::kIo, [&] { file.ReadRows(0, 1); });
  WriteBytes(folder_ / "a.npy", bytes);
  EXPECT_THAT(file.ReadElements(1, 3).values<int32_t>(), ElementsAre(1, 10, 11));
}

TEST_F(NpyTest, ElementsAreReadWhereTheyLie) {
  NpyFile file = Write(EncodeNpy(Header("<i4", "(2, 3)"), Bytes<int32_t>({0, 1, 2, 3, 4, 5})));
  const Tensor part = file.ReadElements(2, 3);
  EXPECT_THAT(part.dims, ElementsAre(3));
  EXPECT_THAT(part.values<int32_t>(), ElementsAre(2, 3, 4));
}

TEST_F(NpyTest, DamagedFiles) {
  const std::string data(16, '\0');
  const std::string whole = EncodeNpy(Header("<f4", "(4,)"), data);
  EXPECT_THAT(Failure(""), HasSubstr("only 0 bytes"));
  EXPECT_THAT(Failure("PK and something else"), HasSubstr("NumPy's mark"));
  EXPECT_THAT(Failure(whole.substr(0, 40)), HasSubstr(".npy header is said to have"));
  EXPECT_THAT(Failure(whole.substr(0, whole.size() - 1)),
              HasSubstr("shape [4] needs 16 bytes, but the file holds 15"));
  EXPECT_THAT(Failure(whole + "x"), HasSubstr("the file holds 17"));
  EXPECT_THAT(Failure(EncodeNpy(Header("<f4", "(4,)"), data, 9), ErrorCode::kUnsupported),
              HasSubstr("version 9"));
  // These sizes fit no memory, or overflow.
  EXPECT_THAT(Failure(EncodeNpy(Header("<f4", "(400000000000,)"), data)),
              HasSubstr("needs 1600000000000 bytes"));
  EXPECT_THAT(Failure(EncodeNpy(Header("<f4", "(4000000000, 4000000000)"), data)),
              HasSubstr("is not a tensor's size"));
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': <f4}", "not a dictionary",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (4,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'more': 1}"}) {
    EXPECT_THAT(Failure(EncodeNpy(header, data)), HasSubstr(".npy header")) << header;
  }
}

TEST_F(NpyTest, OtherElementTypes) {
  const auto failure = [&](const char* header) {
    return Failure(EncodeNpy(header, std::string(16, '\0')), ErrorCode::kUnsupported);
  };
  EXPECT_THAT(failure("{'descr': '>f4', 'fortran_order': False, 'shape': (4,)}"),
              HasSubstr("big-endian ('>f4'); store it as little-endian, such as '<f4'"));
  EXPECT_THAT(failure("{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}"),
              HasSubstr("element type '<c8'"));
  EXPECT_THAT(failure("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}"),
              HasSubstr("element type '|O'"));
  EXPECT_THAT(failure("{'descr': '<U2', 'fortran_order': False, 'shape': (2,)}"),
              HasSubstr("the array holds texts ('<U2'), and samples are numbers"));
  EXPECT_THAT(failure("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,)}"),
              HasSubstr("structured"));
}

TEST_F(NpyTest, MissingFile) {
  EXPECT_THAT(ExpectError(ErrorCode::kIo, [&] { NpyFile(folder_ / "no.npy"); }),
              HasSubstr("no.npy"));
}

TEST_F(NpyTest, NpzMembers) {
  const Tensor a = MakeTensor<float>(DataType::kFloat, {2, 2}, {1, 2, 3, 4});
  const Tensor b = MakeTensor<int64_t>(DataType::kInt64, {1}, {5});
  WriteZip(folder_ / "a.npz",
           {{"a.npy", EncodeNpy(a)}, {"readme.txt", "text"}, {"sub/b.npy", EncodeNpy(b)}});
  const NpzFile file(folder_ / "a.npz");
  EXPECT_THAT(file.names(), ElementsAre("a", "sub/b"));
  EXPECT_THAT(file.Header(0).dims, ElementsAre(2, 2));
  EXPECT_EQ(file.Read(0).bytes, a.bytes);
  EXPECT_EQ(file.Read(1).bytes, b.bytes);
  EXPECT_EQ(file.Read(1).type, DataType::kInt64);
}

TEST_F(NpyTest, DamagedNpz) {
  EXPECT_THAT(ExpectError(ErrorCode::kIo, [&] { NpzFile(folder_ / "no.npz"); }),
              HasSubstr("no.npz"));
  WriteBytes(folder_ / "text.npz", "this is no zip");
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { NpzFile(folder_ / "text.npz"); }),
              HasSubstr("text.npz' as .npz"));
  // The checksum finds a flipped bit in the data. We or the checksum find one in the header.
  std::vector<float> noise(1000);
  uint32_t state = 1;
  for (float& value : noise) value = static_cast<float>(state = state * 1664525u + 1013904223u);
  const Tensor tensor = MakeTensor(DataType::kFloat, {1000}, noise);
  WriteZip(folder_ / "a.npz", {{"a.npy", EncodeNpy(tensor)}});
  std::string bytes(std::filesystem::file_size(folder_ / "a.npz"), '\0');
  std::ifstream(folder_ / "a.npz", std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  EXPECT_EQ(NpzFile(folder_ / "a.npz").Read(0).bytes, tensor.bytes);
  for (size_t position = 60; position < 3000; position += 97) {
    std::string damaged = bytes;
    damaged[position] = static_cast<char>(damaged[position] ^ 0x10);
    WriteBytes(folder_ / "b.npz", damaged);
    EXPECT_THROW(NpzFile(folder_ / "b.npz").Read(0), Error) << position;
  }
  // The zip's directory is at the end, which is cut off.
  WriteBytes(folder_ / "b.npz", bytes.substr(0, bytes.size() - 30));
  ExpectError(ErrorCode::kInvalidArgument, [&] { NpzFile(folder_ / "b.npz"); });
}

TEST_F(NpyTest, NpzThatClaimsMoreThanItCanHold) {
  WriteZip(folder_ / "a.npz", {{"a.npy", "x"}});
  std::string bytes(std::filesystem::file_size(folder_ / "a.npz"), '\0');
  std::ifstream(folder_ / "a.npz", std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  // The uncompressed size is 22 bytes into the local header, and 24 into the directory's.
  const std::string huge = "\xff\xff\xff\x7f";
  bytes.replace(22, 4, huge);
  bytes.replace(bytes.find("PK\x01\x02") + 24, 4, huge);
  WriteBytes(folder_ / "b.npz", bytes);
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { NpzFile(folder_ / "b.npz"); }),
              HasSubstr("claims 2147483647 bytes"));
}

}  // namespace
}  // namespace bitpress::data
