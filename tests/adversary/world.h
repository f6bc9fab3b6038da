// What experiments start from: invented text, and small models that the program under attack has
// trained on it, in every form it can write. Nothing below `folder` is changed afterwards.
#pragma once

#include <string>
#include <vector>

#include "files.h"
#include "process.h"
#include "verdict.h"

namespace adversary {

struct World {
  Settings settings;
  std::string folder;
  std::vector<std::string> computes = {};  // the packed forms that `quantize` makes here
  bool verifies = false;                   // there is `tril verify`
  bool seals = false;                      // and it can seal a folder: there is an unsealed one
  bool quantize_overwrites = false;        // `quantize` knows --overwrite
  Tree text = {};                          // as it must stay

  // Model folders (path("a")):
  //   a, b        two seeds on one text: equal configuration and tokenizer
  //   c           another text: equal configuration, another tokenizer of the same size
  //   full, cfull a and c with packed.int8 and a shortlist beside the weights
  //   alone.X     a as packed weights X alone; balone.X, calone.X those of b and c
  //   half        a's run, killed in its middle
  //   unsealed    full without checksums, where the program writes any
  std::string path(const std::string& name) const { return folder + "/" + name; }
};

World make_world(const Settings& settings);

// The program with these arguments, on the CPU; stdout and stderr are kept in `io`.
Child tril_child(const World& world, const std::vector<std::string>& arguments,
                 const std::string& io);
// The options of the run that made `a`, without its folder.
std::vector<std::string> train_options(const World& world, const std::string& text = "text1",
                                       int seed = 1);
// The translation by a model folder, with every number the program prints. `way` is how to compute:
// the program's default (""), a form of weights, or "shortlist".
Ended translate(const World& world, const std::string& model, const std::string& way,
                const std::string& io, bool shortlist = false);
// Adds the shim to the child: `faults` as in fault_shim.cpp.
void add_shim(const World& world, Child& child, const std::string& faults);

}  // namespace adversary
