#include "tril/data/lines.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <vector>

#include "support/temp_folder.h"
#include "support/testing.h"

namespace tril {
namespace {

using testing::raised_by;
using testing::TempFolder;

std::string file_with(const TempFolder& folder, const std::string& name, std::string_view bytes) {
  const std::string path = folder / name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string gzip_with(const TempFolder& folder, const std::string& name, std::string_view bytes) {
  const std::string path = folder / name;
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return path;
}

std::vector<std::string> lines_of(const std::string& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  std::string line;
  while (reader.next(line)) lines.push_back(line);
  EXPECT_EQ(reader.number(), static_cast<int64_t>(lines.size()));
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Lines, EndWithLfOrCrlfOrTheFile) {
  const TempFolder folder;
  EXPECT_EQ(lines_of(file_with(folder, "a", "one\ntwo\r\n\n three ")),
            (Lines{"one", "two", "", " three "}));
  EXPECT_EQ(lines_of(file_with(folder, "b", "")), Lines{});
  EXPECT_EQ(lines_of(file_with(folder, "c", "\n")), Lines{""});
  EXPECT_EQ(lines_of(file_with(folder, "d", "a\rb\n")), Lines{"a\rb"});
  EXPECT_EQ(lines_of(file_with(folder, "e", std::string_view("a\0b\n", 4))),
            (Lines{std::string("a\0b", 3)}));
}

TEST(Lines, AByteOrderMarkIsNotText) {
  const TempFolder folder;
  EXPECT_EQ(lines_of(file_with(folder, "a", "\xEF\xBB\xBFone\n\xEF\xBB\xBFtwo\n")),
            (Lines{"one", "\xEF\xBB\xBFtwo"}));
}

TEST(Lines, GzipReadsAsTheSameText) {
  const TempFolder folder;
  std::string text;
  Lines expected;
  for (int i = 0; i < 50000; ++i) {
    expected.push_back("line " + std::to_string(i * 7919));
    text += expected.back() + "\n";
  }
  EXPECT_EQ(lines_of(file_with(folder, "plain", text)), expected);
  EXPECT_EQ(lines_of(gzip_with(folder, "packed.gz", text)), expected);
}

TEST(Lines, AGzipFileCutShortIsAnError) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::string path = gzip_with(folder, "packed.gz", text);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const auto raised = raised_by([&] { lines_of(path); });
  EXPECT_EQ(raised.code, ErrorCode::io);
  EXPECT_NE(raised.text.find("cut short"), std::string::npos) << raised.text;
  EXPECT_NE(raised.text.find(path), std::string::npos) << raised.text;
}

TEST(Lines, ALinePastTheLimitIsMarkedAndTheNextIsWhole) {
  const TempFolder folder;
  const std::string path =
      file_with(folder, "a", "short\n" + std::string(300'000, 'x') + "\nnext\n" + "12345678\n");
  LineReader reader(path, 8);
  std::string line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_FALSE(reader.too_long());
  ASSERT_TRUE(reader.next(line));
  EXPECT_TRUE(reader.too_long());
  EXPECT_EQ(line, "xxxxxxxx");
  ASSERT_TRUE(reader.next(line));
  EXPECT_FALSE(reader.too_long());
  EXPECT_EQ(line, "next");
  ASSERT_TRUE(reader.next(line));
  EXPECT_FALSE(reader.too_long()) << "exactly the limit is within it";
  EXPECT_EQ(line, "12345678");
  EXPECT_FALSE(reader.next(line));
}

TEST(Lines, WhatCannotBeReadIsNamed) {
  const TempFolder folder;
  const auto missing = raised_by([&] { LineReader reader(folder / "nothing"); });
  EXPECT_EQ(missing.code, ErrorCode::io);
  EXPECT_NE(missing.text.find("nothing: cannot open: No such file"), std::string::npos)
      << missing.text;
  const auto directory = raised_by([&] { LineReader reader(folder.path()); });
  EXPECT_EQ(directory.code, ErrorCode::io);
  EXPECT_NE(directory.text.find("directory"), std::string::npos) << directory.text;
}

}  // namespace
}  // namespace tril
