# Tests: every one a process with a time limit, labelled with its room. Each runs in an
# empty folder of its own under scratch/, so tests that write files do not meet. C tests that
# write move on to one in TMPDIR (tests/scratch.h), since they are also run by hand.
#
#   GR_TESTS_DIR, GR_BIN_DIR   compiled into C tests: the folder tests/ and the programs
#   GR_BIN, GR_SOURCE          in the environment of every test: programs and root
#   GR_CACHE                   there, too: nobody's home is written to
#
# A test that cannot run here (no GPU) ends with 77.
#
# The time limit is there to end what hangs. It is many times what a test needs, since machines
# are slow, or busy, or both.

include(sanitizer)
set(GR_TIMEOUT 900)
if(GR_SANITIZE)
  set(GR_TIMEOUT 1200)
endif()

# gr_test(name label command...): registers, with what all tests have in common. Those of the
# GPU alone see one: what the others expect is what happens on the CPU.
function(gr_test name label)
  set(gpus "CUDA_VISIBLE_DEVICES=")
  if(label STREQUAL gpu)
    set(gpus)
  endif()
  set(scratch ${CMAKE_BINARY_DIR}/scratch/${name})
  file(MAKE_DIRECTORY ${scratch})
  add_test(NAME ${name} COMMAND ${GR_TEST_LAUNCHER} ${ARGN} WORKING_DIRECTORY ${scratch})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${GR_TIMEOUT} LABELS ${label}
      SKIP_RETURN_CODE 77
      ENVIRONMENT "GR_BIN=${CMAKE_BINARY_DIR}/bin;GR_SOURCE=${CMAKE_SOURCE_DIR};GR_CACHE=${CMAKE_BINARY_DIR}/scratch/cache;${gpus};${GR_TEST_ENVIRONMENT}")
endfunction()

# What tests share: the C files of a folder under tests/ that are no tests themselves,
# one library per folder. They know no room, so that each test decides what it links.
add_library(gr_test_flags INTERFACE)
target_compile_definitions(gr_test_flags INTERFACE GR_TESTS_DIR="${CMAKE_SOURCE_DIR}/tests"
                           GR_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
target_include_directories(gr_test_flags INTERFACE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR})
target_link_options(gr_test_flags INTERFACE -Wl,--as-needed)
target_link_libraries(gr_test_flags INTERFACE gr_flags)

set(GR_SUPPORT)
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*.c ${CMAKE_SOURCE_DIR}/tests/*/*.c)
list(FILTER files EXCLUDE REGEX "/test_[^/]*\\.c$|/tests/(fuzz|interop|golden)/")
foreach(file ${files})
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  if(NOT TARGET support_${folder})
    add_library(support_${folder} STATIC)
    target_link_libraries(support_${folder} PRIVATE gr_test_flags)
    list(APPEND GR_SUPPORT support_${folder})
  endif()
  target_sources(support_${folder} PRIVATE ${file})
endforeach()

add_library(gr_test_support INTERFACE)
target_link_libraries(gr_test_support INTERFACE gr_test_flags ${GR_SUPPORT} ${GR_ROOM_TARGETS})

# gr_test_rooms(label out): the rooms that the tests of a room use: their own, those whose headers
# they include (a public header counts as its room in layers.txt), those whose tests have helpers
# for them, and what these include in turn.
function(gr_test_rooms label out)
  set(rooms)
  set(open ${label})
  while(open)
    list(POP_FRONT open room)
    list(APPEND rooms ${room})
    file(GLOB files ${CMAKE_SOURCE_DIR}/tests/${room}/*.[ch])
    if(NOT room STREQUAL label) # helpers only: its tests are not linked
      list(FILTER files EXCLUDE REGEX "/test_[^/]*\\.c$")
    endif()
    foreach(file ${files})
      file(STRINGS ${file} lines REGEX "^#include \"[a-z/]+/")
      foreach(line ${lines})
        string(REGEX MATCH "\"(src/|tests/)?(([a-z]+)/[a-z0-9_]*)" unused "${line}")
        set(used ${CMAKE_MATCH_3})
        if(used STREQUAL gradus)
          string(REPLACE gradus/ "" used ${CMAKE_MATCH_2})
          file(STRINGS ${CMAKE_SOURCE_DIR}/layers.txt entry REGEX "^gradus/${used}\\.h:")
          string(REGEX REPLACE "^[^:]*: *" "" used "${entry} ${used}")
          string(REGEX REPLACE "^ *([a-z]+).*" "\\1" used "${used}")
          string(REGEX REPLACE "^public$" "train" used "${used}") # as in rooms.cmake
        endif()
        if(used IN_LIST GR_ROOMS AND NOT used IN_LIST rooms AND NOT used IN_LIST open)
          list(APPEND open ${used})
        endif()
      endforeach()
    endforeach()
  endwhile()
  set(${out} ${rooms} PARENT_SCOPE)
endfunction()

# gr_test_links(name label): all rooms and all support; or, with GR_NARROW, only the
# rooms that the room's tests use, so that a room can be tested while others are
# being rewritten. Tests on a GPU load the module, as the programs do.
function(gr_test_links name label)
  if(label STREQUAL gpu)
    set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
    target_link_libraries(${name} PRIVATE gr_test_flags ${GR_SUPPORT} gr_host)
    if(GR_HAVE_CUDA) # for those that compile parts of the module
      target_include_directories(${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    endif()
  elseif(GR_NARROW AND label IN_LIST GR_ROOMS)
    set(rooms ${GR_TEST_ROOMS_${label}})
    set(support)
    foreach(room tests toy ${rooms}) # the first two are helpers of no room
      if(TARGET support_${room})
        list(APPEND support support_${room})
      endif()
    endforeach()
    list(JOIN support "," support)
    list(TRANSFORM rooms PREPEND gr_)
    # Helpers use each other in any order.
    target_link_libraries(${name} PRIVATE gr_test_flags $<LINK_GROUP:RESCAN,${support}> ${rooms})
  else()
    target_link_libraries(${name} PRIVATE gr_test_support)
  endif()
endfunction()

# tests/<room>/test_<name>.c -> test_<room>_<name>; target tests_<room> builds a room's.
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/*/test_*.c)
foreach(label ${GR_ROOMS} gpu multi)
  add_custom_target(tests_${label})
  if(GR_NARROW AND label IN_LIST GR_ROOMS)
    gr_test_rooms(${label} GR_TEST_ROOMS_${label})
    message(VERBOSE "Tests of ${label} link: ${GR_TEST_ROOMS_${label}}")
  endif()
