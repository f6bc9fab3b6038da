// Files that belong to other models, folders that change from one model to another, sealing.
#include <gtest/gtest.h>

#include <filesystem>

#include "small_model.h"
#include "support/models.h"
#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/io/atomic_file.h"
#include "tril/io/safetensors.h"

namespace tril::folders_test {
namespace {

namespace fs = std::filesystem;
using testing::raised_by;
using testing::translated;

std::string contents(const std::string& path) { return read_file(path, 1 << 28); }

std::map<FileState, int> states_of(const std::string& folder) {
  std::map<FileState, int> count;
  for (const VerifiedFile& file : verify_folder(folder)) ++count[file.state];
  return count;
}

// Three models: one, one of another seed with the same text and so the same tokenizer, and one of
// another text, whose tokenizer and weights have the same sizes.
class Folders : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    made_ = new testing::TempFolder;
    testing::make_small_model(*made_ / "one", 1);
    testing::make_small_model(*made_ / "seed", 2);
    testing::make_small_model(*made_ / "text", 1, true);
  }
  static void TearDownTestSuite() {
    delete made_;
    made_ = nullptr;
  }
  void SetUp() override {
    for (const char* name : {"one", "seed", "text"}) {
      fs::copy(*made_ / name, folder_ / name, fs::copy_options::recursive);
    }
  }
  void swap(const std::string& a, const std::string& b) {
    fs::rename(folder_ / a, folder_ / "swapped");
    fs::rename(folder_ / b, folder_ / a);
    fs::rename(folder_ / "swapped", folder_ / b);
  }
  std::string load_error(const std::string& folder) {
    return raised_by([&] { Translator::load(folder_ / folder, {}, 1); }).text;
  }

  static testing::TempFolder* made_;
  const testing::TempFolder folder_;
};
testing::TempFolder* Folders::made_ = nullptr;

TEST_F(Folders, TheirFilesHaveEqualShapes) {
  EXPECT_EQ(fs::file_size(folder_ / "one/model/model.safetensors"),
            fs::file_size(folder_ / "text/model/model.safetensors"));
  EXPECT_EQ(contents(folder_ / "one/model/config.json"),
            contents(folder_ / "text/model/config.json"));
  EXPECT_NE(contents(folder_ / "one/model/tokenizer.model"),
            contents(folder_ / "text/model/tokenizer.model"));
}

TEST_F(Folders, AllFilesAreSound) {
  for (const char* name : {"one/model", "text/model", "one/fp32"}) {
    for (const VerifiedFile& file : verify_folder(folder_ / name)) {
      EXPECT_EQ(file.state, FileState::sound) << file.path << ": " << file.detail;
    }
  }
  // model.safetensors, config.json, tokenizer.model, shortlist; the first three again in last/; the
  // checkpoint.
  EXPECT_EQ(verify_folder(folder_ / "one/model").size(), 8u);
}

TEST_F(Folders, SwappedTokenizersAreFound) {
  swap("one/model/tokenizer.model", "text/model/tokenizer.model");
  for (const char* name : {"one/model", "text/model"}) {
    EXPECT_NE(load_error(name).find("tokenizer.model: damaged, or not of this model"),
              std::string::npos);
    EXPECT_EQ(states_of(folder_ / name)[FileState::damaged], 1);
  }
}

TEST_F(Folders, SwappedWeightsAreFound) {
  swap("one/model/model.safetensors", "text/model/model.safetensors");
  EXPECT_NE(load_error("one/model").find("not of this model"), std::string::npos);
  EXPECT_NE(load_error("text/model").find("not of this model"), std::string::npos);
}

TEST_F(Folders, SwappedPackedWeightsAloneAreFound) {
  for (const Compute compute : testing::all_forms()) {
    const std::string form(word_for(compute));
    const std::string file = "/packed." + form + ".safetensors";
    swap("one/" + form + file, "text/" + form + file);
    EXPECT_NE(load_error("one/" + form).find("not of this model"), std::string::npos) << form;
    EXPECT_NE(load_error("text/" + form).find("not of this model"), std::string::npos) << form;
  }
}

