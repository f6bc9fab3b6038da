// tril::Error becomes the class of tril.errors that belongs to its code.
#include <exception>
#include <string>

#include "bind.h"
#include "tril/base/error.h"

namespace tril::python {

namespace nb = nanobind;

void register_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const Error& error) {
      const nb::object classes = nb::module_::import_("tril.errors").attr("BY_CODE");
      const std::string code(to_string(error.code()));
      const std::string text = error.what();  // may quote bytes of a file that are not UTF-8
      const nb::object decoded =
          nb::bytes(text.data(), text.size()).attr("decode")("utf-8", "replace");
      const nb::object made =
          classes[nb::str(code.c_str())](decoded, nb::str(std::string(error.field()).c_str()));
      PyErr_SetObject(made.type().ptr(), made.ptr());
    }
  });
}

}  // namespace tril::python
