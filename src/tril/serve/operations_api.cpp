// What runs the server and shows it: the page, its files, the OpenAPI document. (/livez, /readyz
// and /metrics depend on the server's state: service.cpp.)
#include <algorithm>

#include "tril/base/checksum.h"
#include "tril/serve/api.h"
#include "tril/serve/assets.h"

namespace tril::serve {
namespace {

constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void send_asset(Core& core, const ContextPtr& context, std::string_view name) {
  const auto all = assets();
  const auto asset =
      std::find_if(all.begin(), all.end(), [&](const Asset& one) { return one.name == name; });
  if (asset == all.end()) throw ApiError(404, "not_found", "there is no such file");
  const std::string tag = concat("\"", to_string(checksum_of(asset->bytes)), "\"");
  HttpResponse response{.type = std::string(asset->type)};
  response.headers = {{"ETag", tag},
                      {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy", std::string(kPagePolicy)},
                      {"Referrer-Policy", "no-referrer"}};
  if (names_tag(context->request.header("If-None-Match"), tag)) {
    response.status = 304;
  } else {
    response.body = std::string(asset->bytes);
  }
  core.respond(*context, std::move(response));
}

void page(Core& core, const ContextPtr& context) {
  if (!core.options.page) throw ApiError(404, "not_found", "this server shows no pages");
  send_asset(core, context, "page.html");
}

void page_file(Core& core, const ContextPtr& context) {
  constexpr std::string_view kPath = "/assets/";
  if (!core.options.page) throw ApiError(404, "not_found", "this server shows no pages");
  send_asset(core, context, context->request.path().substr(kPath.size()));
}

void openapi(Core& core, const ContextPtr& context) { send_asset(core, context, "openapi.json"); }

// These are answered where what they depend on is; the entries make them known.
void nothing(Core&, const ContextPtr&) {}

constexpr Route kOperationsRoutes[] = {
    {"GET", "/", page, Shape::own, "page", false},
    {"GET", "/assets/*", page_file, Shape::own, "page", false},
    {"GET", "/openapi.json", openapi, Shape::own, "operations", false},
    {"GET", "/livez", nothing, Shape::own, "operations", false},
    {"GET", "/readyz", nothing, Shape::own, "operations", false},
    {"GET", "/metrics", nothing, Shape::own, "operations", true},
};

}  // namespace

std::span<const Route> operations_routes() { return kOperationsRoutes; }

}  // namespace tril::serve
