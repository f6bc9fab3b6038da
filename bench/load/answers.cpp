#include "answers.h"

#include <cstdio>
#include <functional>
#include <stdexcept>

#include "json_text.h"

namespace load {
namespace {

constexpr int kTold = 5;  // differences that are shown

}  // namespace

Answers::Answers(const Options& options, size_t lines) : lines_(lines) {
  for (const std::string& path : options.golden) {
    golden_.push_back(read_lines(path));
    if (golden_.back().size() != lines) {
      throw std::runtime_error(path + " has " + std::to_string(golden_.back().size()) +
                               " lines, but there are " + std::to_string(lines) + " to send");
    }
  }
  if (options.answers.empty()) return;
  file_.open(options.answers, std::ios::binary);
  if (!file_) throw std::runtime_error("cannot write " + options.answers);
}

void Answers::add(size_t line, size_t options, bool stream, std::string_view body,
                  const std::string& text, Report& report) {
  if (file_.is_open()) {
    file_ << "{\"line\": " << line + 1 << ", \"options\": " << options
          << ", \"text\": " << json_quoted(text) << "}\n";
  }
  const size_t hash = std::hash<std::string_view>()(body);
  const uint64_t question = (options * lines_ + line) * 2 + stream;
  if (bodies_.try_emplace(question, hash).first->second != hash) ++report.unequal;
  if (golden_.empty()) return;
  ++report.checked;
  const std::string& expected = golden_[options][line];
  if (text == expected) return;
  ++report.wrong;
  if (told_++ < kTold) {
    std::fprintf(stderr, "line %zu, options %zu\n  expected: %s\n  answered: %s\n", line + 1,
                 options, expected.c_str(), text.c_str());
  }
}

}  // namespace load
