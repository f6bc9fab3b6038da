#include "tril/io/mapped_file.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "io_support.h"
#include "tril/io/atomic_file.h"

namespace tril::mapped_file_test {
namespace {

using testing::error_of;
using testing::TempFolder;

TEST(MappedFile, ShowsTheBytesEvenWhenTheFileIsReplaced) {
  const TempFolder folder;
  write_file_atomically(folder / "f", "12345");
  const MappedFile file(folder / "f");
  write_file_atomically(folder / "f", "6");
  EXPECT_EQ(file.bytes(), "12345");
  write_file_atomically(folder / "empty", "");
  EXPECT_EQ(MappedFile(folder / "empty").bytes(), "");
}

TEST(MappedFile, NamesThePathAndTheReason) {
  const TempFolder folder;
  EXPECT_EQ(error_of([&] { MappedFile(folder / "none"); }),
            concat("input/output: ", folder / "none", ": cannot open: No such file or directory"));
  EXPECT_EQ(error_of([] { MappedFile("/dev/null"); }),
            "input/output: /dev/null: cannot map: Invalid argument");
}

TEST(MappedFile, IsFoundByItsAddressesWhileItLives) {
  const TempFolder folder;
  const std::string path = folder / "f";
  write_file_atomically(path, std::string(10'000, 'x'));
  auto file = std::make_unique<MappedFile>(path);
  const char* begin = file->bytes().data();
  const char* end = begin + file->bytes().size();
  EXPECT_STREQ(MappedFile::path_at(begin), path.c_str());
  EXPECT_STREQ(MappedFile::path_at(end - 1), path.c_str());
  EXPECT_EQ(MappedFile::path_at(begin - 1), nullptr);
  EXPECT_EQ(MappedFile::path_at(end), nullptr);
  EXPECT_EQ(MappedFile::path_at(nullptr), nullptr);
  file.reset();
  EXPECT_EQ(MappedFile::path_at(begin), nullptr);
}

// More than can be remembered at once: none is mistaken for another, and entries are reused.
TEST(MappedFile, ManyAreFoundOrUnknownNeverMistaken) {
  const TempFolder folder;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<MappedFile>> files;
    int found = 0;
    for (int i = 0; i < 300; ++i) {
      const std::string path = folder / concat("f", i);
      write_file_atomically(path, "x");
      files.push_back(std::make_unique<MappedFile>(path));
      const char* name = MappedFile::path_at(files.back()->bytes().data());
      if (name == nullptr) continue;
      ++found;
      EXPECT_EQ(name, path);
    }
    EXPECT_GE(found, 200);
    EXPECT_LT(found, 300);
  }
}

TEST(MappedFile, WhatIsReleasedIsNoMemoryOfTheProcessAndCanBeReadAgain) {
  const TempFolder folder;
  const size_t size = 32 << 20;
  std::string contents(size, 'x');
  contents.back() = 'y';
  write_file_atomically(folder / "f", contents);
  const MappedFile file(folder / "f");
  const int64_t before = testing::mapped_bytes_in_memory();
  EXPECT_TRUE(file.bytes() == contents);
  const int64_t touched = testing::mapped_bytes_in_memory();
  EXPECT_GE(touched - before, int64_t{28} << 20);
  file.release(file.bytes().substr(100, 16 << 20));
  EXPECT_LE(testing::mapped_bytes_in_memory(), touched - (int64_t{12} << 20));
  file.release(file.bytes());
  EXPECT_LE(testing::mapped_bytes_in_memory(), before + (int64_t{4} << 20));
  EXPECT_TRUE(file.bytes() == contents);
  file.release({});
}

}  // namespace
}  // namespace tril::mapped_file_test