// Two models with one text share their tokenizer and configuration: with the other's weights a
// folder is the other model, whole, and its packed weights are known not to be its own.
TEST_F(Folders, PackedWeightsOfAnotherSeedAreNotUsed) {
  Transformer::save_packed(folder_ / "one/model", folder_ / "one/model", Compute::int8);
  swap("one/model/model.safetensors", "seed/model/model.safetensors");
  std::vector<std::string> heard;
  Translator::load(
      folder_ / "one/model",
      {.compute = Compute::int8, .notice = [&](const Notice& n) { heard.push_back(n.text); }}, 1);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_NE(heard[0].find("made from other weights"), std::string::npos) << heard[0];
  EXPECT_EQ(states_of(folder_ / "one/model")[FileState::stale], 1);
}

TEST_F(Folders, ASwappedShortlistIsFound) {
  swap("one/model/shortlist.safetensors", "text/model/shortlist.safetensors");
  EXPECT_NE(raised_by([&] {
              translated(folder_ / "one/model", true);
            }).text.find("made with another tokenizer"),
            std::string::npos);
  EXPECT_EQ(states_of(folder_ / "one/model")[FileState::stale], 1);
}

TEST_F(Folders, AMissingFileIsFound) {
  fs::remove(folder_ / "one/model/tokenizer.model");
  EXPECT_EQ(states_of(folder_ / "one/model")[FileState::damaged], 1);
  fs::remove(folder_ / "text/fp32/config.json");
  EXPECT_EQ(states_of(folder_ / "text/fp32")[FileState::incomplete], 1);
  fs::remove(folder_ / "text/model/config.json");
  auto states = states_of(folder_ / "text/model");
  EXPECT_EQ(states[FileState::incomplete], 1);
  EXPECT_EQ(states[FileState::damaged], 0);
  std::string bytes = contents(folder_ / "text/model/model.safetensors");
  bytes.back() ^= 1;
  write_file_atomically(folder_ / "text/model/model.safetensors", bytes);
  EXPECT_EQ(states_of(folder_ / "text/model")[FileState::damaged], 1);
}

TEST_F(Folders, AFileThatCannotBeReadDoesNotEndTheVerifying) {
  fs::remove(folder_ / "one/model/tokenizer.model");
  fs::create_symlink("nowhere", folder_ / "one/model/tokenizer.model");
  auto states = states_of(folder_ / "one/model");
  EXPECT_GE(states[FileState::damaged], 1);
  EXPECT_GE(states[FileState::sound], 5);
}

// bf16 and bf16-dot have tensors of equal names, shapes and types.
TEST_F(Folders, PackedWeightsOfAnotherFormAreFound) {
  const std::vector<Compute> forms = testing::all_forms();
  if (std::find(forms.begin(), forms.end(), Compute::bf16_dot) == forms.end()) {
    GTEST_SKIP() << "this processor has no bf16-dot";
  }
  const std::string dot = folder_ / "one/bf16-dot/packed.bf16-dot.safetensors";
  const std::string bf16 = folder_ / "one/bf16/packed.bf16.safetensors";
  fs::copy_file(bf16, dot, fs::copy_options::overwrite_existing);
  EXPECT_NE(load_error("one/bf16-dot").find("holds weights packed in bf16, not in bf16-dot"),
            std::string::npos);
  EXPECT_EQ(states_of(folder_ / "one/bf16-dot")[FileState::damaged], 1);
}

// Packing into a folder of another model with the same configuration used to replace its tokenizer.
TEST_F(Folders, PackingNeverHarmsAnotherModel) {
  const auto pack = [&](const std::string& to, Overwrite overwrite = Overwrite::no) {
    return raised_by([&] {
             Transformer::save_packed(folder_ / "one/model", folder_ / to, Compute::int8,
                                      overwrite);
           })
        .text;
  };
  const std::string before = translated(folder_ / "text/model");
  const std::string tokenizer = contents(folder_ / "text/model/tokenizer.model");
  for (const Overwrite overwrite : {Overwrite::no, Overwrite::yes}) {
    EXPECT_NE(pack("text/model", overwrite).find("weights of another model"), std::string::npos);
  }
  EXPECT_EQ(contents(folder_ / "text/model/tokenizer.model"), tokenizer);
  EXPECT_EQ(translated(folder_ / "text/model"), before);
  EXPECT_FALSE(fs::exists(folder_ / "text/model/packed.int8.safetensors"));

  // Packed weights of another model are replaced only on request, and then all of them.
  Transformer::save_packed(folder_ / "text/model", folder_ / "packed", Compute::bf16);
  const std::string packed = translated(folder_ / "packed");
  EXPECT_NE(pack("packed").find("holds another model"), std::string::npos);
  EXPECT_EQ(translated(folder_ / "packed"), packed);
  Transformer::save_packed(folder_ / "one/model", folder_ / "packed", Compute::int8,
                           Overwrite::yes);
  EXPECT_EQ(translated(folder_ / "packed"), translated(folder_ / "one/int8"));
  EXPECT_FALSE(fs::exists(folder_ / "packed/packed.bf16.safetensors"));
  EXPECT_EQ(states_of(folder_ / "packed"), (std::map<FileState, int>{{FileState::sound, 4}}));
}

