#include "tril/c/options.h"

#include "tril/c/calls.h"
#include "tril/io/json.h"

namespace tril::c {

void OptionSet::set(std::string_view name, std::string_view value) {
  NamedOptions trial;
  set_option(trial, name, value);
  const std::lock_guard lock(mutex_);
  values_.insert_or_assign(find_option(name)->name, std::string(value));
}

void OptionSet::forget(std::string_view name) {
  require(find_option(name) != nullptr, ErrorCode::invalid_argument, "there is no option \"",
          printable(name), "\"");
  const std::lock_guard lock(mutex_);
  values_.erase(name);
}

NamedOptions OptionSet::for_call(OptionUse use) const {
  NamedOptions options;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, value] : values_) {
    require(find_option(name)->concerns(use), ErrorCode::invalid_argument, "the option ", name,
            " does not concern this call");
    set_option(options, name, value);
  }
  return options;
}

NamedOptions options_for(const tril_options* options, OptionUse use) {
  return options == nullptr ? NamedOptions{} : get(options)->for_call(use);
}

}  // namespace tril::c

using namespace tril;     // NOLINT: the functions of tril/c.h stand outside
using namespace tril::c;  // NOLINT

int tril_options_new(tril_options** options) {
  return call("tril_options_new", nullptr, [&] {
    clear(options);
    *options = give<tril_options>(std::make_shared<OptionSet>());
  });
}

int tril_options_set(tril_options* options, const char* name, const char* value) {
  return call("tril_options_set", options, [&] {
    const auto set = get(options);
    const std::string_view known = name_of("the name", name);
    if (value == nullptr) return set->forget(known);
    set->set(known, value);
  });
}

int tril_options_free(tril_options* options) {
  return call("tril_options_free", options, [&] { take(options); });
}

// The names are literals, so they end with a zero byte.
const char* tril_option_name(int64_t index) {
  const auto options = named_options();
  return index < 0 || index >= std::ssize(options)
             ? nullptr
             : options[static_cast<size_t>(index)].name.data();
}

const char* tril_option_help(int64_t index) {
  const auto options = named_options();
  return index < 0 || index >= std::ssize(options)
             ? nullptr
             : options[static_cast<size_t>(index)].help.data();
}
