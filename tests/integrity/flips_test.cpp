// Every byte of every file of a small model with a random bit flipped: found, with the file named,
// and the tensor where the byte is part of one. TRIL_EVERY_BYTE=1 takes every byte (minutes);
// without it some hundreds of each file are drawn.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "small_model.h"
#include "support/models.h"
#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"
#include "tril/train/checkpoint.h"

namespace tril::flips_test {
namespace {

using testing::raised_by;

class Flips : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TempFolder;
    testing::make_small_model(folder_->path());
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }

  static std::string path(const std::string& name) { return *folder_ / name; }

  // Flips a bit in each byte of the file (or of some, drawn), calls `load`, and puts it back.
  void flip(const std::string& name, const std::function<void()>& load) {
    ASSERT_NO_THROW(load()) << name;
    const std::string file = path(name);
    const auto size = static_cast<int64_t>(std::filesystem::file_size(file));
    ASSERT_LE(size, 1 << 20);
    const bool every = std::getenv("TRIL_EVERY_BYTE") != nullptr;
    const int64_t step = every ? 1 : std::max<int64_t>(1, size / 300);
    const int descriptor = ::open(file.c_str(), O_RDWR);
    ASSERT_GE(descriptor, 0);
    Random random(static_cast<uint64_t>(size));
    int64_t tried = 0, found = 0;
    for (int64_t at = random.below(static_cast<uint32_t>(step)); at < size; at += step) {
      unsigned char byte = 0;
      ASSERT_EQ(::pread(descriptor, &byte, 1, at), 1);
      const auto flipped = static_cast<unsigned char>(byte ^ (1u << random.below(8)));
      ASSERT_EQ(::pwrite(descriptor, &flipped, 1, at), 1);
      const auto raised = raised_by(load);
      ASSERT_EQ(::pwrite(descriptor, &byte, 1, at), 1);
      ++tried;
      found += raised.text.find(file) != std::string::npos ? 1 : 0;
      EXPECT_NE(raised.text.find(file), std::string::npos)
          << "byte " << at << " of " << size << ": '" << raised.text << "'";
      const std::string tensor = tensor_at(name, at);
      if (!tensor.empty()) {
        EXPECT_NE(raised.text.find("tensor '" + tensor + "'"), std::string::npos) << raised.text;
      }
    }
    ::close(descriptor);
    EXPECT_GE(tried, every ? size : std::min<int64_t>(size, 290));
    EXPECT_EQ(found, tried);
    RecordProperty(name, std::to_string(tried));
    std::printf("%s: %lld bytes, %lld flips, %lld found\n", name.c_str(),
                static_cast<long long>(size), static_cast<long long>(tried),
                static_cast<long long>(found));
    ASSERT_NO_THROW(load()) << name;
  }

  // The loaders for inference and for study read the files each in their own way.
  void flip_for_each_purpose(const std::string& name) {
    for (const Purpose purpose : {Purpose::inference, Purpose::study}) {
      flip(name, [&] { Translator::load(path("model"), {.purpose = purpose}, 1); });
    }
  }

  // The tensor that a byte belongs to, by the header; empty: none, or not a file of tensors.
  std::string tensor_at(const std::string& name, int64_t at) {
    if (!name.ends_with(".safetensors")) return "";
    if (name != mapped_name_) {
      mapped_name_ = name;
      arena_.reset();
      tensors_ = load_safetensors(path(name), arena_);
      bytes_ = read_file(path(name), 1 << 20);
      uint64_t length = 0;
      std::memcpy(&length, bytes_.data(), sizeof length);
      data_begin_ = 8 + static_cast<int64_t>(length);
      header_ = bytes_.substr(8, length);
    }
    for (const NamedTensor& each : tensors_) {
      // By the offsets the header gives: data_offsets":[begin,end] after the name.
      const size_t entry = header_.find("\"" + each.name + "\":{\"dtype\"");
      const std::string_view key = "\"data_offsets\":[";
      const char* text = header_.c_str() + header_.find(key, entry) + key.size();
      char* after = nullptr;
      const int64_t begin = std::strtoll(text, &after, 10);
      const int64_t end = std::strtoll(after + 1, nullptr, 10);
      if (at >= data_begin_ + begin && at < data_begin_ + end) return each.name;
    }
    return "";
  }

  static testing::TempFolder* folder_;
  std::string mapped_name_, bytes_, header_;
  int64_t data_begin_ = 0;
  Arena arena_;
  std::vector<NamedTensor> tensors_;
};
testing::TempFolder* Flips::folder_ = nullptr;

TEST_F(Flips, TheModelIsSmall) {
  EXPECT_LE(std::filesystem::file_size(path("model/model.safetensors")), 65536u);
}

TEST_F(Flips, Weights) { flip_for_each_purpose("model/model.safetensors"); }

TEST_F(Flips, Configuration) { flip_for_each_purpose("model/config.json"); }

TEST_F(Flips, TokenizerFile) { flip_for_each_purpose("model/tokenizer.model"); }

TEST_F(Flips, ShortlistFile) {
  flip("model/shortlist.safetensors", [] { Shortlist::load(path("model")); });
}

TEST_F(Flips, Packed) {
  for (const Compute compute : testing::all_forms()) {
    const std::string form(word_for(compute));
    const auto load = [&] { Translator::load(path(form), {}, 1); };
    flip(form + "/packed." + form + ".safetensors", load);
    flip(form + "/config.json", load);
    flip(form + "/tokenizer.model", load);
  }
}

TEST_F(Flips, Checkpoint) {
  const std::string file = path("model/training/checkpoint.safetensors");
  flip("model/training/checkpoint.safetensors", [&] {
    // As resuming does, which takes too long to do for every byte.
    load_state(file);
    Arena arena;
    load_safetensors(file, arena);
  });
}

}  // namespace
}  // namespace tril::flips_test
