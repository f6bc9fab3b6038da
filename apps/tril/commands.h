// The program's subcommands. Each adds itself to the command line and runs when it is chosen.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tril::app {

// The name under which the program was called, for commands it suggests: ./tril sets it in
// TRIL_NAME.
std::string program_name();

// Thrown by a command that ran to its end and reported that something does not hold, or that a line
// could not be used: the exit code is 1, where an error's is 2.
struct Failed {};

// Thrown by a command that has already reported its error and went on with the rest: the exit code
// is 2.
struct Told {};

// Whether a folder holds a model that `tril demo` trained: then it is known which sentences it has
// not seen.
bool is_demo_model(const std::string& folder);

void add_bench(CLI::App& app);
void add_demo(CLI::App& app);
void add_describe(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_explain(CLI::App& app);
void add_export(CLI::App& app);
void add_generate(CLI::App& app);
void add_import(CLI::App& app);
void add_info(CLI::App& app);
void add_lesson(CLI::App& app);
void add_prove(CLI::App& app);
void add_quantize(CLI::App& app);
void add_score(CLI::App& app);
void add_serve(CLI::App& app);
void add_shortlist(CLI::App& app);
void add_train(CLI::App& app);
void add_translate(CLI::App& app);
void add_verify(CLI::App& app);
void add_verify_answer(CLI::App& app);

// The arguments of `tril train`, preceded by the options of --config or of the run that --resume
// continues. A name in such a file that is not among `known` ("--vocab") is an error that names
// file and line.
std::vector<std::string> with_files(const std::vector<std::string>& arguments,
                                    const std::vector<std::string>& known);
// "FILE:LINE: " where the problem with a flag ("--vocab: …") comes from a line of such a file.
std::string origin_of(const std::string& problem);

}  // namespace tril::app
