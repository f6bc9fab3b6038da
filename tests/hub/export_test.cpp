// What was imported comes back byte for byte; what tril made can be imported again.
#include "tril/hub/export.h"

#include <cstring>
#include <set>

#include "hub/hub_support.h"
#include "support/models.h"
#include "tril/hub/import.h"
#include "tril/io/atomic_file.h"
#include "tril/models/verify.h"
#include "tril/text/tokenizer.h"
#include "tril/translate/translator.h"

namespace tril::export_test {
namespace {

namespace fs = std::filesystem;
using testing::hub_models;
using testing::HubModel;
using testing::raised_by;
using testing::TheirFolder;
using testing::Tokens;

std::string bytes_of(const ForeignTensor& tensor) {
  std::string bytes(static_cast<size_t>(tensor.size() * size_of(tensor.type())), '\0');
  tensor.read_bytes(bytes);
  return bytes;
}

// The same tensors, with their names, types and bytes.
void expect_same_tensors(const std::string& before, const std::string& after) {
  const ForeignTensors a(before), b(after);
  ASSERT_EQ(a.all().size(), b.all().size()) << before;
  for (size_t i = 0; i < a.all().size(); ++i) {
    const ForeignTensor &one = a.all()[i], &other = b.all()[i];
    EXPECT_EQ(one.name(), other.name());
    EXPECT_EQ(one.type(), other.type()) << one.name();
    EXPECT_TRUE(one.shape() == other.shape()) << one.name();
    EXPECT_TRUE(bytes_of(one) == bytes_of(other)) << before << ": " << one.name();
  }
}

bool is_weights(const fs::path& path) {
  return path.extension() == ".safetensors" || path.extension() == ".bin";
}

// All other files, byte for byte, and no more of them.
void expect_same_files(const fs::path& before, const fs::path& after) {
  std::set<std::string> names, others;
  for (const auto& file : fs::directory_iterator(before)) {
    if (!is_weights(file.path())) names.insert(file.path().filename().string());
  }
  for (const auto& file : fs::directory_iterator(after)) {
    if (!is_weights(file.path())) others.insert(file.path().filename().string());
  }
  EXPECT_EQ(names, others) << before;
  for (const std::string& name : names) {
    EXPECT_EQ(testing::read_text(before / name), testing::read_text(after / name)) << name;
  }
}

TEST(Export, GivesBackWhatWasImported) {
  std::vector<HubModel> models = hub_models();
  models.push_back({"bart_shards", "bart"});
  for (const HubModel& model : models) {
    if (model.tokenizer.empty()) continue;
    const TheirFolder folder(model);
    folder.write("README.md", "# \xC3\xA4 model card\r\n");
    folder.write(".gitattributes", std::string("a\0b", 3));
    const std::string theirs = folder.path().string(), again = (folder.root() / "again").string();
    hub::import(theirs, folder.to());
    for (const VerifiedFile& file : verify_folder(folder.to())) {
      EXPECT_EQ(file.state, FileState::sound) << file.path;
    }
    const hub::ExportReport report = hub::export_model(folder.to(), again);
    EXPECT_EQ(report.rounded, 0) << model.name;
    expect_same_tensors(theirs, again);
    expect_same_files(theirs, again);
    // And once more: the export is as good as the original.
    hub::import(again, (folder.root() / "ours2").string());
    EXPECT_EQ(read_seal(folder.to()).files, read_seal((folder.root() / "ours2").string()).files)
        << model.name;
  }
}

// GPT-2 as earlier versions stored it: without a prefix, and with the masks of every layer.
TEST(Export, NamesAndTablesOfEarlierVersionsComeBack) {
  const TheirFolder folder({"gpt2", "gpt2_files"});
  const std::string theirs = folder.path().string(), again = (folder.root() / "again").string();
  const Transformer right = hub::read_model(theirs);
  constexpr std::string_view kPrefix = "transformer.";
  {
    const ForeignTensors tensors(theirs);
    std::vector<StoredTensor> stored;
    for (const ForeignTensor& tensor : tensors.all()) {
      ASSERT_TRUE(tensor.name().starts_with(kPrefix)) << tensor.name();
      stored.push_back(tensor.to_store(tensor.name().substr(kPrefix.size())));
    }
    const auto fill = [](int64_t begin, std::span<char> memory) {
      for (char& byte : memory) byte = static_cast<char>(begin++ % 2);
    };
    for (const char* layer : {"h.0", "h.1"}) {
      stored.push_back({concat(layer, ".attn.bias"), StoredType::u8, {1, 1, 8, 8}, fill});
      stored.push_back({concat(layer, ".attn.masked_bias"), StoredType::f32, {}, fill});
    }
    AtomicFile file(theirs + "/model.safetensors");
    write_safetensors(file, stored, {{"format", "pt"}});
    file.commit();
  }
  hub::import(theirs, folder.to());
  hub::export_model(folder.to(), again);
  expect_same_tensors(theirs, again);
  expect_same_files(fs::path(theirs), fs::path(again));
  const Tokens prompt = {5, 9, 20, 3};
  EXPECT_EQ(testing::logits_of(hub::read_model(again), {}, prompt),
            testing::logits_of(right, {}, prompt));
}

// Folders as they are published: the names that tensors have there, and what else is stored.
struct Published {
  HubModel model;
  std::string from, to;  // of a tensor's name: what it begins with, and begins with there
  std::vector<std::string> besides{};  // tensors that nothing reads
};

TEST(Export, FoldersAsTheyArePublished) {
  const Published cases[] = {
      // Saved without their output layer, with a number of fairseq's.
      {{"bart_long", "bart"}, "model.", "", {"encoder.version", "decoder.version"}},
      // MADLAD has its embedding under the decoder's name alone.
      {{"t5_v1_1", "t5"}, "shared.weight", "decoder.embed_tokens.weight"},
      {{"t5", "t5"}, "shared.weight", "encoder.embed_tokens.weight"},
  };
  for (const Published& each : cases) {
    const TheirFolder folder(each.model);
    const std::string theirs = folder.path().string(), again = (folder.root() / "again").string();
    const Transformer right = hub::read_model(theirs);
    {
      const ForeignTensors tensors(theirs);
      std::vector<StoredTensor> stored;
      int64_t renamed = 0;
      for (const ForeignTensor& tensor : tensors.all()) {
        std::string name = tensor.name();
        if (name.starts_with(each.from)) {
          name = each.to + name.substr(each.from.size());
          ++renamed;
        }
        stored.push_back(tensor.to_store(name));
      }
      EXPECT_GT(renamed, 0) << each.model.name;
      const auto three = [](int64_t /*begin*/, std::span<char> memory) {
        std::fill(memory.begin(), memory.end(), '\3');
      };
      for (const std::string& name : each.besides) {
        stored.push_back({name, StoredType::u8, {1}, three});
      }
      AtomicFile file(path_in(theirs, "new.safetensors"));
      write_safetensors(file, stored, tensors.metadata());
      file.commit();
    }
    fs::rename(folder.path() / "new.safetensors", folder.path() / "model.safetensors");
    const std::vector<NamedConstTensor> before = right.parameters();
    const Transformer published = hub::read_model(theirs);
    const std::vector<NamedConstTensor> after = published.parameters();
    ASSERT_EQ(before.size(), after.size()) << each.model.name;
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(testing::same_bits(before[i].tensor, after[i].tensor)) << before[i].name;
    }
    // Pointers in the place of files that nobody reads, and shards of an earlier export.
    folder.write("tf_model.h5", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    folder.write("pytorch_model.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    hub::import(theirs, folder.to());
    fs::remove(folder.path() / "tf_model.h5");
    fs::remove(folder.path() / "pytorch_model.bin");
    hub::export_model(folder.to(), again);
    testing::write_text(fs::path(again) / "model-00001-of-00002.safetensors", "old");
    hub::export_model(folder.to(), again, {.overwrite = Overwrite::yes});
    EXPECT_FALSE(fs::exists(fs::path(again) / "model-00001-of-00002.safetensors"));
    expect_same_tensors(theirs, again);
    expect_same_files(theirs, again);
    folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    const auto other = (folder.root() / "other").string();
    EXPECT_NE(raised_by([&] {
                hub::import(theirs, other);
              }).text.find("model.safetensors: pointers of Git LFS"),
              std::string::npos);
  }
}

TEST(Export, ABinFileComesBackAsSafetensors) {
  TheirFolder folder({"marian_bin", "marian"});
  // The tokenizer of another model, with fewer pieces.
  std::string vocab = "{\"</s>\": 0, \"<unk>\": 1, \"<pad>\": 59}";
  folder.write("vocab.json", vocab);
  const std::string theirs = folder.path().string(), again = (folder.root() / "again").string();
  hub::import(theirs, folder.to());
  hub::export_model(folder.to(), again);
  EXPECT_TRUE(fs::exists(fs::path(again) / "model.safetensors"));
  EXPECT_FALSE(fs::exists(fs::path(again) / "pytorch_model.bin"));
  expect_same_tensors(theirs, again);
  expect_same_files(theirs, again);
  EXPECT_NE(ForeignTensors(again).find("model.encoder.embed_positions.weight"), nullptr);
  EXPECT_NE(ForeignTensors(again).find("lm_head.weight"), nullptr);
}

// Changes every weight a little, as a training does.
void train(const std::string& folder, const std::string& to) {
  Transformer model = Transformer::load(folder, {.purpose = Purpose::training});
  for (const auto& parameter : model.writable_parameters()) {
    std::vector<float> values(parameter.tensor.data(),
                              parameter.tensor.data() + parameter.tensor.size());
    for (float& value : values) value = value * 1.01f + 1e-3f;
    set_values(parameter.tensor, values);
  }
  ModelFiles beside;
  for (const auto& [name, checksum] : read_seal(folder).files) {
    if (name != kConfigFile) beside.emplace(name, read_model_file(folder, name));
  }
  model.save(to, {.beside = beside});
}

TEST(Export, WeightsThatWereTrainedKeepTheirTypes) {
  const TheirFolder folder({"mbart", "mbart25"});
  const std::string theirs = folder.path().string();
  hub::import(theirs, folder.to());
  const std::string tuned = (folder.root() / "tuned").string();
  train(folder.to(), tuned);
  const std::string rounded = (folder.root() / "rounded").string();
  std::string told;
  const hub::ExportReport report = hub::export_model(
      tuned, rounded, {.notice = [&](const Notice& notice) { told = notice.text; }});
  EXPECT_GT(report.rounded, 0);
  EXPECT_EQ(told, concat(rounded, ": ", report.rounded, " of ", report.tensors,
                         " tensors were rounded to the type they are stored in"));
  const ForeignTensors before(theirs), after(rounded);
  for (const ForeignTensor& tensor : before.all()) {
    EXPECT_EQ(after.get(tensor.name()).type(), tensor.type());
  }
  EXPECT_FALSE(bytes_of(before.get("model.shared.weight")) ==
               bytes_of(after.get("model.shared.weight")));
  // In fp32 nothing is lost, and the configuration says so.
  const std::string exact = (folder.root() / "exact").string();
  EXPECT_EQ(hub::export_model(tuned, exact, {.type = StoredType::f32}).rounded, 0);
  EXPECT_NE(testing::read_text(fs::path(exact) / "config.json").find("\"dtype\": \"float32\""),
            std::string::npos);
  const Transformer one = hub::read_model(exact);
  const Transformer other = Transformer::load(tuned, {.purpose = Purpose::study});
  ASSERT_EQ(one.parameters().size(), other.parameters().size());
  for (size_t i = 0; i < one.parameters().size(); ++i) {
    const auto a = one.parameters()[i].tensor, b = other.parameters()[i].tensor;
    EXPECT_EQ(std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(float)), 0)
        << one.parameters()[i].name;
  }
  // The two rows of positions that nothing uses are still those of the original.
  const std::string rows = "model.encoder.embed_positions.weight";
  EXPECT_EQ(bytes_of(before.get(rows)).substr(0, 2 * 16 * 2),
            bytes_of(after.get(rows)).substr(0, 2 * 16 * 2));
}

TEST(Export, RefusesWhereItWouldHarm) {
  const TheirFolder folder;
  const std::string theirs = folder.path().string(), again = (folder.root() / "again").string();
  hub::import(theirs, folder.to());
  EXPECT_EQ(raised_by([&] { hub::export_model(folder.to(), folder.to()); }).text,
            folder.to() + ": holds a model of tril: choose another folder");
  hub::export_model(folder.to(), again);
  EXPECT_EQ(raised_by([&] { hub::export_model(folder.to(), again); }).text,
            again + ": holds a model already");
  hub::export_model(folder.to(), again, {.overwrite = Overwrite::yes});
  EXPECT_EQ(raised_by([&] { hub::export_model(theirs, again); }).text,
            theirs + ": holds a model of Hugging Face's transformers, not one of tril's");
  // What was kept is sealed, and a damaged list is found even where it is not.
  const fs::path bundle = fs::path(folder.to()) / "hub.bundle";
  const std::string before = testing::read_text(bundle);
  std::string damaged = before;
  damaged[before.size() / 2] ^= 1;
  testing::write_text(bundle, damaged);
  const std::string error = raised_by([&] { hub::export_model(folder.to(), again + "2"); }).text;
  EXPECT_NE(error.find("hub.bundle: damaged, or not of this model"), std::string::npos) << error;
  EXPECT_FALSE(fs::exists(again + "2"));
}

// A small model of tril's own with a tokenizer, saved.
class OurModel {
 public:
  explicit OurModel(TransformerConfig config) {
    static const Tokenizer tokenizer = [] {
      const std::vector<std::string> lines = {"the cat sat on the mat", "a dog sees the cat",
                                              "where is the dog now", "\xE0\xA4\x95 the man"};
      size_t next = 0;
      return Tokenizer::train(
          [&](std::string& line) {
            if (next == lines.size() * 20) return false;
            line = lines[next++ % lines.size()];
            return true;
          },
          {.vocab = 300});
    }();
    config.target_vocab = tokenizer.vocab();
    if (config.encoder_layers > 0) config.source_vocab = config.target_vocab;
    const Transformer model(config, 7);
    model.save(path(), {.beside = {{std::string(kTokenizerFile), tokenizer.bytes()}}});
  }
  std::string path() const { return root("ours"); }
  std::string root(const std::string& name) const {
    return (fs::path(folder_.path()) / name).string();
  }
  std::string error(const std::string& to = "theirs") const {
    const std::string text = raised_by([&] { hub::export_model(path(), root(to)); }).text;
    return text.starts_with(path()) ? text.substr(path().size()) : text;
  }

