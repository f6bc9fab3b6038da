#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "commands.h"
#include "flags.h"
#include "loading.h"
#include "output.h"
#include "progress.h"
#include "tril/serve/http_server.h"
#include "tril/serve/service.h"
#include "tril/text/languages.h"

namespace tril::app {
namespace {

constexpr int64_t kSlots = 64;
constexpr int64_t kSlotsOnGpu = 256;

struct ServeFlags {
  std::vector<std::string> models;
  serve::HttpOptions http;
  serve::ServiceOptions service;
  std::string keys;
  std::optional<int64_t> batch;
  int64_t cache_mib = 64;
  int64_t body_kib = 1024;
  int64_t timeout = 60;
  int64_t drain = 60;
  std::optional<int> http_threads;
  bool no_page = false;
  int threads = 0;
  std::optional<Compute> compute;
  std::optional<Device> device;
  bool trust = false;
};

// Tells systemd, where it started this (sd_notify(3)).
void notify(const std::string& state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || *path == '\0' || std::strlen(path) >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  (void)::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), size);
  ::close(socket);
}

// As many connections as the system lets this process have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// Four keep up with a GPU; on few cores more than two take time from translating.
int default_http_threads() { return std::thread::hardware_concurrency() >= 16 ? 4 : 2; }

serve::ModelSet load_models(const ServeFlags& flags) {
  serve::ModelSet models;
  for (const std::string& text : flags.models) {
    serve::ModelSpec spec = serve::parse_spec(text);
    if (is_demo_model(spec.folder)) spec.languages = {"en", "hi"};
    Translator translator =
        load_translator(spec.folder, flags.threads, flags.device, flags.compute, flags.trust);
    models.add(serve::served_model(std::move(spec), std::move(translator)));
  }
  return models;
}

bool any_on_gpu(const serve::ModelSet& models) {
  for (const serve::ServedModel& model : models.models()) {
    if (on_gpu(model.translator.model().placement().device)) return true;
  }
  return false;
}

// What it serves, by name.
std::string description(const serve::ModelSet& models) {
  std::string text;
  for (const serve::ServedModel& model : models.models()) {
    text += (text.empty() ? "" : ", ") + model.name;
  }
  return text;
}

// Whether a name such as "fr-de" says other languages than the model has.
bool is_misnamed(const serve::ServedModel& model) {
  const LanguagePair named = serve::pair_in_name(model.name);
  const LanguagePair& usual = model.usual;
  const auto differs = [](const std::string& a, const std::string& b) {
    return !a.empty() && !b.empty() && base_language(a) != base_language(b);
  };
  return !model.chooses && (differs(named.from, usual.from) || differs(named.to, usual.to));
}

void warn(const serve::ModelSet& models, const ServeFlags& flags, const std::string& address) {
  for (const serve::ServedModel& model : models.models()) {
    if (is_misnamed(model)) {
      message(fmt::format("tril: {}: this model translates {} to {}, whatever its name says\n",
                          model.name, language_name(model.usual.from),
                          language_name(model.usual.to)));
    }
    if (model.decoder_only() || !model.targets.empty()) continue;
    message(
        fmt::format("tril: {}: its files do not say its languages; LibreTranslate's and DeepL's "
                    "clients need them: serve it as en-hi={}\n",
                    model.name, model.folder));
  }
  const bool open = !address.starts_with("unix:") && !address.starts_with("http://127.") &&
                    !address.starts_with("http://[::1]");
  if (open && flags.keys.empty()) {
    message("tril: everybody who reaches this address may use it: --keys names who may\n");
  }
}

void run(ServeFlags& flags) {
  require(serve::problem_of_http().empty(), ErrorCode::unsupported,
          "serve: ", serve::problem_of_http());
  StopOnSignal stop;
  raise_descriptor_limit();
  if (!flags.keys.empty()) flags.service.keys = serve::read_keys(flags.keys);
  flags.http.max_body = flags.body_kib << 10;
  flags.http.threads = flags.http_threads.value_or(default_http_threads());
  flags.service.cache_bytes = flags.cache_mib << 20;
  flags.service.page = !flags.no_page;
  flags.service.trust = flags.trust;
  flags.service.limits.timeout = std::chrono::seconds(flags.timeout);
  // It listens before the models are loaded: an address that is taken is told at once.
  std::unique_ptr<serve::Service> service;
  flags.http.is_known = [&](const serve::HttpRequest& request) { return service->knows(request); };
  serve::HttpServer server(
      flags.http, [&](serve::HttpRequest&& request, std::shared_ptr<serve::Exchange> exchange) {
        service->handle(std::move(request), std::move(exchange));
      });
  serve::ModelSet models = load_models(flags);
  flags.service.limits.slots = flags.batch.value_or(any_on_gpu(models) ? kSlotsOnGpu : kSlots);
  warn(models, flags, server.address());
  service = std::make_unique<serve::Service>(std::move(models), flags.service);
  service->set_gauges([&server](serve::Gauges& gauges) {
    const serve::HttpCounts counts = server.counts();
    gauges.connections = counts.connections;
    gauges.connections_accepted = counts.accepted;
    gauges.connections_refused = counts.refused;
    gauges.refusals = counts.refusals;
  });
  server.start();
  fmt::print("tril: serving {} at {}\n", description(service->models()), server.address());
  flush_output();
  notify("READY=1\nSTATUS=serving");
  while (!stop.asked()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  notify("STOPPING=1\nSTATUS=answering what was accepted");
  service->begin_draining();
  const bool drained = server.drain(std::chrono::seconds(flags.drain));
  if (!drained) {
    message(fmt::format("tril: ended after {} s with {} connections open\n", flags.drain,
                        server.counts().connections));
  }
}

}  // namespace

