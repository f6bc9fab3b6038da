// What the configuration files of a Hugging Face folder say of its model. Internal to hub/.
#pragma once

#include <string>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/function.h"
#include "tril/hub/family.h"
#include "tril/text/tokenizer.h"

namespace tril::hub {

inline constexpr int64_t kMaxConfigBytes = 64 << 20;
inline constexpr std::string_view kGenerationConfigFile = "generation_config.json";

class Described {
 public:
  // Raises `io` where there is no such folder or file, `invalid_argument` for a model of tril's.
  explicit Described(const std::string& folder);
  // From the text of a config.json; `file` is for errors.
  Described(std::string_view config, const std::string& file);

  const Family& family() const { return *family_; }
  // Completed and checked.
  const TransformerConfig& ours() const { return ours_; }
  const std::vector<std::string>& unknown_fields() const { return unknown_; }

  // For the tokenizer: START, ENDs and sizes. Where there is a generation_config.json, it is the
  // newer of the two.
  TokenizerSettings settings();
  // Names the fields that are not known.
  void tell(const Function<void(const Notice&)>& notice) const;

 private:
  void read_family();
  void add_special_tokens(ForeignConfig& from, TokenizerSettings& settings) const;

  std::string folder_;
  ForeignConfig config_;
  const Family* family_ = nullptr;
  TransformerConfig ours_;
  std::vector<std::string> unknown_;
};

}  // namespace tril::hub
