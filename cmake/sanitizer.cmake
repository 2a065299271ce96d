# Sanitizers and the machine. Older runtimes die at start where the kernel randomises
# addresses widely, and the leak checker needs ptrace, which some containers refuse. A
# probe finds out which of the ways around works here:
#
#   GR_TEST_LAUNCHER      put before every test command
#   GR_TEST_ENVIRONMENT   options of the sanitizer's runtime
#   GR_SANITIZER_WORKS    0 when nothing helps; tools/test.sh then says so and goes on

set(GR_TEST_LAUNCHER)
set(GR_TEST_ENVIRONMENT)
if(NOT GR_SANITIZE)
  return()
endif()
# Not detect_stack_use_after_return: gcc before 14 gives the frames of that mode 32-byte
# alignment, and vector code that was promised 64 dies in them.
set(asan "detect_stack_use_after_return=0:strict_string_checks=1:allocator_may_return_null=1")
set(tsan "halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1")
set(ubsan "UBSAN_OPTIONS=print_stacktrace=1")
if(EXISTS ${CMAKE_SOURCE_DIR}/tests/tsan.supp)
  string(APPEND tsan ":suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp")
endif()
set(lsan)
if(EXISTS ${CMAKE_SOURCE_DIR}/tests/lsan.supp)
  set(lsan "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0")
endif()

set(probe ${CMAKE_BINARY_DIR}/sanitizer_probe)
file(WRITE ${probe}.c "#include <stdlib.h>\nint main(void) { free(malloc(8)); return 0; }\n")
execute_process(COMMAND ${CMAKE_C_COMPILER} -fsanitize=${GR_SANITIZE} ${probe}.c -o ${probe}
                COMMAND_ERROR_IS_FATAL ANY)

# Address layouts are drawn anew at each start, so one good start proves nothing.
function(gr_probe out)
  foreach(i RANGE 1 20)
    execute_process(COMMAND ${ARGN} ${probe} RESULT_VARIABLE rc OUTPUT_QUIET ERROR_QUIET)
    if(NOT rc EQUAL 0)
      set(${out} 0 PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} 1 PARENT_SCOPE)
endfunction()

# Where more than 28 bits are drawn, one layout in some hundred may be a bad one, and the suite
# starts thousands of programs: there, no randomness is tried first.
set(ways plain still)
if(EXISTS /proc/sys/vm/mmap_rnd_bits)
  file(READ /proc/sys/vm/mmap_rnd_bits bits)
  if(bits GREATER 28)
    set(ways still plain)
  endif()
endif()
set(GR_SANITIZER_WORKS 0)
foreach(way ${ways} no_leaks no_leaks_still)
  set(command)
  if(way MATCHES no_leaks)
    list(APPEND command ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0)
  endif()
  if(way MATCHES still)
    list(APPEND command setarch -R)
  endif()
  gr_probe(works ${command})
  if(works)
    set(GR_SANITIZER_WORKS 1)
    if("setarch" IN_LIST command)
      set(GR_TEST_LAUNCHER setarch -R)
    endif()
    if("ASAN_OPTIONS=detect_leaks=0" IN_LIST command)
      string(APPEND asan ":detect_leaks=0")
      message(STATUS "Sanitizer: leaks are not looked for, this machine forbids ptrace")
    endif()
    break()
  endif()
endforeach()
message(STATUS "Sanitizer: ${GR_SANITIZE}, works: ${GR_SANITIZER_WORKS}, "
               "launcher: '${GR_TEST_LAUNCHER}'")
file(WRITE ${CMAKE_BINARY_DIR}/sanitizer_works "${GR_SANITIZER_WORKS}\n")
set(GR_TEST_ENVIRONMENT "ASAN_OPTIONS=${asan};TSAN_OPTIONS=${tsan};${ubsan};${lsan}")
