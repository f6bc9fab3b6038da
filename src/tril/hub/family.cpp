#include "tril/hub/family.h"

namespace tril::hub {

const Family& family_named(std::string_view model_type, const std::string& file) {
  std::string known;
  for (const Family* family : bart_families()) {
    if (family->name() == model_type) return *family;
    known += concat(known.empty() ? "" : ", ", family->name());
  }
  fail(ErrorCode::unsupported, file, ": model_type is \"", printable(model_type),
       "\"; tril imports ", known);
}

}  // namespace tril::hub
