#include "options.h"

#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>

#include "json_text.h"

namespace load {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

template <class Number>
Number number(const std::string& flag, const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0)) {
    fail(flag + " takes a number, not '" + text + "'");
  }
  return value;
}

double share(const std::string& flag, const std::string& text) {
  const double value = number<double>(flag, text);
  if (value > 1) fail(flag + " takes a share from 0 to 1, not '" + text + "'");
  return value;
}

// An API is a path, the body of a request, and the place of the answer's text.
struct Api {
  const char *name, *path, *body, *answer;
};
constexpr Api kApis[] = {
    {"tril", "/v1/translate", R"({"text": "@"})", "translations.0.text"},
    {"libretranslate", "/translate", R"({"q": "@"})", "translatedText"},
    {"json", "", "", "text"},
};

void choose_api(Options& options) {
  for (const Api& api : kApis) {
    if (options.target != api.name) continue;
    if (options.path.empty()) options.path = api.path;
    if (options.body.empty()) options.body = api.body;
    if (options.answer.empty()) options.answer = api.answer;
    if (options.path.empty() || options.body.empty()) {
      fail("--target json needs --path and --template");
    }
    if (options.body.find("\"@\"") == options.body.npos) {
      fail("--template needs \"@\" where the line belongs");
    }
    json_members(options.body);
    return;
  }
  fail("--target is tril, libretranslate or json, not '" + options.target + "'");
}

std::vector<std::string> read_mix(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<std::string> objects;
  for (const std::string_view object : json_elements(text)) {
    json_members(object);
    objects.emplace_back(object);
  }
  if (objects.empty()) fail(path + " lists no options");
  return objects;
}

void check(const Options& options) {
  if (options.address.empty() || options.lines.empty()) {
    fail("give an address and a file of lines (--help)");
  }
  if ((options.requests > 0) == (options.seconds > 0)) fail("give --requests or --seconds");
  if (options.clients < 1) fail("--clients is at least 1");
  if (options.connections < 1) fail("--connections is at least 1");
  if (!options.golden.empty() && options.golden.size() != options.mix.size()) {
    fail("give --verify once for each object of --mix");
  }
}

}  // namespace

const char* const kHelp =
    R"(usage: tril_load [OPTIONS] ADDRESS LINES
Sends the lines of a file, one a request, to a server, and reports how fast the answers came.

ADDRESS               http://HOST:PORT, HOST:PORT or unix:PATH
  --target NAME       tril (the default), libretranslate or json
  --path PATH         where requests go, for json
  --template JSON     a request's body, "@" is the line, for json: '{"text": "@"}'
  --answer PLACE      where the text stands in an answer ("text" for json; translations.0.text)
  --header LINE       one more header; may be repeated
how much
  --clients N         closed loop: N connections, each with one request at a time (default: 1)
  --rate R            open loop: R requests a second on average, Poisson arrivals; latencies are
                      counted from the scheduled arrival
  --connections N     at most, in the open loop (default: 1024); later arrivals wait
  --requests N        so many, or
  --seconds S         for so long
  --warm-up S         before that, not counted
  --warm-up-requests N
  --timeout S         an answer must come within (default: 60)
  --pause S           of a client after a request that failed (closed loop; default: 0.01)
a mixture, drawn from the seed
  --seed N            (default: 1)
  --options JSON      members of every request, such as '{"beam": 4}'
  --mix FILE          a list of such objects; each request takes one at random
  --stream SHARE      of requests with "stream": true
  --cancel SHARE      of requests whose client closes the connection while it waits
  --cancel-within S   after at most so long (default: 0.2)
results
  --report FILE       (default: standard output)
  --answers FILE      every answer, as JSON lines: line, options, text
  --verify FILE       what each line's answer must be, such as 'tril translate' printed; exits with
                      1 if one differs. Once for each object of --mix
)";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> read_lines(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (lines.empty()) fail(path + " has no lines");
  return lines;
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  using Take = std::function<void(const std::string&, const std::string&)>;
  const auto text = [](std::string& to) -> Take {
    return [&to](const std::string&, const std::string& value) { to = value; };
  };
  const auto real = [](double& to) -> Take {
    return [&to](const std::string& flag, const std::string& value) {
      to = number<double>(flag, value);
    };
  };
  const auto part = [](double& to) -> Take {
    return [&to](const std::string& flag, const std::string& value) { to = share(flag, value); };
  };
  const auto whole = [](int64_t& to) -> Take {
    return [&to](const std::string& flag, const std::string& value) {
      to = number<int64_t>(flag, value);
    };
  };
  const auto list = [](std::vector<std::string>& to) -> Take {
    return [&to](const std::string&, const std::string& value) { to.push_back(value); };
  };
  const std::map<std::string, Take> flags = {
      {"--target", text(options.target)},
      {"--path", text(options.path)},
      {"--template", text(options.body)},
      {"--answer", text(options.answer)},
      {"--header", list(options.headers)},
      {"--clients", whole(options.clients)},
      {"--rate", real(options.rate)},
      {"--connections", whole(options.connections)},
      {"--requests", whole(options.requests)},
      {"--seconds", real(options.seconds)},
      {"--warm-up", real(options.warm_up)},
      {"--warm-up-requests", whole(options.warm_up_requests)},
      {"--timeout", real(options.timeout)},
      {"--pause", real(options.pause)},
      {"--seed",
       [&](const auto& flag, const auto& value) { options.seed = number<uint64_t>(flag, value); }},
      {"--options",
       [&](const auto&, const auto& value) {
         json_members(value);
         options.mix = {value};
       }},
      {"--mix", [&](const auto&, const auto& value) { options.mix = read_mix(value); }},
      {"--stream", part(options.stream)},
      {"--cancel", part(options.cancel)},
      {"--cancel-within", real(options.cancel_within)},
      {"--report", text(options.report)},
      {"--answers", text(options.answers)},
      {"--verify", list(options.golden)},
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.size() < 2 || word[0] != '-') {
      std::string& place = options.address.empty() ? options.address : options.lines;
      if (!place.empty()) fail("unexpected '" + word + "'");
      place = word;
      continue;
    }
    const auto flag = flags.find(word);
    if (flag == flags.end()) fail("unknown option '" + word + "' (--help)");
    if (++i == arguments.size()) fail(word + " needs a value");
    flag->second(word, arguments[i]);
  }
  choose_api(options);
  check(options);
  return options;
}

}  // namespace load
