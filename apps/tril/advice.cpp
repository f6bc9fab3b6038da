#include "advice.h"

#include <array>
#include <utility>

namespace tril::app {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 24> kAdvice = {{
    {"schedule.peak", "begin again with --overwrite and a smaller --rate or a longer --warm-up"},
    {"schedule.warm_up", "a smaller --warm-up would use the full rate longer"},
    {"updates", "give a larger --updates"},
    {"start.resume", "leave --resume out to begin one"},
    {"start.model",
     "to fine-tune this model, begin with 'tril train --from FOLDER -o ANOTHER'; --overwrite "
     "instead of --resume replaces it"},
    {"languages", "give --from-language and --to-language ('tril info MODEL' lists them)"},
    {"start.checkpoint", "--resume continues its training, --overwrite begins again"},
    {"overwrite", "choose another folder, or --overwrite to replace it"},
    {"files", "give --source and --target, as many of each, or --tsv, or --text"},
    {"compute", "choose one that is there with --compute"},
    {"device", "--device cpu computes without it"},
    {"seal", "'tril verify --seal FOLDER' seals it"},
    {"packed", "pack it again: 'tril quantize FOLDER --to ...'"},
    {"listen", "give another address with --listen"},
    {"head_dim", "choose a --model that is a multiple of --heads, or give --head-dim"},
    {"beam", "--n-best needs a --beam at least as large"},
    {"sample", "--sample takes no --beam"},
    {"top_k", "leave --top-k out, or give --sample"},
    {"top_p", "leave --top-p out, or give --sample"},
    {"temperature", "leave --temperature out, or give --sample"},
    {"seed", "leave --seed out, or give --sample"},
    {"type", "--type fp32 keeps every bit"},
    {"import", "'tril import FOLDER -o MODEL' makes one of it"},
    {"any_files", "copy it again, or, if it was changed on purpose, see 'tril verify --help'"},
}};

}  // namespace

std::string with_advice(std::string_view text, std::string_view field, std::string_view folder) {
  constexpr std::string_view kFolder = "FOLDER";
  for (const auto& [name, advice] : kAdvice) {
    if (name != field) continue;
    const size_t at = advice.find(kFolder);
    if (at == std::string_view::npos) return concat(text, "; ", advice);
    return concat(text, "; ", advice.substr(0, at), folder, advice.substr(at + kFolder.size()));
  }
  return std::string(text);
}

}  // namespace tril::app
