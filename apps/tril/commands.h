// The program's subcommands. Each adds itself to the command line and runs when it was chosen.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tril::app {

// How the program was called, for commands it suggests: ./tril says so in TRIL_NAME.
std::string program_name();

// Thrown by a command that ran to its end and printed that something does not hold, or that a line
// could not be used: the program ends with 1, where an error ends it with 2.
struct Failed {};

// Thrown by a command that has told its error already and went on with the rest: the program ends
// with 2.
struct Told {};

// Whether a folder holds what `tril demo` trains: then it is known which sentences it has not seen.
bool is_demo_model(const std::string& folder);

void add_bench(CLI::App& app);
void add_demo(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_explain(CLI::App& app);
void add_generate(CLI::App& app);
void add_info(CLI::App& app);
void add_lesson(CLI::App& app);
void add_prove(CLI::App& app);
void add_quantize(CLI::App& app);
void add_score(CLI::App& app);
void add_shortlist(CLI::App& app);
void add_train(CLI::App& app);
void add_translate(CLI::App& app);
void add_verify(CLI::App& app);

// The arguments of `tril train` with the options of --config, or of the run that --resume
// continues, put before those given. A name in such a file that is none of `known` ("--vocab") is
// an error that names file and line.
std::vector<std::string> with_files(const std::vector<std::string>& arguments,
                                    const std::vector<std::string>& known);
// "FILE:LINE: " where a problem with a flag ("--vocab: …") is one with a line of such a file.
std::string origin_of(const std::string& problem);

}  // namespace tril::app
