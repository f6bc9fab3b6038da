#include "output_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "tril/io/atomic_file.h"
#include "tril/tril.h"

namespace tril::app {
namespace {

namespace fs = std::filesystem;

// Identifies a file, whatever its names.
std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& path) {
  struct stat status {};
  const int failed = path == "-" ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status);
  if (failed != 0) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

bool is_same_file(const std::string& output, const std::string& other) {
  const auto identity = identity_of(output);
  return identity.has_value() && identity == identity_of(other);
}

// Whether the name, links followed, is that of a file of a model folder or of its training folder.
bool is_named_as_of_model(const std::string& output) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(output, error);
  const std::string name = path.filename().string();
  if (name == "config.json" || name == "generation.json" || name == "tokenizer.model" ||
      name.ends_with(".safetensors")) {
    return true;
  }
  const fs::path folder = path.parent_path();
  return folder.filename() == "training" &&
         (fs::exists(folder.parent_path() / "config.json", error) ||
          fs::exists(folder / "checkpoint.safetensors", error));
}

bool is_linked_in(const std::string& output, const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().string();
    if (is_named_as_of_model(name) && is_same_file(output, name)) return true;
  }
  return false;
}

}  // namespace

void check_output(const std::string& flag, const std::string& output,
                  const std::vector<InputName>& inputs, const std::string& model) {
  if (output.empty()) return;
  for (const InputName& input : inputs) {
    require(input.path.empty() || !is_same_file(output, input.path), ErrorCode::invalid_argument,
            flag, " ", output, ": is what ", input.flag, " reads: choose another file");
  }
  const bool linked = !model.empty() && (is_linked_in(output, model) ||
                                         is_linked_in(output, fs::path(model) / "training") ||
                                         is_linked_in(output, fs::path(model) / "last"));
  require(!linked && !is_named_as_of_model(output), ErrorCode::invalid_argument, flag, " ", output,
          ": is a file of a model: choose another file");
}

void check_replaces_nothing(const std::string& path, const std::string& contents) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  const bool same = status.type() == fs::file_type::regular &&
                    fs::file_size(path, error) == contents.size() &&
                    read_file(path, static_cast<int64_t>(contents.size())) == contents;
  require(same, ErrorCode::invalid_argument, path,
          ": is there already and holds something else: choose another folder, or remove it");
}

}  // namespace tril::app