 private:
  testing::TempFolder folder_;
};

TransformerConfig small(int64_t encoder_layers) {
  TransformerConfig config;
  config.model = 16;
  config.heads = 2;
  config.feed_forward = 24;
  config.encoder_layers = encoder_layers;
  config.decoder_layers = 2;
  config.max_length = 64;
  return config;
}
TransformerConfig small_decoder() {
  TransformerConfig config = small(0);
  config.norm = NormType::rms;
  config.norm_position = NormPosition::pre;
  config.position = PositionType::rotary;
  config.activation = ActivationType::silu;
  config.gated = true;
  config.bias = false;
  config.kv_heads = 1;
  return config;
}

// Import of an export computes the same, up to the order of sums, with the same tokens.
void expect_same_model(const OurModel& ours, const std::string& family) {
  const std::string theirs = ours.root("theirs"), again = ours.root("again");
  EXPECT_EQ(hub::export_model(ours.path(), theirs).family, family);
  hub::import(theirs, again);
  const Translator one = Translator::load(ours.path(), {}, 1);
  const Translator other = Translator::load(again, {}, 1);
  for (const std::string line : {"the cat sat", "  a  dog\xF0\x9F\x98\x80 now ", "\xE0\xA4\x95"}) {
    EXPECT_EQ(one.tokenizer().encode(line), other.tokenizer().encode(line)) << family;
    EXPECT_EQ(one.tokenizer().encode_target(line), other.tokenizer().encode_target(line));
  }
  EXPECT_EQ(one.tokenizer().start(), other.tokenizer().start());
  EXPECT_EQ(one.tokenizer().end(), other.tokenizer().end());
  const Tokens source = {5, 9, 20, 3}, target = {2, 30, 8, 11, 40};
  const std::vector<float> a = testing::logits_of(one.model(), source, target);
  const std::vector<float> b = testing::logits_of(other.model(), source, target);
  ASSERT_EQ(a.size(), b.size());
  EXPECT_LT(testing::distance(b, {a.begin(), a.end()}), 1e-10) << family;
}

TEST(Export, OurModelsBecomeTheirs) {
  TransformerConfig config = small(2);
  expect_same_model(OurModel(config), "marian");
  config.norm_position = NormPosition::pre;
  config.bias = false;
  config.activation = ActivationType::gelu;
  config.embedding_scale = false;
  expect_same_model(OurModel(config), "pegasus");
  config = small_decoder();
  expect_same_model(OurModel(config), "llama");
  config.tied = false;
  config.window = 3;
  expect_same_model(OurModel(config), "mistral");
}

TEST(Export, WhatHasNoCounterpartIsNamed) {
  const auto error = [](TransformerConfig config) { return OurModel(config).error(); };
  TransformerConfig config = small(2);
  config.position = PositionType::rotary;
  EXPECT_EQ(error(config),
            ": position is rotary, which no model of family marian has: it cannot be exported");
  config = small(2);
  config.norm_position = NormPosition::pre;
  config.norm = NormType::rms;
  EXPECT_EQ(error(config),
            ": norm is rms, which no model of family pegasus has: it cannot be exported");
  config = small(2);
  config.kv_heads = 1;
  EXPECT_EQ(error(config),
            ": kv_heads is 1, which no model of family marian has: it cannot be exported");
  config = small_decoder();
  config.position = PositionType::alibi;
  EXPECT_EQ(error(config),
            ": position is alibi, which no model of family llama has: it cannot be exported");
}

}  // namespace
}  // namespace tril::export_test
