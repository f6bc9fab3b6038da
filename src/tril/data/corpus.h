// Corpus: the sentence pairs a model is trained on, checked, numbered and accessible in any order.
//
// Reading is one pass that looks at every line. A faulty pair is left out and counted, and the
// first of each kind is named with file and line: nothing is dropped or cut silently. Files that do
// not belong together (another number of lines, no tab in a TSV) are errors. The kept text lies in
// memory while it is small and in an unnamed file on disk when it is not, so a corpus may be larger
// than memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tril/base/fingerprint.h"
#include "tril/data/spool.h"
#include "tril/text/tokenizer.h"

namespace tril {

// Plain text or gzip, line i of source[k] beside line i of target[k]; or both in one file with a
// tab between them; or, for decoder-only models, one text. One of the three.
struct CorpusFiles {
  std::vector<std::string> source{}, target{};
  std::vector<std::string> tsv{};
  std::vector<std::string> text{};

  bool empty() const { return source.empty() && target.empty() && tsv.empty() && text.empty(); }
};

enum class LineFault { empty, invalid_utf8, too_many_bytes, too_many_tokens };
constexpr size_t kLineFaults = 4;

struct CorpusReport {
  int64_t pairs = 0;  // kept
  std::array<int64_t, kLineFaults> skipped{};
  std::array<std::string, kLineFaults> first{};  // "train.en:17: not UTF-8 (byte 5)"

  int64_t skipped_pairs() const;
  // One line for each kind of fault that occurred.
  std::vector<std::string> lines() const;
};

struct CorpusOptions {
  int64_t max_line_bytes = 1 << 16;
  std::string spool_folder = ".";
  int64_t memory_bytes = int64_t{1} << 28;
};

class Corpus {
 public:
  // Raises `invalid_argument` for files that cannot form a corpus, `bad_format` for files that do
  // not match each other and for a corpus without a single good pair.
  Corpus(const CorpusFiles& files, const CorpusOptions& options);
  // From memory, for built-in texts; with an empty source, a text alone. Nothing is checked.
  static Corpus of(const std::vector<std::pair<std::string, std::string>>& pairs);

  // Leaves out pairs with a side of more than `max_tokens` tokens, END and languages included, or
  // of none but these.
  void limit_tokens(const Tokenizer& tokenizer, int64_t max_tokens,
                    const LanguagePair& languages = {});

  int64_t size() const { return entries_.size() / static_cast<int64_t>(sizeof(Entry)); }
  bool has_source() const { return has_source_; }
  std::string_view source(int64_t pair) const { return side(pair, 0); }
  std::string_view target(int64_t pair) const { return side(pair, 1); }
  const CorpusReport& report() const { return report_; }
  // A hash of every byte kept, in order: identifies the corpus.
  uint64_t fingerprint() const { return fingerprint_.value(); }
  // Tokens of each side over all pairs, END and languages included; known after limit_tokens().
  int64_t source_tokens() const { return tokens_[0]; }
  int64_t target_tokens() const { return tokens_[1]; }

 private:
  explicit Corpus(const CorpusOptions& options);
  // Where a pair lies, and where it came from.
  struct Entry {
    int64_t begin = 0, middle = 0, end = 0;
    int64_t file = 0, line = 0;  // its source file and line
  };

  void read_two_files(const std::string& source, const std::string& target);
  void read_one_file(const std::string& path);
  struct Side;
  // Keeps a pair unless a side has a fault.
  void add(const Side& source, const Side& target);
  bool accept(const Side& side);
  void skip(LineFault fault, std::string_view where, int64_t line, const std::string& what);
  void append(std::string_view source, std::string_view target, int64_t line);
  void finish();
  Entry entry(int64_t pair) const;
  std::string_view side(int64_t pair, int64_t which) const;

  bool has_source_ = true;
  CorpusOptions options_;
  Spool text_;
  Spool entries_;
  std::vector<std::string> files_;
  std::array<int64_t, 2> tokens_{};
  Fingerprint fingerprint_;
  CorpusReport report_;
};

}  // namespace tril
