// For the tests of hub/: the folders of make_models.py, and what transformers computed with them.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/temp_folder.h"
#include "support/testing.h"
#include "tril/decode/search.h"
#include "tril/io/foreign/foreign_tensors.h"

namespace tril::testing {

using Tokens = std::vector<int32_t>;

inline constexpr int kHubCases = 100;
inline constexpr int kHubLimit = 16;       // tokens that generate() wrote at most
inline constexpr int64_t kHubLong = 1000;  // tokens of the long case

struct HubModel {
  std::string name;       // of its folder
  std::string tokenizer;  // of a folder of tests/tokenizers/fixtures; may be empty
};
// Every model with expectations.
const std::vector<HubModel>& hub_models();

std::filesystem::path hub_folder(const std::string& name);
std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

// What transformers computed with a model.
class Expected {
 public:
  explicit Expected(const std::string& name);
  const Tokens& tokens(int number, const std::string& what) const {
    return lists_.at(what)[static_cast<size_t>(number)];
  }
  // The last rows of the logits of a case, or of the long one; empty where there are none.
  std::vector<double> logits(int number) const { return doubles(concat("logits.", number)); }
  std::vector<double> long_logits() const { return doubles("long"); }

 private:
  std::vector<double> doubles(const std::string& name) const;

  TempFolder folder_;
  std::optional<ForeignTensors> tensors_;
  std::map<std::string, std::vector<Tokens>> lists_;
};

// The tokens of the long case.
Tokens long_tokens(int64_t vocab);

// The logits of a target, [row, vocab]; the source is ignored by a decoder-only model.
std::vector<float> logits_of(const Transformer& model, const Tokens& source, const Tokens& target);
// The squared distance of the last numbers of `ours` to `right`, by the square of the latter.
double distance(const std::vector<float>& ours, const std::vector<double>& right);
Tokens searched(const Transformer& model, const SearchRequest& request,
                const SearchOptions& options);

// A copy of a model of make_models.py with its tokenizer.
class TheirFolder {
 public:
  explicit TheirFolder(const HubModel& model = {"marian", "marian"});
  std::filesystem::path path() const { return root() / "theirs"; }
  std::filesystem::path root() const { return folder_.path(); }
  std::string to() const { return (root() / "ours").string(); }
  std::string text(const std::string& file) const { return read_text(path() / file); }
  void write(const std::string& file, const std::string& text) const {
    write_text(path() / file, text);
  }
  // What an import raises, without the folder's name, which is drawn by chance.
  std::string error() const;
  // The same after one replacement in a file, which is undone.
  std::string error_with(const std::string& file, const std::string& from,
                         const std::string& to_text) const;

 private:
  TempFolder folder_;
};

}  // namespace tril::testing
