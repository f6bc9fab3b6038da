#include "tril/io/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <vector>

#include "io_support.h"

namespace tril::atomic_file_test {
namespace {

using testing::error_of;
using testing::TempFolder;
using Names = std::set<std::string>;
constexpr int64_t kAny = int64_t{1} << 30;

// While it lives no file of this process can grow past `bytes`: a full disk on demand.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit old_{};
};

TEST(ReadFile, ReadsEveryByte) {
  const TempFolder folder;
  for (const size_t size : {0, 1, 65535, 65536, 65537, 200000}) {
    std::string contents(size, '\0');
    for (size_t i = 0; i < size; ++i) contents[i] = static_cast<char>(i * 7 + i / 256);
    write_file_atomically(folder / "f", contents);
    EXPECT_EQ(read_file(folder / "f", kAny), contents) << size;
    EXPECT_EQ(read_file(folder / "f", static_cast<int64_t>(size)), contents) << size;
  }
}

TEST(ReadFile, ReadsWhatHasNoSize) {
  EXPECT_EQ(read_file("/dev/null", 10), "");
  EXPECT_FALSE(read_file("/proc/self/status", kAny).empty());
}

TEST(ReadFile, StopsAtTheLimit) {
  const TempFolder folder;
  write_file_atomically(folder / "f", "12345");
  EXPECT_EQ(error_of([&] { read_file(folder / "f", 4); }),
            "input/output: " + (folder / "f") + ": holds more than the 4 bytes allowed");
  EXPECT_EQ(error_of([] { read_file("/dev/zero", 1000); }),
            "input/output: /dev/zero: holds more than the 1000 bytes allowed");
}

TEST(ReadFile, NamesThePathAndTheReason) {
  const TempFolder folder;
  EXPECT_EQ(error_of([&] { read_file(folder / "none", kAny); }),
            "input/output: " + (folder / "none") + ": cannot open: No such file or directory");
  EXPECT_EQ(error_of([&] { read_file(folder / "", kAny); }),
            "input/output: " + (folder / "") + ": cannot read: Is a directory");
  EXPECT_EQ(error_of([&] { read_file(std::string("/dev/null\0x", 11), kAny); }),
            "input/output: /dev/null: a path may not hold a NUL byte");
}

TEST(AtomicFile, ReplacesOnCommitOnly) {
  const TempFolder folder;
  write_file_atomically(folder / "f", "old");
  {
    AtomicFile file(folder / "f");
    file.write("n");
    file.write("ew");
    EXPECT_EQ(read_file(folder / "f", kAny), "old");
    EXPECT_EQ(folder.names().size(), 2u);
    file.commit();
    EXPECT_EQ(read_file(folder / "f", kAny), "new");
    EXPECT_EQ(folder.names(), Names{"f"});
    EXPECT_EQ(error_of([&] { file.write("x"); }),
              "input/output: " + (folder / "f") + ": written to after it was finished or failed");
    EXPECT_EQ(error_of([&] { file.commit(); }),
              "input/output: " + (folder / "f") + ": finished after it was finished or failed");
  }
  EXPECT_EQ(read_file(folder / "f", kAny), "new");
}

TEST(AtomicFile, WithoutCommitNothingHappened) {
  const TempFolder folder;
  write_file_atomically(folder / "old", "old");
  {
    AtomicFile replacing(folder / "old");
    replacing.write("half");
    AtomicFile fresh(folder / "fresh");
    fresh.write("half");
  }
  EXPECT_EQ(folder.names(), Names{"old"});
  EXPECT_EQ(read_file(folder / "old", kAny), "old");
}

TEST(AtomicFile, AFullDiskLeavesTheOldFileWhole) {
  const TempFolder folder;
  write_file_atomically(folder / "f", "old");
  const std::string large(100000, 'x');
  std::string text;
  {
    const FileSizeLimit limit(65536);
    text = error_of([&] { write_file_atomically(folder / "f", large); });
    AtomicFile file(folder / "f");
    EXPECT_THROW(file.write(large), Error);
    EXPECT_EQ(folder.names(), Names{"f"});  // gone at once, not with the object
    // A failed file cannot be finished, even though there is room for this.
    EXPECT_THROW(file.write("x"), Error);
    EXPECT_THROW(file.commit(), Error);
  }
  EXPECT_EQ(text, "input/output: " + (folder / "f") + ": cannot write: File too large");
  EXPECT_EQ(read_file(folder / "f", kAny), "old");
  EXPECT_EQ(folder.names(), Names{"f"});
  write_file_atomically(folder / "f", large);
  EXPECT_EQ(read_file(folder / "f", kAny), large);
}

TEST(AtomicFile, NamesThePathWhereNothingCanBeCreated) {
  const TempFolder folder;
  EXPECT_EQ(error_of([&] { AtomicFile file(folder / "none/f"); }),
            "input/output: " + (folder / "none/f") +
                ": cannot create a file beside it: No such file or directory");
}

TEST(AtomicFile, ReplacesNothingButRegularFiles) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "d");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"d", "pipe"}) {
    EXPECT_EQ(error_of([&] { AtomicFile file(folder / name); }),
              "input/output: " + (folder / name) + ": cannot be written: it is no regular file");
  }
  EXPECT_EQ(folder.names(), (Names{"d", "pipe"}));
}

