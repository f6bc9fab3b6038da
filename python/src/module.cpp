// tril._tril: the library for Python. tril/*.py stands on it; nobody else should.
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <string>

#include "bind.h"
#include "tril/base/build.h"
#include "tril/base/cpu.h"

NB_MODULE(_tril, module) {
  namespace python = tril::python;
  // A thread that never comes back, because the interpreter ended first, keeps what it holds.
  nanobind::set_leak_warnings(std::getenv("TRIL_LEAK_WARNINGS") != nullptr);
  python::register_errors(module);
  module.def(
      "check_processor", [] { tril::current_target(); },
      "Raises unless this processor has the instructions that tril needs.");
  module.def(
      "processor", [] { return std::string(tril::to_string(tril::current_target())); },
      "The instruction set in use.");
  module.attr("cuda") = tril::kCudaBuilt;
  module.attr("version") = TRIL_PYTHON_VERSION;
  python::bind_options(module);
  python::bind_results(module);
  python::bind_tokenizer(module);
  python::bind_model(module);
  python::bind_pending(module);
  python::bind_forward(module);
  python::bind_scores(module);
  python::bind_training(module);
  python::bind_proof(module);
  python::bind_folders(module);
}
