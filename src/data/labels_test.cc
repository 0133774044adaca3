#include "data/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_support.h"

namespace bitpress::data {
namespace {

using testing::HasSubstr;

std::string LabelsFailure(std::string_view text) {
  return ExpectError(ErrorCode::kInvalidArgument, [&] { ParseLabels(text, "t.csv"); });
}

TEST(ParseLabels, FilesInTheirOrder) {
  const auto rows = ParseLabels("file,class,name\nb.jpg,7,seven\na.jpg,0,zero\n", "t.csv");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].file, "b.jpg");
  EXPECT_EQ(rows[0].label, 7);
  EXPECT_EQ(rows[0].line, 2u);
  EXPECT_EQ(rows[1].file, "a.jpg");
  EXPECT_EQ(rows[1].label, 0);
  EXPECT_EQ(rows[1].line, 3u);
}

TEST(ParseLabels, QuotesLineEndsMarksAndColumnOrder) {
  const auto rows = ParseLabels(
      "\xef\xbb\xbfname, Class ,FILE\r\n\"two\nlines, \"\"quoted\"\"\", 3 ,\"a, b.jpg\"\r\n\r\n"
      "x,4,\"say \"\"hi\"\".png\"",
      "t.csv");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].file, "a, b.jpg");
  EXPECT_EQ(rows[0].label, 3);
  EXPECT_EQ(rows[0].line, 2u);
  EXPECT_EQ(rows[1].file, "say \"hi\".png");
  EXPECT_EQ(rows[1].label, 4);
  EXPECT_EQ(rows[1].line, 5u);
}

TEST(ParseLabelsError, NamesTheLine) {
  EXPECT_THAT(LabelsFailure(""), HasSubstr("t.csv: the table is empty"));
  EXPECT_THAT(LabelsFailure("file,class\n"), HasSubstr("lists no files"));
  EXPECT_THAT(LabelsFailure("path,class\na,1\n"),
              HasSubstr("no column 'file' (columns: path, class)"));
  EXPECT_THAT(LabelsFailure("a.jpg,1\n"), HasSubstr("no column 'file'"));
  EXPECT_THAT(LabelsFailure("file,label\na,1\n"), HasSubstr("no column 'class'"));
  EXPECT_THAT(LabelsFailure("file,class\na,1\nb,cat\n"), HasSubstr("line 3: class 'cat' is not"));
  EXPECT_THAT(LabelsFailure("file,class\na,1.5\n"), HasSubstr("line 2: class '1.5' is not"));
  EXPECT_THAT(LabelsFailure("file,class\na,-1\n"), HasSubstr("line 2: class '-1' is not"));
  EXPECT_THAT(LabelsFailure("file,class\na,\n"), HasSubstr("line 2: class '' is not"));
  EXPECT_THAT(LabelsFailure("file,class\na\n"),
              HasSubstr("line 2 has 1 columns, the header has 2"));
  EXPECT_THAT(LabelsFailure("file,class\n,3\n"), HasSubstr("line 2: the file name is empty"));
  EXPECT_THAT(LabelsFailure("file,class\n\"a,3\n"),
              HasSubstr("line 2: a quoted field does not end"));
  EXPECT_THAT(LabelsFailure("file,class\na,1\nb,2\na,3\n"),
              HasSubstr("line 4: 'a' is listed already in line 2"));
}

TEST(LoadLabels, MissingFile) {
  EXPECT_THAT(ExpectError(ErrorCode::kIo, [] { LoadLabels("/no/such/labels.csv"); }),
              HasSubstr("/no/such/labels.csv"));
}

}  // namespace
}  // namespace bitpress::data
