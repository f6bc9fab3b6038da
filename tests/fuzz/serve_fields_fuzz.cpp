// What the server reads besides whole requests; the first byte says as what: forms and header
// values, the fields of a body, a file of keys, the name of a model, a receipt.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "scratch.h"
#include "tiny_translator.h"
#include "tril/serve/answer.h"
#include "tril/serve/http_text.h"
#include "tril/serve/keys.h"
#include "tril/serve/request_fields.h"

namespace {

using tril::fuzz::check;
using namespace tril::serve;

void read_text(std::string_view text) {
  check(percent_decoded(percent_encoded(text)) == text);
  if (const auto fields = parse_form(text, 8)) {
    check(fields->size() <= 8);
    std::string again;
    for (const auto& [name, value] : *fields) {
      again += percent_encoded(name) + "=" + percent_encoded(value) + "&";
    }
    check(parse_form(again) == *fields);
  }
  const std::string type = media_type(text);
  check(media_type(type) == type && type.find(';') == type.npos);
  check(trimmed(trimmed(text)) == trimmed(text));
  const std::string tag = "\"0123456789abcdef\"";
  check(names_tag(std::string(text) + ", W/" + tag, tag));
  (void)names_tag(text, tag);
}

void read_getters(RequestFields fields) {
  const auto get = [&](auto&& getter) {
    try {
      getter();
    } catch (const ApiError& error) {
      check(error.status >= 400 && error.status < 500 && tril::is_utf8(error.message) &&
            tril::is_utf8(error.field) && error.message.find('\n') == std::string::npos);
    }
  };
  get([&] { (void)fields.texts("text", 4); });
  get([&] { (void)fields.text("text"); });
  get([&] {
    const auto beam = fields.whole("beam", 1, 16);
    check(!beam || (*beam >= 1 && *beam <= 16));
  });
  get([&] { (void)fields.seed("seed"); });
  get([&] {
    const auto p = fields.number("top_p", 0, 1, true);
    check(!p || (*p > 0 && *p <= 1));
  });
  get([&] { (void)fields.truth("sample"); });
  get([&] { (void)fields.word<tril::Split>("split"); });
  get([&] {
    for (const auto& ids : fields.token_lists("forbid")) check(!ids.empty());
  });
  get([&] { fields.finish(); });
}

void read_fields(std::string_view text) {
  HttpRequest request;
  request.target = "/?" + std::string(text);
  request.body = std::string(text);
  for (const char* type : {"", "application/x-www-form-urlencoded"}) {
    request.headers = {{"Content-Type", type}};
    try {
      read_getters(RequestFields::of_body(request));
    } catch (const ApiError& error) {
      check(error.status == 400 && tril::is_utf8(error.message));
    }
  }
  try {
    read_getters(RequestFields::of_query(request));
  } catch (const ApiError& error) {
    check(error.status == 400 && tril::is_utf8(error.message));
  }
}

void read_key_file(std::string_view text) {
  const std::vector<Key> keys = parse_keys(text, "keys");
  check(!keys.empty());
  for (const Key& key : keys) {
    check(find_key(keys, key.secret) == &key);
    check(find_key(keys, key.secret + "x") == nullptr || find_key(keys, key.secret + "x") != &key);
    check(key.tokens_per_minute >= 0 && !key.name.empty());
  }
}

void read_spec(std::string_view text) {
  const ModelSpec spec = parse_spec(text);
  check(!spec.name.empty() && !spec.folder.empty() && tril::is_utf8(spec.name));
  check(text.ends_with(spec.folder));
}

void read_receipt(std::string_view text) {
  static const tril::Translator translator = tril::fuzz::tiny_translator();
  (void)read_receipt_head(text, "receipt");
  const ReceiptCheck checked = check_receipt(text, "receipt", "none", translator);
  check(checked.texts_differing >= 0 && checked.texts_differing <= checked.texts);
  check((checked.texts_differing == 0) == checked.first_difference.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = tril::fuzz::view(bytes, size).substr(1);
  try {
    switch (bytes[0]) {
      case 't': read_text(text); break;
      case 'f': read_fields(text); break;
      case 'k': read_key_file(text); break;
      case 's': read_spec(text); break;
      case 'r': read_receipt(text); break;
      default: break;
    }
  } catch (const tril::Error& error) {
    check(error.code() == tril::ErrorCode::invalid_argument ||
          error.code() == tril::ErrorCode::bad_format);
    check(tril::is_utf8(error.what()));
  }
  return 0;
}
