// The text of --help, set for the width of the terminal.
#pragma once

namespace CLI {
class App;
}

namespace tril::app {

// Sets it for the app and all commands that are added later.
void set_help(CLI::App& app);

}  // namespace tril::app
