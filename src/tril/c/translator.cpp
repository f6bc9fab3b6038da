#include "tril/c/translator.h"

#include "tril/base/cpu.h"
#include "tril/base/parallel.h"
#include "tril/c/calls.h"
#include "tril/io/atomic_file.h"
#include "tril/io/json.h"
#include "tril/version.h"

namespace tril::c {
namespace {

std::string list_of(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + json_quoted(text);
  return "[" + list + "]";
}

// JSON of one object on several lines, to stand within another.
std::string trimmed(std::string json) {
  while (json.ends_with('\n')) json.pop_back();
  return json;
}

std::string describe_model(const Translator& translator, const std::vector<std::string>& notices) {
  const Transformer& model = translator.model();
  const ModelLanguages languages = translator.languages();
  JsonWriter usual;
  usual.set_raw("codes", list_of(languages.codes));
  usual.set("from", languages.usual.from);
  usual.set("to", languages.usual.to);
  JsonWriter json;
  json.set("version", std::string_view(kVersion));
  json.set("device", to_string(model.placement().device));
  json.set("compute", word_for(model.compute()));
  json.set("parameters", model.parameter_count());
  json.set("decoder_only", model.config().decoder_only());
  json.set("seal", model.seal().identity);
  json.set_raw("config", trimmed(to_json(model.config())));
  json.set_raw("generation", trimmed(to_json(translator.generation())));
  json.set_raw("languages", trimmed(usual.to_string()));
  json.set_raw("notices", list_of(notices));
  return trimmed(json.to_string());
}

std::string describe_machine() {
  std::string list;
  for (const Gpu& gpu : gpus().list) {
    JsonWriter json;
    json.set("name", gpu.name);
    json.set("memory_bytes", gpu.memory_bytes);
    json.set("problem", gpu.problem);
    list += (list.empty() ? "" : ", ") + trimmed(json.to_string());
  }
  JsonWriter json;
  json.set("version", std::string_view(kVersion));
  json.set("processor", cpu_name());
  json.set("threads", Parallel().threads());
  json.set("target", to_string(current_target()));
  json.set("best_device", to_string(best_device()));
  json.set_raw("gpus", "[" + list + "]");
  json.set("gpu_problem", gpus().problem);
  return trimmed(json.to_string());
}

}  // namespace

LoadOptions LoadedModel::load_options(const std::string& folder, const NamedOptions& options,
                                      std::vector<std::string>& notices) {
  LoadOptions load;
  load.compute = options.compute;
  load.trust = options.trust;
  load.notice = [&notices](const Notice& notice) { notices.push_back(notice.text); };
  // What only the CPU has is for the CPU, unless a device was named.
  const bool for_cpu = options.compute == Compute::int8 || options.compute == Compute::bf16_dot ||
                       !file_exists(path_in(folder, kWeightsFile));
  load.device = options.device ? *options.device : for_cpu ? Device::cpu : best_device();
  return load;
}

LoadedModel::LoadedModel(const std::string& folder, const NamedOptions& options)
    : folder_(folder),
      translator_(
          Translator::load(folder, load_options(folder, options, notices_), options.threads)),
      info_(describe_model(translator_, notices_)) {}

std::optional<Shortlist> LoadedModel::shortlist_if(bool wanted) {
  if (!wanted) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!shortlist_) shortlist_ = Shortlist::load(folder_);
  return shortlist_;
}

TranslateOptions LoadedModel::options_of(const NamedOptions& named) {
  TranslateOptions options = named.translate;
  options.shortlist = shortlist_if(named.shortlist);
  complete_options(translator_, options);
  return options;
}

}  // namespace tril::c

using namespace tril;     // NOLINT: the functions of tril/c.h stand outside
using namespace tril::c;  // NOLINT

int tril_abi_version(void) { return TRIL_ABI_VERSION; }
const char* tril_version(void) { return kVersion; }

int tril_load(const char* folder, const tril_options* options, tril_translator** translator) {
  return call("tril_load", options, [&] {
    clear(translator);
    const std::string path(name_of("the folder", folder));
    const NamedOptions named = options_for(options, OptionUse::load);
    require_may_wait();
    auto model = std::make_shared<LoadedModel>(path, named);
    clear_at_exit();
    *translator = give<tril_translator>(std::move(model));
  });
}

int tril_translator_free(tril_translator* translator) {
  return call("tril_translator_free", translator, [&] { take(translator); });
}

int tril_info(const tril_translator* translator, const char** json, int64_t* length) {
  put(json, nullptr);
  put(length, 0);
  return call("tril_info", translator, [&] {
    const std::string& info = get(translator)->info();
    put(json, info.c_str());
    put(length, info.size());
  });
}

int tril_machine(const char** json, int64_t* length) {
  put(json, nullptr);
  put(length, 0);
  return call("tril_machine", nullptr, [&] {
    static const std::string machine = describe_machine();
    put(json, machine.c_str());
    put(length, machine.size());
  });
}
