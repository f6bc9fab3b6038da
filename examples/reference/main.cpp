// main MODEL SCRATCH: runs every example of docs/reference.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "examples.h"

namespace reference {
void begin(const char* name) { std::printf("== %s\n", name); }
}  // namespace reference

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const reference::Folders folders{argv[1], argv[2]};
  std::filesystem::remove_all(folders.scratch);
  std::filesystem::create_directories(folders.scratch);
  reference::run_translating(folders);
  reference::run_models(folders);
  reference::run_training(folders);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
