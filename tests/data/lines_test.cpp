#include "tril/data/lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "support/property.h"
#include "support/temp_folder.h"
#include "support/testing.h"

namespace tril::lines_test {
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

TEST(Lines, AFileOfNothingButAMarkHasNoLine) {
  const TempFolder folder;
  EXPECT_EQ(lines_of(file_with(folder, "a", "\xEF\xBB\xBF")), Lines{});
  EXPECT_EQ(lines_of(file_with(folder, "b", "\xEF\xBB\xBF\n")), Lines{""});
  EXPECT_EQ(lines_of(file_with(folder, "c", "\xEF\xBB")), Lines{"\xEF\xBB"});
  EXPECT_EQ(lines_of(file_with(folder, "d", "\x1F")), Lines{"\x1F"});
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

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The output of `cat a.gz b.gz`, and zeros as on a tape.
TEST(Lines, AGzipFileMayHaveSeveralMembers) {
  const TempFolder folder;
  const std::string one = bytes_of(gzip_with(folder, "one", "a\nb"));
  const std::string two = bytes_of(gzip_with(folder, "two", "c\r\nd\n"));
  const std::string none = bytes_of(gzip_with(folder, "none", ""));
  const std::string zeros(1000, '\0');
  const Lines expected = {"a", "bc", "d"};
  EXPECT_EQ(lines_of(file_with(folder, "a", one + none + two)), expected);
  EXPECT_EQ(lines_of(file_with(folder, "b", one + zeros + two + zeros)), expected);
  EXPECT_EQ(lines_of(file_with(folder, "c", none)), Lines{});
}

TEST(Lines, ADamagedGzipFileIsAnErrorAfterItsWholeLines) {
  const TempFolder folder;
  const std::string good = bytes_of(gzip_with(folder, "good", "a\nb\n"));
  std::string checksum = good;
  checksum[checksum.size() - 8] = static_cast<char>(checksum[checksum.size() - 8] ^ 1);
  for (const std::string& bytes : {checksum, good + "more"}) {
    LineReader reader(file_with(folder, "bad", bytes));
    Lines lines;
    std::string line;
    const auto raised = raised_by([&] {
      while (reader.next(line)) lines.push_back(line);
    });
    EXPECT_EQ(raised.code, ErrorCode::io);
    EXPECT_NE(raised.text.find("cannot read past line 2: the gzip file is damaged: incorrect "),
              std::string::npos)
        << raised.text;
    EXPECT_EQ(lines, (Lines{"a", "b"}));
  }
}

// A named pipe whose writer this is.
class Pipe {
 public:
  explicit Pipe(const TempFolder& folder) : path_(folder / "pipe") {
    if (::mkfifo(path_.c_str(), 0600) == 0) descriptor_ = ::open(path_.c_str(), O_RDWR);
  }
  ~Pipe() { close(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  const std::string& path() const { return path_; }
  void write(std::string_view bytes) const {
    ASSERT_EQ(::write(descriptor_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

TEST(Lines, NeedNotBeWaitedFor) {
  constexpr auto kNo = LineReader::Wait::no;
  const TempFolder folder;
  Pipe pipe(folder);
  LineReader reader(pipe.path());
  std::string line;
  EXPECT_FALSE(reader.next(line, kNo));
  pipe.write("one\ntw");
  EXPECT_TRUE(reader.next(line, kNo));
  EXPECT_EQ(line, "one");
  EXPECT_FALSE(reader.next(line, kNo)) << "half a line is none";
  EXPECT_EQ(reader.number(), 1);
  pipe.write("o\r\nthree");
  EXPECT_TRUE(reader.next(line, kNo));
  EXPECT_EQ(line, "two");
  EXPECT_FALSE(reader.next(line, kNo));
  pipe.close();
  EXPECT_TRUE(reader.next(line, kNo));
  EXPECT_EQ(line, "three");
  EXPECT_FALSE(reader.next(line));
}

// However the bytes arrive, packed or not, the lines are those of the file.
RC_GTEST_PROP(Lines, AreTheSameInPieces, ()) {
  const auto part = rc::gen::element<std::string>("a", "bc", "\n", "\r\n", "\r", "\xEF\xBB\xBF",
                                                  "\x1F", "\xEF", std::string(20, 'x'));
  std::string text;
  for (const auto& piece : *rc::gen::container<std::vector<std::string>>(part)) text += piece;
  // The header's rules, implemented again, slowly.
  constexpr size_t kLimit = 7;
  Lines expected;
  const std::string plain = text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
  for (size_t at = 0; at < plain.size();) {
    const size_t end = std::min(plain.find('\n', at), plain.size());
    std::string line = plain.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    expected.push_back(line.size() > kLimit ? line.substr(0, kLimit) + "..." : line);
    at = end + 1;
  }
  const TempFolder folder;
  std::string bytes = text;
  if (*rc::gen::arbitrary<bool>()) bytes = bytes_of(gzip_with(folder, "packed", text));
  Pipe pipe(folder);
  LineReader reader(pipe.path(), kLimit);
  Lines found;
  std::string line;
  const auto take = [&](LineReader::Wait wait) {
    while (reader.next(line, wait)) found.push_back(reader.too_long() ? line + "..." : line);
  };
  while (!bytes.empty()) {
    const auto count = *rc::gen::inRange<size_t>(1, std::min<size_t>(bytes.size(), 9) + 1);
    pipe.write(bytes.substr(0, count));
    bytes.erase(0, count);
    take(LineReader::Wait::no);
  }
  pipe.close();
  take(LineReader::Wait::yes);
  RC_ASSERT(found == expected);
  RC_ASSERT(reader.number() == static_cast<int64_t>(expected.size()));
}

// A few packed bytes may be more text than the reader has room for: all of it is handed out before
// more bytes come.
TEST(Lines, WhatCameOfAPackedPipeIsNotHeldBack) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 400'000; ++i) text += "x\n";
  const std::string packed = bytes_of(gzip_with(folder, "packed", text));
  for (size_t missing = 1; missing < 24; ++missing) {
    const TempFolder place;
    Pipe pipe(place);
    const std::string sent = packed.substr(0, packed.size() - missing);
    pipe.write(sent);
    // zlib itself, with room for everything.
    std::string whole(text.size(), '\0');
    z_stream stream{};
    inflateInit2(&stream, 15 + 16);
    std::string copy = sent;
    stream.next_in = reinterpret_cast<Bytef*>(copy.data());
    stream.avail_in = static_cast<uInt>(copy.size());
    stream.next_out = reinterpret_cast<Bytef*>(whole.data());
    stream.avail_out = static_cast<uInt>(whole.size());
    inflate(&stream, Z_NO_FLUSH);
    const auto expected = static_cast<int64_t>(stream.total_out / 2);
    inflateEnd(&stream);
    LineReader reader(pipe.path());
    std::string line;
    while (reader.next(line, LineReader::Wait::no)) {
    }
    EXPECT_EQ(reader.number(), expected) << missing << " bytes missing";
  }
}

TEST(Lines, ComeFromStandardInputToo) {
  const TempFolder folder;
  const std::string path = gzip_with(folder, "packed", "\xEF\xBB\xBFone\r\ntwo");
  const int before = ::dup(STDIN_FILENO);
  const int file = ::open(path.c_str(), O_RDONLY);
  ASSERT_EQ(::dup2(file, STDIN_FILENO), STDIN_FILENO);
  LineReader reader = LineReader::standard_input();
  std::string line;
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(line, "one");
  EXPECT_TRUE(reader.next(line));
  EXPECT_EQ(line, "two");
  EXPECT_FALSE(reader.next(line));
  EXPECT_EQ(reader.path(), "stdin");
  ::dup2(before, STDIN_FILENO);
  ::close(before);
  ::close(file);
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
  // Neither a mark nor the CR counts.
  LineReader marked(file_with(folder, "b",
                              "\xEF\xBB\xBF"
                              "12345678\r\n123456789"),
                    8);
  ASSERT_TRUE(marked.next(line));
  EXPECT_FALSE(marked.too_long());
  EXPECT_EQ(line, "12345678");
  ASSERT_TRUE(marked.next(line));
  EXPECT_TRUE(marked.too_long());
  EXPECT_EQ(line, "12345678");
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

// Where every line of a text begins, and what is left when lines before a byte are skipped.
TEST(Lines, SkippingLeavesTheLinesThatBeginAtAByteOrLater) {
  const TempFolder folder;
  std::string text = "\xEF\xBB\xBFone\r\n\n";
  for (int i = 0; i < 9000; ++i) text += std::string(static_cast<size_t>(i % 37), 'x') + "\n";
  for (const bool has_end : {true, false}) {
    if (!has_end) text += "the last";
    const std::string paths[] = {file_with(folder, "plain", text),
                                 gzip_with(folder, "packed.gz", text)};
    std::vector<std::pair<int64_t, int64_t>> lines;  // the byte at which each begins, its number
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      lines.emplace_back(static_cast<int64_t>(at), std::ssize(lines) + 1);
      if (text.find('\n', at) == std::string::npos) break;
    }
    const auto size = std::ssize(text);
    std::vector<int64_t> bytes = {0, 1, 7, 8, 9, 10, 65535, 65536, 65537, size - 1, size, size + 5};
    for (int64_t byte = 11; byte < size; byte += 4999) bytes.push_back(byte);
    for (const std::string& path : paths) {
      EXPECT_EQ(text_bytes(path), size);
      for (const int64_t byte : bytes) {
        LineReader reader(path);
        reader.skip_to(byte);
        const auto first =
            std::find_if(lines.begin(), lines.end(), [&](auto line) { return line.first >= byte; });
        std::string line;
        if (first == lines.end()) {
          EXPECT_EQ(reader.number(), std::ssize(lines)) << byte;
          EXPECT_EQ(reader.offset(), size) << byte;
          EXPECT_FALSE(reader.next(line)) << byte;
          continue;
        }
        EXPECT_EQ(reader.offset(), first->first) << byte;
        EXPECT_EQ(reader.number(), first->second - 1) << byte;
        ASSERT_TRUE(reader.next(line)) << byte;
        EXPECT_EQ(reader.number(), first->second) << byte;
        const size_t end = text.find('\n', static_cast<size_t>(first->first));
        EXPECT_EQ(reader.offset(), end == std::string::npos ? size : static_cast<int64_t>(end) + 1);
        // And from the middle of a text.
        reader.skip_to(reader.offset() + 100);
        EXPECT_TRUE(reader.number() > first->second || !reader.next(line)) << byte;
      }
    }
  }
}

TEST(Lines, OnlyAFileHasASize) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(text_bytes(pipe), Error);
  EXPECT_THROW(text_bytes(folder / "nothing"), Error);
  EXPECT_EQ(text_bytes(file_with(folder, "empty", "")), 0);
  EXPECT_EQ(text_bytes(gzip_with(folder, "empty.gz", "")), 0);
}

}  // namespace
}  // namespace tril::lines_test
