// What is sent to a server's API, and what its answers say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "options.h"

namespace load {

struct Answer {
  std::string text;
  int64_t target_tokens = 0;  // 0 where the API does not say
};

class Target {
 public:
  Target(const Options& options, std::string_view host);

  // A whole request, head and body, for a line with an object of the mixture.
  std::string request(std::string_view line, size_t options, bool stream) const;

  // Raises std::runtime_error for a body that is no answer.
  Answer answer(std::string_view body) const;

 private:
  std::string head_;              // up to the length
  std::string before_, after_;    // the line, in the body
  std::vector<std::string> mix_;  // members of a body, each list begins with a comma
  std::string place_;
};

}  // namespace load
