// Tokenizes lines with the tokenizer of a Hugging Face folder, for compare.py beside it.
//
//   tokenize_lines FOLDER FAMILY [FROM TO] <lines >results
//
// Lines come as their length (four bytes, little-endian) and their bytes. For each one leave the
// ids of encode_source(), of encode_target(), and the text of decode(encode(line)), each after its
// length.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tril/text/tokenizer.h"

namespace {

tril::Tokenizer load(const std::string& folder, const std::string& family) {
  tril::TokenizerFiles files;
  for (const std::string_view name : tril::Tokenizer::file_names()) {
    std::ifstream file(std::filesystem::path(folder) / name, std::ios::binary);
    if (!file) continue;
    files.emplace(name, std::string(std::istreambuf_iterator<char>(file), {}));
  }
  tril::TokenizerSettings settings;
  settings.family = family;
  return tril::Tokenizer::from_files(std::move(files), settings, folder);
}

bool read_line(std::string& line) {
  uint32_t bytes = 0;
  if (std::fread(&bytes, sizeof bytes, 1, stdin) != 1) return false;
  line.resize(bytes);
  return std::fread(line.data(), 1, bytes, stdin) == bytes;
}

void write(const void* data, size_t bytes) {
  const auto length = static_cast<uint32_t>(bytes);
  std::fwrite(&length, sizeof length, 1, stdout);
  std::fwrite(data, 1, bytes, stdout);
}

void write_ids(const std::vector<int32_t>& ids) { write(ids.data(), ids.size() * sizeof(int32_t)); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) {
    std::fputs("tokenize_lines FOLDER FAMILY [FROM TO] <lines >results\n", stderr);
    return 2;
  }
  try {
    const tril::Tokenizer tokenizer = load(argv[1], argv[2]);
    tril::LanguagePair languages;
    if (argc == 5) languages = {argv[3], argv[4]};
    using Clock = std::chrono::steady_clock;
    Clock::duration spent{};
    size_t bytes = 0;
    for (std::string line; read_line(line);) {
      const auto begin = Clock::now();
      const std::vector<int32_t> source = tokenizer.encode_source(line, languages);
      spent += Clock::now() - begin;
      bytes += line.size();
      write_ids(source);
      write_ids(tokenizer.encode_target(line, languages));
      const std::vector<int32_t> text = tokenizer.encode(line, tril::TextSide::target);
      const std::string decoded = tokenizer.decode(text);
      write(decoded.data(), decoded.size());
    }
    const double seconds = std::chrono::duration<double>(spent).count();
    std::fprintf(stderr, "%.2f MB/s\n", static_cast<double>(bytes) / seconds / 1e6);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenize_lines: %s\n", error.what());
    return 1;
  }
  return 0;
}
