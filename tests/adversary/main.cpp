// Attacks the program `tril`. See README.md beside this file.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "campaigns.h"
#include "damage.h"

namespace adversary {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: adversary CAMPAIGN… --tril PROGRAM [options]\n"
    "       adversary damage FILE [--seed N]      damage a file at random, and say how\n"
    "       adversary damage FILE BYTE BIT        flip this bit\n"
    "       adversary swap FILE FILE              exchange two files\n"
    "       adversary compare FOLDER FOLDER       two runs: the same but for their seconds?\n"
    "\n"
    "Campaigns: flips, kills, faults, places; all is each of them.\n"
    "  --tril PROGRAM    the program to attack\n"
    "  --shim FILE       the library of faults (default: beside this program)\n"
    "  --model FOLDER    flips: attack a copy of this folder\n"
    "  --text FILE       lines to translate with it\n"
    "  --flips N, --budget N   how many experiments, kills, or faults of each kind\n"
    "  --seconds S       at most so long per campaign\n"
    "  --seed N          other experiments (default 1)\n"
    "  --only N          one experiment alone\n"
    "  --all             the large budgets: 1,000 kills, 200 faults of each kind\n"
    "  --strict          flips: damage of a sealed file that is not noticed is wrong even if "
    "nothing\n"
    "                    changes; JSON may have other white space\n"
    "  --jobs N          experiments at a time (default 2)\n"
    "  --scratch FOLDER  where to work (default: /dev/shm or the folder for temporary files)\n"
    "  --keep            leave the folders of failed experiments, and say where they are\n"
    "Exit code: 0 when every experiment ended in a right result or a clear error, 1 when one did\n"
    "not, 2 when the campaign could not run.\n";

struct Command {
  Settings settings;
  std::vector<std::string> words;
};

Command parse(int argc, char** argv) {
  Command command;
  Settings& settings = command.settings;
  settings.program = fs::canonical("/proc/self/exe");
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] {
      if (++i == argc) throw std::runtime_error(flag + " needs a value");
      return std::string(argv[i]);
    };
    if (flag == "--tril")
      settings.tril = fs::canonical(value());
    else if (flag == "--shim")
      settings.shim = fs::canonical(value());
    else if (flag == "--model")
      settings.model = fs::canonical(value());
    else if (flag == "--text")
      settings.text = fs::canonical(value());
    else if (flag == "--flips" || flag == "--budget")
      settings.budget = std::stoll(value());
    else if (flag == "--seconds")
      settings.seconds = std::stod(value());
    else if (flag == "--seed")
      settings.seed = std::stoull(value());
    else if (flag == "--only")
      settings.only = std::stoll(value());
    else if (flag == "--jobs")
      settings.jobs = std::max(1, std::stoi(value()));
    else if (flag == "--scratch")
      settings.scratch = value();
    else if (flag == "--all")
      settings.all = true;
    else if (flag == "--strict")
      settings.strict = true;
    else if (flag == "--keep")
      settings.keep = true;
    else if (flag.starts_with("-"))
      throw std::runtime_error("there is no option " + flag);
    else
      command.words.push_back(flag);
  }
  if (settings.shim.empty()) {
    settings.shim = fs::canonical("/proc/self/exe").parent_path() / "libfault_shim.so";
  }
  return command;
}

// A new folder that other users may enter, because some experiments run as nobody.
std::string make_scratch(const std::string& given) {
  std::error_code error;
  constexpr uintmax_t kEnough = uintmax_t{256} << 20;
  const bool memory =
      ::access("/dev/shm", W_OK) == 0 && fs::space("/dev/shm", error).available > kEnough && !error;
  const fs::path parent = !given.empty() ? fs::path(given)
                          : memory       ? fs::path("/dev/shm")
                                         : fs::temp_directory_path();
  fs::create_directories(parent);
  std::string name = fs::canonical(parent) / "tril-adversary-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  if (::chmod(name.c_str(), 0755) != 0) throw std::runtime_error("cannot chmod " + name);
  return name;
}

