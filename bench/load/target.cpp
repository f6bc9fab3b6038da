#include "target.h"

#include <charconv>
#include <stdexcept>

#include "json_text.h"

namespace load {

Target::Target(const Options& options, std::string_view host) : place_(options.answer) {
  head_ = "POST " + options.path + " HTTP/1.1\r\nHost: " + std::string(host) +
          "\r\nContent-Type: application/json\r\n";
  for (const std::string& header : options.headers) head_ += header + "\r\n";
  head_ += "Content-Length: ";
  const size_t at = options.body.find("\"@\"");
  before_ = options.body.substr(0, at);
  after_ = options.body.substr(at + 3, options.body.rfind('}') - at - 3);
  for (const std::string& object : options.mix) {
    const std::string members(json_members(object));
    mix_.push_back(members.empty() ? "" : ", " + members);
  }
}

std::string Target::request(std::string_view line, size_t options, bool stream) const {
  const std::string body = before_ + json_quoted(line) + after_ + mix_[options] +
                           (stream ? R"(, "stream": true})" : "}");
  return head_ + std::to_string(body.size()) + "\r\n\r\n" + body;
}

Answer Target::answer(std::string_view body) const {
  const std::string_view text = json_at(body, place_);
  if (text.empty()) throw std::runtime_error("no " + place_ + " in an answer");
  Answer answer{.text = json_string(text)};
  const std::string_view tokens = json_at(body, "usage.target_tokens");
  std::from_chars(tokens.data(), tokens.data() + tokens.size(), answer.target_tokens);
  return answer;
}

}  // namespace load
