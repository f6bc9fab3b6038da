// Files and folders as experiments lay them out, look at them and compare them. Any failure raises
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

// A file or a whole folder, into a place where nothing is.
void copy_tree(const std::string& from, const std::string& to);
void remove_tree(const std::string& path);
void make_folder(const std::string& path);

// The files below a folder, or the file itself as "", and what each holds as a short key. Two keys
// are equal when the files are the same, but for what two equal runs of tril do not share:
// seconds in log.jsonl and in a checkpoint's state, and the checksum of that checkpoint's header.
// Lock files and links to nowhere are left out.
using Tree = std::map<std::string, std::string>;
Tree tree_of(const std::string& folder);
std::string key_of(const std::string& path);

// Whether a file is one that tril was still writing.
bool is_temporary(const std::string& path);

// The first difference of two trees in words, empty when there is none. Temporary files do not
// count.
std::string difference(const Tree& expected, const Tree& got);

// `text` with every `from` replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to);

// Splits at '\n'; a last line without one counts.
std::set<std::string> lines_of(const std::string& text);

}  // namespace adversary
