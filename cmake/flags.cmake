# Compiler flags. gr_flags goes to every C target of ours; gr_isa_flags() gives single
# files what their name asks for.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(THREADS_PREFER_PTHREAD_FLAG ON)

set(GR_WARNINGS
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wundef -Wvla -Wformat=2 -Wcast-qual -Wpointer-arith -Wwrite-strings
    -Wswitch-enum -Wnull-dereference -Wdouble-promotion)
if(GR_WERROR)
  list(APPEND GR_WARNINGS -Werror)
endif()

# What users of the public headers are held to as well: the examples are built with these.
add_library(gr_warnings INTERFACE)
target_compile_options(gr_warnings INTERFACE "$<$<COMPILE_LANGUAGE:C>:${GR_WARNINGS}>")

add_library(gr_flags INTERFACE)
target_compile_options(gr_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-fno-common>
    $<$<COMPILE_LANGUAGE:C>:-fno-math-errno>
    # SHELL keeps the two words together.
    "$<$<COMPILE_LANGUAGE:C>:SHELL:-include base/banned.h>"
    # __FILE__ is relative to the root: messages are the same wherever the tree lies.
    $<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>)
target_compile_definitions(gr_flags INTERFACE _GNU_SOURCE GR_VERSION="${PROJECT_VERSION}")
target_include_directories(gr_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(gr_flags INTERFACE gr_warnings)

if(GR_SANITIZE)
  set(gr_sanitize_flags -fsanitize=${GR_SANITIZE} -fno-sanitize-recover=all
      -fno-omit-frame-pointer)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${gr_sanitize_flags}>")
  add_link_options(-fsanitize=${GR_SANITIZE})
endif()

set(gr_avx2 -mavx2 -mfma -mf16c)
set(gr_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c)
set(gr_avx512_bf16 ${gr_avx512} -mavx512bf16)
set(gr_amx ${gr_avx512} -mamx-tile -mamx-bf16 -mamx-int8)

# gr_isa_flags(file...): flags by the file's name. Files of one instruction set are inner
# loops: -O3 makes the compiler vectorise those that are written in plain C. *_ref.c are reference kernels, which
# are the law, and *_nofma*.c promise the same bits on every path: no compiler may fuse
# their multiplications and additions.
function(gr_isa_flags)
  foreach(file ${ARGN})
    set(flags)
    if(file MATCHES "_(avx2|avx512|avx512_bf16|amx)\\.c$")
      list(APPEND flags ${gr_${CMAKE_MATCH_1}} -O3)
    endif()
    if(file MATCHES "_ref\\.c$|_nofma(_[a-z0-9]+)?\\.c$")
      list(APPEND flags -ffp-contract=off)
    endif()
    if(file MATCHES "/op/map/") # integers wrap around, as in PyTorch
      list(APPEND flags -fwrapv)
    endif()
    if(flags)
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${flags}")
    endif()
  endforeach()
endfunction()
