// The program's subcommands. Each adds itself to the command line and runs when it was chosen.
#pragma once

namespace CLI {
class App;
}

namespace tril::app {

void add_bench(CLI::App& app);
void add_info(CLI::App& app);
void add_train(CLI::App& app);

}  // namespace tril::app