TEST(AtomicFile, AFailedRenameLeavesNothingBehind) {
  const TempFolder folder;
  AtomicFile file(folder / "f");
  file.write("x");
  std::filesystem::create_directories(folder / "f/in_the_way");
  const std::string text = error_of([&] { file.commit(); });
  EXPECT_EQ(text.find("input/output: " + (folder / "f") + ": cannot rename a file to it: "), 0u)
      << text;
  EXPECT_EQ(folder.names(), Names{"f"});
}

TEST(AtomicFile, KeepsPermissionsAndFollowsLinks) {
  const TempFolder folder;
  write_file_atomically(folder / "f", "old");
  ASSERT_EQ(::chmod((folder / "f").c_str(), 0640), 0);
  std::filesystem::create_symlink("f", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "f", kAny), "new");
  struct stat status;
  ASSERT_EQ(::stat((folder / "f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST(AtomicFile, AFreshFileGetsThePermissionsOfTheProcess) {
  const TempFolder folder;
  const mode_t old = ::umask(027);
  write_file_atomically(folder / "f", "x");
  ::umask(old);
  struct stat status;
  ASSERT_EQ(::stat((folder / "f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

TEST(AtomicFile, WorksInTheCurrentFolder) {
  const TempFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder / "");
  write_file_atomically("f", "x");
  std::filesystem::current_path(before);
  EXPECT_EQ(read_file(folder / "f", kAny), "x");
}

TEST(AtomicFile, OfManyWritersOneWinsWhole) {
  const TempFolder folder;
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) {
    writers.emplace_back([&folder, i] {
      for (int round = 0; round < 10; ++round) {
        write_file_atomically(folder / "f", std::string(5000, static_cast<char>('a' + i)));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string contents = read_file(folder / "f", kAny);
  ASSERT_EQ(contents.size(), 5000u);
  EXPECT_EQ(contents, std::string(5000, contents[0]));
  EXPECT_EQ(folder.names(), Names{"f"});
}

// A process that is killed while it writes leaves its temporary file; a file that is being written
// is locked, which distinguishes the two, whatever number the process has.
TEST(AtomicFile, WhatDeadProcessesLeftIsRemovedAndNothingElse) {
  const TempFolder folder;
  const pid_t dead = ::fork();
  if (dead == 0) {
    AtomicFile left(folder / "model.bin");
    left.write("half");
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(dead, nullptr, 0);
  ASSERT_EQ(folder.names().size(), 1u);
  AtomicFile ours(folder / "other.bin");
  const std::string same_number = "model.bin." + std::to_string(::getpid()) + ".999.tmp";
  for (const std::string& name : {same_number, std::string("model.bin"), std::string("x.tmp"),
                                  std::string("a.0.0.tmp"), std::string("a.99999999999.0.tmp")}) {
    write_file_atomically(folder / name, "x");
  }
  remove_abandoned(folder.path());
  Names left = folder.names();
  EXPECT_EQ(std::erase_if(left, [](const std::string& n) { return n.starts_with("other.bin."); }),
            1u);
  EXPECT_EQ(left, (Names{"model.bin", "x.tmp", "a.0.0.tmp", "a.99999999999.0.tmp"}));
  ours.commit();
  remove_abandoned(folder / "nowhere");
}

TEST(AtomicFile, TheNextWriterOfAFileRemovesWhatWasLeftOfIt) {
  const TempFolder folder;
  const pid_t dead = ::fork();
  if (dead == 0) {
    AtomicFile one(folder / "f");
    AtomicFile two(folder / "g");
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(dead, nullptr, 0);
  ASSERT_EQ(folder.names().size(), 2u);
  write_file_atomically(folder / "f", "x");
  EXPECT_EQ(folder.names().size(), 2u);  // f, and what was left of g
  write_file_atomically(folder / "g", "x");
  EXPECT_EQ(folder.names(), (Names{"f", "g"}));
}

TEST(AtomicFile, ReplacesALinkWhereItIsTold) {
  const TempFolder folder;
  write_file_atomically(folder / "theirs", "old");
  std::filesystem::create_symlink("theirs", folder / "link");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  for (const char* name : {"link", "dangling"}) {
    AtomicFile file(folder / name, Links::replace);
    file.write("new");
    file.commit();
    EXPECT_FALSE(std::filesystem::is_symlink(folder / name));
    EXPECT_EQ(read_file(folder / name, kAny), "new");
  }
  EXPECT_EQ(read_file(folder / "theirs", kAny), "old");
}

TEST(AtomicFile, WritesOverWhatItWroteBefore) {
  const TempFolder folder;
  AtomicFile file(folder / "f");
  file.write("0123456789");
  file.rewrite(2, "ab");
  file.write("end");
  file.commit();
  EXPECT_EQ(read_file(folder / "f", kAny), "01ab456789end");
}

}  // namespace
}  // namespace tril::atomic_file_test
