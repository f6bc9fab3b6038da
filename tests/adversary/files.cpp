#include "files.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "safetensors_header.h"

namespace adversary {
namespace fs = std::filesystem;
namespace {

std::string key_of_bytes(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  char text[64];
  std::snprintf(text, sizeof text, "%zu-%016llx", bytes.size(),
                static_cast<unsigned long long>(hash));
  return text;
}

// Without `, "NAME": NUMBER`.
std::string without(const std::string& name, const std::string& log) {
  const std::string field = ", \"" + name + "\": ";
  std::string result;
  for (size_t at = 0; at < log.size();) {
    const size_t found = log.find(field, at);
    result += log.substr(at, found == log.npos ? log.npos : found - at);
    if (found == log.npos) break;
    at = log.find_first_of(",}\n", found + field.size());
    if (at == log.npos) break;
  }
  return result;
}

}  // namespace

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_all(const std::string& path, std::string_view contents) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool is_regular(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string name_of(const std::string& path) { return fs::path(path).filename(); }
std::string folder_of(const std::string& path) { return fs::path(path).parent_path(); }

void copy_tree(const std::string& from, const std::string& to) {
  fs::create_directories(folder_of(to));
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error && exists(path)) throw std::runtime_error("cannot remove " + path);
}

void make_folder(const std::string& path) { fs::create_directories(path); }

std::string key_of(const std::string& path) {
  const std::string bytes = read_all(path);
  const std::string name = name_of(path);
  if (name.ends_with("log.jsonl")) {
    return key_of_bytes(without("seconds", without("tokens_per_second", bytes)));
  }
  // The same log in another format, with the time of day in each record.
  if (name.starts_with("events.out.tfevents")) return std::to_string(bytes.size());
  if (name.ends_with("checkpoint.safetensors")) return key_of_bytes(comparable_checkpoint(bytes));
  return key_of_bytes(bytes);
}

Tree tree_of(const std::string& folder) {
  Tree tree;
  if (is_regular(folder)) tree[""] = key_of(folder);
  if (!fs::is_directory(folder)) return tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    std::error_code ignored;
    if (!entry.is_regular_file(ignored) || entry.path().filename() == "lock") continue;
    tree[entry.path().lexically_relative(folder).string()] = key_of(entry.path());
  }
  return tree;
}

bool is_log(const std::string& path) {
  return name_of(path) == "log.jsonl" || name_of(path).starts_with("events.out.tfevents");
}

bool is_temporary(const std::string& path) {
  const std::string name = name_of(path);
  return name.ends_with(".tmp") || name.starts_with(".corpus-");
}

std::string difference(const Tree& expected, const Tree& got) {
  for (const auto& [path, key] : expected) {
    if (is_temporary(path)) continue;
    const auto found = got.find(path);
    if (found == got.end()) return path + " is missing";
    if (found->second != key) return path + " differs";
  }
  for (const auto& [path, key] : got) {
    if (!is_temporary(path) && !expected.contains(path)) return path + " is too many";
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::set<std::string> lines_of(const std::string& text) {
  std::set<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

}  // namespace adversary
