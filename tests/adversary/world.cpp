#include "world.h"

#include <zlib.h>

#include <cstdio>
#include <stdexcept>

#include "safetensors_header.h"

namespace adversary {
namespace {

// Sentences of an invented language of twelve words, and their translations.
void write_text(const std::string& folder, uint64_t seed, char first) {
  Rng rng(seed);
  std::string source, target;
  std::string valid_source, valid_target;
  for (int i = 0; i < 300; ++i) {
    std::string s, t;
    for (int64_t n = 1 + rng.below(4); n > 0; --n) {
      const auto w = static_cast<int>(rng.below(12));
      s += std::string(s.empty() ? "" : " ") + static_cast<char>(first + w) +
           static_cast<char>(first + w * 5 % 7);
      t += std::string(t.empty() ? "" : " ") + static_cast<char>('A' + w * 5 % 12) +
           static_cast<char>('A' + w % 5);
    }
    source += s + "\n";
    target += t + "\n";
    if (i >= 8) continue;
    valid_source += s + "\n";
    valid_target += t + "\n";
  }
  make_folder(folder);
  write_all(folder + "/source", source);
  write_all(folder + "/target", target);
  write_all(folder + "/valid_source", valid_source);
  write_all(folder + "/valid_target", valid_target);
  const std::string zipped = folder + "/valid_source.gz";
  gzFile file = gzopen(zipped.c_str(), "wb");
  if (file == nullptr || gzputs(file, valid_source.c_str()) < 0 || gzclose(file) != Z_OK) {
    throw std::runtime_error("cannot write " + zipped);
  }
}

Ended must(const World& world, const std::vector<std::string>& arguments) {
  const Ended ended = run(tril_child(world, arguments, world.path("io")));
  if (ended.code != 0) {
    throw std::runtime_error(shell_line(arguments) + ": " + described(ended) + ": " + ended.err);
  }
  return ended;
}

void learn(const World& world, const std::string& name, const std::string& text, int seed) {
  std::vector<std::string> arguments = {"train", "-o", world.path(name)};
  for (const std::string& option : train_options(world, text, seed)) arguments.push_back(option);
  must(world, arguments);
}

// `model` with every other file that may be in its folder.
void complete(const World& world, const std::string& model, const std::string& name,
              const std::string& text) {
  copy_tree(world.path(model), world.path(name));
  must(world, {"quantize", world.path(name), "--to", "int8"});
  must(world, {"shortlist", world.path(name), "--source", world.path(text + "/source"), "--target",
               world.path(text + "/target"), "--best", "3", "--frequent", "5"});
}

// Killed at the middle one of all renames of the run.
void leave_half(const World& world) {
  const std::string count = world.path("io/count");
  const auto arguments = [&](const std::string& folder) {
    std::vector<std::string> result = {"train", "-o", folder};
    for (const std::string& option : train_options(world)) result.push_back(option);
    return result;
  };
  Child whole = tril_child(world, arguments(world.path("counted")), world.path("io"));
  add_shim(world, whole, "under=" + world.path("counted") + ";count=" + count);
  if (run(whole).code != 0) throw std::runtime_error("a run under the shim failed");
  long renames = 0;
  for (const std::string& line : lines_of(read_all(count))) {
    std::sscanf(line.c_str(), "rename %ld", &renames);
  }
  remove_tree(world.path("counted"));
  Child half = tril_child(world, arguments(world.path("half")), world.path("io"));
  add_shim(
      world, half,
      "under=" + world.path("half") + ";call=rename;do=kill;at=" + std::to_string(renames / 2 + 1));
  if (!run(half).killed())
    throw std::runtime_error("the shim did not kill: is it " + world.settings.shim + "?");
}

// If files carry checksums, a copy without them.
bool make_unsealed(const World& world) {
  copy_tree(world.path("full"), world.path("unsealed"));
  remove_tree(world.path("unsealed/training"));
  remove_tree(world.path("unsealed/last"));
  const auto unseal = [&](const std::string& name) {
    const std::string file = world.path("unsealed/" + name);
    const std::string plain = without_seal(read_all(file));
    if (!plain.empty()) write_all(file, plain);
    return !plain.empty();
  };
  if (!unseal("model.safetensors")) return false;
  unseal("shortlist.safetensors");
  // Made from the current weights.
  must(world, {"quantize", world.path("unsealed"), "--to", "int8"});
  unseal("packed.int8.safetensors");
  return true;
}

bool says(const World& world, const std::vector<std::string>& arguments, const std::string& word) {
  const Ended ended = run(tril_child(world, arguments, world.path("io")));
  return ended.code == 0 && ended.out.find(word) != ended.out.npos;
}

}  // namespace

Child tril_child(const World& world, const std::vector<std::string>& arguments,
                 const std::string& io) {
  Child child;
  child.arguments = {world.settings.tril};
  child.arguments.insert(child.arguments.end(), arguments.begin(), arguments.end());
  child.environment = {{"CUDA_VISIBLE_DEVICES", ""}};
  child.folder = io;
  return child;
}

void add_shim(const World& world, Child& child, const std::string& faults) {
  child.environment.emplace_back("LD_PRELOAD", world.settings.shim);
  child.environment.emplace_back("TRIL_FAULTS", faults);
}

std::vector<std::string> train_options(const World& world, const std::string& text, int seed) {
  return {"--source",
          world.path(text + "/source"),
          "--target",
          world.path(text + "/target"),
          "--valid-source",
          world.path(text + "/valid_source"),
          "--valid-target",
          world.path(text + "/valid_target"),
          "--seed",
          std::to_string(seed),
          "--threads",
          "1",
          "--vocab",
          "290",
          "--model",
          "16",
          "--heads",
          "2",
          "--feed-forward",
          "32",
          "--encoder-layers",
          "1",
          "--decoder-layers",
          "1",
          "--batch-tokens",
          "256",
          "--micro-batch-tokens",
          "128",
          "--max-tokens",
          "24",
          "--max-length",
          "24",
          "--dropout",
          "0.1",
          "--rate",
          "0.02",
          "--warm-up",
          "8",
          "--updates",
          "24",
          "--evaluate-every",
          "8",
          "--save-every",
          "4",
          "--log-every",
          "2",
          "--best-by",
          "loss"};
}

Ended translate(const World& world, const std::string& model, const std::string& way,
                const std::string& io, bool shortlist) {
  const std::string compute = way == "shortlist" ? "" : way;
  shortlist = shortlist || way == "shortlist";
  const std::string& text = world.settings.text;
  std::vector<std::string> arguments = {"translate",
                                        model,
                                        "--json",
                                        "--threads",
                                        "1",
                                        "--input",
                                        text.empty() ? world.path("text1/valid_source") : text};
  if (!compute.empty()) arguments.insert(arguments.end(), {"--compute", compute});
  if (shortlist) arguments.emplace_back("--shortlist");
  return run(tril_child(world, arguments, io));
}

World make_world(const Settings& settings) {
  World world{.settings = settings, .folder = settings.scratch + "/world"};
  make_folder(world.path("io"));
  write_text(world.path("text1"), 11, 'a');
  write_text(world.path("text2"), 12, 'm');
  world.verifies = says(world, {"--help"}, "verify");
  world.quantize_overwrites = says(world, {"quantize", "--help"}, "--overwrite");
  learn(world, "a", "text1", 1);
  learn(world, "b", "text1", 2);
  learn(world, "c", "text2", 1);
  if (key_of(world.path("a/config.json")) != key_of(world.path("c/config.json")) ||
      key_of(world.path("a/tokenizer.model")) == key_of(world.path("c/tokenizer.model"))) {
    throw std::runtime_error("the models a and c must differ in their tokenizers alone");
  }
  complete(world, "a", "full", "text1");
  complete(world, "c", "cfull", "text2");
  for (const std::string compute : {"int8", "bf16", "bf16-dot", "fp32"}) {
    const Ended ended = run(tril_child(
        world,
        {"quantize", world.path("full"), "--to", compute, "-o", world.path("alone." + compute)},
        world.path("io")));
    if (ended.code != 0) {  // a processor without it
      std::fprintf(stderr, "no %s here: %s", compute.c_str(), ended.err.c_str());
      remove_tree(world.path("alone." + compute));
      continue;
    }
    world.computes.push_back(compute);
    must(world,
         {"quantize", world.path("b"), "--to", compute, "-o", world.path("balone." + compute)});
    must(world,
         {"quantize", world.path("c"), "--to", compute, "-o", world.path("calone." + compute)});
  }
  leave_half(world);
  world.seals = make_unsealed(world) && says(world, {"verify", "--help"}, "--seal");
  must(world, {"explain", world.path("c"), "mm", "-o", world.path("old_page")});
  write_all(world.path("old_output"), "what was here before\n");
  for (const char* name : {"text1", "text2"}) {
    for (const auto& [file, key] : tree_of(world.path(name))) {
      world.text[std::string(name) + "/" + file] = key;
    }
  }
  return world;
}

}  // namespace adversary