void add_serve(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* serve = app.add_subcommand("serve", "Serve models over HTTP, with a page to try them");
  serve->add_option("model", flags->models, "Model folders, each as FOLDER or NAME=FOLDER")
      ->type_name(kFolder)
      ->required();
  serve
      ->add_option("--listen", flags->http.listen,
                   "Where to listen: ADDRESS:PORT, or unix:PATH; port 0 is any free one")
      ->capture_default_str();
  serve
      ->add_option("--keys", flags->keys,
                   "A file of keys, one per line: KEY NAME [TOKENS-PER-MINUTE]")
      ->type_name(kFile);
  constexpr const char* kLimits = "Limits";
  serve
      ->add_option("--rate", flags->service.tokens_per_minute,
                   "Source tokens per minute and client; 0: no limit")
      ->transform(whole_number(0, int64_t{1} << 40))
      ->capture_default_str()
      ->group(kLimits);
  serve
      ->add_option("--max-queue", flags->service.max_queued_tokens,
                   "Source tokens waiting or being translated; beyond, clients are told to wait")
      ->transform(whole_number(1, int64_t{1} << 40))
      ->capture_default_str()
      ->group(kLimits);
  serve->add_option("--max-body", flags->body_kib, "KiB of a request")
      ->transform(whole_number(1, 65536))
      ->capture_default_str()
      ->group(kLimits);
  serve->add_option("--max-texts", flags->service.limits.max_texts, "Texts of a request")
      ->transform(whole_number(1, 65536))
      ->capture_default_str()
      ->group(kLimits);
  serve->add_option("--max-beam", flags->service.limits.max_beam, "Hypotheses of a request")
      ->transform(whole_number(1, 1024))
      ->capture_default_str()
      ->group(kLimits);
  serve->add_option("--max-connections", flags->http.max_connections, "Connections at a time")
      ->transform(whole_number(1, 1 << 20))
      ->capture_default_str()
      ->group(kLimits);
  serve->add_option("--timeout", flags->timeout, "Seconds a request may take")
      ->transform(whole_number(1, 86400))
      ->capture_default_str()
      ->group(kLimits);
  serve
      ->add_option("--drain", flags->drain,
                   "Seconds to answer what was accepted before ending, after SIGTERM or Ctrl-C")
      ->transform(whole_number(0, 86400))
      ->capture_default_str()
      ->group(kLimits);
  serve
      ->add_option("--split", flags->service.limits.split,
                   "Lines to split into sentences where a request does not say: long ones alone "
                   "(too long for the model), always, or never. Models that learnt from single "
                   "sentences often translate the first of several only: they need always")
      ->transform(one_of({"never", "long", "always"}))
      ->default_str("long");
  serve->add_option("--cache", flags->cache_mib, "MiB of answers to remember; 0: none")
      ->transform(whole_number(0, 1 << 20))
      ->capture_default_str();
  serve->add_flag("--behind-proxy", flags->service.behind_proxy,
                  "Tell clients apart by the last address in X-Forwarded-For, which a proxy adds");
  serve
      ->add_option("--allow-origin", flags->service.allowed_origins,
                   "Scripts of this origin may ask: https://example.org, or * for all; may be "
                   "given several times")
      ->allow_extra_args(false);
  serve->add_flag("--no-page", flags->no_page, "No page at / and no /explain");
  serve->add_option("--http-threads", flags->http_threads, "Threads that read and write requests")
      ->transform(whole_number(1, 64))
      ->default_str("2, 4 on 16 cores or more");
  add_compute_flag(*serve, flags->compute);
  add_trust_flag(*serve, flags->trust);
  add_device_flag(*serve, flags->device);
  serve->add_option("--threads", flags->threads, "Threads to translate with (default: every core)")
      ->transform(whole_number(0, 1024));
  serve->add_option("--batch", flags->batch, "Hypotheses decoded at a time")
      ->transform(whole_number(1, 65536))
      ->default_str("64, 256 on a GPU");
  serve->footer(
      "Examples:\n"
      "  tril serve demo-model\n"
      "  tril serve en-hi=model de-en=opus --listen 0.0.0.0:8080 --keys keys.txt\n"
      "  curl -d '{\"text\": \"How are you?\"}' http://127.0.0.1:8080/v1/translate\n\n"
      "Clients of LibreTranslate, DeepL (v2) and OpenAI (completions) work as they are; "
      "/openapi.json describes everything. The same request gets the same bytes, whoever else is "
      "being served. SIGTERM and Ctrl-C end it when every accepted request is answered. TLS and "
      "HTTP/2 belong to a proxy in front.");
  serve->callback([flags] { run(*flags); });
}

}  // namespace tril::app
