// The program's subcommands. Each adds itself to the command line and runs when it was chosen.
#pragma once

namespace CLI {
class App;
}

namespace tril::app {

void add_bench(CLI::App& app);
void add_generate(CLI::App& app);
void add_info(CLI::App& app);
void add_score(CLI::App& app);
void add_translate(CLI::App& app);

}  // namespace tril::app
