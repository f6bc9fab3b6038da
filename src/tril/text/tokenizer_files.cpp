#include "tril/text/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "tril/base/error.h"
#include "tril/text/tokenizer_families.h"
#include "tril/text/tokenizer_kind.h"

namespace tril {
namespace {

constexpr std::string_view kFirstLine = "tril tokenizer 1\n";

constexpr std::array<std::string_view, 12> kNames = {"added_tokens.json",
                                                     "merges.txt",
                                                     "sentencepiece.bpe.model",
                                                     "source.spm",
                                                     "special_tokens_map.json",
                                                     "spiece.model",
                                                     "target.spm",
                                                     "target_vocab.json",
                                                     "tokenizer.json",
                                                     "tokenizer.model",
                                                     "tokenizer_config.json",
                                                     "vocab.json"};

constexpr int64_t kMaxRows = int64_t{1} << 31;

// The lines before the contents.
class BundleLines {
 public:
  BundleLines(std::string_view bytes, const std::string& file) : rest_(bytes), file_(file) {}

  // Up to the next line feed.
  std::string_view next() {
    const size_t end = rest_.find('\n');
    check(end != std::string_view::npos, "a line without an end");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }
  std::string_view take(uint64_t bytes) {
    check(bytes <= rest_.size(), "it is cut off");
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  bool at_end() const { return rest_.empty(); }

  int64_t number(std::string_view text, int64_t least, int64_t most) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    check(error == std::errc() && end == text.data() + text.size() && !text.empty(),
          "a number that is none");
    check(least <= value && value <= most, "a number out of range");
    return value;
  }
  int32_t token(std::string_view text) const {
    return static_cast<int32_t>(number(text, 0, kMaxRows - 1));
  }
  void check(bool holds, std::string_view fault) const {
    require(holds, ErrorCode::bad_format, file_, ": a damaged tokenizer: ", fault);
  }

 private:
  std::string_view rest_;
  const std::string& file_;
};

// "word the rest" as two.
std::pair<std::string_view, std::string_view> halves(std::string_view line) {
  const size_t at = std::min(line.find(' '), line.size());
  return {line.substr(0, at), line.substr(std::min(at + 1, line.size()))};
}

struct AnnouncedFile {
  std::string name;
  uint64_t bytes = 0;
};

std::vector<AnnouncedFile> read_lines(BundleLines& lines, TokenizerSettings& settings) {
  std::vector<AnnouncedFile> files;
  for (std::string_view line = lines.next(); !line.empty(); line = lines.next()) {
    const auto [word, value] = halves(line);
    if (word == "family") {
      settings.family = value;
    } else if (word == "start") {
      settings.start = lines.token(value);
    } else if (word == "end") {
      settings.ends.push_back(lines.token(value));
    } else if (word == "source_vocab") {
      settings.source_vocab = lines.number(value, 0, kMaxRows);
    } else if (word == "target_vocab") {
      settings.target_vocab = lines.number(value, 0, kMaxRows);
    } else if (word == "file") {
      const auto [size, name] = halves(value);
      const auto bytes = lines.number(size, 0, std::numeric_limits<int64_t>::max());
      lines.check(files.empty() || files.back().name < name, "its files are not in order");
      files.push_back({std::string(name), static_cast<uint64_t>(bytes)});
    } else {
      lines.check(false, "a line of a kind that is not known");
    }
  }
  return files;
}

}  // namespace

std::span<const std::string_view> tokenizer_file_names() { return kNames; }

std::optional<std::string_view> Bundle::find(std::string_view name) const {
  for (const auto& [file, content] : files) {
    if (file == name) return content;
  }
  return std::nullopt;
}

bool is_bundle(std::string_view bytes) { return bytes.starts_with(kFirstLine); }

std::string to_bundle(const TokenizerFiles& files, const TokenizerSettings& settings) {
  std::string bytes(kFirstLine);
  require(settings.family.find('\n') == std::string::npos, ErrorCode::invalid_argument,
          "tokenizer: a family of two lines");
  if (!settings.family.empty()) bytes += concat("family ", settings.family, '\n');
  if (settings.start) bytes += concat("start ", *settings.start, '\n');
  for (const int32_t end : settings.ends) bytes += concat("end ", end, '\n');
  bytes += concat("source_vocab ", settings.source_vocab, '\n');
  bytes += concat("target_vocab ", settings.target_vocab, '\n');
  for (const auto& [name, content] : files) {
    require(std::find(kNames.begin(), kNames.end(), name) != kNames.end(),
            ErrorCode::invalid_argument, "tokenizer: ", name, " is no file of a tokenizer");
    bytes += concat("file ", content.size(), ' ', name, '\n');
  }
  bytes += '\n';
  for (const auto& [name, content] : files) bytes += content;
  return bytes;
}

Bundle read_bundle(std::string_view bytes, const std::string& file) {
  BundleLines lines(bytes, file);
  lines.take(kFirstLine.size());
  Bundle bundle;
  for (AnnouncedFile& announced : read_lines(lines, bundle.settings)) {
    bundle.files.emplace_back(std::move(announced.name), lines.take(announced.bytes));
  }
  lines.check(lines.at_end(), "bytes after its last file");
  return bundle;
}

Tokenizer from_bundle(const std::shared_ptr<const std::string>& bytes, const std::string& file) {
  const Bundle bundle = read_bundle(*bytes, file);
  return TokenizerBuilder::build(make_tokenizer(bundle, file), bytes, bundle.settings, file);
}

}  // namespace tril