TEST_F(Folders, PackingAgainAndInAnotherFormKeepsTheFolder) {
  Transformer::save_packed(folder_ / "one/model", folder_ / "p", Compute::int8);
  Transformer::save_packed(folder_ / "one/model", folder_ / "p", Compute::int8);
  Transformer::save_packed(folder_ / "one/model", folder_ / "p", Compute::bf16);
  EXPECT_EQ(states_of(folder_ / "p"), (std::map<FileState, int>{{FileState::sound, 5}}));
}

TEST_F(Folders, PackingReplacesLinksAndDoesNotFollowThem) {
  fs::create_directory(folder_ / "p");
  fs::create_symlink(folder_ / "text/model/tokenizer.model", folder_ / "p/tokenizer.model");
  const std::string theirs = contents(folder_ / "text/model/tokenizer.model");
  Transformer::save_packed(folder_ / "one/model", folder_ / "p", Compute::int8, Overwrite::yes);
  EXPECT_EQ(contents(folder_ / "text/model/tokenizer.model"), theirs);
  EXPECT_EQ(translated(folder_ / "p"), translated(folder_ / "one/int8"));
}

TEST_F(Folders, WeightsThatAreNotFiniteAreNotPacked) {
  Transformer model = Transformer::load(folder_ / "one/model", {.purpose = Purpose::training});
  const auto parameter = model.writable_parameters()[2];
  parameter.tensor.data()[3] = std::nanf("");
  model.save(folder_ / "nan");
  const auto raised =
      raised_by([&] { Transformer::save_packed(folder_ / "nan", folder_ / "nan", Compute::int8); });
  EXPECT_NE(raised.text.find("tensor '" + parameter.name + "' holds numbers that are not finite"),
            std::string::npos)
      << raised.text;
}

// As another program, or an older tril, writes them: without the seal's metadata.
void unseal(const std::string& file) {
  const std::string bytes = contents(file);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::string header = bytes.substr(8, length);
  for (const std::string key : {"\"tril_checksums\":\"", "\"tril_seal\":\""}) {
    const size_t at = header.find(key);
    ASSERT_NE(at, std::string::npos) << file;
    const size_t end = header.find('"', at + key.size()) + 1;
    const bool first = header[at - 1] == '{';
    header.erase(first ? at : at - 1, end - at + 1);
  }
  const size_t empty = header.find("\"__metadata__\":{},");
  if (empty != std::string::npos) header.erase(empty, 18);
  header.resize((8 + header.size() + 63) / 64 * 64 - 8, ' ');
  const uint64_t size = header.size();
  write_file_atomically(file, std::string(reinterpret_cast<const char*>(&size), 8) + header +
                                  bytes.substr(8 + length));
}

TEST_F(Folders, AnUnsealedFolderSaysSoOnceAndCanBeSealed) {
  const std::string model = folder_ / "one/model";
  const std::string before = translated(model);
  for (const char* file : {"model.safetensors", "shortlist.safetensors",
                           "training/checkpoint.safetensors", "last/model.safetensors"}) {
    unseal(model + "/" + file);
  }
  std::vector<std::string> heard;
  const LoadOptions options{.notice = [&](const Notice& n) { heard.push_back(n.text); }};
  Translator::load(model, options, 1);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_NE(heard[0].find("not sealed"), std::string::npos);
  EXPECT_EQ(translated(model), before);
  EXPECT_EQ(states_of(model), (std::map<FileState, int>{{FileState::unsealed, 8}}));

  EXPECT_EQ(seal_folder(model).size(), 4u);
  EXPECT_EQ(states_of(model), (std::map<FileState, int>{{FileState::sound, 8}}));
  EXPECT_EQ(translated(model), before);
  EXPECT_TRUE(seal_folder(model).empty());
  heard.clear();
  Translator::load(model, options, 1);
  EXPECT_TRUE(heard.empty());
}

