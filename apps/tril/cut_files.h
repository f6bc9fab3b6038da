// A mapped file that is cut short while the program runs.
#pragma once

namespace tril::app {

// For main: from here on the program ends with an error that names the file, where the system would
// end it with SIGBUS. A SIGBUS that no mapped file has caused does what it does without this.
void tell_of_cut_files();

}  // namespace tril::app
