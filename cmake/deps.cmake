# Libraries from outside. Each is used through one room only (DESIGN: dependencies).

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Python3 COMPONENTS Interpreter)

# JSON: rooms ckpt and launch (the error file of a rank).
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

# YAML: room train.
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)

# Records of TensorBoard and W&B: room track. Images: libpng in rooms track and data, libjpeg in
# data. libpng brings zlib along, whose checksum W&B's files carry; data reads .gz with it.
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(JPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
find_program(GR_PROTOC_C NAMES protoc-c REQUIRED)

# oneDNN: room op. Its two major APIs differ, so kernels come as *_onednn2.c and
# *_onednn3.c, and only the file that fits is compiled. The package's own CMake file is
# not used: it asks for OpenMP, which our code does not need.
find_path(GR_ONEDNN_INCLUDE oneapi/dnnl/dnnl_version.h)
find_library(GR_ONEDNN_LIBRARY dnnl)
set(GR_HAVE_ONEDNN 0)
set(GR_ONEDNN_MAJOR 0)
if(GR_ONEDNN_INCLUDE AND GR_ONEDNN_LIBRARY)
  file(STRINGS ${GR_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h gr_line
       REGEX "^#define DNNL_VERSION_MAJOR[ ]+[0-9]+")
  if(gr_line MATCHES "([0-9]+)$")
    set(GR_ONEDNN_MAJOR ${CMAKE_MATCH_1})
  endif()
  if(GR_ONEDNN_MAJOR EQUAL 2 OR GR_ONEDNN_MAJOR EQUAL 3)
    set(GR_HAVE_ONEDNN 1)
    add_library(gr_onednn INTERFACE)
    target_include_directories(gr_onednn SYSTEM INTERFACE ${GR_ONEDNN_INCLUDE})
    target_link_libraries(gr_onednn INTERFACE ${GR_ONEDNN_LIBRARY})
  endif()
endif()
if(GR_HAVE_ONEDNN)
  message(STATUS "oneDNN: ${GR_ONEDNN_LIBRARY}, API ${GR_ONEDNN_MAJOR}")
else()
  message(STATUS "oneDNN: not found; matrix products use our own kernels")
endif()
