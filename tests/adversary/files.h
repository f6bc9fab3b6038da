// Files and folders that experiments create, inspect and compare. Any failure raises
// std::runtime_error: it is the tool's own, not tril's.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace adversary {

std::string read_all(const std::string& path);
void write_all(const std::string& path, std::string_view contents);
bool exists(const std::string& path);
bool is_regular(const std::string& path);
std::string name_of(const std::string& path);
std::string folder_of(const std::string& path);

// Copies a file or a whole folder to a path that does not exist.
void copy_tree(const std::string& from, const std::string& to);
void remove_tree(const std::string& path);
void make_folder(const std::string& path);

// The files below a folder, or the file itself as "", with a short key for the contents of each.
// Two keys are equal when the files are the same, except for what differs between two equal runs of
// tril: seconds and speed in log.jsonl, the same in the log for TensorBoard, seconds in a
// checkpoint's state, and the checksum of that checkpoint's header. Lock files and dangling links
// are left out.
using Tree = std::map<std::string, std::string>;
Tree tree_of(const std::string& folder);
std::string key_of(const std::string& path);

// Whether it is a log of a training run, which grows line by line.
bool is_log(const std::string& path);
// Whether tril was still writing this file.
bool is_temporary(const std::string& path);

// The first difference of two trees in words, empty when there is none. Temporary files do not
// count.
std::string difference(const Tree& expected, const Tree& got);

// `text` with every `from` replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to);

// Splits at '\n'; a last line without one counts.
std::set<std::string> lines_of(const std::string& text);

}  // namespace adversary
