// What tril_translator stands for. Internal to c/.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tril/c/options.h"
#include "tril/translate/translator.h"

namespace tril::c {

class LoadedModel {
 public:
  LoadedModel(const std::string& folder, const NamedOptions& options);

  const Translator& translator() const { return translator_; }
  bool continues_text() const { return translator_.model().config().decoder_only(); }
  // Of a call: completed, with the folder's shortlist if one is wanted, which is read when it is
  // first wanted.
  TranslateOptions options_of(const NamedOptions& named);
  std::optional<Shortlist> shortlist_if(bool wanted);
  // JSON.
  const std::string& info() const { return info_; }

 private:
  static LoadOptions load_options(const std::string& folder, const NamedOptions& options,
                                  std::vector<std::string>& notices);

  const std::string folder_;
  std::vector<std::string> notices_;
  const Translator translator_;
  const std::string info_;
  std::mutex mutex_;
  std::optional<Shortlist> shortlist_;  // guarded by the mutex
};

template <>
struct Behind<tril_translator> {
  using Object = LoadedModel;
  static constexpr Kind kKind = Kind::translator;
};

}  // namespace tril::c