endforeach()
foreach(file ${files})
  string(REGEX MATCH "/tests/([^/]+)/test_([^/]+)\\.c$" unused ${file})
  set(label ${CMAKE_MATCH_1})
  set(name test_${CMAKE_MATCH_1}_${CMAKE_MATCH_2})
  add_executable(${name} ${file})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gr_test_links(${name} ${label})
  gr_test(${name} ${label} $<TARGET_FILE:${name}>)
  if(label STREQUAL gpu)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(NOT TARGET tests_${label})
    add_custom_target(tests_${label})
  endif()
  add_dependencies(tests_${label} ${name})
endforeach()

# The toy operator's CUDA kernels are a module of the tests' own: the product has no toys.
if(GR_HAVE_CUDA)
  gr_cuda_module(toy-cuda ${CMAKE_SOURCE_DIR}/tests/toy/toy_cuda.cu)
  set_target_properties(toy-cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(toy-cuda PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  add_dependencies(test_gpu_toy toy-cuda)
  target_compile_definitions(test_gpu_toy PRIVATE GR_TOY_MODULE="$<TARGET_FILE:toy-cuda>")
endif()

# Once more where kernels choose the instruction set inside, at each level; what has a name for
# each level runs above, all of them. Sanitizers see them at the best level.
if(NOT GR_SANITIZE)
  foreach(level avx512 avx2 scalar)
    gr_test(test_op_ops_at_${level} op $<TARGET_FILE:test_op_ops> --at ${level}
            shape part matmul)
  endforeach()
endif()

# Tests with several processes use the programs, some of them with other people's programs,
# which they skip when those are not installed; tests of the tools use none.
find_program(GR_BASH bash REQUIRED)
foreach(label multi tools interop)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${label}/*.sh)
  foreach(file ${files})
    get_filename_component(name ${file} NAME_WE)
    string(REGEX REPLACE "^test_" "" name ${name})
    gr_test(test_${label}_${name} ${label} ${GR_BASH} ${file})
  endforeach()
endforeach()
add_dependencies(tests_multi apps)

# Fuzz targets, here without a fuzzer: every seed and some thousand mutations of it.
# With one: clang -fsanitize=fuzzer,address on the same file, without standalone.c.
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_*.c)
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  string(REGEX REPLACE "^fuzz_" "" short ${name})
  file(GLOB seeds CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/seeds/${short}/*)
  add_executable(${name} ${file} ${CMAKE_SOURCE_DIR}/tests/fuzz/standalone.c)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE gr_test_support)
  gr_test(${name} fuzz $<TARGET_FILE:${name}> 2000 ${seeds})
endforeach()

# Tools for comparing with other programs, run by hand or by the scripts beside them.
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/interop/*.c)
list(FILTER files EXCLUDE REGEX "/test_[^/]*\\.c$")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  add_executable(${name} ${file})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/interop)
  # As the programs do, they may load a module.
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
  target_link_libraries(${name} PRIVATE gr_test_flags ${GR_SUPPORT} gr_host)
endforeach()
# The rank that tests of the launcher start, and the bad network between its hosts.
add_dependencies(tests_multi rank_worker wire)

# Examples use the shared library and the public headers, as a stranger's program would.
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*.c)
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  add_executable(example_${name} ${file})
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
                        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
  target_link_libraries(example_${name} PRIVATE gr_warnings gradus m Threads::Threads)
  gr_test(example_${name} examples ${GR_BASH} ${CMAKE_SOURCE_DIR}/tools/run_example.sh
          $<TARGET_FILE:example_${name}> ${CMAKE_SOURCE_DIR}/examples/${name}.expected)
endforeach()

add_custom_target(benches DEPENDS apps)
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*.c)
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  gr_program(bench_${name} ${file} bench)
  if(GR_HAVE_CUDA) # for those that trace the GPU
    target_include_directories(bench_${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  endif()
  set_target_properties(bench_${name} PROPERTIES OUTPUT_NAME ${name})
  add_dependencies(benches bench_${name})
endforeach()

# Checks of the sources themselves. They do not depend on how things are compiled, so
# sanitizer builds leave them out.
if(NOT GR_SANITIZE AND Python3_Interpreter_FOUND)
  foreach(what layers sizes headers troubles files)
    set(command ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/check_${what}.py)
    if(what STREQUAL headers)
      list(APPEND command --cc ${CMAKE_C_COMPILER} --cxx ${CMAKE_CXX_COMPILER})
    endif()
    gr_test(check_${what} tools ${command} ${CMAKE_SOURCE_DIR})
    gr_test(check_${what}_can_fail tools ${command} --self-test)
  endforeach()
  if(TARGET gradus-cuda)
    gr_test(check_module tools ${GR_BASH} ${CMAKE_SOURCE_DIR}/tools/check_module.sh
            $<TARGET_FILE:gradus-cuda> $<TARGET_FILE:gradus>)
  endif()
endif()
