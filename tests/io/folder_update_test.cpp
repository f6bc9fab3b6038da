#include "tril/io/folder_update.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "io_support.h"

namespace tril::folder_update_test {
namespace {

using testing::error_of;
using testing::TempFolder;
using Names = std::set<std::string>;
constexpr int64_t kAny = int64_t{1} << 30;

std::string contents(const std::string& path) { return read_file(path, kAny); }

TEST(FolderUpdate, MakesTheFolderAndItsFiles) {
  const TempFolder folder;
  FolderUpdate update(folder / "a/b", "key");
  update.replace("key").write("k");
  update.replace("one").write("1");
  EXPECT_FALSE(file_exists(folder / "a/b/key"));
  update.commit();
  EXPECT_EQ(contents(folder / "a/b/key"), "k");
  EXPECT_EQ(contents(folder / "a/b/one"), "1");
}

TEST(FolderUpdate, WithoutCommitNothingHappened) {
  const TempFolder folder;
  write_file_atomically(folder / "key", "old");
  {
    FolderUpdate update(folder.path(), "key");
    update.replace("key").write("new");
    update.replace("one").write("new");
    update.remove("key");
  }
  EXPECT_EQ(folder.names(), Names{"key"});
  EXPECT_EQ(contents(folder / "key"), "old");
}

TEST(FolderUpdate, OneFileIsReplacedWithTheKeystoneInPlace) {
  const TempFolder folder;
  write_file_atomically(folder / "key", "k");
  write_file_atomically(folder / "one", "old");
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat((folder / "key").c_str(), &before), 0);
  FolderUpdate update(folder.path(), "key");
  update.replace("one").write("new");
  update.remove("not there");
  update.commit();
  ASSERT_EQ(::stat((folder / "key").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(contents(folder / "one"), "new");
}

TEST(FolderUpdate, SeveralFilesNeedTheirKeystone) {
  const TempFolder folder;
  write_file_atomically(folder / "key", "k");
  FolderUpdate update(folder.path(), "key");
  update.replace("one").write("1");
  update.replace("two").write("2");
  EXPECT_NE(error_of([&] { update.commit(); }).find("without key"), std::string::npos);
  EXPECT_EQ(contents(folder / "key"), "k");
}

TEST(FolderUpdate, LinksAreReplacedAndNotFollowed) {
  const TempFolder folder;
  write_file_atomically(folder / "theirs", "theirs");
  std::filesystem::create_directory(folder / "ours");
  std::filesystem::create_symlink("../theirs", folder / "ours/one");
  FolderUpdate update(folder / "ours", "key");
  update.replace("one").write("ours");
  update.replace("key").write("k");
  update.commit();
  EXPECT_EQ(contents(folder / "theirs"), "theirs");
  EXPECT_EQ(contents(folder / "ours/one"), "ours");
}

// What a reader may find: the keystone with the files of its own generation, or no keystone.
bool is_one_generation(const TempFolder& folder) {
  if (!file_exists(folder / "key")) return true;
  const std::string key = contents(folder / "key");
  const bool third = file_exists(folder / "three");
  return contents(folder / "one") == key && contents(folder / "two") == key &&
         third == (key == "old");
}

// A failure in the middle mixes no two generations: here a file cannot be removed or renamed
// because a folder is in the way.
TEST(FolderUpdate, AFailureOnTheWayMixesNothing) {
  for (const std::string blocked : {"one", "two", "three", "key"}) {
    const TempFolder folder;
    for (const char* name : {"key", "one", "two", "three"}) {
      write_file_atomically(folder / name, "old");
    }
    FolderUpdate update(folder.path(), "key");
    for (const char* name : {"one", "key", "two"}) update.replace(name).write("new");
    update.remove("three");
    std::filesystem::remove(folder / blocked);
    std::filesystem::create_directories(folder / (blocked + "/in_the_way"));
    EXPECT_THROW(update.commit(), Error) << blocked;
    std::filesystem::remove_all(folder / blocked);
    write_file_atomically(folder / blocked, "whatever");
    // Before the first file has taken its name the old keystone comes back.
    if (blocked == "one") {
      EXPECT_EQ(contents(folder / "key"), "old");
      EXPECT_EQ(contents(folder / "two"), "old");
    } else if (blocked != "key") {
      EXPECT_FALSE(file_exists(folder / "key")) << blocked;
    }
  }
}

// A child that changes the folder to and fro is killed at whatever moment it is.
TEST(FolderUpdate, AReaderNeverFindsTwoGenerations) {
  const TempFolder folder;
  const auto write_all = [&](const std::string& text, bool third) {
    FolderUpdate update(folder.path(), "key");
    for (const char* name : {"key", "one", "two"}) update.replace(name).write(text);
    if (third) {
      update.replace("three").write(text);
    } else {
      update.remove("three");
    }
    update.commit();
  };
  write_all("old", true);
  for (int round = 0; round < 50; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; ++i) write_all(i % 2 == 0 ? "new" : "old", i % 2 == 1);
    }
    ::usleep(static_cast<useconds_t>(500 + 137 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(is_one_generation(folder)) << round;
  }
}

}  // namespace
}  // namespace tril::folder_update_test