TEST_F(Folders, AFileThatWasChangedOnPurposeIsSealedAgain) {
  const std::string model = folder_ / "one/model";
  Transformer::save_packed(model, model, Compute::int8);
  std::string config = contents(model + "/config.json");
  const std::string from = "\"max_length\": 32";
  config.replace(config.find(from), from.size(), "\"max_length\": 48");
  write_file_atomically(model + "/config.json", config);
  EXPECT_NE(load_error("one/model").find("config.json: damaged, or not of this model"),
            std::string::npos);
  EXPECT_EQ(seal_folder(model).size(), 2u);  // the weights and the packed weights made from them
  EXPECT_NO_THROW(Translator::load(model, {}, 1));
  for (const VerifiedFile& file : verify_model(model)) {
    EXPECT_EQ(file.state, FileState::sound) << file.path << ": " << file.detail;
  }
}

TEST_F(Folders, DamageIsNeverSealed) {
  const std::string file = folder_ / "one/model/model.safetensors";
  std::string bytes = contents(file);
  bytes.back() ^= 1;
  write_file_atomically(file, bytes);
  EXPECT_NE(raised_by([&] { seal_folder(folder_ / "one/model"); }).text.find("damaged"),
            std::string::npos);
  EXPECT_EQ(contents(file), bytes);
}

// A seal that loses one of its two entries to a flipped bit in its name is not taken for none.
TEST_F(Folders, HalfASealIsDamage) {
  const std::string file = folder_ / "one/model/model.safetensors";
  const std::string bytes = contents(file);
  for (const std::string key : {"tril_checksums", "tril_seal"}) {
    std::string changed = bytes;
    changed[changed.find(key) + 3] ^= 1;
    write_file_atomically(file, changed);
    EXPECT_NE(load_error("one/model").find("its header does not match"), std::string::npos) << key;
  }
}

// The file of the weights may be trusted, or read instead of mapped.
TEST_F(Folders, PackedWeightsMayBeTrustedOrReadInsteadOfMapped) {
  const std::string file = folder_ / "one/int8/packed.int8.safetensors";
  const std::string before = translated(folder_ / "one/int8");
  const Translator copied = Translator::load(folder_ / "one/int8", {.map = false}, 1);
  std::string bytes = contents(file);
  bytes.back() ^= 1;
  write_file_atomically(file, bytes);
  EXPECT_NE(load_error("one/int8").find("does not match its checksum"), std::string::npos);
  EXPECT_NO_THROW(Translator::load(folder_ / "one/int8", {.trust = true}, 1));
  EXPECT_NE(raised_by([&] {
              Translator::load(folder_ / "one/int8", {.map = false}, 1);
            }).text.find("does not match its checksum"),
            std::string::npos);
}

// Saving another model into a folder leaves no file of the first that would be taken for its own.
TEST_F(Folders, ANewModelInAnOldFolderIsWhole) {
  const std::string folder = folder_ / "one/model";
  const Transformer other = Transformer::load(folder_ / "text/model", {.purpose = Purpose::study});
  const std::string tokenizer = contents(folder_ / "text/model/tokenizer.model");
  Transformer::save_packed(folder, folder, Compute::int8);
  other.save(folder, {.beside = {{"tokenizer.model", tokenizer}}});
  EXPECT_EQ(translated(folder), translated(folder_ / "text/model"));
  std::vector<std::string> heard;
  Translator::load(
      folder,
      {.compute = Compute::int8, .notice = [&](const Notice& n) { heard.push_back(n.text); }}, 1);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_NE(heard[0].find("made from other weights"), std::string::npos);
}

}  // namespace
}  // namespace tril::folders_test
