#include "tril/device/fault.h"

#include <charconv>
#include <cstdlib>

#include "tril/base/error.h"

namespace tril::cuda {

InjectedFault fault_from(std::string_view text) {
  const size_t at = text.find('@');
  const std::string_view word = text.substr(0, at);
  for (const Fault kind : {Fault::none, Fault::no_driver, Fault::old_driver, Fault::no_gpu,
                           Fault::old_gpu, Fault::memory, Fault::lost_device}) {
    const bool counts = kind == Fault::memory || kind == Fault::lost_device;
    if (word != word_for(kind) || counts != (at != std::string_view::npos)) continue;
    if (!counts) return {kind};
    const std::string_view number = text.substr(at + 1);
    InjectedFault fault{kind};
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), fault.at);
    if (error == std::errc() && end == number.data() + number.size() && fault.at > 0) return fault;
  }
  fail(ErrorCode::invalid_argument,
       "TRIL_FAULT: expected no-driver, old-driver, no-gpu, old-gpu, memory@N or lost-device@N "
       "with N from 1, got '",
       text, "'");
}

const InjectedFault& injected_fault() {
  static const InjectedFault fault = [] {
    const char* wish = std::getenv("TRIL_FAULT");
    return fault_from(wish == nullptr ? "" : wish);
  }();
  return fault;
}

}  // namespace tril::cuda
