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

# "native" cannot be generated on a machine without a GPU, so the default is a list.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures")
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
if(GR_NCCL_INCLUDE AND GR_NCCL_LIBRARY)
  set(GR_HAVE_NCCL 1)
endif()

set(gr_module_globs src/*_cuda.cu)
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
set(GR_HAVE_CUDA 1)
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, "
               "NCCL: ${GR_NCCL_LIBRARY}")

# CUDA's libraries are often outside the linker's path.
get_filename_component(gr_nccl_folder "${GR_NCCL_LIBRARY}" DIRECTORY)
set(gr_rpath ${CUDAToolkit_LIBRARY_DIR} ${gr_nccl_folder})
list(REMOVE_DUPLICATES gr_rpath)
# nvcc hands such options on without quotes: with a space in the path there is no mapping.
set(gr_short_names)
if(NOT CMAKE_SOURCE_DIR MATCHES " ")
  set(gr_short_names -Xcompiler=-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
endif()

# gr_cuda_module(target sources...): a module that the program loads at run time.
function(gr_cuda_module target)
  add_library(${target} MODULE ${ARGN})
  set_target_properties(${target} PROPERTIES
      BUILD_RPATH "${gr_rpath}" INSTALL_RPATH "${gr_rpath}")
  target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>
      $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers,-fno-math-errno>
      "$<$<COMPILE_LANGUAGE:CUDA>:${gr_short_names}>")
  if(GR_WERROR)
    target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>
        $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror>)
  endif()
  # Whatever is not used is not loaded: the driver's libcuda is absent on build machines.
  target_link_options(${target} PRIVATE -Wl,--as-needed)
  target_link_libraries(${target} PRIVATE gr_flags CUDA::cudart_static)
endfunction()

gr_cuda_module(gradus-cuda ${gr_module_sources})
target_compile_definitions(gradus-cuda PRIVATE GR_HAVE_NCCL=${GR_HAVE_NCCL})
target_link_libraries(gradus-cuda PRIVATE CUDA::cublasLt CUDA::nvrtc CUDA::cuda_driver)
if(GR_HAVE_NCCL)
  target_include_directories(gradus-cuda SYSTEM PRIVATE ${GR_NCCL_INCLUDE})
  target_link_libraries(gradus-cuda PRIVATE ${GR_NCCL_LIBRARY})
endif()
