// Compares answers: with what they must be, with each other, and streams with how they end.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "options.h"
#include "report.h"

namespace load {

class Answers {
 public:
  // Reads the golden files, of which each has so many lines.
  Answers(const Options& options, size_t lines);

  // Counts an answer in the report and writes it. `body` is all that the server said.
  void add(size_t line, size_t options, bool stream, std::string_view body, const std::string& text,
           Report& report);

 private:
  std::vector<std::vector<std::string>> golden_;
  std::ofstream file_;
  std::unordered_map<uint64_t, size_t> bodies_;  // hash by question
  size_t lines_;
  int told_ = 0;
};

}  // namespace load
