# Runs PROGRAM with ARGUMENTS (a list) and fails unless it succeeds and prints exactly the contents
# of EXPECTED.
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_VARIABLE printed RESULT_VARIABLE code)
file(READ ${EXPECTED} expected)
if(NOT code EQUAL 0 OR NOT printed STREQUAL expected)
  message(FATAL_ERROR "exit code ${code}; printed:\n${printed}\nexpected:\n${expected}")
endif()
