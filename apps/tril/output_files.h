// Files that commands write on request: pages, pictures, translations.
#pragma once

#include <string>
#include <vector>

namespace tril::app {

// An input of a command: the flag it was given with, and the path; "-" is stdin, "" nothing.
struct InputName {
  std::string flag;
  std::string path;
};

// Raises, before any work, where writing `output` would destroy something: one of `inputs`, a file
// of the folder `model`, both by any name or link, or a file that has the name of a model's file in
// any other folder. `flag` is the flag `output` was given with; an empty output is none.
void check_output(const std::string& flag, const std::string& output,
                  const std::vector<InputName>& inputs, const std::string& model = "");

// Raises where `path` exists with other contents.
void check_replaces_nothing(const std::string& path, const std::string& contents);

}  // namespace tril::app
