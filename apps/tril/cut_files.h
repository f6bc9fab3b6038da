// A mapped file that is cut short while the program runs.
#pragma once

namespace tril::app {

// For main: from here on, where the system would end the program with SIGBUS, it ends with an error
// that names the file. A SIGBUS that no mapped file caused has its usual effect.
void tell_of_cut_files();

}  // namespace tril::app
