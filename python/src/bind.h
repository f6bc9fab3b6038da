// The parts of the extension module, in the order in which they are made.
#pragma once

#include <nanobind/nanobind.h>

namespace tril::python {

void register_errors(nanobind::module_& module);
void bind_options(nanobind::module_& module);
void bind_results(nanobind::module_& module);
void bind_tokenizer(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_pending(nanobind::module_& module);
void bind_forward(nanobind::module_& module);
void bind_scores(nanobind::module_& module);
void bind_training(nanobind::module_& module);
void bind_proof(nanobind::module_& module);
void bind_folders(nanobind::module_& module);

}  // namespace tril::python