void attack(const Settings& settings, const std::vector<std::string>& words, Report& report) {
  const auto asked = [&](const char* name) {
    for (const std::string& word : words) {
      if (word == name || word == "all") return true;
    }
    return false;
  };
  for (const std::string& word : words) {
    bool known = word == "all";
    for (const char* name : {"flips", "kills", "faults", "places"}) known = known || word == name;
    if (!known) throw std::runtime_error("there is no campaign " + word);
  }
  std::fprintf(stderr, "making models\n");
  if (!settings.model.empty()) {
    World world;
    world.settings = settings;
    world.folder = settings.scratch + "/world";
    make_folder(world.path("io"));
    make_folder(world.path("text1"));
    if (settings.text.empty()) {
      world.settings.text = world.path("text1/valid_source");
      write_all(world.settings.text,
                "how are you?\nI am fine\nthank you\nmy brother is reading a book\n"
                "where is the hospital?\n");
    }
    const Ended help = run(tril_child(world, {"--help"}, world.path("io")));
    world.verifies = help.out.find("verify") != help.out.npos;
    return run_flips_of(world, settings.model, report);
  }
  const World world = make_world(settings);
  if (asked("flips")) run_flips(world, report);
  if (!asked("kills") && !asked("faults") && !asked("places")) return;
  std::fprintf(stderr, "running every command undisturbed\n");
  const Tasks tasks = make_tasks(world);
  if (asked("kills")) run_kills(world, tasks, report);
  if (asked("faults")) run_faults(world, tasks, report);
  if (asked("places")) run_places(world, tasks, report);
}

int run_campaigns(Command command) {
  Settings& settings = command.settings;
  if (settings.tril.empty()) throw std::runtime_error("--tril says what to attack");
  settings.scratch = make_scratch(settings.scratch);
  Report report(settings);
  const auto start = std::chrono::steady_clock::now();
  int code = 2;
  try {
    attack(settings, command.words, report);
    code = report.thirds() == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "adversary: %s\n", error.what());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  report.print();
  std::printf("seed %llu, %.0f s: %lld ended in neither a right result nor a clear error\n",
              static_cast<unsigned long long>(settings.seed), took.count(),
              static_cast<long long>(report.thirds()));
  if (code != 1 || !settings.keep) remove_tree(settings.scratch);
  return code;
}

int damage(const Command& command) {
  const std::vector<std::string>& words = command.words;
  Rng rng(command.settings.seed);
  std::string what;
  if (words.size() == 2) what = damage_at_random(words[1], rng);
  if (words.size() == 4) what = flip_bit(words[1], std::stoll(words[2]), std::stoi(words[3]));
  if (what.empty()) throw std::runtime_error("damage FILE, or damage FILE BYTE BIT");
  std::printf("%s: %s\n", words[1].c_str(), what.c_str());
  return 0;
}

int compare(const std::vector<std::string>& words) {
  if (words.size() != 3) throw std::runtime_error("compare FOLDER FOLDER");
  const std::string why = difference(tree_of(words[1]), tree_of(words[2]));
  std::printf("%s\n", why.empty() ? "the same" : why.c_str());
  return why.empty() ? 0 : 1;
}

int main_of(int argc, char** argv) {
  const Command command = parse(argc, argv);
  const std::vector<std::string>& words = command.words;
  if (words.empty()) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (words[0] == "damage") return damage(command);
  if (words[0] == "compare") return compare(words);
  if (words[0] == "swap") {
    if (words.size() != 3) throw std::runtime_error("swap FILE FILE");
    swap_files(words[1], words[2]);
    return 0;
  }
  return run_campaigns(command);
}

}  // namespace
}  // namespace adversary

int main(int argc, char** argv) {
  try {
    return adversary::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "adversary: %s\n", error.what());
    return 2;
  }
}
