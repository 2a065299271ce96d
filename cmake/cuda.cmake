# The CUDA module, libgradus-cuda: everything that needs the GPU's libraries, loaded at
# run time. It links to none of our libraries: gr_fail() and the other public functions
# come from the program that loads it, so that there is one copy of their state.

set(GR_HAVE_CUDA 0)
if(NOT GR_CUDA)
  return()
endif()

# CUDA packages do not put nvcc on the path.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(GR_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(GR_NVCC)
    set(ENV{CUDACXX} ${GR_NVCC})
  endif()
endif()

# A number alone means code for that GPU and PTX, which newer drivers translate for later GPUs.
# "native" cannot be generated on a machine without a GPU, so the default is a list.
option(GR_CUDA_ALL "Compile kernels for every supported GPU, as installs need them" OFF)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  if(GR_CUDA_ALL)
    set(CMAKE_CUDA_ARCHITECTURES 75 80-real 86-real 89-real 90 CACHE STRING "GPU architectures")
  else()
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures")
  endif()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "CUDA: no working nvcc; the CUDA module is left out")
  return()
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)

find_path(GR_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(GR_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR}
             ${CUDAToolkit_LIBRARY_ROOT}/lib)
set(GR_HAVE_NCCL 0)
if(GR_NCCL_INCLUDE)
  set(GR_HAVE_NCCL 1)
endif()

# Libraries that are opened at run time: their headers are all that is needed here.
find_path(GR_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
set(GR_HAVE_CUDNN 0)
if(GR_CUDNN_INCLUDE)
  file(STRINGS ${GR_CUDNN_INCLUDE}/cudnn_version.h gr_line REGEX "define CUDNN_MAJOR +9$")
  if(gr_line)
    set(GR_HAVE_CUDNN 1)
  endif()
endif()

set(gr_module_globs src/*_cuda.cu src/*_cuda.c src/*_sm90a.cu src/*_cublaslt.c)
if(GR_HAVE_CUDNN)
  list(APPEND gr_module_globs src/*_cudnn.c)
endif()
foreach(folder ${GR_MODULE_FOLDERS})
  if(folder STREQUAL "comm/nccl" AND NOT GR_HAVE_NCCL)
    continue()
  endif()
  list(APPEND gr_module_globs src/${folder}/*.c src/${folder}/*.cu)
endforeach()
list(TRANSFORM gr_module_globs PREPEND ${CMAKE_SOURCE_DIR}/)
file(GLOB_RECURSE gr_module_sources CONFIGURE_DEPENDS ${gr_module_globs})
if(NOT gr_module_sources)
  message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, but there are no sources for it")
  return()
endif()
list(REMOVE_DUPLICATES gr_module_sources)
if(NOT GR_HAVE_CUDNN)
  list(FILTER gr_module_sources EXCLUDE REGEX "_cudnn\\.c$")
endif()
# Instructions of one GPU and no other (wgmma, TMA): their kernels ask for it at run time.
set(gr_sm90a_sources ${gr_module_sources})
list(FILTER gr_sm90a_sources INCLUDE REGEX "_sm90a\\.cu$")
list(FILTER gr_module_sources EXCLUDE REGEX "_sm90a\\.cu$")
set(GR_HAVE_CUDA 1)
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}; headers of "
               "NCCL: ${GR_NCCL_INCLUDE}, cuDNN: ${GR_CUDNN_INCLUDE}")

# CUDA's libraries are often outside the loader's path, and NCCL is opened from the module.
get_filename_component(gr_nccl_folder "${GR_NCCL_LIBRARY}" DIRECTORY)
set(gr_rpath ${CUDAToolkit_LIBRARY_DIR} ${gr_nccl_folder})
list(REMOVE_DUPLICATES gr_rpath)
# nvcc hands such options on without quotes: with a space in the path there is no mapping.
set(gr_short_names)
if(NOT CMAKE_SOURCE_DIR MATCHES " ")
  set(gr_short_names -Xcompiler=-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
endif()
# The oldest GPU that there is code for: others are refused by name.
string(REGEX MATCHALL "[0-9]+" gr_archs "${CMAKE_CUDA_ARCHITECTURES}")
list(SORT gr_archs COMPARE NATURAL)
list(GET gr_archs 0 gr_oldest)

# What the code of modules is compiled with. Slots of tables that are not named are NULL, as in C.
add_library(gr_cuda_flags INTERFACE)
target_compile_options(gr_cuda_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers,-fno-math-errno>
    "$<$<COMPILE_LANGUAGE:CUDA>:${gr_short_names}>")
if(GR_WERROR)
  target_compile_options(gr_cuda_flags INTERFACE
      $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>
      $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror>)
endif()
target_compile_definitions(gr_cuda_flags INTERFACE
    GR_HAVE_NCCL=${GR_HAVE_NCCL} GR_HAVE_CUDNN=${GR_HAVE_CUDNN} GR_CUDA_OLDEST=${gr_oldest})
foreach(folder ${GR_NCCL_INCLUDE} ${GR_CUDNN_INCLUDE})
  if(NOT folder MATCHES "-NOTFOUND$")
    target_include_directories(gr_cuda_flags SYSTEM INTERFACE ${folder})
  endif()
endforeach()
target_link_libraries(gr_cuda_flags INTERFACE gr_flags CUDA::cudart_static)

# gr_cuda_module(target sources...): a module that the program loads at run time.
function(gr_cuda_module target)
  add_library(${target} MODULE ${ARGN})
  set_target_properties(${target} PROPERTIES
      BUILD_RPATH "${gr_rpath}" INSTALL_RPATH "${gr_rpath}")
  # Whatever is not used is not loaded: the driver's libcuda is absent on build machines.
  target_link_options(${target} PRIVATE -Wl,--as-needed)
  target_link_libraries(${target} PRIVATE gr_cuda_flags)
endfunction()

gr_cuda_module(gradus-cuda ${gr_module_sources})
target_link_libraries(gradus-cuda PRIVATE CUDA::cuda_driver)
if(gr_sm90a_sources)
  add_library(gradus-cuda-sm90a OBJECT ${gr_sm90a_sources})
  set_target_properties(gradus-cuda-sm90a PROPERTIES CUDA_ARCHITECTURES 90a-real)
  target_link_libraries(gradus-cuda-sm90a PRIVATE gr_cuda_flags)
  target_link_libraries(gradus-cuda PRIVATE gradus-cuda-sm90a)
endif()
