// What tril_options stands for. Internal to c/.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "tril/c/handles.h"
#include "tril/translate/named_options.h"

namespace tril::c {

// Threads may set and read it at the same time.
class OptionSet {
 public:
  // Raises `invalid_argument` for what set_option() refuses.
  void set(std::string_view name, std::string_view value);
  void forget(std::string_view name);
  // Raises `invalid_argument` where one does not concern the call.
  NamedOptions for_call(OptionUse use) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string_view, std::string> values_;  // by the table's names
};

template <>
struct Behind<tril_options> {
  using Object = OptionSet;
  static constexpr Kind kKind = Kind::options;
};

// Of a parameter that may be null.
NamedOptions options_for(const tril_options* options, OptionUse use);

}  // namespace tril::c
