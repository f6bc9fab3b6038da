// JSON that is sent. For the .cpp files of this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tril/serve/http.h"

namespace tril::serve {

using Json = nlohmann::ordered_json;

// On one line. The text of a model may hold bytes that are not UTF-8; they are replaced.
inline std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

inline HttpResponse json_response(const Json& json, int status = 200) {
  return {.status = status, .body = dump(json) + "\n"};
}

}  // namespace tril::serve
