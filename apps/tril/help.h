// The text of --help, wrapped to the width of the terminal.
#pragma once

namespace CLI {
class App;
}

namespace tril::app {

// Sets the formatter for the app and for all commands added later.
void set_help(CLI::App& app);

}  // namespace tril::app
