// A set of codes of languages, to be searched again and again.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tril {

// Each code is parsed once, and a search among two hundred
// takes no longer than among two.
class LanguageCodes {
 public:
  LanguageCodes() = default;
  explicit LanguageCodes(std::span<const std::string> codes);

  // In the order in which they were added.
  const std::vector<std::string>& all() const { return codes_; }
  // As find_language() among all of them.
  std::optional<std::string> find(std::string_view wanted) const;
  // Which of all() have the same base_language().
  std::vector<size_t> same_base(std::string_view code) const;
  // Adds a code unless find() finds one for it; returns whether it did.
  bool add_new(const std::string& code);

 private:
  struct Known {
    size_t index = 0;  // in codes_
    std::string script, region;
  };
  void add(const std::string& code);

  std::vector<std::string> codes_;
  std::unordered_map<std::string, std::vector<Known>> by_base_;
};

}  // namespace tril
