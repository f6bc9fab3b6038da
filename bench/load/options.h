// The command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace load {

struct Options {
  // Where: "http://HOST:PORT", "HOST:PORT" or "unix:PATH".
  std::string address;
  std::string lines;  // a file

  // What: an API by name, or a path, a template and where its answers stand.
  std::string target = "tril";
  std::string path;
  std::string body;    // JSON in which "@" stands for the line
  std::string answer;  // the place of the text, such as "translations.0.text"
  std::vector<std::string> headers;

  // How much: closed loop with so many clients, or open loop when a rate is given.
  int64_t clients = 1;
  double rate = 0;
  int64_t connections = 1024;  // at most, in the open loop
  int64_t requests = 0;
  double seconds = 0;
  int64_t warm_up_requests = 0;
  double warm_up = 0;
  double timeout = 60;
  double pause = 0.01;  // of a client after a request that failed, in the closed loop

  // A mixture, all of it drawn from the seed.
  uint64_t seed = 1;
  std::vector<std::string> mix = {"{}"};  // objects of options
  double stream = 0;                      // share of requests
  double cancel = 0;                      // share of requests
  double cancel_within = 0.2;             // seconds

  // Results.
  std::string report;               // a file; empty: standard output
  std::string answers;              // a file
  std::vector<std::string> golden;  // files, one for each object of the mixture
};

// Raises std::runtime_error, one line, for anything it does not understand. Reads the file of
// --mix.
Options parse_options(const std::vector<std::string>& arguments);

// What --help prints.
extern const char* const kHelp;

std::string read_file(const std::string& path);
std::vector<std::string> read_lines(const std::string& path);

}  // namespace load
