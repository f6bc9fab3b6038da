// Writes the seeds of the fuzz targets that read files of a model; to be run after a format change:
//   ninja -C build/fuzz make_seeds && build/fuzz/bin/make_seeds tests/fuzz/corpus
// They carry no checksums, because a changed byte would be caught by the checksum before the
// parser.
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "scratch.h"
#include "tiny_model.h"
#include "tril/decode/shortlist.h"
#include "tril/io/atomic_file.h"
#include "tril/kernels/gemm_bf16_dot.h"
#include "tril/models/folder.h"
#include "tril/tensor/context.h"
#include "tril/train/checkpoint.h"

namespace {

using tril::Compute;
using tril::fuzz::scratch;
using tril::fuzz::tiny_config;

constexpr int64_t kMostBytes = 20 << 10;  // a seed

// A safetensors file without what seals it.
std::string unsealed(const std::string& path) {
  const std::string file = tril::read_file(path, 1 << 20);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  auto header = nlohmann::ordered_json::parse(file.substr(8, length));
  if (header.contains("__metadata__")) {
    for (const char* seal : {"tril_seal", "tril_checksums"}) header["__metadata__"].erase(seal);
  }
  std::string text = header.dump();
  while ((8 + text.size()) % 64 != 0) text += ' ';  // data begins at a whole line of the cache
  std::string result(8, '\0');
  const uint64_t now = text.size();
  std::memcpy(result.data(), &now, sizeof now);
  return result + text + file.substr(8 + length);
}

void write(const std::string& path, const std::string& bytes) {
  tril::require(static_cast<int64_t>(bytes.size()) <= kMostBytes, tril::ErrorCode::invalid_argument,
                path, ": ", bytes.size(), " bytes");
  tril::write_file_atomically(path, bytes);
  std::printf("%s: %zu bytes\n", path.c_str(), bytes.size());
}

void write_packed(const std::string& folder) {
  tril::Transformer(tiny_config(), 1).save(scratch());
  const Compute forms[] = {Compute::fp32, Compute::bf16, Compute::int8, Compute::bf16_dot};
  for (char form = 0; form < (tril::kernels::has_bf16_dot() ? 4 : 3); ++form) {
    const Compute compute = forms[static_cast<size_t>(form)];
    const std::string name = tril::concat("packed.", tril::word_for(compute), ".safetensors");
    tril::Transformer::save_packed(scratch(), scratch(), compute);
    write(folder + "/" + name, form + unsealed(scratch() + "/" + name));
  }
}

void write_checkpoint(const std::string& folder) {
  tril::Transformer model(tril::fuzz::minimal_config(), 1);
  const tril::AdamWOptimizer optimizer(model, {});
  tril::WeightAverage average(model, {});
  tril::Context context(1);
  average.updated(1, context);
  const tril::TrainState state{.update = 3,
                               .optimizer_steps = 3,
                               .place = {.epoch = 1, .next = 2, .waiting = {{0, 7}, {1, 9}}},
                               .options = "rate = 0.001\n",
                               .corpus = 12345678901234567890u};
  const std::string path = scratch() + "/checkpoint.safetensors";
  tril::save_checkpoint(path, state, {{"tokenizer.model", "a tokenizer"}}, model, optimizer,
                        average);
  write(folder + "/checkpoint.safetensors", unsealed(path));
}

void write_shortlist(const std::string& folder) {
  const tril::Shortlist shortlist({.target_vocab = 9,
                                   .always = {3, 4},
                                   .listed = {{1}, {}, {5, 8}, {0, 3, 7}, {2}},
                                   .tokenizer = "0123456789abcdef"});
  shortlist.save(scratch());
  write(folder + "/shortlist.safetensors",
        unsealed(tril::path_in(scratch(), tril::kShortlistFile)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  try {
    for (const char* name : {"packed", "checkpoint", "shortlist"}) {
      std::filesystem::create_directories(folder + "/" + name);
    }
    write_packed(folder + "/packed");
    write_checkpoint(folder + "/checkpoint");
    write_shortlist(folder + "/shortlist");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_seeds: %s\n", error.what());
    return 1;
  }
  return 0;
}
