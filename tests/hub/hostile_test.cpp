// Folders that lie: one clear error each, which names the file and the field.
#include <cstring>

#include "hub/hub_support.h"
#include "tril/hub/import.h"
#include "tril/hub/kept.h"
#include "tril/io/foreign/foreign_tensors.h"

namespace tril::hostile_test {
namespace {

namespace fs = std::filesystem;
using testing::raised_by;
using testing::TheirFolder;

TEST(Hostile, FieldsOfTheConfiguration) {
  const TheirFolder folder;
  const auto with = [&](const std::string& from, const std::string& to) {
    return folder.error_with("config.json", from, to);
  };
  // Sizes that no memory holds, numbers that are none, and kinds that are others.
  EXPECT_EQ(with("\"d_model\": 16", "\"d_model\": 1000000000"),
            "config.json: d_model: expected an integer from 1 to 65536, got 1000000000");
  EXPECT_EQ(with("\"d_model\": 16", "\"d_model\": -16"),
            "config.json: d_model: expected an integer from 1 to 65536, got -16");
  EXPECT_EQ(with("\"vocab_size\": 160", "\"vocab_size\": 99999999999999999999"),
            "config.json: vocab_size: expected an integer from 1 to 16777216, got "
            "99999999999999999999");
  EXPECT_EQ(with("\"d_model\": 16", "\"d_model\": NaN").find("config.json"), 0u);
  EXPECT_EQ(with("\"dropout\": 0.0", "\"dropout\": 1e999").find("config.json"), 0u);
  EXPECT_EQ(with("\"dropout\": 0.0", "\"dropout\": -1"),
            "config.json: dropout: expected a number from 0 to 0.99, got -1");
  EXPECT_EQ(with("\"scale_embedding\": true", "\"scale_embedding\": \"yes\""),
            "config.json: scale_embedding: expected true or false, got \"yes\"");
  EXPECT_EQ(with("\"eos_token_id\": 0", "\"eos_token_id\": 160"),
            "config.json: eos_token_id: expected an integer from 0 to 159, got 160");
  EXPECT_EQ(with("{", "[").find("config.json"), 0u);
  EXPECT_EQ(with("\"vocab_size\": 160", "\"vocab_size\": 160, \"vocab_size\": 161")
                .find("config.json: vocab_size"),
            0u);
  // A large model beside small weights is not built first.
  EXPECT_EQ(with("\"encoder_layers\": 2", "\"encoder_layers\": 1000"),
            "theirs: tensor 'model.encoder.layers.2.self_attn.q_proj.weight' is missing");
  EXPECT_EQ(with("\"d_model\": 16", "\"d_model\": 8192"),
            "model.safetensors: tensor 'model.shared.weight' is [160, 16], config.json asks for "
            "[160, 8192]");
}

// Fields with which the same tensors mean another function.
TEST(Hostile, FieldsThatMatter) {
  const TheirFolder folder;
  const auto with = [&](const std::string& field) {
    return folder.error_with("config.json", "\"d_model\": 16", "\"d_model\": 16, " + field);
  };
  EXPECT_EQ(with("\"quantization_config\": {\"bits\": 4}"),
            "config.json: quantization_config: tril does not compute models with this field");
  EXPECT_EQ(with("\"auto_map\": {\"AutoModel\": \"evil.Model\"}"),
            "config.json: auto_map: tril does not compute models with this field");
  EXPECT_EQ(with("\"normalize_before\": true"),
            "config.json: normalize_before is true: tril computes such models with false only");
  const TheirFolder llama({"llama", "llama"});
  const auto rope = [&](const std::string& type) {
    return llama.error_with("config.json", "\"rope_type\": \"default\"", type);
  };
  for (const std::string type : {"dynamic", "yarn", "longrope"}) {
    EXPECT_EQ(rope(concat("\"rope_type\": \"", type, "\"")),
              concat("config.json: rope_parameters: rope_type is \"", type,
                     "\": tril computes default, linear and llama3"));
  }
  EXPECT_EQ(rope("\"rope_type\": \"llama3\", \"factor\": 8.0"),
            "config.json: rope_parameters: low_freq_factor: expected a number from 1e-06 to "
            "1e+06, but it is missing");
  EXPECT_EQ(rope("\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5"),
            "config.json: rope_parameters: partial_rotary_factor: tril rotates all features of a "
            "head");
}

// One safetensors file made by hand.
std::string safetensors(const std::string& header, const std::string& data) {
  const auto length = static_cast<uint64_t>(header.size());
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

TEST(Hostile, Weights) {
  const TheirFolder folder;
  const std::string before = folder.text("model.safetensors");
  const auto with = [&](const std::string& bytes) {
    folder.write("model.safetensors", bytes);
    std::string error = folder.error();
    folder.write("model.safetensors", before);
    return error;
  };
  EXPECT_EQ(with(before.substr(0, before.size() - 4)).find("model.safetensors: "), 0u);
  EXPECT_EQ(with(safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [1000000000, 1000000000], "
                             "\"data_offsets\": [0, 4]}}",
                             "1234"))
                .find("model.safetensors: a"),
            0u);
  EXPECT_EQ(with("").find("model.safetensors: "), 0u);
  // A tensor that is not there, and one too many.
  std::string renamed = before;
  renamed.replace(renamed.find("final_logits_bias"), 17, "final_logits_bios");
  EXPECT_EQ(with(renamed),
            "model.safetensors: tensor 'final_logits_bios' is not part of a model of family "
            "marian");
  renamed = before;
  renamed.replace(renamed.find("model.shared.weight"), 19, "model.shared.weighs");
  EXPECT_EQ(with(renamed), "theirs: tensor 'model.shared.weight' is missing");
  // A number that is none: the last of the data belongs to a weight.
  std::string infinite = before;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::memcpy(infinite.data() + infinite.size() - sizeof(float), &kInfinity, sizeof(float));
  const std::string error = with(infinite);
  EXPECT_NE(error.find("' holds numbers that are not finite"), std::string::npos) << error;
  EXPECT_FALSE(fs::exists(fs::path(folder.to()) / "config.json"));
}

TEST(Hostile, Shards) {
  const TheirFolder folder({"bart_shards", "bart"});
  const std::string index = "model.safetensors.index.json";
  const std::string text = folder.text(index);
  const size_t name = text.find("model-000");
  const std::string shard = text.substr(name, text.find('"', name) - name);
  const std::string first = "\"final_logits_bias\": \"" + shard + "\"";
  // Out of the folder, a shard that is not there, a tensor in two places, and one nowhere.
  EXPECT_EQ(folder.error_with(index, shard, "../" + shard).find(index + ": weight_map"), 0u);
  const std::string missing = folder.error_with(index, shard, "model-lost.safetensors");
  EXPECT_NE(missing.find("model-lost.safetensors"), std::string::npos) << missing;
  const fs::path moved = folder.path() / shard;
  const std::string other = folder.text(shard);
  for (const auto& file : fs::directory_iterator(folder.path())) {
    const std::string another = file.path().filename().string();
    if (file.path().extension() != ".safetensors" || another == shard) continue;
    folder.write(shard, folder.text(another));  // two shards that hold the same tensors
    const std::string error = folder.error();
    EXPECT_NE(error.find("says that it is in "), std::string::npos) << error;
    folder.write(shard, other);
    break;
  }
  // All that is missing is named at once.
  for (const auto& file : fs::directory_iterator(folder.path())) {
    if (file.path().extension() == ".safetensors") fs::remove(file.path());
  }
  const std::string all = folder.error();
  EXPECT_NE(all.find(shard), std::string::npos) << all;
  EXPECT_NE(all.find(","), std::string::npos) << all;
}

TEST(Hostile, FilesThatAreNotThere) {
  const TheirFolder folder;
  // What git leaves where git-lfs is not installed.
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 300000000\n";
  const std::string weights = folder.text("model.safetensors");
  folder.write("model.safetensors", pointer);
  folder.write("source.spm", pointer);
  EXPECT_EQ(folder.error(),
            "theirs: model.safetensors, source.spm: pointers of Git LFS, not the files: run 'git "
            "lfs pull' there, or download them again");
  folder.write("model.safetensors", weights);
  fs::remove(folder.path() / "source.spm");
  fs::remove(folder.path() / "vocab.json");
  EXPECT_EQ(folder.error(),
            "theirs: missing: source.spm, vocab.json: download them from where the model is from");
  fs::remove(folder.path() / "model.safetensors");
  EXPECT_EQ(folder.error(),
            "theirs: missing: weights (model.safetensors or pytorch_model.bin), source.spm, "
            "vocab.json: download them from where the model is from");
  const TheirFolder other({"llama", ""});
  EXPECT_EQ(other.error(),
            "theirs: missing: files of the tokenizer (tokenizer.json): download it from where the "
            "model is from");
}

TEST(Hostile, Vocabularies) {
  const TheirFolder folder;
  const std::string error = folder.error_with("vocab.json", "{", "{\"a lie\": 5000, ");
  EXPECT_EQ(error, "theirs: the tokenizer has 5001 pieces, the model only 160 rows for them");
  const std::string more =
      folder.error_with("config.json", "\"vocab_size\": 160", "\"vocab_size\": 100");
  EXPECT_NE(more.find("config.json"), std::string::npos) << more;
}

// hub.bundle is read back without trust.
TEST(Hostile, WhatWasKept) {
  hub::Kept kept;
  kept.family = "marian";
  kept.weight_files = {"model.safetensors"};
  kept.tensors.push_back({"a", StoredType::f16, {2, 3}, 0, 0});
  kept.data = {std::string(12, 'x')};
  kept.files = {{"config.json", "{}"}, {"README.md", "text"}};
  const std::string bytes = hub::to_bytes(kept);
  const hub::Kept back = hub::read_kept(bytes, "bundle");
  EXPECT_EQ(back.files, kept.files);
  EXPECT_EQ(back.data, kept.data);
  EXPECT_EQ(hub::to_bytes(back), bytes);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = bytes;
    changed.replace(changed.find(from), from.size(), to);
    return raised_by([&] { hub::read_kept(changed, "bundle"); }).text;
  };
  EXPECT_EQ(with("\"README.md\"", "\"../evil\""), "bundle: damaged: files");
  EXPECT_EQ(with("\"README.md\": 4", "\"README.md\": 5"), "bundle: damaged: files");
  EXPECT_EQ(with("\"README.md\": 4", "\"README.md\": 3"),
            "bundle: damaged: bytes after its last file");
  EXPECT_EQ(with("\"model.safetensors\"", "\"/etc/passwd\""), "bundle: damaged: weight_files");
  EXPECT_EQ(with("[2, 3]", "[2, -3]"), "bundle: damaged: tensors");
  EXPECT_EQ(with("\"F16\"", "\"F17\""), "bundle: damaged: tensors");
  EXPECT_EQ(with("tril hub 1", "tril hub 2"),
            "bundle: written by another version of tril, or damaged");
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(
        raised_by([&] { hub::read_kept(bytes.substr(0, length), "bundle"); }).text.empty());
  }
}

}  // namespace
}  // namespace tril::hostile_test
